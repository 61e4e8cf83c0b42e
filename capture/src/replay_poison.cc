// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "replay_poison.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "permafrost/driver/status.h"

namespace permafrost {
namespace {

constexpr std::byte kCanary{0xC5};

// Of the gap at the end of a segment, which can be most of a granule, so much
// is watched.
constexpr int64_t kMaxGapBytes = int64_t{256} << 10;

std::byte PatternByte(uint16_t pattern, size_t index) {
  return static_cast<std::byte>(index % 2 == 0 ? pattern & 0xFF : pattern >> 8);
}

}  // namespace

const char* PoisonPatternName(PoisonPattern pattern) {
  switch (pattern) {
    case PoisonPattern::kZeros:
      return "0x00";
    case PoisonPattern::kOnes:
      return "0xFF";
    case PoisonPattern::kLargeFinite:
      return "0x7F";
    case PoisonPattern::kNan:
      return "NaN";
    case PoisonPattern::kLeavePrevious:
      return "previous batch";
  }
  return "unknown";
}

uint16_t ScratchFill(PoisonPattern pattern) {
  switch (pattern) {
    case PoisonPattern::kOnes:
      return 0xFFFF;
    case PoisonPattern::kLargeFinite:
      return 0x7F7F;
    case PoisonPattern::kNan:
      return 0x7FC0;
    case PoisonPattern::kZeros:
    case PoisonPattern::kLeavePrevious:
      break;
  }
  return 0;
}

absl::Status FillPattern(const Lane& lane, DevicePtr base, int64_t bytes,
                         uint16_t pattern) {
  const DriverApi& api = lane.context()->api();
  if (bytes >= 2) {
    PERMAFROST_RETURN_IF_ERROR(CuStatus(
        api.MemsetD16Async(base.value(), pattern,
                           static_cast<size_t>(bytes / 2), lane.stream()),
        "cuMemsetD16Async",
        absl::StrCat(bytes, " bytes at ", base.ToString())));
  }
  if (bytes % 2 != 0) {
    PERMAFROST_RETURN_IF_ERROR(CuStatus(
        api.MemsetD8Async((base + (bytes - 1)).value(),
                          static_cast<unsigned char>(pattern & 0xFF), 1,
                          lane.stream()),
        "cuMemsetD8Async", absl::StrCat("1 byte behind ", base.ToString())));
  }
  return absl::OkStatus();
}

bool HoldsPattern(absl::Span<const std::byte> data, size_t begin, size_t end,
                  uint16_t pattern) {
  for (size_t i = begin; i < end; ++i) {
    if (data[i] != PatternByte(pattern, i)) return false;
  }
  return true;
}

absl::StatusOr<GuardGaps> GuardGaps::Find(const ArenaView& arena) {
  GuardGaps guards;
  const ArenaPlan& plan = arena.plan();
  if (plan.options().guard_bytes == 0) return guards;

  std::vector<const PlannedBuffer*> buffers;
  for (const PlannedBuffer& buffer : plan.buffers()) {
    if (buffer.is_present()) buffers.push_back(&buffer);
  }
  std::sort(buffers.begin(), buffers.end(),
            [](const PlannedBuffer* a, const PlannedBuffer* b) {
              return a->offset_bytes < b->offset_bytes;
            });
  for (size_t i = 0; i < buffers.size(); ++i) {
    const int64_t begin = buffers[i]->offset_bytes + buffers[i]->bytes;
    int64_t end = i + 1 < buffers.size() ? buffers[i + 1]->offset_bytes
                                         : plan.total_bytes();
    for (const PlannedSegment& segment : plan.segments()) {
      const int64_t segment_end = segment.offset_bytes + segment.bytes;
      if (segment_end > begin) end = std::min(end, segment_end);
    }
    const int64_t bytes = std::min(end - begin, kMaxGapBytes);
    if (bytes <= 0) continue;
    PERMAFROST_ASSIGN_OR_RETURN(const BufferRef buffer,
                                arena.Find(buffers[i]->name));
    guards.gaps_.push_back(
        Gap{buffer.name, buffer.base + buffer.bytes,
            std::vector<std::byte>(static_cast<size_t>(bytes))});
  }
  return guards;
}

absl::Status GuardGaps::Fill(const Lane& lane) const {
  for (const Gap& gap : gaps_) {
    PERMAFROST_RETURN_IF_ERROR(CuStatus(
        lane.context()->api().MemsetD8Async(
            gap.base.value(), std::to_integer<unsigned char>(kCanary),
            gap.host.size(), lane.stream()),
        "cuMemsetD8Async", absl::StrCat("guard behind '", gap.buffer, "'")));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<GuardGaps::Damage>> GuardGaps::Check(
    const Lane& lane) {
  absl::Status status;
  for (Gap& gap : gaps_) {
    status = CuStatus(
        lane.context()->api().MemcpyDtoHAsync(gap.host.data(), gap.base.value(),
                                              gap.host.size(), lane.stream()),
        "cuMemcpyDtoHAsync", absl::StrCat("guard behind '", gap.buffer, "'"));
    if (!status.ok()) break;
  }
  const absl::Status settled = lane.Settle();
  PERMAFROST_RETURN_IF_ERROR(status);
  PERMAFROST_RETURN_IF_ERROR(settled);

  std::vector<Damage> damages;
  for (const Gap& gap : gaps_) {
    const auto bad =
        std::find_if(gap.host.begin(), gap.host.end(),
                     [](std::byte value) { return value != kCanary; });
    if (bad == gap.host.end()) continue;
    damages.push_back(Damage{gap.buffer, bad - gap.host.begin(),
                             std::to_integer<uint8_t>(*bad)});
  }
  return damages;
}

int64_t GuardGaps::total_bytes() const {
  int64_t total = 0;
  for (const Gap& gap : gaps_) total += static_cast<int64_t>(gap.host.size());
  return total;
}

}  // namespace permafrost
