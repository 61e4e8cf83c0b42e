// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic and conversions with directed rounding. The host's rounding mode
// is switched around the loop over the lanes; compiled with -frounding-math.
#include <cfenv>
#include <type_traits>

#include "exec/ops/arithmetic.h"
#include "exec/ops/lanes.h"
#include "exec/ops/numbers.h"
#include "exec/ops/registration.h"

namespace softcuda::exec::SOFTCUDA_ISA {
namespace {

template <class To>
struct Convert {
  template <class T>
  static SOFTCUDA_INLINE To Do(T a) {
    return static_cast<To>(a);
  }
};

// The empty assembly keeps loads and stores of the lanes between the switches.
class RoundingMode {
 public:
  explicit RoundingMode(int mode) {
    std::fesetround(mode);
    __asm__ volatile("" ::: "memory");
  }
  ~RoundingMode() {
    __asm__ volatile("" ::: "memory");
    std::fesetround(FE_TONEAREST);
  }
};

template <class Op, bool kFtz, bool kSat>
struct Arithmetic {
  template <class T>
  static SOFTCUDA_INLINE T In(T x) {
    if constexpr (std::is_integral_v<T>) {
      return x;
    } else {
      return kFtz ? Flush(x) : x;
    }
  }
  template <class T>
  static SOFTCUDA_INLINE T Out(T x) {
    const T value = kFtz ? Flush(x) : x;
    return kSat ? Saturate(value) : Canonical(value);
  }
  template <class... T>
  static SOFTCUDA_INLINE auto Do(T... x) {
    return Out(Op::Do(In(x)...));
  }
};

template <int kMode, class Op, class D, class A>
const Inst* RoundedOne(Warp& w, const Inst& i, uint32_t mask) {
  const RoundingMode rounding(kMode);
  return Unary<Op, D, A>(w, i, mask);
}
template <int kMode, class Op, class T>
const Inst* RoundedTwo(Warp& w, const Inst& i, uint32_t mask) {
  const RoundingMode rounding(kMode);
  return Binary<Op, T, T, T>(w, i, mask);
}
template <int kMode, class Op, class T>
const Inst* RoundedThree(Warp& w, const Inst& i, uint32_t mask) {
  const RoundingMode rounding(kMode);
  return Ternary<Op, T, T, T, T>(w, i, mask);
}

template <int kMode, class Op>
void AddTwo(FormTable& t, const char* name, const char* mode) {
  t.AddParts({name, mode, ".f32"},
             RoundedTwo<kMode, Arithmetic<Op, false, false>, float>, "=r r r");
  t.AddParts({name, mode, ".ftz.f32"},
             RoundedTwo<kMode, Arithmetic<Op, true, false>, float>, "=r r r");
  t.AddParts({name, mode, ".sat.f32"},
             RoundedTwo<kMode, Arithmetic<Op, false, true>, float>, "=r r r");
  t.AddParts({name, mode, ".ftz.sat.f32"},
             RoundedTwo<kMode, Arithmetic<Op, true, true>, float>, "=r r r");
  t.AddParts({name, mode, ".f64"},
             RoundedTwo<kMode, Arithmetic<Op, false, false>, double>, "=l l l");
}

template <int kMode, class Op>
void AddOne(FormTable& t, const char* name, const char* mode) {
  t.AddParts({name, mode, ".f32"},
             RoundedOne<kMode, Arithmetic<Op, false, false>, float, float>,
             "=r r");
  t.AddParts({name, mode, ".ftz.f32"},
             RoundedOne<kMode, Arithmetic<Op, true, false>, float, float>,
             "=r r");
  t.AddParts({name, mode, ".f64"},
             RoundedOne<kMode, Arithmetic<Op, false, false>, double, double>,
             "=l l");
}

template <int kMode, class D, class A>
void AddFromInteger(FormTable& t, const char* mode, const char* to,
                    const char* from, const char* operands) {
  t.AddParts({"cvt", mode, to, from}, RoundedOne<kMode, Convert<D>, D, A>,
             operands);
}

template <int kMode>
void AddMode(FormTable& t, const char* mode) {
  AddTwo<kMode, Add>(t, "add", mode);
  AddTwo<kMode, Sub>(t, "sub", mode);
  AddTwo<kMode, Mul>(t, "mul", mode);
  t.AddParts({"div", mode, ".f32"},
             RoundedTwo<kMode, Arithmetic<Div, false, false>, float>, "=r r r");
  t.AddParts({"div", mode, ".ftz.f32"},
             RoundedTwo<kMode, Arithmetic<Div, true, false>, float>, "=r r r");
  t.AddParts({"div", mode, ".f64"},
             RoundedTwo<kMode, Arithmetic<Div, false, false>, double>,
             "=l l l");
  AddOne<kMode, Rcp>(t, "rcp", mode);
  AddOne<kMode, Sqrt>(t, "sqrt", mode);
  for (const char* name : {"fma", "mad"}) {
    t.AddParts({name, mode, ".f32"},
               RoundedThree<kMode, Arithmetic<Fma, false, false>, float>,
               "=r r r r");
    t.AddParts({name, mode, ".ftz.f32"},
               RoundedThree<kMode, Arithmetic<Fma, true, false>, float>,
               "=r r r r");
    t.AddParts({name, mode, ".sat.f32"},
               RoundedThree<kMode, Arithmetic<Fma, false, true>, float>,
               "=r r r r");
    t.AddParts({name, mode, ".ftz.sat.f32"},
               RoundedThree<kMode, Arithmetic<Fma, true, true>, float>,
               "=r r r r");
    t.AddParts({name, mode, ".f64"},
               RoundedThree<kMode, Arithmetic<Fma, false, false>, double>,
               "=l l l l");
  }
  AddFromInteger<kMode, float, uint32_t>(t, mode, ".f32", ".u32", "=r r");
  AddFromInteger<kMode, float, int32_t>(t, mode, ".f32", ".s32", "=r r");
  AddFromInteger<kMode, float, uint64_t>(t, mode, ".f32", ".u64", "=r l");
  AddFromInteger<kMode, float, int64_t>(t, mode, ".f32", ".s64", "=r l");
  AddFromInteger<kMode, double, uint64_t>(t, mode, ".f64", ".u64", "=l l");
  AddFromInteger<kMode, double, int64_t>(t, mode, ".f64", ".s64", "=l l");
  AddFromInteger<kMode, double, uint32_t>(t, mode, ".f64", ".u32", "=l r");
  AddFromInteger<kMode, double, int32_t>(t, mode, ".f64", ".s32", "=l r");
  t.AddParts({"cvt", mode, ".f32.f64"},
             RoundedOne<kMode, Arithmetic<Convert<float>, false, false>, float,
                        double>,
             "=r l");
  t.AddParts(
      {"cvt", mode, ".ftz.f32.f64"},
      RoundedOne<kMode, Arithmetic<Convert<float>, true, false>, float, double>,
      "=r l");
}

}  // namespace

void AddRoundedForms(FormTable& t) {
  AddMode<FE_TOWARDZERO>(t, ".rz");
  AddMode<FE_DOWNWARD>(t, ".rm");
  AddMode<FE_UPWARD>(t, ".rp");
}

}  // namespace softcuda::exec::SOFTCUDA_ISA
