// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// f16, bf16 and their packed pairs. A float holds every sum and product of two
// halves well enough that rounding it again gives the correctly rounded half;
// fma needs a sum that is rounded to odd.
#include "exec/ops/compare.h"
#include "exec/ops/lanes.h"
#include "exec/ops/numbers.h"
#include "exec/ops/registration.h"

namespace softcuda::exec::SOFTCUDA_ISA {
namespace {

struct F16 {
  using Storage = uint16_t;
  static constexpr uint16_t kOne = 0x3c00;
  static SOFTCUDA_INLINE float Load(uint16_t v) { return HalfToFloat(v); }
  static SOFTCUDA_INLINE uint16_t Store(float v) { return FloatToHalf(v); }
  static SOFTCUDA_INLINE uint16_t FlushBits(uint16_t v) {
    return (v & 0x7c00) == 0 ? static_cast<uint16_t>(v & 0x8000) : v;
  }
};
struct Bf16 {
  using Storage = uint16_t;
  static constexpr uint16_t kOne = 0x3f80;
  static SOFTCUDA_INLINE float Load(uint16_t v) { return BfloatToFloat(v); }
  static SOFTCUDA_INLINE uint16_t Store(float v) { return FloatToBfloat(v); }
  static SOFTCUDA_INLINE uint16_t FlushBits(uint16_t v) {
    return (v & 0x7f80) == 0 ? static_cast<uint16_t>(v & 0x8000) : v;
  }
};
struct F16Flushed : F16 {
  static SOFTCUDA_INLINE float Load(uint16_t v) {
    return HalfToFloat(FlushBits(v));
  }
};

struct Add {
  static SOFTCUDA_INLINE float Do(float a, float b) { return a + b; }
};
struct Sub {
  static SOFTCUDA_INLINE float Do(float a, float b) { return a - b; }
};
struct Mul {
  static SOFTCUDA_INLINE float Do(float a, float b) { return a * b; }
};
struct Fma {
  static SOFTCUDA_INLINE float Do(float a, float b, float c) {
    const double p = static_cast<double>(a) * static_cast<double>(b);
    const double z = static_cast<double>(c);
    const double s = p + z;
    // What the sum lost, exactly; it decides ties, so it must not vanish.
    const double t = s - p;
    const double lost = (p - (s - t)) + (z - t);
    const uint64_t bits = BitCast<uint64_t>(s);
    const bool is_even = (bits & 1) == 0;
    const uint64_t odd = (lost > 0) == (s > 0) ? bits | 1 : bits - 1;
    const bool adjust = is_even && (lost > 0 || lost < 0) && s != 0;
    return RoundToOdd(BitCast<double>(adjust ? odd : bits));
  }
};

enum class Clamp { kNone, kSat, kRelu };

template <class Format, class Op, bool kFtz, Clamp kClamp>
struct Scalar {
  static SOFTCUDA_INLINE float In(uint16_t v) {
    return Format::Load(kFtz ? Format::FlushBits(v) : v);
  }
  static SOFTCUDA_INLINE uint16_t Out(float v) {
    float x = v;
    if (kClamp == Clamp::kSat) x = Saturate(x);
    if (kClamp == Clamp::kRelu) x = x < 0 ? 0.0F : x;
    const uint16_t half = Format::Store(x);
    return kFtz ? Format::FlushBits(half) : half;
  }
  static SOFTCUDA_INLINE uint16_t Do(uint16_t a, uint16_t b) {
    return Out(Op::Do(In(a), In(b)));
  }
  static SOFTCUDA_INLINE uint16_t Do(uint16_t a, uint16_t b, uint16_t c) {
    return Out(Op::Do(In(a), In(b), In(c)));
  }
};

template <class Format, bool kMax, bool kNan, bool kFtz>
struct MinMax {
  static SOFTCUDA_INLINE uint16_t Do(uint16_t a, uint16_t b) {
    a = kFtz ? Format::FlushBits(a) : a;
    b = kFtz ? Format::FlushBits(b) : b;
    const float x = Format::Load(a);
    const float y = Format::Load(b);
    const uint32_t tie = kMax ? a & b : a | b;
    const bool first = kMax ? x > y : x < y;
    uint32_t result = x == y ? tie : (first ? a : b);
    if (kNan) {
      result = IsNan(x) || IsNan(y) ? kNan16 : result;
    } else {
      result = IsNan(y) ? a : result;
      result = IsNan(x) && IsNan(y) ? kNan16 : result;
    }
    return static_cast<uint16_t>(result);
  }
};

struct Neg {
  static SOFTCUDA_INLINE uint16_t Do(uint16_t a) {
    return static_cast<uint16_t>(a ^ 0x8000);
  }
};
struct Abs {
  static SOFTCUDA_INLINE uint16_t Do(uint16_t a) {
    return static_cast<uint16_t>(a & 0x7fff);
  }
};

template <class Op>
struct Pair {
  template <class... T>
  static SOFTCUDA_INLINE uint32_t Do(T... x) {
    const uint32_t low = Op::Do(static_cast<uint16_t>(x)...);
    const uint32_t high = Op::Do(static_cast<uint16_t>(x >> 16)...);
    return low | high << 16;
  }
};

template <class Op>
void AddOne(FormTable& t, const char* name, const char* type) {
  t.AddParts({name, ".", type}, Unary<Op, uint16_t, uint16_t>, "=h h");
  t.AddParts({name, ".", type, "x2"}, Unary<Pair<Op>, uint32_t, uint32_t>,
             "=r r");
}
template <class Op>
void AddTwo(FormTable& t, const char* name, const char* modifiers,
            const char* type) {
  t.AddParts({name, modifiers, ".", type},
             Binary<Op, uint16_t, uint16_t, uint16_t>, "=h h h");
  t.AddParts({name, modifiers, ".", type, "x2"},
             Binary<Pair<Op>, uint32_t, uint32_t, uint32_t>, "=r r r");
}
template <class Op>
void AddThree(FormTable& t, const char* modifiers, const char* type) {
  t.AddParts({"fma.rn", modifiers, ".", type},
             Ternary<Op, uint16_t, uint16_t, uint16_t, uint16_t>, "=h h h h");
  t.AddParts({"fma.rn", modifiers, ".", type, "x2"},
             Ternary<Pair<Op>, uint32_t, uint32_t, uint32_t, uint32_t>,
             "=r r r r");
}

template <class Op>
void AddArithmetic(FormTable& t, const char* name) {
  AddTwo<Scalar<F16, Op, false, Clamp::kNone>>(t, name, "", "f16");
  AddTwo<Scalar<F16, Op, false, Clamp::kNone>>(t, name, ".rn", "f16");
  AddTwo<Scalar<F16, Op, true, Clamp::kNone>>(t, name, ".ftz", "f16");
  AddTwo<Scalar<F16, Op, true, Clamp::kNone>>(t, name, ".rn.ftz", "f16");
  AddTwo<Scalar<F16, Op, false, Clamp::kSat>>(t, name, ".sat", "f16");
  AddTwo<Scalar<F16, Op, false, Clamp::kSat>>(t, name, ".rn.sat", "f16");
  AddTwo<Scalar<F16, Op, true, Clamp::kSat>>(t, name, ".ftz.sat", "f16");
  AddTwo<Scalar<Bf16, Op, false, Clamp::kNone>>(t, name, "", "bf16");
  AddTwo<Scalar<Bf16, Op, false, Clamp::kNone>>(t, name, ".rn", "bf16");
}

// One half of a packed pair, as compare.h loads what it compares.
template <class Format, uint32_t kShift>
struct HalfOfPair {
  using Storage = uint32_t;
  static SOFTCUDA_INLINE float Load(uint32_t pair) {
    return Format::Load(static_cast<uint16_t>(pair >> kShift));
  }
};

template <class Op, class Format>
SOFTCUDA_INLINE uint32_t CompareLow(const Warp& w, uint32_t a, uint32_t b) {
  return Comparison<Op, HalfOfPair<Format, 0>>::Of(w, a, b);
}
template <class Op, class Format>
SOFTCUDA_INLINE uint32_t CompareHigh(const Warp& w, uint32_t a, uint32_t b) {
  return Comparison<Op, HalfOfPair<Format, 16>>::Of(w, a, b);
}

__attribute__((noinline)) void WritePairWhere(uint32_t* to, uint32_t low,
                                              uint32_t high, uint32_t yes,
                                              uint32_t mask) {
  ForLanes(to, mask, [=](uint32_t l) {
    return (low >> l & 1) * yes | (high >> l & 1) * (yes << 16);
  });
}

// setp on packed pairs: the first destination is the low half's.
template <class Op, class Format>
const Inst* ComparePair(Warp& w, const Inst& i, uint32_t mask) {
  const Combine how = static_cast<Combine>(i.imm);
  const uint32_t with = how == Combine::kNone ? 0 : Predicate(w, i.d);
  const uint32_t low = CompareLow<Op, Format>(w, i.b, i.c);
  const uint32_t high = CompareHigh<Op, Format>(w, i.b, i.c);
  SetPredicate(w, i.dst, Combined(how, low, with), mask);
  SetPredicate(w, i.a, Combined(how, high, with), mask);
  return &i + 1;
}

// set on packed pairs: `kTrue` in the halves in which the comparison holds.
template <class Op, class Format, uint16_t kTrue>
const Inst* SetPair(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t low = CompareLow<Op, Format>(w, i.a, i.b);
  const uint32_t high = CompareHigh<Op, Format>(w, i.a, i.b);
  WritePairWhere(Lanes<uint32_t>(w, i.dst), low, high, kTrue, mask);
  return &i + 1;
}

template <class Op, class Format>
void AddPairCompare(FormTable& t, const char* op, const char* ftz,
                    const char* type) {
  t.AddParts({"setp.", op, ftz, ".", type, "x2|"}, ComparePair<Op, Format>,
             "=p =p r r");
  const char* names[] = {".and", ".or", ".xor"};
  for (int k = 0; k < 3; ++k) {
    t.AddParts({"setp.", op, names[k], ftz, ".", type, "x2|"},
               ComparePair<Op, Format>, "=p =p r r p", k + 1);
  }
  t.AddParts({"set.", op, ftz, ".", type, ".", type},
             CompareToRegister<Op, Format, uint16_t, Format::kOne>, "=h h h");
  t.AddParts({"set.", op, ftz, ".", type, "x2.", type, "x2"},
             SetPair<Op, Format, Format::kOne>, "=r r r");
  for (const char* to : {".u16", ".s16"}) {
    t.AddParts({"set.", op, ftz, to, ".", type},
               CompareToRegister<Op, Format, uint16_t, 0xffff>, "=h h h");
  }
  t.AddParts({"set.", op, ftz, ".u32.", type, "x2"},
             SetPair<Op, Format, 0xffff>, "=r r r");
}

template <class Format>
void AddPairCompares(FormTable& t, const char* ftz, const char* type) {
  AddPairCompare<Eq, Format>(t, "eq", ftz, type);
  AddPairCompare<Ne, Format>(t, "ne", ftz, type);
  AddPairCompare<Lt, Format>(t, "lt", ftz, type);
  AddPairCompare<Le, Format>(t, "le", ftz, type);
  AddPairCompare<Gt, Format>(t, "gt", ftz, type);
  AddPairCompare<Ge, Format>(t, "ge", ftz, type);
  AddPairCompare<Not<Ne>, Format>(t, "equ", ftz, type);
  AddPairCompare<Not<Eq>, Format>(t, "neu", ftz, type);
  AddPairCompare<Not<Ge>, Format>(t, "ltu", ftz, type);
  AddPairCompare<Not<Gt>, Format>(t, "leu", ftz, type);
  AddPairCompare<Not<Le>, Format>(t, "gtu", ftz, type);
  AddPairCompare<Not<Lt>, Format>(t, "geu", ftz, type);
  AddPairCompare<BothNumbers, Format>(t, "num", ftz, type);
  AddPairCompare<Not<BothNumbers>, Format>(t, "nan", ftz, type);
}

}  // namespace

void AddHalfForms(FormTable& t) {
  AddArithmetic<Add>(t, "add");
  AddArithmetic<Sub>(t, "sub");
  AddArithmetic<Mul>(t, "mul");
  AddThree<Scalar<F16, Fma, false, Clamp::kNone>>(t, "", "f16");
  AddThree<Scalar<F16, Fma, true, Clamp::kNone>>(t, ".ftz", "f16");
  AddThree<Scalar<F16, Fma, false, Clamp::kSat>>(t, ".sat", "f16");
  AddThree<Scalar<F16, Fma, true, Clamp::kSat>>(t, ".ftz.sat", "f16");
  AddThree<Scalar<F16, Fma, false, Clamp::kRelu>>(t, ".relu", "f16");
  AddThree<Scalar<F16, Fma, true, Clamp::kRelu>>(t, ".ftz.relu", "f16");
  AddThree<Scalar<Bf16, Fma, false, Clamp::kNone>>(t, "", "bf16");
  AddThree<Scalar<Bf16, Fma, false, Clamp::kRelu>>(t, ".relu", "bf16");
  AddOne<Neg>(t, "neg", "f16");
  AddOne<Abs>(t, "abs", "f16");
  AddOne<Neg>(t, "neg", "bf16");
  AddOne<Abs>(t, "abs", "bf16");
  AddTwo<MinMax<F16, false, false, false>>(t, "min", "", "f16");
  AddTwo<MinMax<F16, true, false, false>>(t, "max", "", "f16");
  AddTwo<MinMax<F16, false, false, true>>(t, "min", ".ftz", "f16");
  AddTwo<MinMax<F16, true, false, true>>(t, "max", ".ftz", "f16");
  AddTwo<MinMax<F16, false, true, false>>(t, "min", ".NaN", "f16");
  AddTwo<MinMax<F16, true, true, false>>(t, "max", ".NaN", "f16");
  AddTwo<MinMax<Bf16, false, false, false>>(t, "min", "", "bf16");
  AddTwo<MinMax<Bf16, true, false, false>>(t, "max", "", "bf16");
  AddTwo<MinMax<Bf16, false, true, false>>(t, "min", ".NaN", "bf16");
  AddTwo<MinMax<Bf16, true, true, false>>(t, "max", ".NaN", "bf16");
  AddFloatCompares<F16>(t, "", ".f16", "h");
  AddFloatCompares<F16Flushed>(t, ".ftz", ".f16", "h");
  AddFloatCompares<Bf16>(t, "", ".bf16", "h");
  AddPairCompares<F16>(t, "", "f16");
  AddPairCompares<F16Flushed>(t, ".ftz", "f16");
  AddPairCompares<Bf16>(t, "", "bf16");
}

}  // namespace softcuda::exec::SOFTCUDA_ISA
