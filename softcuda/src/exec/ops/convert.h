// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Integer types of cvt and the ways to reach them. Registers hold 8-bit values
// in 16 bits.
#ifndef SOFTCUDA_EXEC_OPS_CONVERT_H_
#define SOFTCUDA_EXEC_OPS_CONVERT_H_

#include <type_traits>

#include "exec/ops/lanes.h"
#include "exec/ops/numbers.h"

namespace softcuda::exec::SOFTCUDA_ISA {

// The register type that holds a T.
template <class T>
using Holder = std::conditional_t<
    sizeof(T) == 1, std::conditional_t<std::is_signed_v<T>, int16_t, uint16_t>,
    T>;

template <class T>
inline constexpr T kMax = std::is_signed_v<T>
                              ? static_cast<T>(~(std::make_unsigned_t<T>{1}
                                                 << (8 * sizeof(T) - 1)))
                              : static_cast<T>(~T{0});
template <class T>
inline constexpr T kMin = std::is_signed_v<T> ? static_cast<T>(~kMax<T>) : T{0};

struct RoundNearest {
  static SOFTCUDA_INLINE float Do(float x) { return __builtin_nearbyintf(x); }
  static SOFTCUDA_INLINE double Do(double x) { return __builtin_nearbyint(x); }
};
struct RoundZero {
  static SOFTCUDA_INLINE float Do(float x) { return __builtin_truncf(x); }
  static SOFTCUDA_INLINE double Do(double x) { return __builtin_trunc(x); }
};
struct RoundDown {
  static SOFTCUDA_INLINE float Do(float x) { return __builtin_floorf(x); }
  static SOFTCUDA_INLINE double Do(double x) { return __builtin_floor(x); }
};
struct RoundUp {
  static SOFTCUDA_INLINE float Do(float x) { return __builtin_ceilf(x); }
  static SOFTCUDA_INLINE double Do(double x) { return __builtin_ceil(x); }
};

// Rounds, then clamps to the integer's range. NaN becomes 0, but the top bit
// where a 64-bit type is involved.
template <class D, class A, class Round, bool kFtz>
struct FloatToInteger {
  static SOFTCUDA_INLINE Holder<D> Do(A a) {
    constexpr D kNanValue =
        sizeof(A) == 8 || sizeof(D) == 8
            ? static_cast<D>(std::make_unsigned_t<D>{1} << (8 * sizeof(D) - 1))
            : D{0};
    // 2^bits, or half of it for signed types: exact, and the first value that
    // does not fit.
    constexpr int kBits = 8 * sizeof(D) - (std::is_signed_v<D> ? 1 : 0);
    constexpr A kLimit = static_cast<A>(uint64_t{1} << (kBits - 1)) * A{2};
    const A x = Round::Do(kFtz ? Flush(a) : a);
    if (x != x) return kNanValue;
    if (x >= kLimit) return kMax<D>;
    if constexpr (std::is_signed_v<D>) {
      if (x < -kLimit) return kMin<D>;
    } else {
      if (x <= A{0}) return 0;
    }
    return static_cast<D>(x);
  }
};

template <class T>
constexpr const char* Name() {
  if constexpr (std::is_same_v<T, float>) return ".f32";
  if constexpr (std::is_same_v<T, double>) return ".f64";
  if constexpr (std::is_signed_v<T>) {
    return sizeof(T) == 1   ? ".s8"
           : sizeof(T) == 2 ? ".s16"
           : sizeof(T) == 4 ? ".s32"
                            : ".s64";
  }
  return sizeof(T) == 1   ? ".u8"
         : sizeof(T) == 2 ? ".u16"
         : sizeof(T) == 4 ? ".u32"
                          : ".u64";
}

// Destination and source registers; signed destinations extend their sign into
// a wider register.
template <class D, class A>
constexpr const char* Operands() {
  constexpr size_t kTo = sizeof(Holder<D>);
  constexpr size_t kFrom = sizeof(Holder<A>);
  constexpr bool kSigned = std::is_integral_v<D> && std::is_signed_v<D>;
  if (kTo == 2 && kSigned) {
    return kFrom == 2 ? "=H h" : kFrom == 4 ? "=H r" : "=H l";
  }
  if (kTo == 2) return kFrom == 2 ? "=h h" : kFrom == 4 ? "=h r" : "=h l";
  if (kTo == 4 && kSigned) {
    return kFrom == 2 ? "=R h" : kFrom == 4 ? "=R r" : "=R l";
  }
  if (kTo == 4) return kFrom == 2 ? "=r h" : kFrom == 4 ? "=r r" : "=r l";
  return kFrom == 2 ? "=l h" : kFrom == 4 ? "=l r" : "=l l";
}

}  // namespace softcuda::exec::SOFTCUDA_ISA

#endif  // SOFTCUDA_EXEC_OPS_CONVERT_H_
