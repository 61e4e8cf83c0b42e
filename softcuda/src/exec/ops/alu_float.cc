// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// f32 and f64 arithmetic, rounded to nearest.
#include <type_traits>

#include "exec/ops/arithmetic.h"
#include "exec/ops/lanes.h"
#include "exec/ops/numbers.h"
#include "exec/ops/registration.h"

namespace softcuda::exec::SOFTCUDA_ISA {
namespace {

template <class T>
using Word = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
template <class T>
inline constexpr Word<T> kSign = Word<T>{1} << (8 * sizeof(T) - 1);

struct Rsqrt {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a) {
    return T{1} / Sqrt::Do(a);
  }
};
// The f64 approximations keep the upper word of the result only.
template <class Op>
struct UpperWord {
  static SOFTCUDA_INLINE double Do(double a) {
    return BitCast<double>(BitCast<uint64_t>(Op::Do(a)) &
                           0xffffffff00000000ULL);
  }
};
struct Neg {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a) {
    return BitCast<T>(BitCast<Word<T>>(a) ^ kSign<T>);
  }
};
struct Abs {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a) {
    return BitCast<T>(BitCast<Word<T>>(a) & ~kSign<T>);
  }
};
struct Copysign {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, T b) {
    return BitCast<T>((BitCast<Word<T>>(a) & kSign<T>) |
                      (BitCast<Word<T>>(b) & ~kSign<T>));
  }
};
template <class T>
SOFTCUDA_INLINE T DefaultNan() {
  if constexpr (sizeof(T) == 4) {
    return F32(kNan32);
  } else {
    return BitCast<double>(uint64_t{0x7fffffffffffffffULL});
  }
}
// -0 is less than +0; a NaN loses against a number unless `.NaN` is asked for.
template <bool kMax, bool kNan>
struct MinMax {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, T b) {
    const Word<T> x = BitCast<Word<T>>(a);
    const Word<T> y = BitCast<Word<T>>(b);
    const T tie = BitCast<T>(kMax ? (x & y) : (x | y));
    const bool first = kMax ? a > b : a < b;
    T result = a == b ? tie : (first ? a : b);
    if (kNan) {
      result = (a != a) || (b != b) ? DefaultNan<T>() : result;
    } else {
      result = b != b ? a : result;
      result = (a != a) && (b != b) ? DefaultNan<T>() : result;
    }
    return result;
  }
};
// The sign of the result is the xor of the signs of both operands.
template <class Op>
struct XorSignAbs {
  static SOFTCUDA_INLINE float Do(float a, float b) {
    const uint32_t sign = (Bits(a) ^ Bits(b)) & 0x80000000U;
    const float result = Op::Do(Abs::Do(a), Abs::Do(b));
    return F32(Bits(result) | sign);
  }
};

// `.ftz` on operands and result, `.sat` on the result, and a device's NaN.
template <class Op, bool kFtz, bool kSat>
struct Arithmetic {
  template <class T>
  static SOFTCUDA_INLINE T In(T x) {
    return kFtz ? Flush(x) : x;
  }
  template <class T>
  static SOFTCUDA_INLINE T Out(T x) {
    const T value = kFtz ? Flush(x) : x;
    return kSat ? Saturate(value) : Canonical(value);
  }
  template <class T>
  static SOFTCUDA_INLINE T Do(T a) {
    return Out(Op::Do(In(a)));
  }
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, T b) {
    return Out(Op::Do(In(a), In(b)));
  }
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, T b, T c) {
    return Out(Op::Do(In(a), In(b), In(c)));
  }
};

template <class Op, bool kFtz, bool kSat, class T>
Handler One() {
  return Unary<Arithmetic<Op, kFtz, kSat>, T, T>;
}
template <class Op, bool kFtz, bool kSat, class T>
Handler Two() {
  return Binary<Arithmetic<Op, kFtz, kSat>, T, T, T>;
}
template <class Op, bool kFtz, bool kSat, class T>
Handler Three() {
  return Ternary<Arithmetic<Op, kFtz, kSat>, T, T, T, T>;
}

template <class Op>
void AddTwo(FormTable& t, const char* name) {
  for (const char* round : {"", ".rn"}) {
    t.AddParts({name, round, ".f32"}, Two<Op, false, false, float>(), "=r r r");
    t.AddParts({name, round, ".ftz.f32"}, Two<Op, true, false, float>(),
               "=r r r");
    t.AddParts({name, round, ".sat.f32"}, Two<Op, false, true, float>(),
               "=r r r");
    t.AddParts({name, round, ".ftz.sat.f32"}, Two<Op, true, true, float>(),
               "=r r r");
    t.AddParts({name, round, ".f64"}, Two<Op, false, false, double>(),
               "=l l l");
  }
}

template <class Op>
void AddOneF32(FormTable& t, const char* name) {
  t.AddParts({name, ".f32"}, One<Op, false, false, float>(), "=r r");
  t.AddParts({name, ".ftz.f32"}, One<Op, true, false, float>(), "=r r");
}

template <class Op>
void AddPairF32(FormTable& t, const char* name) {
  t.AddParts({name, ".f32"}, Two<Op, false, false, float>(), "=r r r");
  t.AddParts({name, ".ftz.f32"}, Two<Op, true, false, float>(), "=r r r");
}

enum class Property { kFinite, kInfinite, kNumber, kNan, kNormal, kSubnormal };

template <class T, Property kProperty>
const Inst* TestProperty(Warp& w, const Inst& i, uint32_t mask) {
  constexpr Word<T> kInf = sizeof(T) == 4
                               ? static_cast<Word<T>>(0x7f800000U)
                               : static_cast<Word<T>>(0x7ff0000000000000ULL);
  constexpr Word<T> kMinNormal = Word<T>{1} << (sizeof(T) == 4 ? 23 : 52);
  const Word<T>* a = Lanes<Word<T>>(w, i.a);
  const uint32_t bits = BitsOf([=](uint32_t l) {
    const Word<T> m = a[l] & ~kSign<T>;
    switch (kProperty) {
      case Property::kFinite:
        return m < kInf;
      case Property::kInfinite:
        return m == kInf;
      case Property::kNumber:
        return m <= kInf;
      case Property::kNan:
        return m > kInf;
      case Property::kNormal:
        return m < kInf && m >= kMinNormal;
      case Property::kSubnormal:
        return m != 0 && m < kMinNormal;
    }
    return false;
  });
  SetPredicate(w, i.dst, bits, mask);
  return &i + 1;
}

template <class T>
void AddTestForms(FormTable& t, const char* type, const char* r) {
  t.Add("testp.finite", type, TestProperty<T, Property::kFinite>, "=p ?", r);
  t.Add("testp.infinite", type, TestProperty<T, Property::kInfinite>, "=p ?",
        r);
  t.Add("testp.number", type, TestProperty<T, Property::kNumber>, "=p ?", r);
  t.Add("testp.notanumber", type, TestProperty<T, Property::kNan>, "=p ?", r);
  t.Add("testp.normal", type, TestProperty<T, Property::kNormal>, "=p ?", r);
  t.Add("testp.subnormal", type, TestProperty<T, Property::kSubnormal>, "=p ?",
        r);
}

}  // namespace

void AddFloatForms(FormTable& t) {
  AddTwo<Add>(t, "add");
  AddTwo<Sub>(t, "sub");
  AddTwo<Mul>(t, "mul");
  for (const char* name : {"fma.rn", "mad.rn"}) {
    t.AddParts({name, ".f32"}, Three<Fma, false, false, float>(), "=r r r r");
    t.AddParts({name, ".ftz.f32"}, Three<Fma, true, false, float>(),
               "=r r r r");
    t.AddParts({name, ".sat.f32"}, Three<Fma, false, true, float>(),
               "=r r r r");
    t.AddParts({name, ".ftz.sat.f32"}, Three<Fma, true, true, float>(),
               "=r r r r");
    t.AddParts({name, ".f64"}, Three<Fma, false, false, double>(), "=l l l l");
  }
  AddPairF32<Div>(t, "div.rn");
  AddPairF32<Div>(t, "div.approx");
  AddPairF32<Div>(t, "div.full");
  AddOneF32<Rcp>(t, "rcp.rn");
  AddOneF32<Rcp>(t, "rcp.approx");
  AddOneF32<Sqrt>(t, "sqrt.rn");
  AddOneF32<Sqrt>(t, "sqrt.approx");
  AddOneF32<Rsqrt>(t, "rsqrt.approx");
  t.Add("div.rn.f64", Two<Div, false, false, double>(), "=l l l");
  t.Add("rcp.rn.f64", One<Rcp, false, false, double>(), "=l l");
  t.Add("sqrt.rn.f64", One<Sqrt, false, false, double>(), "=l l");
  for (const char* type : {".approx.f64", ".approx.ftz.f64"}) {
    t.Add("rcp", type, Unary<UpperWord<Rcp>, double, double>, "=l l", "");
    t.Add("rsqrt", type, Unary<UpperWord<Rsqrt>, double, double>, "=l l", "");
  }

  t.Add("neg.f32", Unary<Neg, float, float>, "=r r");
  t.Add("abs.f32", Unary<Abs, float, float>, "=r r");
  t.Add("neg.ftz.f32", One<Neg, true, false, float>(), "=r r");
  t.Add("abs.ftz.f32", One<Abs, true, false, float>(), "=r r");
  t.Add("neg.f64", Unary<Neg, double, double>, "=l l");
  t.Add("abs.f64", Unary<Abs, double, double>, "=l l");
  t.Add("copysign.f32", Binary<Copysign, float, float, float>, "=r r r");
  t.Add("copysign.f64", Binary<Copysign, double, double, double>, "=l l l");

  using MinN = MinMax<false, false>;
  using MaxN = MinMax<true, false>;
  using MinNan = MinMax<false, true>;
  using MaxNan = MinMax<true, true>;
  AddPairF32<MinN>(t, "min");
  AddPairF32<MaxN>(t, "max");
  AddPairF32<XorSignAbs<MinN>>(t, "min.xorsign.abs");
  AddPairF32<XorSignAbs<MaxN>>(t, "max.xorsign.abs");
  t.Add("min.NaN.f32", Two<MinNan, false, false, float>(), "=r r r");
  t.Add("max.NaN.f32", Two<MaxNan, false, false, float>(), "=r r r");
  t.Add("min.ftz.NaN.f32", Two<MinNan, true, false, float>(), "=r r r");
  t.Add("max.ftz.NaN.f32", Two<MaxNan, true, false, float>(), "=r r r");
  t.Add("min.f64", Two<MinN, false, false, double>(), "=l l l");
  t.Add("max.f64", Two<MaxN, false, false, double>(), "=l l l");
  AddTestForms<float>(t, ".f32", "r");
  AddTestForms<double>(t, ".f64", "l");
}

}  // namespace softcuda::exec::SOFTCUDA_ISA
