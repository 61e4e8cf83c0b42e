// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// The approximate functions: ex2, lg2, sin, cos, tanh. They are evaluated in
// double without fused operations, so every host gives the same bits; the error
// stays below 2^-23 of the result, which is inside what PTX allows, but the
// last bits differ from a device's.
#include "exec/ops/lanes.h"
#include "exec/ops/numbers.h"
#include "exec/ops/registration.h"

namespace softcuda::exec::SOFTCUDA_ISA {
namespace {

// Adding it rounds a double of moderate size to an integer, which is then the
// low word of the sum.
constexpr double kRoundMagic = 0x1.8p52;

SOFTCUDA_INLINE double Exp2(double x) {
  const double clamped = x < -1000.0 ? -1000.0 : x > 1000.0 ? 1000.0 : x;
  const double shifted = clamped + kRoundMagic;
  const double f = clamped - (shifted - kRoundMagic);
  const uint64_t n =
      BitCast<uint64_t>(shifted) - BitCast<uint64_t>(kRoundMagic);
  // ln(2)^k / k!
  double p = 0x1.62c0223a5c822p-20;
  p = p * f + 0x1.ffcbfc588b0c5p-17;
  p = p * f + 0x1.430912f86c786p-13;
  p = p * f + 0x1.5d87fe78a6730p-10;
  p = p * f + 0x1.3b2ab6fba4e77p-7;
  p = p * f + 0x1.c6b08d704a0bfp-5;
  p = p * f + 0x1.ebfbdff82c58ep-3;
  p = p * f + 0x1.62e42fefa39efp-1;
  p = p * f + 1.0;
  return p * BitCast<double>((n + 1023) << 52);
}

struct Ex2 {
  static SOFTCUDA_INLINE float Do(float a) {
    const float value = static_cast<float>(Exp2(static_cast<double>(a)));
    return IsNan(a) ? F32(kNan32) : value;
  }
};

struct Lg2 {
  static SOFTCUDA_INLINE float Do(float a) {
    const double x = static_cast<double>(a);
    const uint64_t bits = BitCast<uint64_t>(x);
    // Split x = m * 2^e with m in [sqrt(1/2), sqrt(2)).
    const uint64_t shifted = bits - 0x3fe6a09e667f3bcdULL;
    const int32_t e = static_cast<int32_t>(static_cast<int64_t>(shifted) >> 52);
    const double m = BitCast<double>((shifted & 0x000fffffffffffffULL) +
                                     0x3fe6a09e667f3bcdULL);
    const double s = (m - 1.0) / (m + 1.0);
    const double z = s * s;
    double p = 1.0 / 15.0;
    p = p * z + 1.0 / 13.0;
    p = p * z + 1.0 / 11.0;
    p = p * z + 1.0 / 9.0;
    p = p * z + 1.0 / 7.0;
    p = p * z + 1.0 / 5.0;
    p = p * z + 1.0 / 3.0;
    p = p * z + 1.0;
    const double log2_m = 0x1.71547652b82fep+1 * s * p;  // 2 / ln(2)
    float value = static_cast<float>(static_cast<double>(e) + log2_m);
    value = a == 0.0F ? -__builtin_inff() : value;
    value = a == __builtin_inff() ? a : value;
    return a < 0.0F || IsNan(a) ? F32(kNan32) : value;
  }
};

template <int kQuadrant>
struct Trigonometric {
  static SOFTCUDA_INLINE float Do(float a) {
    const double x = static_cast<double>(a);
    const double shifted = x * 0x1.45f306dc9c883p-1 + kRoundMagic;
    const double k = shifted - kRoundMagic;
    const double r = (x - k * 0x1.921fb54400000p+0) - k * 0x1.0b4611a626331p-34;
    const uint64_t quadrant = BitCast<uint64_t>(shifted) + kQuadrant;
    const double z = r * r;
    double s = -1.0 / 39916800.0;
    s = s * z + 1.0 / 362880.0;
    s = s * z - 1.0 / 5040.0;
    s = s * z + 1.0 / 120.0;
    s = s * z - 1.0 / 6.0;
    s = s * z * r + r;
    double c = 1.0 / 479001600.0;
    c = c * z - 1.0 / 3628800.0;
    c = c * z + 1.0 / 40320.0;
    c = c * z - 1.0 / 720.0;
    c = c * z + 1.0 / 24.0;
    c = c * z - 0.5;
    c = c * z + 1.0;
    const double magnitude = (quadrant & 1) != 0 ? c : s;
    const float value =
        static_cast<float>((quadrant & 2) != 0 ? -magnitude : magnitude);
    return (Bits(a) & 0x7f800000U) == 0x7f800000U ? F32(kNan32) : value;
  }
};

struct Tanh {
  static SOFTCUDA_INLINE float Do(float a) {
    const double x = static_cast<double>(a);
    const double e = Exp2(x * 0x1.71547652b82fep+1);  // e^(2x)
    const double whole = 1.0 - 2.0 / (e + 1.0);
    const double small = x - x * x * x * (1.0 / 3.0);
    const bool is_small = x < 0x1p-10 && x > -0x1p-10;
    const float value = static_cast<float>(is_small ? small : whole);
    return IsNan(a) ? F32(kNan32) : value;
  }
};

template <class Op>
struct Ftz {
  static SOFTCUDA_INLINE float Do(float a) { return Flush(Op::Do(Flush(a))); }
};

// Rounded once more to the half formats.
template <class Op>
struct OfHalf {
  static SOFTCUDA_INLINE uint16_t Do(uint16_t a) {
    return FloatToHalf(Op::Do(HalfToFloat(a)));
  }
};
template <class Op>
struct OfBfloat {
  static SOFTCUDA_INLINE uint16_t Do(uint16_t a) {
    return FloatToBfloat(Op::Do(BfloatToFloat(a)));
  }
};
template <class Op>
struct OfBfloatFtz {
  static SOFTCUDA_INLINE uint16_t Do(uint16_t a) {
    return FloatToBfloat(Flush(Op::Do(Flush(BfloatToFloat(a)))));
  }
};
template <class Op>
struct Both {
  static SOFTCUDA_INLINE uint32_t Do(uint32_t a) {
    return static_cast<uint32_t>(Op::Do(static_cast<uint16_t>(a))) |
           static_cast<uint32_t>(Op::Do(static_cast<uint16_t>(a >> 16))) << 16;
  }
};

template <class Op>
void AddF32(FormTable& t, const char* name) {
  t.Add(name, ".approx.f32", Unary<Op, float, float>, "=r r", "");
  t.Add(name, ".approx.ftz.f32", Unary<Ftz<Op>, float, float>, "=r r", "");
}

template <class Op>
void AddF16(FormTable& t, const char* name, const char* type,
            const char* packed) {
  t.Add(name, type, Unary<Op, uint16_t, uint16_t>, "=h h", "");
  t.Add(name, packed, Unary<Both<Op>, uint32_t, uint32_t>, "=r r", "");
}

}  // namespace

void AddApproximateForms(FormTable& t) {
  AddF32<Ex2>(t, "ex2");
  AddF32<Lg2>(t, "lg2");
  AddF32<Trigonometric<0>>(t, "sin");
  AddF32<Trigonometric<1>>(t, "cos");
  t.Add("tanh.approx.f32", Unary<Tanh, float, float>, "=r r");
  AddF16<OfHalf<Ex2>>(t, "ex2.approx", ".f16", ".f16x2");
  AddF16<OfBfloatFtz<Ex2>>(t, "ex2.approx.ftz", ".bf16", ".bf16x2");
  AddF16<OfHalf<Tanh>>(t, "tanh.approx", ".f16", ".f16x2");
  AddF16<OfBfloat<Tanh>>(t, "tanh.approx", ".bf16", ".bf16x2");
}

}  // namespace softcuda::exec::SOFTCUDA_ISA
