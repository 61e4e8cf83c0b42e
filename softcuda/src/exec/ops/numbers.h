// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// The number formats of PTX that the host does not have, and PTX's rules for
// NaN, subnormals and saturation. All code is branch-free so that loops over
// lanes vectorise, and exact in every rounding it makes.
#ifndef SOFTCUDA_EXEC_OPS_NUMBERS_H_
#define SOFTCUDA_EXEC_OPS_NUMBERS_H_

#include "exec/ops/lanes.h"

namespace softcuda::exec::SOFTCUDA_ISA {

inline constexpr uint32_t kNan32 = 0x7fffffffU;
inline constexpr uint16_t kNan16 = 0x7fff;

SOFTCUDA_INLINE float F32(uint32_t bits) { return BitCast<float>(bits); }
SOFTCUDA_INLINE uint32_t Bits(float value) { return BitCast<uint32_t>(value); }

SOFTCUDA_INLINE bool IsNan(float x) {
  return (Bits(x) & 0x7fffffffU) > 0x7f800000U;
}

/// The NaN a device's f32 arithmetic returns, whatever went in.
SOFTCUDA_INLINE float Canonical(float x) { return IsNan(x) ? F32(kNan32) : x; }
SOFTCUDA_INLINE double Canonical(double x) { return x; }

SOFTCUDA_INLINE float Flush(float x) {
  return (Bits(x) & 0x7f800000U) == 0 ? F32(Bits(x) & 0x80000000U) : x;
}

SOFTCUDA_INLINE double Flush(double x) { return x; }

/// `.sat`: to [0, 1], NaN to 0.
template <class T>
SOFTCUDA_INLINE T Saturate(T x) {
  const T low = x > T{0} ? x : T{0};
  return low < T{1} ? low : T{1};
}

SOFTCUDA_INLINE float HalfToFloat(uint16_t h) {
  const uint32_t magnitude = h & 0x7fffU;
  // 2^112 moves the exponent from the half's bias to the float's, and makes
  // subnormals exact too.
  const uint32_t scaled = Bits(F32(magnitude << 13) * 0x1p112F);
  const uint32_t special = 0x7f800000U | magnitude << 13;
  return F32((magnitude >= 0x7c00 ? special : scaled) | (h & 0x8000U) << 16);
}

SOFTCUDA_INLINE float BfloatToFloat(uint16_t b) {
  return F32(uint32_t{b} << 16);
}

/// Rounds a float to a format of kMantissa bits and the given smallest normal
/// exponent, to nearest even, as an integer without sign and without overflow
/// check: `exponent field << kMantissa | mantissa`.
template <int kMantissa, int kMinExponent>
SOFTCUDA_INLINE uint32_t RoundMagnitude(uint32_t magnitude_bits) {
  constexpr int kDrop = 23 - kMantissa;
  // Normal result: round at the last kept bit, then move the bias.
  const uint32_t odd = magnitude_bits >> kDrop & 1;
  const uint32_t rounded =
      (magnitude_bits + ((1U << (kDrop - 1)) - 1) + odd) >> kDrop;
  constexpr uint32_t kBiasStep = static_cast<uint32_t>(126 + kMinExponent)
                                 << kMantissa;
  const uint32_t normal = rounded - kBiasStep;
  // Subnormal result: adding a power of two whose last bit is the format's
  // smallest step makes the host round there.
  constexpr uint32_t kMagic =
      static_cast<uint32_t>(127 + kMinExponent + 23 - kMantissa) << 23;
  const uint32_t subnormal = Bits(F32(magnitude_bits) + F32(kMagic)) - kMagic;
  constexpr uint32_t kSmallestNormal = static_cast<uint32_t>(127 + kMinExponent)
                                       << 23;
  return magnitude_bits < kSmallestNormal ? subnormal : normal;
}

SOFTCUDA_INLINE uint16_t FloatToHalf(float x) {
  const uint32_t magnitude = Bits(x) & 0x7fffffffU;
  const uint32_t sign = Bits(x) >> 16 & 0x8000U;
  const uint32_t rounded = RoundMagnitude<10, -14>(magnitude);
  // 65520 and above round to infinity.
  const uint32_t finite = magnitude >= 0x477ff000U ? 0x7c00U : rounded;
  return static_cast<uint16_t>(magnitude > 0x7f800000U ? kNan16
                                                       : (sign | finite));
}

SOFTCUDA_INLINE uint16_t FloatToBfloat(float x) {
  const uint32_t bits = Bits(x);
  const uint32_t rounded = (bits + 0x7fffU + (bits >> 16 & 1)) >> 16;
  return static_cast<uint16_t>(IsNan(x) ? kNan16 : rounded);
}

/// Towards zero.
SOFTCUDA_INLINE uint16_t FloatToHalfRz(float x) {
  const uint32_t magnitude = Bits(x) & 0x7fffffffU;
  const uint32_t sign = Bits(x) >> 16 & 0x8000U;
  const uint32_t normal = (magnitude >> 13) - (112U << 10);
  // Below 2^-14 the value in units of 2^-24, cut off.
  const uint32_t scaled = static_cast<uint32_t>(static_cast<int32_t>(
      (magnitude < 0x38800000U ? F32(magnitude) : 0.0F) * 0x1p24F));
  const uint32_t value = magnitude < 0x38800000U    ? scaled
                         : magnitude == 0x7f800000U ? 0x7c00U
                         : magnitude >= 0x47800000U ? 0x7bffU
                                                    : normal;
  return static_cast<uint16_t>(magnitude > 0x7f800000U ? kNan16
                                                       : (sign | value));
}

SOFTCUDA_INLINE uint16_t FloatToBfloatRz(float x) {
  return static_cast<uint16_t>(IsNan(x) ? kNan16 : Bits(x) >> 16);
}

/// One rounding from double: the double is first rounded to odd at float
/// precision, which leaves a second rounding nothing to go wrong with.
SOFTCUDA_INLINE float RoundToOdd(double x) {
  const float nearest = static_cast<float>(x);
  const double back = static_cast<double>(nearest);
  const uint32_t bits = Bits(nearest);
  const bool exact = back == x || back != back;
  const bool away = (back > x) == (x > 0);
  const uint32_t cut = away && !exact ? bits - 1 : bits;
  return F32(exact ? bits : (cut | 1));
}

SOFTCUDA_INLINE float E4m3ToFloat(uint8_t v) {
  const uint32_t magnitude = v & 0x7fU;
  const uint32_t scaled = Bits(F32(magnitude << 20) * 0x1p120F);
  return F32((magnitude == 0x7f ? kNan32 : scaled) | (v & 0x80U) << 24);
}

SOFTCUDA_INLINE uint16_t E4m3ToHalf(uint8_t v) {
  return FloatToHalf(E4m3ToFloat(v));
}

SOFTCUDA_INLINE uint16_t E5m2ToHalf(uint8_t v) {
  const uint32_t half = uint32_t{v} << 8;
  return static_cast<uint16_t>((half & 0x7fffU) > 0x7c00U ? kNan16 : half);
}

SOFTCUDA_INLINE uint8_t FloatToE4m3(float x) {
  const uint32_t magnitude = Bits(x) & 0x7fffffffU;
  const uint32_t sign = Bits(x) >> 24 & 0x80U;
  const uint32_t rounded = RoundMagnitude<3, -6>(magnitude);
  const uint32_t finite = magnitude >= 0x43e00000U ? 0x7eU : rounded;
  return static_cast<uint8_t>(magnitude > 0x7f800000U ? 0x7fU
                                                      : (sign | finite));
}

SOFTCUDA_INLINE uint8_t FloatToE5m2(float x) {
  const uint32_t magnitude = Bits(x) & 0x7fffffffU;
  const uint32_t sign = Bits(x) >> 24 & 0x80U;
  const uint32_t rounded = RoundMagnitude<2, -14>(magnitude);
  const uint32_t finite = magnitude >= 0x47600000U ? 0x7bU : rounded;
  return static_cast<uint8_t>(magnitude > 0x7f800000U ? 0x7fU
                                                      : (sign | finite));
}

}  // namespace softcuda::exec::SOFTCUDA_ISA

#endif  // SOFTCUDA_EXEC_OPS_NUMBERS_H_
