// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "evidence.h"

#include <cuda.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "permafrost/driver/check.h"
#include "permafrost/driver/status.h"

namespace permafrost::internal {
namespace {

// The attributes that tell where memory begins, how far it goes and which it
// is. `present` is asked first: nothing there is no error.
struct AttributeSet {
  CUpointer_attribute present;
  CUpointer_attribute start;
  CUpointer_attribute size;
  CUpointer_attribute id;
};

constexpr AttributeSet kMappingAttributes = {
    CU_POINTER_ATTRIBUTE_MAPPED, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR,
    CU_POINTER_ATTRIBUTE_MAPPING_SIZE, CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID};

constexpr AttributeSet kAllocationAttributes = {
    CU_POINTER_ATTRIBUTE_BUFFER_ID, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
    CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_BUFFER_ID};

// Reads one attribute; nullopt when the driver knows no memory at the address.
absl::StatusOr<std::optional<uint64_t>> ReadAttribute(
    const DriverApi& api, CUpointer_attribute attribute, DevicePtr address,
    absl::string_view buffer) {
  // Wide enough for each of them, and zero above what a narrower one writes.
  uint64_t value = 0;
  const CUresult result =
      api.PointerGetAttribute(&value, attribute, address.value());
  if (result == CUDA_ERROR_INVALID_VALUE) return std::nullopt;
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(result, "cuPointerGetAttribute",
               absl::StrCat("attribute ", static_cast<int>(attribute),
                            " of buffer '", buffer, "'")));
  return value;
}

absl::StatusOr<BufferEvidence> ReadBuffer(const Context& context,
                                          const PlannedBuffer& buffer,
                                          DevicePtr base,
                                          int64_t offset_in_memory_bytes,
                                          const AttributeSet& attributes) {
  const DriverApi& api = context.api();
  const DevicePtr address = base + buffer.offset_bytes;
  BufferEvidence evidence;
  evidence.name = buffer.name;
  evidence.bytes = buffer.bytes;
  const auto read = [&](CUpointer_attribute attribute) {
    return ReadAttribute(api, attribute, address, buffer.name);
  };
  PERMAFROST_ASSIGN_OR_RETURN(const std::optional<uint64_t> present,
                              read(attributes.present));
  if (present.value_or(0) == 0) return evidence;
  PERMAFROST_ASSIGN_OR_RETURN(const std::optional<uint64_t> start,
                              read(attributes.start));
  PERMAFROST_ASSIGN_OR_RETURN(const std::optional<uint64_t> size,
                              read(attributes.size));
  PERMAFROST_ASSIGN_OR_RETURN(const std::optional<uint64_t> id,
                              read(attributes.id));
  evidence.mapped = true;
  evidence.mapping_base = DevicePtr(start.value_or(0));
  evidence.mapping_bytes = static_cast<int64_t>(size.value_or(0));
  evidence.block_id = id.value_or(0);
  evidence.base = evidence.mapping_base + offset_in_memory_bytes;
  return evidence;
}

// What changed between two pieces of evidence about one buffer; empty if
// nothing did.
std::string Difference(const BufferEvidence& was, const BufferEvidence& is) {
  if (!is.mapped) return was.mapped ? "no memory is mapped there now" : "";
  if (!was.mapped) return "memory is mapped there now, and was not before";
  std::string text;
  const auto add = [&text](absl::string_view what, absl::string_view from,
                           absl::string_view to) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", what, " was ", from,
                    " and is ", to);
  };
  if (was.base != is.base) {
    add("address", was.base.ToString(), is.base.ToString());
  }
  if (was.mapping_base != is.mapping_base) {
    add("mapping", was.mapping_base.ToString(), is.mapping_base.ToString());
  }
  if (was.mapping_bytes != is.mapping_bytes) {
    add("mapping size", absl::StrCat(was.mapping_bytes),
        absl::StrCat(is.mapping_bytes, " bytes"));
  }
  if (was.block_id != is.block_id) {
    add("memory block id", absl::StrCat(was.block_id),
        absl::StrCat(is.block_id));
  }
  return text;
}

}  // namespace

absl::StatusOr<ArenaEvidence> ReadEvidence(const Context& context,
                                           const ArenaPlan& plan,
                                           DevicePtr base, MemorySource source,
                                           absl::Span<const size_t> segments) {
  const Context::Scope scope = context.MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  const bool by_segment = source == MemorySource::kSegmentMappings;
  ArenaEvidence evidence;
  for (const PlannedBuffer& buffer : plan.buffers()) {
    if (!buffer.is_present()) continue;
    const PlannedSegment* segment = plan.SegmentOf(buffer);
    PERMAFROST_CHECK(segment != nullptr,
                     "a validated plan has a segment for each buffer");
    const auto number = static_cast<size_t>(segment - plan.segments().data());
    if (std::count(segments.begin(), segments.end(), number) == 0) continue;
    const int64_t memory_offset_bytes = by_segment ? segment->offset_bytes : 0;
    PERMAFROST_ASSIGN_OR_RETURN(
        BufferEvidence one,
        ReadBuffer(context, buffer, base,
                   buffer.offset_bytes - memory_offset_bytes,
                   by_segment ? kMappingAttributes : kAllocationAttributes));
    evidence.buffers.push_back(std::move(one));
  }
  std::vector<AddressedRange> ranges;
  for (const BufferEvidence& buffer : evidence.buffers) {
    ranges.push_back({buffer.name, buffer.base, buffer.bytes});
  }
  evidence.fingerprint = AddressFingerprint(ranges);
  return evidence;
}

absl::Status CheckComplete(const ArenaEvidence& evidence, const ArenaPlan& plan,
                           DevicePtr base) {
  for (const BufferEvidence& buffer : evidence.buffers) {
    const DevicePtr planned = base + plan.Find(buffer.name)->offset_bytes;
    if (!buffer.mapped || buffer.base != planned) {
      return absl::InternalError(absl::StrCat(
          "arena buffer '", buffer.name, "': the driver has ",
          buffer.mapped ? absl::StrCat("it at ", buffer.base.ToString())
                        : "no memory",
          ", planned ", planned.ToString(),
          "; something unmapped or remapped the arena's memory"));
    }
  }
  return absl::OkStatus();
}

absl::Status CompareEvidence(const ArenaEvidence& recorded,
                             const ArenaEvidence& now) {
  int64_t changed_buffers = 0;
  std::string first;
  auto was = recorded.buffers.begin();
  for (const BufferEvidence& is : now.buffers) {
    while (was != recorded.buffers.end() && was->name != is.name) ++was;
    PERMAFROST_CHECK(was != recorded.buffers.end(),
                     "evidence of one plan is about its buffers, in order");
    const std::string difference = Difference(*was, is);
    if (difference.empty()) continue;
    if (changed_buffers++ == 0) {
      first = absl::StrCat("buffer '", is.name, "': ", difference);
    }
  }
  if (changed_buffers == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      "arena memory changed since the freeze: ", first, " (", changed_buffers,
      " of ", now.buffers.size(),
      " buffers changed); graphs captured from it must not be replayed"));
}

}  // namespace permafrost::internal
