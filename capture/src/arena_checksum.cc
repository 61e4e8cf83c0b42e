// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/capture/arena_checksum.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "permafrost/arena/content_hash.h"
#include "permafrost/driver/handles.h"
#include "permafrost/driver/status.h"

namespace permafrost {
namespace {

constexpr int64_t kChunkBytes = int64_t{4} << 20;

absl::StatusOr<uint64_t> HashBuffer(const BufferRef& buffer, const Lane& lane,
                                    const PinnedBuffer& chunk) {
  ContentHash hasher;
  for (int64_t at = 0; at < buffer.bytes; at += chunk.bytes()) {
    const auto bytes =
        static_cast<size_t>(std::min(chunk.bytes(), buffer.bytes - at));
    PERMAFROST_RETURN_IF_ERROR(CuStatus(
        lane.context()->api().MemcpyDtoHAsync(
            chunk.data(), (buffer.base + at).value(), bytes, lane.stream()),
        "cuMemcpyDtoHAsync", absl::StrCat("checksum of '", buffer.name, "'")));
    PERMAFROST_RETURN_IF_ERROR(lane.Drain());
    hasher.Add(chunk.data(), bytes);
  }
  return hasher.value();
}

}  // namespace

std::string ArenaChecksum::FirstDifference(const ArenaChecksum& other) const {
  const size_t count = std::max(entries.size(), other.entries.size());
  for (size_t i = 0; i < count; ++i) {
    if (i >= entries.size()) return other.entries[i].buffer;
    if (i >= other.entries.size() || entries[i] != other.entries[i]) {
      return entries[i].buffer;
    }
  }
  return "";
}

absl::StatusOr<ArenaChecksum> ComputeArenaChecksum(const ArenaView& arena,
                                                   const Lane& lane) {
  const Lane::Use use(lane);
  const Context::Scope scope = lane.context()->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  PERMAFROST_ASSIGN_OR_RETURN(
      PinnedBuffer chunk, PinnedBuffer::Allocate(lane.context(), kChunkBytes));
  ArenaChecksum checksum;
  for (const PlannedBuffer& planned : arena.plan().buffers()) {
    if (!planned.is_present()) continue;
    PERMAFROST_ASSIGN_OR_RETURN(const BufferRef buffer,
                                arena.Find(planned.name));
    PERMAFROST_ASSIGN_OR_RETURN(const uint64_t hash,
                                HashBuffer(buffer, lane, chunk));
    checksum.entries.push_back(ArenaChecksum::Entry{buffer.name, hash});
  }
  PERMAFROST_RETURN_IF_ERROR(chunk.Destroy());
  return checksum;
}

}  // namespace permafrost
