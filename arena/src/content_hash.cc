// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/content_hash.h"

#include <cstring>

namespace permafrost {

void ContentHash::Add(const std::byte* data, size_t bytes) {
  size_t at = 0;
  for (; at + 8 <= bytes; at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, data + at, 8);
    Mix(word);
  }
  if (at < bytes) {
    uint64_t word = 0;
    std::memcpy(&word, data + at, bytes - at);
    Mix(word);
  }
  Mix(bytes);
}

void ContentHash::Mix(uint64_t word) {
  value_ = (value_ ^ word) * 0x9E3779B97F4A7C15u;
  value_ ^= value_ >> 29;
}

}  // namespace permafrost
