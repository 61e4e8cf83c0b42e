// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_SRC_OVERLAY_RANDOM_H_
#define PERMAFROST_ARENA_SRC_OVERLAY_RANDOM_H_

#include <cstddef>
#include <cstdint>

namespace permafrost {

/// SplitMix64 with a fixed seed: small, and the same on every machine and with
/// every library, which the standard's distributions are not.
class Random {
 public:
  /// A number below `limit`, which is positive.
  size_t Below(size_t limit) {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return static_cast<size_t>((z ^ (z >> 31)) % limit);
  }

 private:
  uint64_t state_ = 1;
};

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_SRC_OVERLAY_RANDOM_H_
