// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/arena_checksums.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "permafrost/arena/content_hash.h"
#include "permafrost/driver/context.h"
#include "permafrost/driver/handles.h"
#include "permafrost/driver/status.h"

namespace permafrost {
namespace {

/// A multiple of 8, so that only a buffer's end can be a partial word.
constexpr int64_t kChunkBytes = int64_t{4} << 20;

absl::StatusOr<BufferChecksum> Checksum(const ArenaView& arena,
                                        const std::string& name,
                                        CUstream stream,
                                        const PinnedBuffer& chunk) {
  PERMAFROST_ASSIGN_OR_RETURN(const BufferRef buffer, arena.Find(name));
  const DriverApi& api = arena.context()->api();
  ContentHash hash;
  for (int64_t at = 0; at < buffer.bytes; at += chunk.bytes()) {
    const int64_t bytes = std::min(chunk.bytes(), buffer.bytes - at);
    PERMAFROST_RETURN_IF_ERROR(
        CuStatus(api.MemcpyDtoHAsync(chunk.data(), (buffer.base + at).value(),
                                     static_cast<size_t>(bytes), stream),
                 "cuMemcpyDtoHAsync"));
    PERMAFROST_RETURN_IF_ERROR(
        CuStatus(api.StreamSynchronize(stream), "cuStreamSynchronize"));
    hash.Add(chunk.data(), static_cast<size_t>(bytes));
  }
  return BufferChecksum{buffer.name, buffer.bytes, hash.value()};
}

}  // namespace

absl::StatusOr<std::vector<BufferChecksum>> ChecksumBuffers(
    const ArenaView& arena, CUstream stream,
    absl::Span<const std::string> buffers) {
  std::vector<std::string> names(buffers.begin(), buffers.end());
  if (names.empty()) {
    for (const PlannedBuffer& planned : arena.plan().buffers()) {
      if (planned.is_present()) names.push_back(planned.name);
    }
  }
  const Context::Scope scope = arena.context()->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  PERMAFROST_ASSIGN_OR_RETURN(
      PinnedBuffer chunk, PinnedBuffer::Allocate(arena.context(), kChunkBytes));
  std::vector<BufferChecksum> checksums;
  checksums.reserve(names.size());
  for (const std::string& name : names) {
    absl::StatusOr<BufferChecksum> checksum =
        Checksum(arena, name, stream, chunk);
    if (!checksum.ok()) {
      return Annotate(checksum.status(),
                      absl::StrCat("checksum of buffer '", name, "'"));
    }
    checksums.push_back(*std::move(checksum));
  }
  PERMAFROST_RETURN_IF_ERROR(chunk.Destroy());
  return checksums;
}

std::string FirstDifference(absl::Span<const BufferChecksum> before,
                            absl::Span<const BufferChecksum> after) {
  const size_t shared = std::min(before.size(), after.size());
  for (size_t i = 0; i < shared; ++i) {
    if (before[i] != after[i]) return before[i].buffer;
  }
  if (before.size() > shared) return before[shared].buffer;
  if (after.size() > shared) return after[shared].buffer;
  return "";
}

}  // namespace permafrost
