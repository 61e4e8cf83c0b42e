// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "permafrost/arena/overlay.h"

namespace permafrost {

std::vector<ArenaRegion> RegionsOf(const ArenaPlan& plan) {
  std::vector<const PlannedBuffer*> by_offset;
  for (const PlannedBuffer& buffer : plan.buffers()) {
    if (buffer.is_present()) by_offset.push_back(&buffer);
  }
  std::sort(by_offset.begin(), by_offset.end(),
            [](const PlannedBuffer* a, const PlannedBuffer* b) {
              return std::tie(a->offset_bytes, a->name) <
                     std::tie(b->offset_bytes, b->name);
            });
  std::vector<ArenaRegion> regions;
  for (const PlannedBuffer* buffer : by_offset) {
    const int64_t end = buffer->offset_bytes + buffer->bytes;
    if (!regions.empty()) {
      ArenaRegion& last = regions.back();
      const int64_t last_end = last.offset_bytes + last.bytes;
      // A buffer inside another's guard is no stranger that the guard could
      // tell from it.
      if (buffer->offset_bytes < last_end + plan.options().guard_bytes) {
        absl::StrAppend(&last.name, "|", buffer->name);
        last.bytes = std::max(last_end, end) - last.offset_bytes;
        continue;
      }
    }
    regions.push_back({.name = buffer->name,
                       .offset_bytes = buffer->offset_bytes,
                       .bytes = buffer->bytes});
  }
  return regions;
}

}  // namespace permafrost
