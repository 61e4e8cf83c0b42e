// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_SRC_FNV1A_H_
#define PERMAFROST_ARENA_SRC_FNV1A_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace permafrost {

/// The 64-bit FNV-1a hash (Fowler, Noll, Vo), fed piece by piece.
class Fnv1a64 {
 public:
  void AddBytes(absl::string_view bytes) {
    for (char byte : bytes) AddByte(static_cast<unsigned char>(byte));
  }
  /// Adds 8 bytes, the lowest first, whatever the machine's own order.
  void AddNumber(uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) {
      AddByte(static_cast<unsigned char>((number >> shift) & 0xff));
    }
  }
  uint64_t value() const { return value_; }

 private:
  void AddByte(unsigned char byte) {
    value_ ^= byte;
    value_ *= 0x100000001b3u;
  }

  uint64_t value_ = 0xcbf29ce484222325u;
};

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_SRC_FNV1A_H_
