// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Logic, shifts, bit fields and byte permutes.
#include <type_traits>

#include "exec/ops/lanes.h"
#include "exec/ops/registration.h"

namespace softcuda::exec::SOFTCUDA_ISA {
namespace {

template <class T>
inline constexpr uint32_t kBits = 8 * sizeof(T);

struct And {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
struct Not {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a) {
    return static_cast<T>(~a);
  }
};
struct Cnot {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a) {
    return a == 0 ? 1 : 0;
  }
};
struct Shl {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, uint32_t n) {
    return static_cast<T>(n < kBits<T> ? a << (n & (kBits<T> - 1)) : 0);
  }
};
struct Shr {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, uint32_t n) {
    if constexpr (std::is_signed_v<T>) {
      return static_cast<T>(a >> (n < kBits<T> ? n : kBits<T> - 1));
    } else {
      return static_cast<T>(n < kBits<T> ? a >> (n & (kBits<T> - 1)) : 0);
    }
  }
};
template <bool kLeft, bool kWrap>
struct Funnel {
  static SOFTCUDA_INLINE uint32_t Do(uint32_t a, uint32_t b, uint32_t c) {
    const uint32_t n = kWrap ? c & 31 : (c < 32 ? c : 32);
    const uint64_t both = uint64_t{b} << 32 | a;
    return static_cast<uint32_t>(kLeft ? (both << n) >> 32 : both >> n);
  }
};
struct Popc {
  template <class T>
  static SOFTCUDA_INLINE uint32_t Do(T a) {
    return static_cast<uint32_t>(__builtin_popcountll(a));
  }
};
struct Clz {
  template <class T>
  static SOFTCUDA_INLINE uint32_t Do(T a) {
    if (a == 0) return kBits<T>;
    return static_cast<uint32_t>(__builtin_clzll(uint64_t{a})) - 64 + kBits<T>;
  }
};
template <bool kShiftAmount>
struct Find {
  template <class T>
  static SOFTCUDA_INLINE uint32_t Do(T a) {
    using U = std::make_unsigned_t<T>;
    U bits = static_cast<U>(a);
    if constexpr (std::is_signed_v<T>) {
      if (a < 0) bits = static_cast<U>(~bits);
    }
    if (bits == 0) return 0xffffffffU;
    const uint32_t leading = Clz::Do(bits);
    return kShiftAmount ? leading : kBits<T> - 1 - leading;
  }
};
struct Brev {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a) {
    uint64_t v = a;
    v = (v >> 1 & 0x5555555555555555ULL) | (v & 0x5555555555555555ULL) << 1;
    v = (v >> 2 & 0x3333333333333333ULL) | (v & 0x3333333333333333ULL) << 2;
    v = (v >> 4 & 0x0f0f0f0f0f0f0f0fULL) | (v & 0x0f0f0f0f0f0f0f0fULL) << 4;
    v = __builtin_bswap64(v);
    return static_cast<T>(v >> (64 - kBits<T>));
  }
};
template <class T>
SOFTCUDA_INLINE T LowMask(uint32_t count) {
  return count < kBits<T>
             ? static_cast<T>((T{1} << (count & (kBits<T> - 1))) - 1)
             : static_cast<T>(~T{0});
}
struct Extract {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, uint32_t b, uint32_t c) {
    const uint32_t pos = b & 0xff;
    const uint32_t len = c & 0xff;
    if constexpr (std::is_signed_v<T>) {
      using U = std::make_unsigned_t<T>;
      if (len == 0) return 0;
      if (pos >= kBits<T>) return static_cast<T>(a < 0 ? -1 : 0);
      const uint32_t last = pos + len - 1;
      const uint32_t drop = last < kBits<T> - 1 ? kBits<T> - 1 - last : 0;
      return static_cast<T>(static_cast<T>(static_cast<U>(a) << drop) >>
                            (drop + pos));
    } else {
      return static_cast<T>(Shr::Do(a, pos) & LowMask<T>(len));
    }
  }
};
struct Insert {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, T b, uint32_t pos, uint32_t len) {
    pos &= 0xff;
    len &= 0xff;
    const T field = Shl::Do(LowMask<T>(len), pos);
    return static_cast<T>((Shl::Do(a, pos) & field) | (b & ~field));
  }
};
template <class T>
const Inst* InsertField(Warp& w, const Inst& i, uint32_t mask) {
  const T* a = Lanes<T>(w, i.a);
  const T* b = Lanes<T>(w, i.b);
  const uint32_t* c = Lanes<uint32_t>(w, i.c);
  const uint32_t* d = Lanes<uint32_t>(w, i.d);
  ForLanes(Lanes<T>(w, i.dst), mask,
           [=](uint32_t l) { return Insert::Do(a[l], b[l], c[l], d[l]); });
  return &i + 1;
}
template <bool kClamp>
struct Szext {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, uint32_t b) {
    if (!kClamp) b &= 31;
    if (b == 0) return 0;
    if (b >= 32) return a;
    const uint32_t shift = 32 - b;
    return static_cast<T>(static_cast<T>(static_cast<uint32_t>(a) << shift) >>
                          shift);
  }
};
template <bool kClamp>
struct Bmsk {
  static SOFTCUDA_INLINE uint32_t Do(uint32_t a, uint32_t b) {
    if (!kClamp) {
      a &= 31;
      b &= 31;
    }
    return Shl::Do(LowMask<uint32_t>(b), a);
  }
};

template <bool kMsbMode>
struct Permute {
  static SOFTCUDA_INLINE uint32_t Do(uint32_t a, uint32_t b, uint32_t c) {
    const uint64_t bytes = uint64_t{b} << 32 | a;
    uint32_t result = 0;
    for (uint32_t k = 0; k < 4; ++k) {
      const uint32_t select = c >> (4 * k);
      const uint32_t byte =
          static_cast<uint32_t>(bytes >> (8 * (select & 7))) & 0xff;
      const uint32_t sign = (byte >> 7) * 0xff;
      result |= ((select & 8) != 0 ? sign : byte) << (8 * k);
    }
    return result;
  }
};
// The modes that take the selector's two low bits; rows give the source byte
// of each result byte.
struct PermuteMode {
  const char* name;
  uint8_t source[4][4];  // [selector][result byte]
};
constexpr PermuteMode kPermuteModes[] = {
    {"f4e", {{0, 1, 2, 3}, {1, 2, 3, 4}, {2, 3, 4, 5}, {3, 4, 5, 6}}},
    {"b4e", {{0, 7, 6, 5}, {1, 0, 7, 6}, {2, 1, 0, 7}, {3, 2, 1, 0}}},
    {"rc8", {{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}}},
    {"ecl", {{0, 1, 2, 3}, {1, 1, 2, 3}, {2, 2, 2, 3}, {3, 3, 3, 3}}},
    {"ecr", {{0, 0, 0, 0}, {0, 1, 1, 1}, {0, 1, 2, 2}, {0, 1, 2, 3}}},
    {"rc16", {{0, 1, 0, 1}, {2, 3, 2, 3}, {0, 1, 0, 1}, {2, 3, 2, 3}}}};

const Inst* PermuteByMode(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t* a = Lanes<uint32_t>(w, i.a);
  const uint32_t* b = Lanes<uint32_t>(w, i.b);
  const uint32_t* c = Lanes<uint32_t>(w, i.c);
  const PermuteMode& mode = kPermuteModes[i.imm];
  ForLanes(Lanes<uint32_t>(w, i.dst), mask, [=, &mode](uint32_t l) {
    const uint8_t* source = mode.source[c[l] & 3];
    const uint64_t bytes = uint64_t{b[l]} << 32 | a[l];
    uint32_t result = 0;
    for (uint32_t k = 0; k < 4; ++k) {
      result |= (static_cast<uint32_t>(bytes >> (8 * source[k])) & 0xff)
                << (8 * k);
    }
    return result;
  });
  return &i + 1;
}

// Any function of three bits, from its truth table.
const Inst* Lop3(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t* a = Lanes<uint32_t>(w, i.a);
  const uint32_t* b = Lanes<uint32_t>(w, i.b);
  const uint32_t* c = Lanes<uint32_t>(w, i.c);
  uint32_t on[8];
  for (uint32_t k = 0; k < 8; ++k) on[k] = (i.imm >> k & 1) != 0 ? ~0U : 0U;
  ForLanes(Lanes<uint32_t>(w, i.dst), mask, [=, &on](uint32_t l) {
    const uint32_t x = a[l];
    const uint32_t y = b[l];
    const uint32_t z = c[l];
    const uint32_t low = (~y & ((~z & on[0]) | (z & on[1]))) |
                         (y & ((~z & on[2]) | (z & on[3])));
    const uint32_t high = (~y & ((~z & on[4]) | (z & on[5]))) |
                          (y & ((~z & on[6]) | (z & on[7])));
    return (~x & low) | (x & high);
  });
  return &i + 1;
}

template <class Op>
const Inst* PredicateBinary(Warp& w, const Inst& i, uint32_t mask) {
  SetPredicate(w, i.dst, Op::Do(Predicate(w, i.a), Predicate(w, i.b)), mask);
  return &i + 1;
}

const Inst* PredicateNot(Warp& w, const Inst& i, uint32_t mask) {
  SetPredicate(w, i.dst, ~Predicate(w, i.a), mask);
  return &i + 1;
}

template <class U>
void AddLogic(FormTable& t, const char* bits, const char* r) {
  using S = std::make_signed_t<U>;
  using R = uint32_t;
  t.Add("and.b", bits, Binary<And, U, U, U>, "=? ? ?", r);
  t.Add("or.b", bits, Binary<Or, U, U, U>, "=? ? ?", r);
  t.Add("xor.b", bits, Binary<Xor, U, U, U>, "=? ? ?", r);
  t.Add("not.b", bits, Unary<Not, U, U>, "=? ?", r);
  t.Add("cnot.b", bits, Unary<Cnot, U, U>, "=? ?", r);
  t.Add("shl.b", bits, Binary<Shl, U, U, R>, "=? ? r", r);
  t.Add("shr.b", bits, Binary<Shr, U, U, R>, "=? ? r", r);
  t.Add("shr.u", bits, Binary<Shr, U, U, R>, "=? ? r", r);
  t.Add("shr.s", bits, Binary<Shr, S, S, R>, "=? ? r", r);
}

template <class U>
void AddFields(FormTable& t, const char* bits, const char* r) {
  using S = std::make_signed_t<U>;
  using R = uint32_t;
  t.Add("popc.b", bits, Unary<Popc, R, U>, "=r ?", r);
  t.Add("clz.b", bits, Unary<Clz, R, U>, "=r ?", r);
  t.Add("bfind.u", bits, Unary<Find<false>, R, U>, "=r ?", r);
  t.Add("bfind.s", bits, Unary<Find<false>, R, S>, "=r ?", r);
  t.Add("bfind.shiftamt.u", bits, Unary<Find<true>, R, U>, "=r ?", r);
  t.Add("bfind.shiftamt.s", bits, Unary<Find<true>, R, S>, "=r ?", r);
  t.Add("brev.b", bits, Unary<Brev, U, U>, "=? ?", r);
  t.Add("bfe.u", bits, Ternary<Extract, U, U, R, R>, "=? ? r r", r);
  t.Add("bfe.s", bits, Ternary<Extract, S, S, R, R>, "=? ? r r", r);
  t.Add("bfi.b", bits, InsertField<U>, "=? ? ? r r", r);
}

}  // namespace

void AddBitForms(FormTable& t) {
  AddLogic<uint16_t>(t, "16", "h");
  AddLogic<uint32_t>(t, "32", "r");
  AddLogic<uint64_t>(t, "64", "l");
  AddFields<uint32_t>(t, "32", "r");
  AddFields<uint64_t>(t, "64", "l");
  t.Add("and.pred", PredicateBinary<And>, "=p p p");
  t.Add("or.pred", PredicateBinary<Or>, "=p p p");
  t.Add("xor.pred", PredicateBinary<Xor>, "=p p p");
  t.Add("not.pred", PredicateNot, "=p p");
  using R = uint32_t;
  t.Add("shf.l.wrap.b32", Ternary<Funnel<true, true>, R, R, R, R>, "=r r r r");
  t.Add("shf.l.clamp.b32", Ternary<Funnel<true, false>, R, R, R, R>,
        "=r r r r");
  t.Add("shf.r.wrap.b32", Ternary<Funnel<false, true>, R, R, R, R>, "=r r r r");
  t.Add("shf.r.clamp.b32", Ternary<Funnel<false, false>, R, R, R, R>,
        "=r r r r");
  t.Add("szext.wrap.u32", Binary<Szext<false>, R, R, R>, "=r r r");
  t.Add("szext.wrap.s32", Binary<Szext<false>, int32_t, int32_t, R>, "=r r r");
  t.Add("szext.clamp.u32", Binary<Szext<true>, R, R, R>, "=r r r");
  t.Add("szext.clamp.s32", Binary<Szext<true>, int32_t, int32_t, R>, "=r r r");
  t.Add("bmsk.wrap.b32", Binary<Bmsk<false>, R, R, R>, "=r r r");
  t.Add("bmsk.clamp.b32", Binary<Bmsk<true>, R, R, R>, "=r r r");
  t.Add("prmt.b32", Ternary<Permute<true>, R, R, R, R>, "=r r r r");
  int64_t mode_index = 0;
  for (const PermuteMode& mode : kPermuteModes) {
    t.Add("prmt.b32.", mode.name, PermuteByMode, "=r r r r", "", mode_index++);
  }
  t.Add("lop3.b32", Lop3, "=r r r r i");
}

}  // namespace softcuda::exec::SOFTCUDA_ISA
