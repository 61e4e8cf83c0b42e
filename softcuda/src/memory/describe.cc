// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

// What a report says of an address: the half of Snapshot that makes sentences.

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "memory/snapshot.h"

namespace softcuda::memory {
namespace {

// How far from a neighbour an address still is "past the end of" it.
constexpr uint64_t kNearBytes = uint64_t{2} << 20;
constexpr uint64_t kNullPageBytes = uint64_t{64} << 10;

std::string Hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%" PRIx64, value);
  return text;
}

std::string Bytes(uint64_t bytes) {
  return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
}

// A thing with a place, and how a sentence calls it.
struct Thing {
  uint64_t begin;
  uint64_t end;
  std::string name;    // before "+0x10"
  std::string quoted;  // after "past the end of"
};

Thing ThingOf(const Piece& piece) {
  return {piece.begin, piece.end, piece.name, "'" + piece.name + "'"};
}

Thing ThingOf(const Range& range) {
  std::string name;
  std::string quoted;
  switch (range.kind) {
    case RangeKind::kDeviceAlloc:
      name = "device allocation " + std::to_string(range.buffer_id);
      break;
    case RangeKind::kVmmMapping:
      name = "mapping " + Hex(range.begin);
      break;
    case RangeKind::kPinnedHost:
      name = std::string(range.registered ? "registered" : "pinned") +
             " host memory " + Hex(range.begin);
      break;
    case RangeKind::kPoolAlloc:
      name = "pool allocation " + std::to_string(range.buffer_id);
      break;
    case RangeKind::kGraphAlloc:
      name = "graph allocation " + std::to_string(range.buffer_id);
      break;
    case RangeKind::kModuleGlobal:
      name = range.name.empty() ? "module variable" : range.name;
      if (!range.name.empty()) quoted = "'" + name + "'";
      break;
  }
  if (quoted.empty()) quoted = name;
  return {range.begin, range.end, std::move(name), std::move(quoted)};
}

std::string PastEnd(const Thing& thing, uint64_t address) {
  return Bytes(address - thing.end + 1) + " past the end of " + thing.quoted +
         " (" + Bytes(thing.end - thing.begin) + ")";
}

std::string Before(const Thing& thing, uint64_t address) {
  return Bytes(thing.begin - address) + " before " + thing.quoted;
}

std::string Inside(const Thing& thing, uint64_t address, uint64_t bytes) {
  std::string text = thing.name + "+" + Hex(address - thing.begin) + " (" +
                     Bytes(thing.end - thing.begin) + ")";
  if (bytes > thing.end - address) {
    text +=
        ", running " + Bytes(bytes - (thing.end - address)) + " past its end";
  }
  return text;
}

// Why memory that may be used is not there; nothing where it is.
std::string HostRemark(const Range& range, uint64_t address) {
  const CommitMap* const commits = range.block->commits();
  if (commits == nullptr) return "";
  const uint64_t offset = address - range.begin;
  const uint64_t step_bytes = commits->StepBytesAt(offset);
  const CommitBudget& budget = CommitBudget::Get();
  if (commits->IsCommitted(offset) ||
      budget.used() + step_bytes <= budget.limit()) {
    return "";
  }
  return ", beyond " + budget.Refusal(step_bytes);
}

std::string Remark(const Range* range, Access granted, uint64_t address) {
  if (range == nullptr) return ", not mapped";
  if (range->access == Access::kNone) {
    return std::string(", ") +
           (range->closed_because != nullptr
                ? range->closed_because
                : "mapped but no access set (cuMemSetAccess)");
  }
  if (granted == Access::kNone) return ", closed through NVTX permissions";
  if (granted == Access::kRead) return ", read-only";
  return HostRemark(*range, address);
}

template <typename T>
std::optional<Thing> NearestBefore(const std::vector<T>& sorted,
                                   uint64_t address) {
  auto it = std::upper_bound(
      sorted.begin(), sorted.end(), address,
      [](uint64_t a, const T& entry) { return a < entry.end; });
  if (it == sorted.begin()) return std::nullopt;
  --it;
  if (address - it->end >= kNearBytes) return std::nullopt;
  return ThingOf(*it);
}

template <typename T>
std::optional<Thing> NearestAfter(const std::vector<T>& sorted,
                                  uint64_t address) {
  const auto it = std::upper_bound(
      sorted.begin(), sorted.end(), address,
      [](uint64_t a, const T& entry) { return a < entry.begin; });
  if (it == sorted.end() || it->begin - address > kNearBytes) {
    return std::nullopt;
  }
  return ThingOf(*it);
}

template <typename T>
const T* Containing(const std::vector<T>& sorted, uint64_t address) {
  const auto it = std::upper_bound(
      sorted.begin(), sorted.end(), address,
      [](uint64_t a, const T& entry) { return a < entry.end; });
  return it != sorted.end() && it->begin <= address ? &*it : nullptr;
}

}  // namespace

std::vector<NamedRange> Snapshot::LiveMemory(int device) const {
  std::vector<NamedRange> live;
  for (const Range& range : tables_.ranges) {
    if (range.kind == RangeKind::kModuleGlobal || range.device != device) {
      continue;
    }
    live.push_back({ThingOf(range).name, range.begin, range.end});
  }
  for (const Reservation& reservation : tables_.reservations) {
    live.push_back({"reservation " + Hex(reservation.begin), reservation.begin,
                    reservation.end});
  }
  return live;
}

NamedRange Snapshot::NameOf(uint64_t address) const {
  const Piece* const piece = Containing(*tables_.pieces, address);
  if (piece != nullptr) {
    const std::string name = piece->is_gap
                                 ? "a gap of heap '" + piece->name + "'"
                                 : ThingOf(*piece).name;
    return {name, piece->begin, piece->end};
  }
  const Range* const range = FindRange(address);
  if (range == nullptr) return {"host memory", address, address + 1};
  // Regions may begin or end inside the range.
  NamedRange named = {ThingOf(*range).name, range->begin, range->end};
  for (const Piece& other : *tables_.pieces) {
    if (other.end <= address) named.begin = std::max(named.begin, other.end);
    if (other.begin > address) named.end = std::min(named.end, other.begin);
  }
  return named;
}

std::string Snapshot::Describe(uint64_t address, uint64_t bytes) const {
  const Piece* const piece = Containing(*tables_.pieces, address);
  if (piece != nullptr) {
    return piece->is_gap ? DescribeGap(*piece, address)
                         : DescribePiece(*piece, address, bytes);
  }
  const Range* const range = FindRange(address);
  if (range != nullptr) {
    return Inside(ThingOf(*range), address, bytes) +
           Remark(range, range->access, address);
  }
  return DescribeOutside(address);
}

std::string Snapshot::DescribePiece(const Piece& piece, uint64_t address,
                                    uint64_t bytes) const {
  const Range* const range = FindRange(address);
  const Access granted =
      range == nullptr ? Access::kNone : Both(range->access, piece.access);
  return Inside(ThingOf(piece), address, bytes) +
         Remark(range, granted, address);
}

std::string Snapshot::DescribeGap(const Piece& gap, uint64_t address) const {
  const Pieces& pieces = *tables_.pieces;
  const size_t index = static_cast<size_t>(&gap - pieces.data());
  std::string text;
  if (index > 0 && pieces[index - 1].end == gap.begin &&
      !pieces[index - 1].is_gap) {
    text = PastEnd(ThingOf(pieces[index - 1]), address);
  }
  if (index + 1 < pieces.size() && pieces[index + 1].begin == gap.end &&
      !pieces[index + 1].is_gap) {
    if (!text.empty()) text += " and ";
    text += Before(ThingOf(pieces[index + 1]), address);
  }
  return text + ", in heap '" + gap.name + "'";
}

std::string Snapshot::DescribeOutside(uint64_t address) const {
  // A region is the better neighbour than the mapping it ends with.
  std::optional<Thing> before = NearestBefore(*tables_.pieces, address);
  const std::optional<Thing> range_before =
      NearestBefore(tables_.ranges, address);
  if (range_before && (!before || before->end < range_before->end)) {
    before = range_before;
  }
  std::optional<Thing> after = NearestAfter(*tables_.pieces, address);
  const std::optional<Thing> range_after =
      NearestAfter(tables_.ranges, address);
  if (range_after && (!after || after->begin > range_after->begin)) {
    after = range_after;
  }
  std::string neighbours;
  if (before) neighbours = PastEnd(*before, address);
  if (after) {
    if (!neighbours.empty()) neighbours += " and ";
    neighbours += Before(*after, address);
  }

  if (const auto* freed = Containing(tables_.freed, address)) {
    return Hex(address - freed->begin) + " bytes into freed " + freed->what +
           " (" + Bytes(freed->end - freed->begin) + ")" +
           (freed->by.empty() ? "" : ", freed by " + freed->by);
  }
  if (const auto* reserved = Containing(tables_.reservations, address)) {
    std::string text = "not mapped: " + Hex(address - reserved->begin) +
                       " bytes into the reservation at " +
                       Hex(reserved->begin) + " (" +
                       Bytes(reserved->end - reserved->begin) + ")";
    return neighbours.empty() ? text : text + ", " + neighbours;
  }
  if (!neighbours.empty()) return neighbours;
  if (address < kNullPageBytes) return "null pointer+" + Hex(address);
  return "outside every allocation, mapping and pinned buffer";
}

}  // namespace softcuda::memory
