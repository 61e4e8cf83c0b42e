// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "opcode_harness.h"

namespace softcuda::testing {
namespace {

using U32 = uint32_t;

struct F16Ops {
  using T = F16;
  static constexpr const char* kName = ".f16";
  static double Value(F16 h) { return ToFloat(h); }
  static F16 Round(double x) { return ToF16(x); }
};
struct Bf16Ops {
  using T = Bf16;
  static constexpr const char* kName = ".bf16";
  static double Value(Bf16 b) { return ToFloat(b); }
  static Bf16 Round(double x) { return ToBf16(x); }
};

double Saturate(double x) {
  return std::isnan(x) || x <= 0 ? 0 : std::min(x, 1.0);
}
double Relu(double x) { return x < 0 ? 0 : x; }

// a * b + c, rounded to odd at the 53 bits of a double: products of halves are
// exact, and the sum's error decides how to round later.
double FusedToOdd(double a, double b, double c) {
  const long double product = static_cast<long double>(a) * b;
  const long double sum = product + c;
  const long double part = sum - product;
  const long double lost = (product - (sum - part)) + (c - part);
  double x = static_cast<double>(sum);
  const long double rest = (sum - x) + lost;
  if (rest != 0 && std::isfinite(x) && (std::bit_cast<uint64_t>(x) & 1) == 0) {
    x = std::nextafter(x, rest > 0 ? INFINITY : -INFINITY);
  }
  return x;
}

template <class Ops>
typename Ops::T Scalar(U32 pair, int half) {
  return {static_cast<uint16_t>(pair >> (16 * half))};
}

template <class Ops, typename Ops::T (*kOp)(typename Ops::T, typename Ops::T)>
U32 OnPairs(U32 a, U32 b) {
  return kOp(Scalar<Ops>(a, 0), Scalar<Ops>(b, 0)).bits |
         U32{kOp(Scalar<Ops>(a, 1), Scalar<Ops>(b, 1)).bits} << 16;
}

template <class Ops>
typename Ops::T Add(typename Ops::T a, typename Ops::T b) {
  return Ops::Round(Ops::Value(a) + Ops::Value(b));
}
template <class Ops>
typename Ops::T Sub(typename Ops::T a, typename Ops::T b) {
  return Ops::Round(Ops::Value(a) - Ops::Value(b));
}
template <class Ops>
typename Ops::T Mul(typename Ops::T a, typename Ops::T b) {
  return Ops::Round(Ops::Value(a) * Ops::Value(b));
}
template <class Ops, bool kMax>
typename Ops::T MinMax(typename Ops::T a, typename Ops::T b) {
  const double x = Ops::Value(a);
  const double y = Ops::Value(b);
  if (std::isnan(x) && std::isnan(y)) return {0x7fff};
  if (std::isnan(x)) return b;
  if (std::isnan(y)) return a;
  if (x == y) return std::signbit(x) == kMax ? b : a;
  return (x < y) == kMax ? b : a;
}

template <class Ops>
void AddHalfArithmetic(std::vector<OpcodeCase>* cases) {
  using T = typename Ops::T;
  const std::string t = Ops::kName;
  cases->push_back(Op(
      "add" + t, +[](T a, T b) { return Add<Ops>(a, b); }));
  cases->push_back(Op(
      "sub.rn" + t, +[](T a, T b) { return Sub<Ops>(a, b); }));
  cases->push_back(Op(
      "mul" + t, +[](T a, T b) { return Mul<Ops>(a, b); }));
  cases->push_back(Op(
      "fma.rn" + t, +[](T a, T b, T c) {
        return Ops::Round(
            FusedToOdd(Ops::Value(a), Ops::Value(b), Ops::Value(c)));
      }));
  cases->push_back(Op(
      "fma.rn.relu" + t, +[](T a, T b, T c) {
        return Ops::Round(
            Relu(FusedToOdd(Ops::Value(a), Ops::Value(b), Ops::Value(c))));
      }));
  cases->push_back(Op(
      "min" + t, +[](T a, T b) { return MinMax<Ops, false>(a, b); }));
  cases->push_back(Op(
      "max" + t, +[](T a, T b) { return MinMax<Ops, true>(a, b); }));
  cases->push_back(Op(
      "neg" + t,
      +[](T a) { return T{static_cast<uint16_t>(a.bits ^ 0x8000)}; }));
  cases->push_back(Op(
      "abs" + t,
      +[](T a) { return T{static_cast<uint16_t>(a.bits & 0x7fff)}; }));
  cases->push_back(Op(
      "setp.lt" + t, +[](T a, T b) { return Ops::Value(a) < Ops::Value(b); }));
  cases->push_back(Op(
      "setp.neu" + t,
      +[](T a, T b) { return Ops::Value(a) != Ops::Value(b); }));
  cases->push_back(Op(
      "set.ge" + t + t, +[](T a, T b) {
        return Ops::Value(a) >= Ops::Value(b) ? Ops::Round(1.0) : T{0};
      }));
}

TEST(OpcodeHalfTest, Arithmetic) {
  std::vector<OpcodeCase> cases;
  AddHalfArithmetic<F16Ops>(&cases);
  AddHalfArithmetic<Bf16Ops>(&cases);
  cases.push_back(Op(
      "add.sat.f16", +[](F16 a, F16 b) {
        return ToF16(Saturate(double{ToFloat(a)} + double{ToFloat(b)}));
      }));
  cases.push_back(Op(
      "mul.ftz.f16", +[](F16 a, F16 b) {
        const auto flush = [](F16 h) {
          return (h.bits & 0x7c00) == 0
                     ? F16{static_cast<uint16_t>(h.bits & 0x8000)}
                     : h;
        };
        return flush(Mul<F16Ops>(flush(a), flush(b)));
      }));
  CheckOpcodes(cases);
}

bool IsNan16(U32 bits) { return (bits & 0x7fff) > 0x7c00; }

// NaNs are alike in scalar cases; packed results are integers to the harness,
// so they are made alike here.
template <class Ops>
U32 Alike(U32 pair) {
  for (const int half : {0, 1}) {
    if (std::isnan(Ops::Value(Scalar<Ops>(pair, half)))) {
      pair |= 0x7fffU << (16 * half);
      pair &= ~(0x8000U << (16 * half));
    }
  }
  return pair;
}

TEST(OpcodeHalfTest, Pairs) {
  CheckOpcodes({
      Op(
          "add.f16x2",
          +[](U32 a, U32 b) {
            return Alike<F16Ops>(OnPairs<F16Ops, Add<F16Ops>>(a, b));
          }),
      Op(
          "mul.rn.bf16x2",
          +[](U32 a, U32 b) {
            return Alike<Bf16Ops>(OnPairs<Bf16Ops, Mul<Bf16Ops>>(a, b));
          }),
      Op(
          "sub.bf16x2",
          +[](U32 a, U32 b) {
            return Alike<Bf16Ops>(OnPairs<Bf16Ops, Sub<Bf16Ops>>(a, b));
          }),
      Op(
          "max.bf16x2",
          +[](U32 a, U32 b) {
            return OnPairs<Bf16Ops, MinMax<Bf16Ops, true>>(a, b);
          }),
      Op(
          "set.lt.f16x2.f16x2",
          +[](U32 a, U32 b) {
            U32 r = 0;
            for (const int h : {0, 1}) {
              if (ToFloat(Scalar<F16Ops>(a, h)) <
                  ToFloat(Scalar<F16Ops>(b, h))) {
                r |= 0x3c00U << (16 * h);
              }
            }
            return r;
          }),
  });
  EXPECT_TRUE(IsNan16(0x7fff));
}

TEST(OpcodeHalfTest, Conversions) {
  CheckOpcodes({
      Op(
          "cvt.f32.f16", +[](F16 a) { return ToFloat(a); }),
      Op(
          "cvt.f32.bf16", +[](Bf16 a) { return ToFloat(a); }),
      Op(
          "cvt.f64.f16", +[](F16 a) { return double{ToFloat(a)}; }),
      Op(
          "cvt.rn.f16.f32", +[](float a) { return ToF16(a); }),
      Op(
          "cvt.rn.bf16.f32", +[](float a) { return ToBf16(a); }),
      Op(
          "cvt.rn.f16.f64", +[](double a) { return ToF16(a); }),
      Op(
          "cvt.rn.bf16.f64", +[](double a) { return ToBf16(a); }),
      Op(
          "cvt.rn.relu.f16.f32", +[](float a) { return ToF16(Relu(a)); }),
      Op(
          "cvt.rn.sat.f16.f32", +[](float a) { return ToF16(Saturate(a)); }),
      Op(
          "cvt.rn.bf16.f16", +[](F16 a) { return ToBf16(ToFloat(a)); }),
      Op(
          "cvt.rn.f16.s32", +[](int32_t a) { return ToF16(a); }),
      Op(
          "cvt.rn.bf16.u32", +[](uint32_t a) { return ToBf16(a); }),
      Op(
          "cvt.rn.f16.u8", +[](uint8_t a) { return ToF16(a); }),
      Op(
          "cvt.rni.f16.f16",
          +[](F16 a) { return ToF16(std::nearbyint(ToFloat(a))); }),
      Op(
          "cvt.rmi.bf16.bf16",
          +[](Bf16 a) { return ToBf16(std::floor(ToFloat(a))); }),
      Op(
          "cvt.rzi.s32.f16",
          +[](F16 a) {
            const float x = std::trunc(ToFloat(a));
            if (std::isnan(x)) return 0;
            return static_cast<int32_t>(
                std::clamp(double{x}, -2147483648.0, 2147483647.0));
          }),
      Op(
          "cvt.rpi.u8.bf16",
          +[](Bf16 a) {
            const float x = std::ceil(ToFloat(a));
            if (std::isnan(x)) return uint8_t{0};
            return static_cast<uint8_t>(std::clamp(x, 0.0F, 255.0F));
          }),
  });
}

TEST(OpcodeHalfTest, ConversionsOfLargeIntegersRoundOnce) {
  CheckOpcodes({
      Op(
          "cvt.rn.bf16.u64",
          +[](uint64_t a) {
            // Eight bits are kept; the rest decides by comparison with half.
            if (a < 256) return ToBf16(static_cast<double>(a));
            const int shift = static_cast<int>(std::bit_width(a)) - 8;
            uint64_t kept = a >> shift;
            const uint64_t rest = a & ((uint64_t{1} << shift) - 1);
            const uint64_t half = uint64_t{1} << (shift - 1);
            if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;
            return ToBf16(std::ldexp(static_cast<double>(kept), shift));
          }),
  });
}

TEST(OpcodeHalfTest, RoundingTowardsZero) {
  const auto cut16 = +[](float a) {
    F16 h = ToF16(a);
    if (std::isinf(a) || std::isnan(a)) return h;
    if (std::fabs(ToFloat(h)) > std::fabs(a)) --h.bits;
    return h;
  };
  const auto cut_bf16 = +[](float a) {
    Bf16 h = ToBf16(a);
    if (std::isinf(a) || std::isnan(a)) return h;
    if (std::fabs(ToFloat(h)) > std::fabs(a)) --h.bits;
    return h;
  };
  CheckOpcodes({Op("cvt.rz.f16.f32", cut16), Op("cvt.rz.bf16.f32", cut_bf16)});
}

TEST(OpcodeHalfTest, PackingConversions) {
  CheckOpcodes({
      Op(
          "cvt.rn.f16x2.f32",
          +[](float a, float b) {
            return Alike<F16Ops>(U32{ToF16(a).bits} << 16 | ToF16(b).bits);
          }),
      Op(
          "cvt.rn.bf16x2.f32",
          +[](float a, float b) {
            return Alike<Bf16Ops>(U32{ToBf16(a).bits} << 16 | ToBf16(b).bits);
          }),
      Op(
          "cvt.rn.relu.bf16x2.f32",
          +[](float a, float b) {
            return Alike<Bf16Ops>(U32{ToBf16(Relu(a)).bits} << 16 |
                                  ToBf16(Relu(b)).bits);
          }),
  });
}

// FP8 by search over all codes: the nearest value wins, an even code a tie.
template <int kMantissa, int kBias, uint32_t kLast>
uint32_t ToFp8(float x) {
  if (std::isnan(x)) return 0x7f;
  uint32_t best = 0;
  double best_distance = std::numeric_limits<double>::infinity();
  for (uint32_t code = 0; code <= kLast; ++code) {
    const int exponent = static_cast<int>(code >> kMantissa);
    const double fraction = code & ((1U << kMantissa) - 1);
    const double value = exponent == 0
                             ? std::ldexp(fraction, 1 - kBias - kMantissa)
                             : std::ldexp(fraction + (1 << kMantissa),
                                          exponent - kBias - kMantissa);
    // Infinity saturates like every large value.
    const double magnitude = std::min<double>(std::fabs(x), 1e6);
    const double distance = std::fabs(magnitude - value);
    if (distance < best_distance ||
        (distance == best_distance && code % 2 == 0)) {
      best = code;
      best_distance = distance;
    }
  }
  return best | (std::signbit(x) ? 0x80 : 0);
}
uint32_t ToE4m3(float x) { return ToFp8<3, 7, 0x7e>(x); }
uint32_t ToE5m2(float x) { return ToFp8<2, 15, 0x7b>(x); }

F16 FromE4m3(uint32_t code) {
  const uint32_t m = code & 0x7f;
  if (m == 0x7f) return {0x7fff};
  const double value =
      m < 8 ? m * 0x1p-9 : std::ldexp(8 + (m & 7), int(m >> 3) - 10);
  return ToF16((code & 0x80) != 0 ? -value : value);
}
F16 FromE5m2(uint32_t code) {
  const auto bits = static_cast<uint16_t>(code << 8);
  return {IsNan16(bits) ? uint16_t{0x7fff} : bits};
}

U32 PairOf(F16 high, F16 low) {
  return Alike<F16Ops>(U32{high.bits} << 16 | low.bits);
}

TEST(OpcodeHalfTest, Fp8) {
  CheckOpcodes({
      Op(
          "cvt.rn.satfinite.e4m3x2.f32",
          +[](float a, float b) {
            return static_cast<uint16_t>(ToE4m3(a) << 8 | ToE4m3(b));
          }),
      Op(
          "cvt.rn.satfinite.relu.e4m3x2.f32",
          +[](float a, float b) {
            return static_cast<uint16_t>(ToE4m3(Relu(a)) << 8 |
                                         ToE4m3(Relu(b)));
          }),
      Op(
          "cvt.rn.satfinite.e5m2x2.f32",
          +[](float a, float b) {
            return static_cast<uint16_t>(ToE5m2(a) << 8 | ToE5m2(b));
          }),
      Op(
          "cvt.rn.satfinite.e4m3x2.f16x2",
          +[](U32 a) {
            return static_cast<uint16_t>(ToE4m3(ToFloat(Scalar<F16Ops>(a, 1)))
                                             << 8 |
                                         ToE4m3(ToFloat(Scalar<F16Ops>(a, 0))));
          }),
      Op(
          "cvt.rn.f16x2.e4m3x2",
          +[](uint16_t a) {
            return PairOf(FromE4m3(a >> 8), FromE4m3(a & 255));
          }),
      Op(
          "cvt.rn.f16x2.e5m2x2",
          +[](uint16_t a) {
            return PairOf(FromE5m2(a >> 8), FromE5m2(a & 255));
          }),
      Op(
          "cvt.rn.relu.f16x2.e4m3x2",
          +[](uint16_t a) {
            const auto relu = [](F16 h) {
              return ToFloat(h) < 0 || h.bits == 0x8000 ? F16{0} : h;
            };
            return PairOf(relu(FromE4m3(a >> 8)), relu(FromE4m3(a & 255)));
          }),
      Op(
          "cvt.rna.tf32.f32",
          +[](float a) {
            if (std::isnan(a)) return 0x7fffffffU;
            const U32 bits = std::bit_cast<U32>(a);
            return std::isinf(a) ? bits : (bits + 0x1000) & ~0x1fffU;
          }),
  });
}

}  // namespace
}  // namespace softcuda::testing
