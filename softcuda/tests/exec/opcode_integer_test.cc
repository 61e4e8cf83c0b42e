// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "opcode_harness.h"

namespace softcuda::testing {
namespace {

using U16 = uint16_t;
using S16 = int16_t;
using U32 = uint32_t;
using S32 = int32_t;
using U64 = uint64_t;
using S64 = int64_t;
using I128 = __int128;

template <class T>
void AddIntegerArithmetic(std::vector<OpcodeCase>* cases) {
  const std::string t = TypeName<T>();
  cases->push_back(Op(
      "add" + t, +[](T a, T b) { return T(I128(a) + b); }));
  cases->push_back(Op(
      "sub" + t, +[](T a, T b) { return T(I128(a) - b); }));
  cases->push_back(Op(
      "mul.lo" + t, +[](T a, T b) { return T(I128(a) * I128(b)); }));
  cases->push_back(Op(
      "mul.hi" + t, +[](T a, T b) {
        using Big =
            std::conditional_t<std::is_signed_v<T>, I128, unsigned __int128>;
        return T((Big(a) * Big(b)) >> (8 * sizeof(T)));
      }));
  cases->push_back(Op(
      "mad.lo" + t, +[](T a, T b, T c) { return T(I128(a) * I128(b) + c); }));
  cases->push_back(Op(
      "min" + t, +[](T a, T b) { return std::min(a, b); }));
  cases->push_back(Op(
      "max" + t, +[](T a, T b) { return std::max(a, b); }));
  cases->push_back(Op(
      "div" + t, +[](T a, T b) { return b == 0 ? T(~T{0}) : T(I128(a) / b); }));
  cases->push_back(Op(
      "rem" + t, +[](T a, T b) { return b == 0 ? a : T(I128(a) % b); }));
  cases->push_back(Op(
      "sad" + t, +[](T a, T b, T c) {
        return T(I128(c) + (a > b ? I128(a) - b : I128(b) - a));
      }));
  if constexpr (std::is_signed_v<T>) {
    cases->push_back(Op(
        "abs" + t, +[](T a) { return T(a < 0 ? -I128(a) : I128(a)); }));
    cases->push_back(Op(
        "neg" + t, +[](T a) { return T(-I128(a)); }));
  }
}

template <class T, class W>
void AddWide(std::vector<OpcodeCase>* cases) {
  const std::string t = TypeName<T>();
  cases->push_back(Op(
      "mul.wide" + t, +[](T a, T b) { return W(I128(a) * I128(b)); }));
  cases->push_back(Op(
      "mad.wide" + t, +[](T a, T b, W c) { return W(I128(a) * I128(b) + c); }));
}

TEST(OpcodeIntegerTest, Arithmetic) {
  std::vector<OpcodeCase> cases;
  AddIntegerArithmetic<U16>(&cases);
  AddIntegerArithmetic<S16>(&cases);
  AddIntegerArithmetic<U32>(&cases);
  AddIntegerArithmetic<S32>(&cases);
  AddIntegerArithmetic<U64>(&cases);
  AddIntegerArithmetic<S64>(&cases);
  AddWide<U16, U32>(&cases);
  AddWide<S16, S32>(&cases);
  AddWide<U32, U64>(&cases);
  AddWide<S32, S64>(&cases);
  CheckOpcodes(cases);
}

TEST(OpcodeIntegerTest, SaturatingAnd24Bit) {
  CheckOpcodes({
      Op(
          "add.sat.s32",
          +[](S32 a, S32 b) {
            return S32(std::clamp<S64>(S64{a} + b, INT32_MIN, INT32_MAX));
          }),
      Op(
          "sub.sat.s32",
          +[](S32 a, S32 b) {
            return S32(std::clamp<S64>(S64{a} - b, INT32_MIN, INT32_MAX));
          }),
      Op(
          "mad.hi.s32",
          +[](S32 a, S32 b, S32 c) {
            return S32(U32((S64{a} * b) >> 32) + U32(c));
          }),
      Op(
          "mad.hi.u32",
          +[](U32 a, U32 b, U32 c) { return U32(((U64{a} * b) >> 32) + c); }),
      Op(
          "mad.hi.sat.s32",
          +[](S32 a, S32 b, S32 c) {
            return S32(std::clamp<S64>(((S64{a} * b) >> 32) + c, INT32_MIN,
                                       INT32_MAX));
          }),
      Op(
          "mul24.lo.u32",
          +[](U32 a, U32 b) {
            return U32(U64{a & 0xffffff} * (b & 0xffffff));
          }),
      Op(
          "mul24.hi.u32",
          +[](U32 a, U32 b) {
            return U32((U64{a & 0xffffff} * (b & 0xffffff)) >> 16);
          }),
      Op(
          "mad24.lo.u32",
          +[](U32 a, U32 b, U32 c) {
            return U32(U64{a & 0xffffff} * (b & 0xffffff) + c);
          }),
      Op(
          "add.u16x2",
          +[](U32 a, U32 b) {
            return U32(U16(a + b)) | (((a >> 16) + (b >> 16)) << 16);
          }),
      Op(
          "max.s16x2",
          +[](U32 a, U32 b) {
            return U32(U16(std::max(S16(a), S16(b)))) |
                   U32(U16(std::max(S16(a >> 16), S16(b >> 16)))) << 16;
          }),
      Op(
          "min.u16x2",
          +[](U32 a, U32 b) {
            return U32(std::min(U16(a), U16(b))) |
                   U32(std::min(U16(a >> 16), U16(b >> 16))) << 16;
          }),
  });
}

template <class T>
void AddLogic(std::vector<OpcodeCase>* cases) {
  const std::string bits = std::to_string(8 * sizeof(T));
  using S = std::make_signed_t<T>;
  cases->push_back(Op(
      "and.b" + bits, +[](T a, T b) { return T(a & b); }));
  cases->push_back(Op(
      "or.b" + bits, +[](T a, T b) { return T(a | b); }));
  cases->push_back(Op(
      "xor.b" + bits, +[](T a, T b) { return T(a ^ b); }));
  cases->push_back(Op(
      "not.b" + bits, +[](T a) { return T(~a); }));
  cases->push_back(Op(
      "cnot.b" + bits, +[](T a) { return T(a == 0); }));
  cases->push_back(Op(
      "shl.b" + bits,
      +[](T a, U32 n) { return T(n >= 8 * sizeof(T) ? 0 : U64{a} << n); }));
  cases->push_back(Op(
      "shr.u" + bits,
      +[](T a, U32 n) { return T(n >= 8 * sizeof(T) ? 0 : U64{a} >> n); }));
  cases->push_back(Op(
      "shr.s" + bits,
      +[](S a, U32 n) { return S(S64{a} >> std::min<U32>(n, 63)); }));
}

template <class T>
void AddFields(std::vector<OpcodeCase>* cases) {
  const std::string bits = std::to_string(8 * sizeof(T));
  using S = std::make_signed_t<T>;
  constexpr U32 kBits = 8 * sizeof(T);
  cases->push_back(Op(
      "popc.b" + bits, +[](T a) { return U32(std::popcount(a)); }));
  cases->push_back(Op(
      "clz.b" + bits, +[](T a) { return U32(std::countl_zero(a)); }));
  cases->push_back(Op(
      "brev.b" + bits, +[](T a) {
        T r = 0;
        for (U32 k = 0; k < kBits; ++k) r |= (a >> k & 1) << (kBits - 1 - k);
        return r;
      }));
  cases->push_back(Op(
      "bfind.u" + bits,
      +[](T a) { return a == 0 ? ~0U : U32(std::bit_width(a)) - 1; }));
  cases->push_back(Op(
      "bfind.s" + bits, +[](S a) {
        const T m = T(a < 0 ? ~a : a);
        return m == 0 ? ~0U : U32(std::bit_width(m)) - 1;
      }));
  cases->push_back(Op(
      "bfind.shiftamt.u" + bits,
      +[](T a) { return a == 0 ? ~0U : U32(std::countl_zero(a)); }));
  cases->push_back(Op(
      "bfe.u" + bits, +[](T a, U32 b, U32 c) {
        T r = 0;
        const U32 pos = b & 255;
        for (U32 k = 0; k < (c & 255); ++k) {
          if (pos + k < kBits && k < kBits) r |= (a >> (pos + k) & 1) << k;
        }
        return r;
      }));
  cases->push_back(Op(
      "bfe.s" + bits, +[](S a, U32 b, U32 c) {
        const U32 pos = b & 255;
        const U32 len = c & 255;
        if (len == 0) return S{0};
        const U32 sign_at = std::min(pos + len - 1, kBits - 1);
        const bool sign = (T(a) >> sign_at & 1) != 0;
        T r = 0;
        for (U32 k = 0; k < kBits; ++k) {
          const bool bit =
              k < len && pos + k < kBits ? (T(a) >> (pos + k) & 1) != 0 : sign;
          r |= T(bit) << k;
        }
        return S(r);
      }));
  cases->push_back(Op(
      "bfi.b" + bits, +[](T a, T b, U32 c, U32 d) {
        const U32 pos = c & 255;
        for (U32 k = 0; k < (d & 255); ++k) {
          if (pos + k >= kBits) break;
          const T bit = k < kBits ? a >> k & 1 : 0;
          b = T((b & ~(T{1} << (pos + k))) | bit << (pos + k));
        }
        return b;
      }));
}

TEST(OpcodeIntegerTest, Logic) {
  std::vector<OpcodeCase> cases;
  AddLogic<U16>(&cases);
  AddLogic<U32>(&cases);
  AddLogic<U64>(&cases);
  cases.push_back(Op(
      "and.pred", +[](bool a, bool b) { return a && b; }));
  cases.push_back(Op(
      "or.pred", +[](bool a, bool b) { return a || b; }));
  cases.push_back(Op(
      "xor.pred", +[](bool a, bool b) { return a != b; }));
  cases.push_back(Op(
      "not.pred", +[](bool a) { return !a; }));
  cases.push_back(Op(
      "mov.pred", +[](bool a) { return a; }));
  for (const int table : {0, 0x96, 0xe8, 0xca, 0x1b, 0xff}) {
    cases.push_back(WithLiteral(
        "lop3.b32", std::to_string(table),
        table == 0      ? +[](U32, U32, U32) { return 0U; }
        : table == 0x96 ? +[](U32 a, U32 b, U32 c) { return a ^ b ^ c; }
        : table == 0xe8
            ? +[](U32 a, U32 b, U32 c) { return (a & b) | (a & c) | (b & c); }
        : table == 0xca
            ? +[](U32 a, U32 b, U32 c) { return (a & b) | (~a & c); }
        : table == 0x1b
            ? +[](U32 a, U32 b,
                  U32 c) { return (~a & ~b) | (a & ~c & ~b) | (~a & b & c); }
            : +[](U32, U32, U32) { return ~0U; }));
  }
  // 0x1b has the rows 0, 1, 3 and 4.
  CheckOpcodes(cases);
}

TEST(OpcodeIntegerTest, BitFields) {
  std::vector<OpcodeCase> cases;
  AddFields<U32>(&cases);
  AddFields<U64>(&cases);
  cases.push_back(Op(
      "szext.wrap.u32", +[](U32 a, U32 b) {
        b &= 31;
        return b == 0 ? 0 : a & (~0U >> (32 - b));
      }));
  cases.push_back(Op(
      "szext.clamp.s32", +[](S32 a, U32 b) {
        if (b == 0) return 0;
        if (b >= 32) return a;
        return S32(U32(a) << (32 - b)) >> (32 - b);
      }));
  cases.push_back(Op(
      "bmsk.clamp.b32", +[](U32 a, U32 b) {
        U32 r = 0;
        for (U64 k = a; k < 32 && k < U64{a} + b; ++k) r |= 1U << k;
        return r;
      }));
  cases.push_back(Op(
      "shf.l.wrap.b32", +[](U32 a, U32 b, U32 c) {
        const U64 both = U64{b} << 32 | a;
        return U32(both << (c & 31) >> 32);
      }));
  cases.push_back(Op(
      "shf.r.wrap.b32", +[](U32 a, U32 b, U32 c) {
        const U64 both = U64{b} << 32 | a;
        return U32(both >> (c & 31));
      }));
  cases.push_back(Op(
      "shf.l.clamp.b32", +[](U32 a, U32 b, U32 c) {
        const U64 both = U64{b} << 32 | a;
        return U32(both << std::min(c, 32U) >> 32);
      }));
  cases.push_back(Op(
      "shf.r.clamp.b32", +[](U32 a, U32 b, U32 c) {
        const U64 both = U64{b} << 32 | a;
        return U32(both >> std::min(c, 32U));
      }));
  CheckOpcodes(cases);
}

U32 PermuteBytes(U32 a, U32 b, std::array<U32, 4> select) {
  const U64 bytes = U64{b} << 32 | a;
  U32 r = 0;
  for (U32 k = 0; k < 4; ++k) {
    U32 byte = U32(bytes >> (8 * (select[k] & 7))) & 255;
    if ((select[k] & 8) != 0) byte = byte >= 128 ? 255 : 0;
    r |= byte << (8 * k);
  }
  return r;
}

TEST(OpcodeIntegerTest, Permutes) {
  CheckOpcodes({
      Op(
          "prmt.b32",
          +[](U32 a, U32 b, U32 c) {
            return PermuteBytes(a, b, {c, c >> 4, c >> 8, c >> 12});
          }),
      Op(
          "prmt.b32.f4e",
          +[](U32 a, U32 b, U32 c) {
            c &= 3;
            return PermuteBytes(a, b, {c, c + 1, c + 2, c + 3});
          }),
      Op(
          "prmt.b32.b4e",
          +[](U32 a, U32 b, U32 c) {
            c &= 3;
            return PermuteBytes(a, b,
                                {c, (c + 7) & 7, (c + 6) & 7, (c + 5) & 7});
          }),
      Op(
          "prmt.b32.rc8",
          +[](U32 a, U32 b, U32 c) {
            c &= 3;
            return PermuteBytes(a, b, {c, c, c, c});
          }),
      Op(
          "prmt.b32.ecl",
          +[](U32 a, U32 b, U32 c) {
            c &= 3;
            return PermuteBytes(a, b, {c, std::max(c, 1U), std::max(c, 2U), 3});
          }),
      Op(
          "prmt.b32.ecr",
          +[](U32 a, U32 b, U32 c) {
            c &= 3;
            return PermuteBytes(a, b, {0, std::min(c, 1U), std::min(c, 2U), c});
          }),
      Op(
          "prmt.b32.rc16",
          +[](U32 a, U32 b, U32 c) {
            const U32 low = (c & 1) * 2;
            return PermuteBytes(a, b, {low, low + 1, low, low + 1});
          }),
  });
}

template <class A, class B>
OpcodeCase Dp4a(const char* form) {
  return Op(
      form, +[](U32 a, U32 b, U32 c) {
        for (int k = 0; k < 4; ++k) {
          c += U32(int(A(a >> 8 * k)) * int(B(b >> 8 * k)));
        }
        return c;
      });
}

TEST(OpcodeIntegerTest, DotProducts) {
  CheckOpcodes({
      Dp4a<uint8_t, uint8_t>("dp4a.u32.u32"),
      Dp4a<int8_t, uint8_t>("dp4a.s32.u32"),
      Dp4a<uint8_t, int8_t>("dp4a.u32.s32"),
      Dp4a<int8_t, int8_t>("dp4a.s32.s32"),
      Op(
          "dp2a.lo.s32.s32",
          +[](U32 a, U32 b, U32 c) {
            return c + U32(S16(a) * int8_t(b)) +
                   U32(S16(a >> 16) * int8_t(b >> 8));
          }),
      Op(
          "dp2a.hi.u32.u32",
          +[](U32 a, U32 b, U32 c) {
            return c + U16(a) * (b >> 16 & 255) + (a >> 16) * (b >> 24);
          }),
  });
}

template <class T>
void AddCompares(std::vector<OpcodeCase>* cases) {
  const std::string t = TypeName<T>();
  cases->push_back(Op(
      "setp.eq" + t, +[](T a, T b) { return a == b; }));
  cases->push_back(Op(
      "setp.ne" + t, +[](T a, T b) { return a != b; }));
  cases->push_back(Op(
      "setp.lt" + t, +[](T a, T b) { return a < b; }));
  cases->push_back(Op(
      "setp.le" + t, +[](T a, T b) { return a <= b; }));
  cases->push_back(Op(
      "setp.gt" + t, +[](T a, T b) { return a > b; }));
  cases->push_back(Op(
      "setp.ge" + t, +[](T a, T b) { return a >= b; }));
  cases->push_back(Op(
      "setp.lt.and" + t, +[](T a, T b, bool c) { return a < b && c; }));
  cases->push_back(Op(
      "setp.ge.or" + t, +[](T a, T b, bool c) { return a >= b || c; }));
  cases->push_back(Op(
      "setp.eq.xor" + t, +[](T a, T b, bool c) { return (a == b) != c; }));
  cases->push_back(Op(
      "set.lt.u32" + t, +[](T a, T b) { return a < b ? ~0U : 0U; }));
  cases->push_back(Op(
      "set.ne.f32" + t, +[](T a, T b) { return a != b ? 1.0F : 0.0F; }));
  if constexpr (std::is_unsigned_v<T>) {
    cases->push_back(Op(
        "setp.lo" + t, +[](T a, T b) { return a < b; }));
    cases->push_back(Op(
        "setp.hs" + t, +[](T a, T b) { return a >= b; }));
    cases->push_back(Op(
        "selp" + t, +[](T a, T b, bool c) { return c ? a : b; }));
    cases->push_back(Op(
        "slct" + t + ".s32", +[](T a, T b, S32 c) { return c >= 0 ? a : b; }));
    cases->push_back(Op(
        "slct" + t + ".f32",
        +[](T a, T b, float c) { return c >= 0 ? a : b; }));
  }
}

TEST(OpcodeIntegerTest, Compares) {
  std::vector<OpcodeCase> cases;
  AddCompares<U16>(&cases);
  AddCompares<S16>(&cases);
  AddCompares<U32>(&cases);
  AddCompares<S32>(&cases);
  AddCompares<U64>(&cases);
  AddCompares<S64>(&cases);
  CheckOpcodes(cases);
}

template <class D, class A>
void AddConversion(std::vector<OpcodeCase>* cases) {
  cases->push_back(Op(
      "cvt" + TypeName<D>() + TypeName<A>(), +[](A a) { return D(a); }));
  cases->push_back(Op(
      "cvt.sat" + TypeName<D>() + TypeName<A>(), +[](A a) {
        return D(std::clamp<I128>(a, std::numeric_limits<D>::min(),
                                  std::numeric_limits<D>::max()));
      }));
}

template <class D>
void AddConversionsTo(std::vector<OpcodeCase>* cases) {
  AddConversion<D, uint8_t>(cases);
  AddConversion<D, int8_t>(cases);
  AddConversion<D, U16>(cases);
  AddConversion<D, S16>(cases);
  AddConversion<D, U32>(cases);
  AddConversion<D, S32>(cases);
  AddConversion<D, U64>(cases);
  AddConversion<D, S64>(cases);
}

TEST(OpcodeIntegerTest, Conversions) {
  std::vector<OpcodeCase> cases;
  AddConversionsTo<uint8_t>(&cases);
  AddConversionsTo<int8_t>(&cases);
  AddConversionsTo<U16>(&cases);
  AddConversionsTo<S16>(&cases);
  AddConversionsTo<U32>(&cases);
  AddConversionsTo<S32>(&cases);
  AddConversionsTo<U64>(&cases);
  AddConversionsTo<S64>(&cases);
  CheckOpcodes(cases);
}

}  // namespace
}  // namespace softcuda::testing
