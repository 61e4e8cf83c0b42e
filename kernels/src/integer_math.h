// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_KERNELS_SRC_INTEGER_MATH_H_
#define PERMAFROST_KERNELS_SRC_INTEGER_MATH_H_

#include <cstddef>
#include <cstdint>

namespace permafrost::kernels {

/// The subscript of a count that is known not to be negative.
constexpr size_t Index(int64_t value) { return static_cast<size_t>(value); }

constexpr int64_t CeilDiv(int64_t value, int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

}  // namespace permafrost::kernels

#endif  // PERMAFROST_KERNELS_SRC_INTEGER_MATH_H_
