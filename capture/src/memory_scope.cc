// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "memory_scope.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "permafrost/driver/status.h"

namespace permafrost {
namespace {

constexpr uint64_t kNearBytes = uint64_t{1} << 20;

// Distance from the address to [begin, end); 0 inside.
uint64_t Distance(DevicePtr address, DevicePtr begin, DevicePtr end) {
  if (address < begin) return begin.value() - address.value();
  if (address >= end) return address.value() - end.value() + 1;
  return 0;
}

}  // namespace

MemoryScope::MemoryScope(const AuditScope& scope) {
  if (scope.arena != nullptr) {
    arena_begin_ = scope.arena->base();
    arena_end_ = arena_begin_ + scope.arena->plan().total_bytes();
    for (const PlannedBuffer& planned : scope.arena->plan().buffers()) {
      if (!planned.is_present() || arena_begin_.is_null()) continue;
      const DevicePtr begin = arena_begin_ + planned.offset_bytes;
      ranges_.push_back(Range{planned.name, begin, begin + planned.bytes,
                              Access::kReadWrite, /*external=*/false,
                              scope.arena->IsAsleep(planned.name)});
    }
  }
  for (const ExternalRegion& region : scope.externals) {
    ranges_.push_back(Range{
        region.name, region.base, region.base + region.bytes, region.access,
        /*external=*/true,
        region.state != nullptr && !region.state->is_awake()});
  }
}

Place MemoryScope::Locate(DevicePtr address) const {
  Place place;
  const Range* nearest = nullptr;
  uint64_t nearest_distance = std::numeric_limits<uint64_t>::max();
  for (const Range& range : ranges_) {
    const uint64_t distance = Distance(address, range.begin, range.end);
    // Of buffers that share the byte, the one that goes on longest: which of
    // them is meant, an address alone cannot say.
    if (nearest == nullptr || distance < nearest_distance ||
        (distance == 0 && range.end > nearest->end)) {
      nearest = &range;
      nearest_distance = distance;
    }
  }
  if (arena_begin_ <= address && address < arena_end_) {
    place.kind = Place::Kind::kArenaGap;
  }
  if (nearest == nullptr) {
    place.description = "no buffer or region is known";
    return place;
  }
  place.name = nearest->name;
  if (nearest_distance == 0) {
    place.kind =
        nearest->external ? Place::Kind::kExternal : Place::Kind::kBuffer;
    place.bytes_behind = nearest->end - address;
    place.access = nearest->access;
    place.is_asleep = nearest->is_asleep;
    place.description =
        absl::StrFormat("'%s'+0x%x", nearest->name, address - nearest->begin);
  } else if (nearest_distance > kNearBytes) {
    place.description =
        absl::StrCat("far from the nearest, '", place.name, "'");
  } else if (address < nearest->begin) {
    place.description =
        absl::StrCat(nearest_distance, " bytes before '", place.name, "'");
  } else {
    place.description = absl::StrCat(
        nearest_distance, " bytes past the end of '", place.name, "'");
  }
  return place;
}

bool MemoryScope::IsNear(DevicePtr address) const {
  if (arena_begin_ != arena_end_ &&
      Distance(address, arena_begin_, arena_end_) <= kNearBytes) {
    return true;
  }
  for (const Range& range : ranges_) {
    if (Distance(address, range.begin, range.end) <= kNearBytes) return true;
  }
  return false;
}

absl::StatusOr<bool> IsMapped(const Driver& driver, DevicePtr address) {
  // The driver writes a bool or an int, depending on whom one asks.
  int mapped = 0;
  const CUresult result = driver.api().PointerGetAttribute(
      &mapped, CU_POINTER_ATTRIBUTE_MAPPED, address.value());
  if (result == CUDA_ERROR_INVALID_VALUE) return false;
  PERMAFROST_RETURN_IF_ERROR(CuStatus(
      result, "cuPointerGetAttribute",
      absl::StrCat("CU_POINTER_ATTRIBUTE_MAPPED of ", address.ToString())));
  return mapped != 0;
}

absl::StatusOr<bool> IsPinnedHost(const Driver& driver, uint64_t address) {
  unsigned int type = 0;
  const CUresult result = driver.api().PointerGetAttribute(
      &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
  if (result == CUDA_ERROR_INVALID_VALUE) return false;
  PERMAFROST_RETURN_IF_ERROR(CuStatus(
      result, "cuPointerGetAttribute",
      absl::StrFormat("CU_POINTER_ATTRIBUTE_MEMORY_TYPE of 0x%x", address)));
  return type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_UNIFIED;
}

}  // namespace permafrost
