// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Integer arithmetic. Sums and products are made in unsigned types, so that
// overflow wraps as PTX wants it.
#include <type_traits>

#include "exec/ops/lanes.h"
#include "exec/ops/registration.h"

namespace softcuda::exec::SOFTCUDA_ISA {
namespace {

template <class T>
using Wide = std::conditional_t<
    sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
    std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;
template <class T>
using Unsigned = std::make_unsigned_t<T>;

// Arithmetic type in which products of T wrap without overflow.
template <class T>
using Wrap = std::conditional_t<(sizeof(T) < 8), uint32_t, uint64_t>;

struct Add {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, T b) {
    return static_cast<T>(Wrap<T>(a) + Wrap<T>(b));
  }
};
struct Sub {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, T b) {
    return static_cast<T>(Wrap<T>(a) - Wrap<T>(b));
  }
};
struct MulLo {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, T b) {
    return static_cast<T>(Wrap<T>(a) * Wrap<T>(b));
  }
};
struct MulHi {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, T b) {
    if constexpr (sizeof(T) == 8) {
      using Big =
          std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
      return static_cast<T>((static_cast<Big>(a) * static_cast<Big>(b)) >> 64);
    } else {
      return static_cast<T>((Wide<T>(a) * Wide<T>(b)) >> (8 * sizeof(T)));
    }
  }
};
struct MulWide {
  template <class T>
  static SOFTCUDA_INLINE Wide<T> Do(T a, T b) {
    return static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b);
  }
};
struct MadLo {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, T b, T c) {
    return Add::Do(MulLo::Do(a, b), c);
  }
};
struct MadHi {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, T b, T c) {
    return Add::Do(MulHi::Do(a, b), c);
  }
};
struct MadWide {
  template <class T>
  static SOFTCUDA_INLINE Wide<T> Do(T a, T b, Wide<T> c) {
    return Add::Do(MulWide::Do(a, b), c);
  }
};
struct Mul24Lo {
  template <class T>
  static SOFTCUDA_INLINE int64_t Product(T a, T b) {
    if constexpr (std::is_signed_v<T>) {
      return int64_t{static_cast<int32_t>(static_cast<uint32_t>(a) << 8) >> 8} *
             (static_cast<int32_t>(static_cast<uint32_t>(b) << 8) >> 8);
    } else {
      return static_cast<int64_t>(uint64_t{a & 0xffffffU} * (b & 0xffffffU));
    }
  }
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, T b) {
    return static_cast<T>(Product(a, b));
  }
};
struct Mul24Hi {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, T b) {
    return static_cast<T>(Mul24Lo::Product(a, b) >> 16);
  }
};
struct Mad24Lo {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, T b, T c) {
    return Add::Do(Mul24Lo::Do(a, b), c);
  }
};
struct Mad24Hi {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, T b, T c) {
    return Add::Do(Mul24Hi::Do(a, b), c);
  }
};
struct AddSat {
  static SOFTCUDA_INLINE int32_t Do(int32_t a, int32_t b) {
    const int64_t sum = int64_t{a} + b;
    return static_cast<int32_t>(sum > INT32_MAX   ? INT32_MAX
                                : sum < INT32_MIN ? INT32_MIN
                                                  : sum);
  }
};
struct SubSat {
  static SOFTCUDA_INLINE int32_t Do(int32_t a, int32_t b) {
    const int64_t sum = int64_t{a} - b;
    return static_cast<int32_t>(sum > INT32_MAX   ? INT32_MAX
                                : sum < INT32_MIN ? INT32_MIN
                                                  : sum);
  }
};
struct MadHiSat {
  static SOFTCUDA_INLINE int32_t Do(int32_t a, int32_t b, int32_t c) {
    return AddSat::Do(MulHi::Do(a, b), c);
  }
};
// A divisor of zero is undefined in PTX; devices give all ones and, for the
// remainder, the dividend.
struct Div {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, T b) {
    if (b == 0) return static_cast<T>(~T{0});
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return Sub::Do(T{0}, a);
    }
    return static_cast<T>(a / b);
  }
};
struct Rem {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, T b) {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
    }
    return static_cast<T>(a % b);
  }
};
struct Neg {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a) {
    return Sub::Do(T{0}, a);
  }
};
struct Abs {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a) {
    return a < 0 ? Neg::Do(a) : a;
  }
};
struct Min {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, T b) {
    return a < b ? a : b;
  }
};
struct Max {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, T b) {
    return a > b ? a : b;
  }
};
struct Relu {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, T b) {
    return Max::Do(Max::Do(a, b), T{0});
  }
};
struct MinRelu {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, T b) {
    return Max::Do(Min::Do(a, b), T{0});
  }
};
// Two 16-bit operations in one register.
template <class Op, class T>
struct Packed {
  static SOFTCUDA_INLINE uint32_t Do(uint32_t a, uint32_t b) {
    const T low = Op::Do(static_cast<T>(a), static_cast<T>(b));
    const T high = Op::Do(static_cast<T>(a >> 16), static_cast<T>(b >> 16));
    return static_cast<uint32_t>(static_cast<uint16_t>(low)) |
           static_cast<uint32_t>(static_cast<uint16_t>(high)) << 16;
  }
};
struct Sad {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, T b, T c) {
    return Add::Do(c, a < b ? Sub::Do(b, a) : Sub::Do(a, b));
  }
};
template <class A, class B>
struct Dp4a {
  static SOFTCUDA_INLINE uint32_t Do(uint32_t a, uint32_t b, uint32_t c) {
    int32_t sum = 0;
    for (int k = 0; k < 32; k += 8) {
      sum += int32_t{static_cast<A>(a >> k)} * int32_t{static_cast<B>(b >> k)};
    }
    return c + static_cast<uint32_t>(sum);
  }
};
template <class A, class B, int kShift>
struct Dp2a {
  static SOFTCUDA_INLINE uint32_t Do(uint32_t a, uint32_t b, uint32_t c) {
    const uint32_t low =
        static_cast<uint32_t>(static_cast<A>(a)) *
        static_cast<uint32_t>(int32_t{static_cast<B>(b >> kShift)});
    const uint32_t high =
        static_cast<uint32_t>(static_cast<A>(a >> 16)) *
        static_cast<uint32_t>(int32_t{static_cast<B>(b >> (kShift + 8))});
    return c + low + high;
  }
};

// Sums of a chain of words: the carry of each lane is a bit of a predicate.
enum class Chain { kAdd, kSub, kMadLo, kMadHi };

template <class T, Chain kChain, bool kIn, bool kOut>
const Inst* Carry(Warp& w, const Inst& i, uint32_t mask) {
  constexpr bool kIsMad = kChain == Chain::kMadLo || kChain == Chain::kMadHi;
  const T* a = Lanes<T>(w, i.a);
  const T* b = Lanes<T>(w, i.b);
  const T* c = Lanes<T>(w, i.c);
  const uint32_t out_slot = kIsMad ? i.d : i.c;
  const uint32_t in_slot = kOut ? (kIsMad ? i.e : i.d) : (kIsMad ? i.d : i.c);
  const uint32_t in = kIn ? Predicate(w, in_slot) : 0;
  T* d = Lanes<T>(w, i.dst);
  uint32_t out = 0;
  for (uint32_t l = 0; l < kLanes; ++l) {
    if ((mask >> l & 1) == 0) continue;
    const T carry = static_cast<T>(in >> l & 1);
    T x = a[l];
    T y = b[l];
    if constexpr (kIsMad) {
      x = kChain == Chain::kMadLo ? MulLo::Do(x, y) : MulHi::Do(x, y);
      y = c[l];
    }
    T partial;
    T result;
    bool overflow;
    if constexpr (kChain == Chain::kSub) {
      overflow = __builtin_sub_overflow(x, y, &partial);
      overflow |= __builtin_sub_overflow(partial, carry, &result);
    } else {
      overflow = __builtin_add_overflow(x, y, &partial);
      overflow |= __builtin_add_overflow(partial, carry, &result);
    }
    d[l] = result;
    out |= static_cast<uint32_t>(overflow) << l;
  }
  if constexpr (kOut) SetPredicate(w, out_slot, out, mask);
  return &i + 1;
}

template <class U>
void AddCarryForms(FormTable& t, const char* u, const char* s, const char* r) {
  for (const char* type : {u, s}) {
    t.Add("add.cc", type, Carry<U, Chain::kAdd, false, true>, "=? ? ? =c", r);
    t.Add("addc", type, Carry<U, Chain::kAdd, true, false>, "=? ? ? c", r);
    t.Add("addc.cc", type, Carry<U, Chain::kAdd, true, true>, "=? ? ? =c c", r);
    t.Add("sub.cc", type, Carry<U, Chain::kSub, false, true>, "=? ? ? =c", r);
    t.Add("subc", type, Carry<U, Chain::kSub, true, false>, "=? ? ? c", r);
    t.Add("subc.cc", type, Carry<U, Chain::kSub, true, true>, "=? ? ? =c c", r);
    t.Add("mad.lo.cc", type, Carry<U, Chain::kMadLo, false, true>,
          "=? ? ? ? =c", r);
    t.Add("madc.lo", type, Carry<U, Chain::kMadLo, true, false>, "=? ? ? ? c",
          r);
    t.Add("madc.lo.cc", type, Carry<U, Chain::kMadLo, true, true>,
          "=? ? ? ? =c c", r);
  }
  t.Add("mad.hi.cc", u, Carry<U, Chain::kMadHi, false, true>, "=? ? ? ? =c", r);
  t.Add("madc.hi", u, Carry<U, Chain::kMadHi, true, false>, "=? ? ? ? c", r);
  t.Add("madc.hi.cc", u, Carry<U, Chain::kMadHi, true, true>, "=? ? ? ? =c c",
        r);
}

// Forms whose bits do not depend on the sign.
template <class U>
void AddSignlessForms(FormTable& t, const char* u, const char* s,
                      const char* r) {
  for (const char* type : {u, s}) {
    t.Add("add", type, Binary<Add, U, U, U>, "=? ? ?", r);
    t.Add("sub", type, Binary<Sub, U, U, U>, "=? ? ?", r);
    t.Add("mul.lo", type, Binary<MulLo, U, U, U>, "=? ? ?", r);
    t.Add("mad.lo", type, Ternary<MadLo, U, U, U, U>, "=? ? ? ?", r);
    t.Add("neg", type, Unary<Neg, U, U>, "=? ?", r);
  }
}

template <class T>
void AddTypedForms(FormTable& t, const char* type, const char* r) {
  t.Add("mul.hi", type, Binary<MulHi, T, T, T>, "=? ? ?", r);
  t.Add("mad.hi", type, Ternary<MadHi, T, T, T, T>, "=? ? ? ?", r);
  t.Add("div", type, Binary<Div, T, T, T>, "=? ? ?", r);
  t.Add("rem", type, Binary<Rem, T, T, T>, "=? ? ?", r);
  t.Add("min", type, Binary<Min, T, T, T>, "=? ? ?", r);
  t.Add("max", type, Binary<Max, T, T, T>, "=? ? ?", r);
  t.Add("sad", type, Ternary<Sad, T, T, T, T>, "=? ? ? ?", r);
  if constexpr (std::is_signed_v<T>) {
    t.Add("abs", type, Unary<Abs, T, T>, "=? ?", r);
  }
}

template <class T>
void AddWideForms(FormTable& t, const char* type, const char* two_to_one,
                  const char* three_to_one) {
  t.Add("mul.wide", type, Binary<MulWide, Wide<T>, T, T>, two_to_one, "");
  t.Add("mad.wide", type, Ternary<MadWide, Wide<T>, T, T, Wide<T>>,
        three_to_one, "");
}

}  // namespace

void AddIntegerForms(FormTable& t) {
  AddSignlessForms<uint16_t>(t, ".u16", ".s16", "h");
  AddSignlessForms<uint32_t>(t, ".u32", ".s32", "r");
  AddSignlessForms<uint64_t>(t, ".u64", ".s64", "l");
  AddTypedForms<uint16_t>(t, ".u16", "h");
  AddTypedForms<int16_t>(t, ".s16", "h");
  AddTypedForms<uint32_t>(t, ".u32", "r");
  AddTypedForms<int32_t>(t, ".s32", "r");
  AddTypedForms<uint64_t>(t, ".u64", "l");
  AddTypedForms<int64_t>(t, ".s64", "l");
  AddWideForms<uint16_t>(t, ".u16", "=r h h", "=r h h r");
  AddWideForms<int16_t>(t, ".s16", "=r h h", "=r h h r");
  AddWideForms<uint32_t>(t, ".u32", "=l r r", "=l r r l");
  AddWideForms<int32_t>(t, ".s32", "=l r r", "=l r r l");
  AddCarryForms<uint32_t>(t, ".u32", ".s32", "r");
  AddCarryForms<uint64_t>(t, ".u64", ".s64", "l");
  t.Add("mad.hi.cc.s32", Carry<int32_t, Chain::kMadHi, false, true>,
        "=r r r r =c");
  t.Add("add.sat.s32", Binary<AddSat, int32_t, int32_t, int32_t>, "=r r r");
  t.Add("sub.sat.s32", Binary<SubSat, int32_t, int32_t, int32_t>, "=r r r");
  t.Add("mad.hi.sat.s32", Ternary<MadHiSat, int32_t, int32_t, int32_t, int32_t>,
        "=r r r r");
  t.Add("mul24.lo.u32", Binary<Mul24Lo, uint32_t, uint32_t, uint32_t>,
        "=r r r");
  t.Add("mul24.lo.s32", Binary<Mul24Lo, int32_t, int32_t, int32_t>, "=r r r");
  t.Add("mul24.hi.u32", Binary<Mul24Hi, uint32_t, uint32_t, uint32_t>,
        "=r r r");
  t.Add("mul24.hi.s32", Binary<Mul24Hi, int32_t, int32_t, int32_t>, "=r r r");
  t.Add("mad24.lo.u32",
        Ternary<Mad24Lo, uint32_t, uint32_t, uint32_t, uint32_t>, "=r r r r");
  t.Add("mad24.lo.s32", Ternary<Mad24Lo, int32_t, int32_t, int32_t, int32_t>,
        "=r r r r");
  t.Add("mad24.hi.u32",
        Ternary<Mad24Hi, uint32_t, uint32_t, uint32_t, uint32_t>, "=r r r r");
  t.Add("mad24.hi.s32", Ternary<Mad24Hi, int32_t, int32_t, int32_t, int32_t>,
        "=r r r r");
  t.Add("max.relu.s32", Binary<Relu, int32_t, int32_t, int32_t>, "=r r r");
  t.Add("min.relu.s32", Binary<MinRelu, int32_t, int32_t, int32_t>, "=r r r");
  using U = uint32_t;
  t.Add("add.u16x2", Binary<Packed<Add, uint16_t>, U, U, U>, "=r r r");
  t.Add("add.s16x2", Binary<Packed<Add, uint16_t>, U, U, U>, "=r r r");
  t.Add("min.u16x2", Binary<Packed<Min, uint16_t>, U, U, U>, "=r r r");
  t.Add("min.s16x2", Binary<Packed<Min, int16_t>, U, U, U>, "=r r r");
  t.Add("max.u16x2", Binary<Packed<Max, uint16_t>, U, U, U>, "=r r r");
  t.Add("max.s16x2", Binary<Packed<Max, int16_t>, U, U, U>, "=r r r");
  t.Add("min.relu.s16x2", Binary<Packed<MinRelu, int16_t>, U, U, U>, "=r r r");
  t.Add("max.relu.s16x2", Binary<Packed<Relu, int16_t>, U, U, U>, "=r r r");
  t.Add("dp4a.u32.u32", Ternary<Dp4a<uint8_t, uint8_t>, U, U, U, U>,
        "=r r r r");
  t.Add("dp4a.u32.s32", Ternary<Dp4a<uint8_t, int8_t>, U, U, U, U>, "=r r r r");
  t.Add("dp4a.s32.u32", Ternary<Dp4a<int8_t, uint8_t>, U, U, U, U>, "=r r r r");
  t.Add("dp4a.s32.s32", Ternary<Dp4a<int8_t, int8_t>, U, U, U, U>, "=r r r r");
  t.Add("dp2a.lo.u32.u32", Ternary<Dp2a<uint16_t, uint8_t, 0>, U, U, U, U>,
        "=r r r r");
  t.Add("dp2a.lo.u32.s32", Ternary<Dp2a<uint16_t, int8_t, 0>, U, U, U, U>,
        "=r r r r");
  t.Add("dp2a.lo.s32.u32", Ternary<Dp2a<int16_t, uint8_t, 0>, U, U, U, U>,
        "=r r r r");
  t.Add("dp2a.lo.s32.s32", Ternary<Dp2a<int16_t, int8_t, 0>, U, U, U, U>,
        "=r r r r");
  t.Add("dp2a.hi.u32.u32", Ternary<Dp2a<uint16_t, uint8_t, 16>, U, U, U, U>,
        "=r r r r");
  t.Add("dp2a.hi.u32.s32", Ternary<Dp2a<uint16_t, int8_t, 16>, U, U, U, U>,
        "=r r r r");
  t.Add("dp2a.hi.s32.u32", Ternary<Dp2a<int16_t, uint8_t, 16>, U, U, U, U>,
        "=r r r r");
  t.Add("dp2a.hi.s32.s32", Ternary<Dp2a<int16_t, int8_t, 16>, U, U, U, U>,
        "=r r r r");
}

}  // namespace softcuda::exec::SOFTCUDA_ISA
