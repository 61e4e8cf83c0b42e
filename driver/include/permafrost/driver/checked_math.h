// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_DRIVER_CHECKED_MATH_H_
#define PERMAFROST_DRIVER_CHECKED_MATH_H_

#include <cstdint>
#include <optional>

namespace permafrost {

/// Arithmetic on sizes and offsets that reports overflow instead of wrapping.
///
/// Sizes are never negative, so a negative operand is refused like an
/// overflow: each function returns nullopt for it. Every product or sum of
/// sizes that comes from outside goes through these.

/// a * b, or nullopt when it does not fit or an operand is negative.
std::optional<int64_t> CheckedMul(int64_t a, int64_t b);

/// a + b, or nullopt when it does not fit or an operand is negative.
std::optional<int64_t> CheckedAdd(int64_t a, int64_t b);

/// The smallest multiple of `alignment` that is not below `value`; nullopt
/// when it does not fit, `value` is negative or `alignment` is below 1.
/// The alignment need not be a power of two.
std::optional<int64_t> CheckedAlignUp(int64_t value, int64_t alignment);

}  // namespace permafrost

#endif  // PERMAFROST_DRIVER_CHECKED_MATH_H_
