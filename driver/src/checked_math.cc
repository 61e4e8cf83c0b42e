// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "permafrost/driver/checked_math.h"

namespace permafrost {

std::optional<int64_t> CheckedMul(int64_t a, int64_t b) {
  int64_t product = 0;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product)) {
    return std::nullopt;
  }
  return product;
}

std::optional<int64_t> CheckedAdd(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum)) {
    return std::nullopt;
  }
  return sum;
}

std::optional<int64_t> CheckedAlignUp(int64_t value, int64_t alignment) {
  if (value < 0 || alignment < 1) return std::nullopt;
  const int64_t excess = value % alignment;
  return excess == 0 ? value : CheckedAdd(value, alignment - excess);
}

}  // namespace permafrost
