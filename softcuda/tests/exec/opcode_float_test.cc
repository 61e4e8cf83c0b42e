// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "opcode_harness.h"

namespace softcuda::testing {
namespace {

float Flush(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0F, x) : x;
}
template <class T>
T Saturate(T x) {
  return std::isnan(x) || x <= 0 ? T{0} : std::min(x, T{1});
}
template <class T>
T Min(T a, T b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
template <class T>
T Max(T a, T b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

// Rounds an exact long double sum or product once more in another direction;
// x86's 64 bits of fraction hold every float result that is tested here.
template <int kMode>
float RoundOnce(float (*op)(float, float, float), float a, float b, float c) {
  volatile float x = a;
  volatile float y = b;
  volatile float z = c;
  std::fesetround(kMode);
  volatile float result = op(x, y, z);
  std::fesetround(FE_TONEAREST);
  return result;
}

template <class T>
void AddFloatArithmetic(const std::string& t, std::vector<OpcodeCase>* cases) {
  for (const std::string round : {"", ".rn"}) {
    cases->push_back(Op(
        "add" + round + t, +[](T a, T b) { return a + b; }));
    cases->push_back(Op(
        "sub" + round + t, +[](T a, T b) { return a - b; }));
    cases->push_back(Op(
        "mul" + round + t, +[](T a, T b) { return a * b; }));
  }
  cases->push_back(Op(
      "fma.rn" + t, +[](T a, T b, T c) { return std::fma(a, b, c); }));
  cases->push_back(Op(
      "div.rn" + t, +[](T a, T b) { return a / b; }));
  cases->push_back(Op(
      "rcp.rn" + t, +[](T a) { return 1 / a; }));
  cases->push_back(Op(
      "sqrt.rn" + t, +[](T a) { return std::sqrt(a); }));
  cases->push_back(Op(
      "neg" + t, +[](T a) { return -a; }));
  cases->push_back(Op(
      "abs" + t, +[](T a) { return std::fabs(a); }));
  cases->push_back(Op(
      "min" + t, +[](T a, T b) { return Min(a, b); }));
  cases->push_back(Op(
      "max" + t, +[](T a, T b) { return Max(a, b); }));
  cases->push_back(Op(
      "copysign" + t, +[](T a, T b) { return std::copysign(b, a); }));
  cases->push_back(Op(
      "testp.finite" + t, +[](T a) { return std::isfinite(a); }));
  cases->push_back(Op(
      "testp.infinite" + t, +[](T a) { return std::isinf(a); }));
  cases->push_back(Op(
      "testp.notanumber" + t, +[](T a) { return std::isnan(a); }));
  cases->push_back(Op(
      "testp.number" + t, +[](T a) { return !std::isnan(a); }));
  cases->push_back(Op(
      "testp.normal" + t, +[](T a) { return std::isnormal(a); }));
  cases->push_back(Op(
      "testp.subnormal" + t,
      +[](T a) { return std::fpclassify(a) == FP_SUBNORMAL; }));
}

TEST(OpcodeFloatTest, Arithmetic) {
  std::vector<OpcodeCase> cases;
  AddFloatArithmetic<float>(".f32", &cases);
  AddFloatArithmetic<double>(".f64", &cases);
  CheckOpcodes(cases);
}

TEST(OpcodeFloatTest, FlushAndSaturate) {
  CheckOpcodes({
      Op(
          "add.ftz.f32",
          +[](float a, float b) { return Flush(Flush(a) + Flush(b)); }),
      Op(
          "mul.ftz.f32",
          +[](float a, float b) { return Flush(Flush(a) * Flush(b)); }),
      Op(
          "add.sat.f32", +[](float a, float b) { return Saturate(a + b); }),
      Op(
          "mul.ftz.sat.f32",
          +[](float a, float b) {
            return Saturate(Flush(Flush(a) * Flush(b)));
          }),
      Op(
          "fma.rn.sat.f32",
          +[](float a, float b, float c) {
            return Saturate(std::fma(a, b, c));
          }),
      Op(
          "fma.rn.ftz.f32",
          +[](float a, float b, float c) {
            return Flush(std::fma(Flush(a), Flush(b), Flush(c)));
          }),
      Op(
          "div.rn.ftz.f32",
          +[](float a, float b) { return Flush(Flush(a) / Flush(b)); }),
      Op(
          "min.ftz.f32",
          +[](float a, float b) { return Min(Flush(a), Flush(b)); }),
      Op(
          "abs.ftz.f32", +[](float a) { return std::fabs(Flush(a)); }),
      Op(
          "min.NaN.f32",
          +[](float a, float b) {
            return std::isnan(a) || std::isnan(b) ? std::nanf("") : Min(a, b);
          }),
      Op(
          "max.NaN.f32",
          +[](float a, float b) {
            return std::isnan(a) || std::isnan(b) ? std::nanf("") : Max(a, b);
          }),
      Op(
          "cvt.sat.f32.f32", +[](float a) { return Saturate(a); }),
  });
}

TEST(OpcodeFloatTest, NanIsTheDevicesNan) {
  // Bit for bit, unlike in the other tests.
  CheckOpcodes({
      Op(
          "add.f32",
          +[](float a, float b) {
            const float sum = a + b;
            return std::isnan(sum) ? 0x7fffffffU : std::bit_cast<uint32_t>(sum);
          }),
      Op(
          "max.NaN.f32",
          +[](float a, float b) {
            return std::isnan(a) || std::isnan(b)
                       ? 0x7fffffffU
                       : std::bit_cast<uint32_t>(Max(a, b));
          }),
  });
}

template <int kMode>
void AddRounded(const std::string& mode, std::vector<OpcodeCase>* cases) {
  cases->push_back(Op(
      "add" + mode + ".f32", +[](float a, float b) {
        return RoundOnce<kMode>(
            +[](float x, float y, float) { return x + y; }, a, b, 0);
      }));
  cases->push_back(Op(
      "mul" + mode + ".f32", +[](float a, float b) {
        return RoundOnce<kMode>(
            +[](float x, float y, float) { return x * y; }, a, b, 0);
      }));
  cases->push_back(Op(
      "div" + mode + ".f32", +[](float a, float b) {
        return RoundOnce<kMode>(
            +[](float x, float y, float) { return x / y; }, a, b, 0);
      }));
  cases->push_back(Op(
      "fma" + mode + ".f32", +[](float a, float b, float c) {
        return RoundOnce<kMode>(
            +[](float x, float y, float z) { return std::fma(x, y, z); }, a, b,
            c);
      }));
  cases->push_back(Op(
      "sqrt" + mode + ".f32", +[](float a) {
        return RoundOnce<kMode>(
            +[](float x, float, float) { return std::sqrt(x); }, a, 0, 0);
      }));
}

TEST(OpcodeFloatTest, DirectedRounding) {
  std::vector<OpcodeCase> cases;
  AddRounded<FE_TOWARDZERO>(".rz", &cases);
  AddRounded<FE_DOWNWARD>(".rm", &cases);
  AddRounded<FE_UPWARD>(".rp", &cases);
  CheckOpcodes(cases);
}

TEST(OpcodeFloatTest, DirectedRoundingOfIntegers) {
  // Both the nearest float and its neighbours are doubles, so a comparison with
  // the integer itself tells which way it went.
  CheckOpcodes({
      Op(
          "cvt.rz.f32.u32",
          +[](uint32_t a) {
            float f = static_cast<float>(a);
            if (static_cast<double>(f) > a) f = std::nextafter(f, 0.0F);
            return f;
          }),
      Op(
          "cvt.rm.f32.s32",
          +[](int32_t a) {
            float f = static_cast<float>(a);
            if (static_cast<double>(f) > a) f = std::nextafter(f, -INFINITY);
            return f;
          }),
      Op(
          "cvt.rp.f32.s32",
          +[](int32_t a) {
            float f = static_cast<float>(a);
            if (static_cast<double>(f) < a) f = std::nextafter(f, INFINITY);
            return f;
          }),
      Op(
          "cvt.rz.f32.u64",
          +[](uint64_t a) {
            float f = static_cast<float>(a);
            if (static_cast<long double>(f) > static_cast<long double>(a)) {
              f = std::nextafter(f, 0.0F);
            }
            return f;
          }),
      Op(
          "cvt.rp.f64.u64",
          +[](uint64_t a) {
            double f = static_cast<double>(a);
            if (static_cast<long double>(f) < static_cast<long double>(a)) {
              f = std::nextafter(f, INFINITY);
            }
            return f;
          }),
      Op(
          "cvt.rm.f32.f64",
          +[](double a) {
            float f = static_cast<float>(a);
            if (static_cast<double>(f) > a) f = std::nextafter(f, -INFINITY);
            return f;
          }),
  });
}

TEST(OpcodeFloatTest, Approximations) {
  // What PTX allows is wider; this is what the interpreter promises.
  constexpr double kUlp = 0x1p-23;
  CheckOpcodes({
      Approx(
          "ex2.approx.f32", kUlp, 0x1p-149,
          +[](float a) { return std::exp2(a); }),
      Approx(
          "ex2.approx.ftz.f32", kUlp, 0,
          +[](float a) { return Flush(std::exp2(Flush(a))); }),
      Approx(
          "lg2.approx.f32", kUlp, 0, +[](float a) { return std::log2(a); }),
      Approx(
          "rcp.approx.f32", kUlp, 0, +[](float a) { return 1 / a; }),
      Approx(
          "rcp.approx.ftz.f32", kUlp, 0,
          +[](float a) { return Flush(1 / Flush(a)); }),
      Approx(
          "rsqrt.approx.f32", 2 * kUlp, 0,
          +[](float a) {
            return static_cast<float>(1 / std::sqrt(static_cast<double>(a)));
          }),
      Approx(
          "sqrt.approx.f32", kUlp, 0, +[](float a) { return std::sqrt(a); }),
      Approx(
          "div.approx.f32", kUlp, 0, +[](float a, float b) { return a / b; }),
      Approx(
          "div.full.f32", kUlp, 0, +[](float a, float b) { return a / b; }),
      Approx(
          "tanh.approx.f32", kUlp, 0, +[](float a) { return std::tanh(a); }),
  });
}

// Arguments that a program would reduce by itself keep all their bits.
TEST(OpcodeFloatTest, SineAndCosine) {
  OpcodeCase sine = Approx(
      "sin.approx.f32", 0, 0x1p-22, +[](float a) { return std::sin(a); });
  OpcodeCase cosine = Approx(
      "cos.approx.f32", 0, 0x1p-22, +[](float a) { return std::cos(a); });
  sine.max_magnitude = 1e5;
  cosine.max_magnitude = 1e5;
  CheckOpcodes({sine, cosine});
}

template <class T>
void AddCompares(const std::string& t, std::vector<OpcodeCase>* cases) {
  const auto add = [&](const char* op, bool (*f)(T, T)) {
    cases->push_back(Op("setp." + std::string(op) + t, f));
  };
  add(
      "eq", +[](T a, T b) { return a == b; });
  add(
      "ne", +[](T a, T b) { return a < b || a > b; });
  add(
      "lt", +[](T a, T b) { return a < b; });
  add(
      "le", +[](T a, T b) { return a <= b; });
  add(
      "gt", +[](T a, T b) { return a > b; });
  add(
      "ge", +[](T a, T b) { return a >= b; });
  add(
      "equ", +[](T a, T b) { return !(a < b || a > b); });
  add(
      "neu", +[](T a, T b) { return a != b; });
  add(
      "ltu", +[](T a, T b) { return !(a >= b); });
  add(
      "leu", +[](T a, T b) { return !(a > b); });
  add(
      "gtu", +[](T a, T b) { return !(a <= b); });
  add(
      "geu", +[](T a, T b) { return !(a < b); });
  add(
      "num", +[](T a, T b) { return !std::isnan(a) && !std::isnan(b); });
  add(
      "nan", +[](T a, T b) { return std::isnan(a) || std::isnan(b); });
  cases->push_back(Op(
      "setp.lt.and" + t, +[](T a, T b, bool c) { return a < b && c; }));
  cases->push_back(Op(
      "set.gtu.u32" + t, +[](T a, T b) { return !(a <= b) ? ~0U : 0U; }));
}

TEST(OpcodeFloatTest, Compares) {
  std::vector<OpcodeCase> cases;
  AddCompares<float>(".f32", &cases);
  AddCompares<double>(".f64", &cases);
  cases.push_back(Op(
      "setp.eq.ftz.f32",
      +[](float a, float b) { return Flush(a) == Flush(b); }));
  CheckOpcodes(cases);
}

template <class D, class A>
D ToInteger(A x, A rounded) {
  if (std::isnan(x)) {
    return sizeof(A) == 8 || sizeof(D) == 8
               ? D(std::make_unsigned_t<D>{1} << (8 * sizeof(D) - 1))
               : D{0};
  }
  const long double value = rounded;
  if (value <= static_cast<long double>(std::numeric_limits<D>::min())) {
    return std::numeric_limits<D>::min();
  }
  if (value >= static_cast<long double>(std::numeric_limits<D>::max())) {
    return std::numeric_limits<D>::max();
  }
  return static_cast<D>(value);
}

template <class D, class A>
void AddToInteger(std::vector<OpcodeCase>* cases) {
  const std::string types = TypeName<D>() + TypeName<A>();
  cases->push_back(Op(
      "cvt.rni" + types,
      +[](A a) { return ToInteger<D>(a, std::nearbyint(a)); }));
  cases->push_back(Op(
      "cvt.rzi" + types, +[](A a) { return ToInteger<D>(a, std::trunc(a)); }));
  cases->push_back(Op(
      "cvt.rmi" + types, +[](A a) { return ToInteger<D>(a, std::floor(a)); }));
  cases->push_back(Op(
      "cvt.rpi" + types, +[](A a) { return ToInteger<D>(a, std::ceil(a)); }));
  cases->push_back(Op(
      "cvt.rn" + TypeName<A>() + TypeName<D>(),
      +[](D a) { return static_cast<A>(a); }));
}

template <class A>
void AddToIntegers(std::vector<OpcodeCase>* cases) {
  AddToInteger<uint8_t, A>(cases);
  AddToInteger<int8_t, A>(cases);
  AddToInteger<uint16_t, A>(cases);
  AddToInteger<int16_t, A>(cases);
  AddToInteger<uint32_t, A>(cases);
  AddToInteger<int32_t, A>(cases);
  AddToInteger<uint64_t, A>(cases);
  AddToInteger<int64_t, A>(cases);
}

TEST(OpcodeFloatTest, ConversionsToAndFromIntegers) {
  std::vector<OpcodeCase> cases;
  AddToIntegers<float>(&cases);
  AddToIntegers<double>(&cases);
  CheckOpcodes(cases);
}

TEST(OpcodeFloatTest, ConversionsAmongFloats) {
  CheckOpcodes({
      Op(
          "cvt.f64.f32", +[](float a) { return static_cast<double>(a); }),
      Op(
          "cvt.rn.f32.f64", +[](double a) { return static_cast<float>(a); }),
      Op(
          "cvt.rni.f32.f32", +[](float a) { return std::nearbyint(a); }),
      Op(
          "cvt.rzi.f32.f32", +[](float a) { return std::trunc(a); }),
      Op(
          "cvt.rmi.f32.f32", +[](float a) { return std::floor(a); }),
      Op(
          "cvt.rpi.f32.f32", +[](float a) { return std::ceil(a); }),
      Op(
          "cvt.rni.f64.f64", +[](double a) { return std::nearbyint(a); }),
      Op(
          "cvt.rmi.f64.f64", +[](double a) { return std::floor(a); }),
  });
}

TEST(OpcodeFloatTest, AWrongGoldenFunctionIsNoticed) {
  EXPECT_NONFATAL_FAILURE(
      CheckOpcodes({Op(
          "cvt.rpi.f32.f32",
          +[](float a) { return a == 2.5F ? 2.0F : std::ceil(a); })}),
      "cvt.rpi.f32.f32");
}

}  // namespace
}  // namespace softcuda::testing
