// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_ARENA_CONTENT_HASH_H_
#define PERMAFROST_ARENA_CONTENT_HASH_H_

#include <cstddef>
#include <cstdint>

namespace permafrost {

/// A 64-bit hash of memory contents, made chunk by chunk, to find that they
/// changed; no defence against someone who wants them to look the same.
///
/// The value depends on the bytes and on where chunks end, so two hashes
/// compare when both took chunks of the same sizes.
/// Cost: one multiplication for each 8 bytes. Threads: externally synchronised.
class ContentHash {
 public:
  void Add(const std::byte* data, size_t bytes);
  uint64_t value() const { return value_; }

 private:
  void Mix(uint64_t word);

  uint64_t value_ = 0xCBF29CE484222325u;
};

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_CONTENT_HASH_H_
