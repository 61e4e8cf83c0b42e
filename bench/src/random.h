// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_BENCH_RANDOM_H_
#define PERMAFROST_BENCH_RANDOM_H_

#include <cstdint>

namespace permafrost::bench {

/// A counter put through the SplitMix64 finaliser: any element can be had
/// without those before it, and the same on every machine.
constexpr uint64_t RandomBits(uint64_t seed, uint64_t index) {
  uint64_t bits = seed + (index + 1) * 0x9e3779b97f4a7c15U;
  bits = (bits ^ (bits >> 30U)) * 0xbf58476d1ce4e5b9U;
  bits = (bits ^ (bits >> 27U)) * 0x94d049bb133111ebU;
  return bits ^ (bits >> 31U);
}

/// Uniform in [-1, 1), with 24 random bits.
constexpr float RandomUnit(uint64_t seed, uint64_t index) {
  return static_cast<float>(RandomBits(seed, index) >> 40U) * 0x1p-23F - 1.0F;
}

/// A seed for a stream of its own.
constexpr uint64_t DeriveSeed(uint64_t seed, uint64_t stream) {
  return RandomBits(seed ^ 0x7065726d61667274U, stream);
}

}  // namespace permafrost::bench

#endif  // PERMAFROST_BENCH_RANDOM_H_
