// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// cvt among integers, f32 and f64.
#include "exec/ops/convert.h"

#include <type_traits>

#include "exec/ops/lanes.h"
#include "exec/ops/numbers.h"
#include "exec/ops/registration.h"

namespace softcuda::exec::SOFTCUDA_ISA {
namespace {

template <class D, class A, bool kSat>
struct IntegerToInteger {
  static SOFTCUDA_INLINE Holder<D> Do(Holder<A> holder) {
    const A a = static_cast<A>(holder);
    if constexpr (kSat) {
      if constexpr (std::is_signed_v<A>) {
        if (static_cast<int64_t>(a) < 0) {
          if constexpr (std::is_unsigned_v<D>) return 0;
          if (int64_t{a} < static_cast<int64_t>(kMin<D>)) return kMin<D>;
          return static_cast<D>(a);
        }
      }
      if (static_cast<uint64_t>(a) > static_cast<uint64_t>(kMax<D>)) {
        return kMax<D>;
      }
    }
    return static_cast<D>(a);
  }
};

template <class D, class A>
struct IntegerToFloat {
  static SOFTCUDA_INLINE D Do(Holder<A> holder) {
    return static_cast<D>(static_cast<A>(holder));
  }
};

template <class Round, bool kFtz, bool kSat>
struct FloatToIntegral {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a) {
    const T x = Round::Do(kFtz ? Flush(a) : a);
    return kSat ? Saturate(x) : Canonical(x);
  }
};

template <class D, bool kFtz, bool kSat>
struct FloatToFloat {
  template <class T>
  static SOFTCUDA_INLINE D Do(T a) {
    const D x = static_cast<D>(kFtz ? Flush(a) : a);
    const D y = kFtz ? Flush(x) : x;
    return kSat ? Saturate(y) : Canonical(y);
  }
};

template <class D, class A>
void AddIntegerPair(FormTable& t) {
  t.AddParts({"cvt", Name<D>(), Name<A>()},
             Unary<IntegerToInteger<D, A, false>, Holder<D>, Holder<A>>,
             Operands<D, A>());
  t.AddParts({"cvt.sat", Name<D>(), Name<A>()},
             Unary<IntegerToInteger<D, A, true>, Holder<D>, Holder<A>>,
             Operands<D, A>());
}

template <class D, class A, class Round>
void AddFloatToInteger(FormTable& t, const char* round) {
  const Handler handler =
      Unary<FloatToInteger<D, A, Round, false>, Holder<D>, A>;
  t.AddParts({"cvt", round, Name<D>(), Name<A>()}, handler, Operands<D, A>());
  t.AddParts({"cvt", round, ".sat", Name<D>(), Name<A>()}, handler,
             Operands<D, A>());
  if constexpr (sizeof(A) == 4) {
    const Handler ftz = Unary<FloatToInteger<D, A, Round, true>, Holder<D>, A>;
    t.AddParts({"cvt", round, ".ftz", Name<D>(), Name<A>()}, ftz,
               Operands<D, A>());
    t.AddParts({"cvt", round, ".ftz.sat", Name<D>(), Name<A>()}, ftz,
               Operands<D, A>());
  }
}

template <class D, class A>
void AddIntegerFloatPair(FormTable& t) {
  AddFloatToInteger<D, A, RoundNearest>(t, ".rni");
  AddFloatToInteger<D, A, RoundZero>(t, ".rzi");
  AddFloatToInteger<D, A, RoundDown>(t, ".rmi");
  AddFloatToInteger<D, A, RoundUp>(t, ".rpi");
  t.AddParts({"cvt.rn", Name<A>(), Name<D>()},
             Unary<IntegerToFloat<A, D>, A, Holder<D>>, Operands<A, D>());
}

template <class D>
void AddFrom(FormTable& t) {
  AddIntegerPair<D, uint8_t>(t);
  AddIntegerPair<D, int8_t>(t);
  AddIntegerPair<D, uint16_t>(t);
  AddIntegerPair<D, int16_t>(t);
  AddIntegerPair<D, uint32_t>(t);
  AddIntegerPair<D, int32_t>(t);
  AddIntegerPair<D, uint64_t>(t);
  AddIntegerPair<D, int64_t>(t);
  AddIntegerFloatPair<D, float>(t);
  AddIntegerFloatPair<D, double>(t);
}

template <class Round>
void AddIntegral(FormTable& t, const char* round) {
  t.AddParts({"cvt", round, ".f32.f32"},
             Unary<FloatToIntegral<Round, false, false>, float, float>, "=r r");
  t.AddParts({"cvt", round, ".ftz.f32.f32"},
             Unary<FloatToIntegral<Round, true, false>, float, float>, "=r r");
  t.AddParts({"cvt", round, ".sat.f32.f32"},
             Unary<FloatToIntegral<Round, false, true>, float, float>, "=r r");
  t.AddParts({"cvt", round, ".ftz.sat.f32.f32"},
             Unary<FloatToIntegral<Round, true, true>, float, float>, "=r r");
  t.AddParts({"cvt", round, ".f64.f64"},
             Unary<FloatToIntegral<Round, false, false>, double, double>,
             "=l l");
}

}  // namespace

void AddConvertForms(FormTable& t) {
  AddFrom<uint8_t>(t);
  AddFrom<int8_t>(t);
  AddFrom<uint16_t>(t);
  AddFrom<int16_t>(t);
  AddFrom<uint32_t>(t);
  AddFrom<int32_t>(t);
  AddFrom<uint64_t>(t);
  AddFrom<int64_t>(t);
  AddIntegral<RoundNearest>(t, ".rni");
  AddIntegral<RoundZero>(t, ".rzi");
  AddIntegral<RoundDown>(t, ".rmi");
  AddIntegral<RoundUp>(t, ".rpi");
  t.Add("cvt.f64.f32", Unary<FloatToFloat<double, false, false>, double, float>,
        "=l r");
  t.Add("cvt.ftz.f64.f32",
        Unary<FloatToFloat<double, true, false>, double, float>, "=l r");
  t.Add("cvt.rn.f32.f64",
        Unary<FloatToFloat<float, false, false>, float, double>, "=r l");
  t.Add("cvt.rn.ftz.f32.f64",
        Unary<FloatToFloat<float, true, false>, float, double>, "=r l");
  t.Add("cvt.rn.sat.f32.f64",
        Unary<FloatToFloat<float, false, true>, float, double>, "=r l");
  t.Add("cvt.f32.f32", Unary<FloatToFloat<float, false, false>, float, float>,
        "=r r");
  t.Add("cvt.ftz.f32.f32",
        Unary<FloatToFloat<float, true, false>, float, float>, "=r r");
  t.Add("cvt.sat.f32.f32",
        Unary<FloatToFloat<float, false, true>, float, float>, "=r r");
  t.Add("cvt.ftz.sat.f32.f32",
        Unary<FloatToFloat<float, true, true>, float, float>, "=r r");
  t.Add("cvt.f64.f64",
        Unary<FloatToFloat<double, false, false>, double, double>, "=l l");
  t.Add("cvt.sat.f64.f64",
        Unary<FloatToFloat<double, false, true>, double, double>, "=l l");
}

}  // namespace softcuda::exec::SOFTCUDA_ISA
