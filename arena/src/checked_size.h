// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_SRC_CHECKED_SIZE_H_
#define PERMAFROST_ARENA_SRC_CHECKED_SIZE_H_

#include <algorithm>
#include <cstdint>
#include <optional>

#include "permafrost/driver/checked_math.h"

namespace permafrost {

/// A count or size that remembers whether any step of its formula left 0 to
/// 2^63-1, so that a formula reads as it is written on paper and is checked
/// once, at its end.
class CheckedSize {
 public:
  constexpr CheckedSize(int64_t value)  // NOLINT: a number is a size
      : value_(value < 0 ? std::nullopt : std::optional<int64_t>(value)) {}

  friend CheckedSize operator*(CheckedSize a, CheckedSize b) {
    return Both(a, b) ? CheckedSize(CheckedMul(*a.value_, *b.value_))
                      : CheckedSize(std::nullopt);
  }
  friend CheckedSize operator+(CheckedSize a, CheckedSize b) {
    return Both(a, b) ? CheckedSize(CheckedAdd(*a.value_, *b.value_))
                      : CheckedSize(std::nullopt);
  }
  friend CheckedSize Max(CheckedSize a, CheckedSize b) {
    return Both(a, b) ? CheckedSize(std::max(*a.value_, *b.value_))
                      : CheckedSize(std::nullopt);
  }
  /// How many pieces of `size` it takes to cover this; `size` is positive.
  CheckedSize CeilDiv(int64_t size) const {
    if (!value_) return *this;
    return CheckedSize(*value_ / size + (*value_ % size != 0 ? 1 : 0));
  }
  CheckedSize AlignUp(int64_t alignment) const {
    if (!value_) return *this;
    return CheckedSize(CheckedAlignUp(*value_, alignment));
  }

  /// The value; nullopt if any step was out of range.
  std::optional<int64_t> value() const { return value_; }

 private:
  constexpr explicit CheckedSize(std::optional<int64_t> value)
      : value_(value) {}
  static bool Both(const CheckedSize& a, const CheckedSize& b) {
    return a.value_.has_value() && b.value_.has_value();
  }

  std::optional<int64_t> value_;
};

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_SRC_CHECKED_SIZE_H_
