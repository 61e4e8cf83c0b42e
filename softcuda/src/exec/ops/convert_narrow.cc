// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// cvt with a side of 16 bits or fewer that is a float: f16, bf16, e4m3, e5m2,
// and tf32.
#include <type_traits>

#include "exec/ops/convert.h"
#include "exec/ops/lanes.h"
#include "exec/ops/numbers.h"
#include "exec/ops/registration.h"

namespace softcuda::exec::SOFTCUDA_ISA {
namespace {

struct F16 {
  static constexpr const char* kName = ".f16";
  static SOFTCUDA_INLINE float Load(uint16_t v) { return HalfToFloat(v); }
  static SOFTCUDA_INLINE uint16_t Store(float v) { return FloatToHalf(v); }
  static SOFTCUDA_INLINE uint16_t Cut(float v) { return FloatToHalfRz(v); }
};
struct Bf16 {
  static constexpr const char* kName = ".bf16";
  static SOFTCUDA_INLINE float Load(uint16_t v) { return BfloatToFloat(v); }
  static SOFTCUDA_INLINE uint16_t Store(float v) { return FloatToBfloat(v); }
  static SOFTCUDA_INLINE uint16_t Cut(float v) { return FloatToBfloatRz(v); }
};

SOFTCUDA_INLINE float Relu(float x) { return x < 0.0F ? 0.0F : x; }

template <class Format, class To, bool kFtz>
struct Widen {
  static SOFTCUDA_INLINE To Do(uint16_t v) {
    const float x = Format::Load(v);
    return Canonical(static_cast<To>(kFtz ? Flush(x) : x));
  }
};

enum class Mode { kPlain, kRelu, kSat, kFtz };

template <class Format, bool kRz, Mode kMode>
struct Narrow {
  static SOFTCUDA_INLINE uint16_t Do(float v) {
    float x = v;
    if (kMode == Mode::kRelu) x = Relu(x);
    if (kMode == Mode::kSat) x = Saturate(x);
    if (kMode == Mode::kFtz) x = Flush(x);
    return kRz ? Format::Cut(x) : Format::Store(x);
  }
};

template <class Format>
struct NarrowDouble {
  static SOFTCUDA_INLINE uint16_t Do(double v) {
    return Format::Store(RoundToOdd(v));
  }
};

template <class Format, class A>
struct FromInteger {
  static SOFTCUDA_INLINE uint16_t Do(Holder<A> holder) {
    const A a = static_cast<A>(holder);
    double x;
    if constexpr (sizeof(A) == 8) {
      // Keeps what the last rounding needs of 64 bits: the top 47 and whether
      // anything was below.
      using U = uint64_t;
      const U low = static_cast<U>(a) & 0xffff;
      const U top = (static_cast<U>(a) & ~U{0xffff}) | (low != 0 ? 0x8000U : 0);
      const bool is_small = static_cast<U>(a) + (U{1} << 40) < U{1} << 41;
      x = static_cast<double>(is_small ? a : static_cast<A>(top));
    } else {
      x = static_cast<double>(a);
    }
    return Format::Store(RoundToOdd(x));
  }
};

template <class Format, class D, class Round>
struct ToInteger {
  static SOFTCUDA_INLINE Holder<D> Do(uint16_t v) {
    return FloatToInteger<D, float, Round, false>::Do(Format::Load(v));
  }
};

template <class To, class From, class Round>
struct Integral {
  static SOFTCUDA_INLINE uint16_t Do(uint16_t v) {
    return To::Store(Round::Do(From::Load(v)));
  }
};
struct NoRound {
  static SOFTCUDA_INLINE float Do(float x) { return x; }
};

// Two floats into one register, the first into the upper half.
template <class One>
struct PackFloats {
  static SOFTCUDA_INLINE uint32_t Do(float a, float b) {
    return static_cast<uint32_t>(One::Do(a)) << 16 | One::Do(b);
  }
};

struct E4m3 {
  static SOFTCUDA_INLINE uint8_t Store(float v) { return FloatToE4m3(v); }
  static SOFTCUDA_INLINE uint16_t ToHalf(uint8_t v) { return E4m3ToHalf(v); }
};
struct E5m2 {
  static SOFTCUDA_INLINE uint8_t Store(float v) { return FloatToE5m2(v); }
  static SOFTCUDA_INLINE uint16_t ToHalf(uint8_t v) { return E5m2ToHalf(v); }
};

template <class Format, bool kRelu>
struct PackBytes {
  static SOFTCUDA_INLINE uint16_t Do(float a, float b) {
    const uint32_t high = Format::Store(kRelu ? Relu(a) : a);
    const uint32_t low = Format::Store(kRelu ? Relu(b) : b);
    return static_cast<uint16_t>(high << 8 | low);
  }
};
template <class Format, bool kRelu>
struct HalvesToBytes {
  static SOFTCUDA_INLINE uint16_t Do(uint32_t v) {
    return PackBytes<Format, kRelu>::Do(
        HalfToFloat(static_cast<uint16_t>(v >> 16)),
        HalfToFloat(static_cast<uint16_t>(v)));
  }
};
template <class Format, bool kRelu>
struct BytesToHalves {
  static SOFTCUDA_INLINE uint32_t One(uint8_t v) {
    const uint32_t half = Format::ToHalf(v);
    const bool is_negative = (half & 0x8000U) != 0 && half <= 0xfc00U;
    return kRelu && is_negative ? 0 : half;
  }
  static SOFTCUDA_INLINE uint32_t Do(uint16_t v) {
    return One(static_cast<uint8_t>(v)) | One(static_cast<uint8_t>(v >> 8))
                                              << 16;
  }
};

// The 19 bits of tf32 in a 32-bit register.
enum class Tf32Round { kNearestAway, kNearestEven, kZero };
template <Tf32Round kRound, bool kRelu>
struct ToTf32 {
  static SOFTCUDA_INLINE uint32_t Do(float v) {
    const uint32_t bits = Bits(kRelu ? Relu(v) : v);
    if (IsNan(v)) return kNan32;
    uint32_t rounded = bits;
    if (kRound == Tf32Round::kNearestAway) rounded = bits + 0x1000U;
    if (kRound == Tf32Round::kNearestEven) {
      rounded = bits + 0xfffU + (bits >> 13 & 1);
    }
    const bool is_infinite = (bits & 0x7fffffffU) == 0x7f800000U;
    return (is_infinite ? bits : rounded) & ~0x1fffU;
  }
};

template <class Format, class A>
void AddIntegerPair(FormTable& t) {
  t.AddParts({"cvt.rn", Format::kName, Name<A>()},
             Unary<FromInteger<Format, A>, uint16_t, Holder<A>>,
             Operands<uint16_t, A>());
  t.AddParts({"cvt.rni", Name<A>(), Format::kName},
             Unary<ToInteger<Format, A, RoundNearest>, Holder<A>, uint16_t>,
             Operands<A, uint16_t>());
  t.AddParts({"cvt.rzi", Name<A>(), Format::kName},
             Unary<ToInteger<Format, A, RoundZero>, Holder<A>, uint16_t>,
             Operands<A, uint16_t>());
  t.AddParts({"cvt.rmi", Name<A>(), Format::kName},
             Unary<ToInteger<Format, A, RoundDown>, Holder<A>, uint16_t>,
             Operands<A, uint16_t>());
  t.AddParts({"cvt.rpi", Name<A>(), Format::kName},
             Unary<ToInteger<Format, A, RoundUp>, Holder<A>, uint16_t>,
             Operands<A, uint16_t>());
}

template <class Format, bool kRz>
void AddNarrow(FormTable& t, const char* round) {
  using U = uint16_t;
  const char* name = Format::kName;
  t.AddParts({"cvt", round, name, ".f32"},
             Unary<Narrow<Format, kRz, Mode::kPlain>, U, float>, "=h r");
  t.AddParts({"cvt", round, ".relu", name, ".f32"},
             Unary<Narrow<Format, kRz, Mode::kRelu>, U, float>, "=h r");
  t.AddParts({"cvt", round, ".sat", name, ".f32"},
             Unary<Narrow<Format, kRz, Mode::kSat>, U, float>, "=h r");
  t.AddParts({"cvt", round, ".ftz", name, ".f32"},
             Unary<Narrow<Format, kRz, Mode::kFtz>, U, float>, "=h r");
  t.AddParts({"cvt", round, name, "x2.f32"},
             Binary<PackFloats<Narrow<Format, kRz, Mode::kPlain>>, uint32_t,
                    float, float>,
             "=r r r");
  t.AddParts({"cvt", round, ".relu", name, "x2.f32"},
             Binary<PackFloats<Narrow<Format, kRz, Mode::kRelu>>, uint32_t,
                    float, float>,
             "=r r r");
}

template <class Format>
void AddFormat(FormTable& t) {
  using U = uint16_t;
  const char* name = Format::kName;
  t.AddParts({"cvt.f32", name}, Unary<Widen<Format, float, false>, float, U>,
             "=r h");
  t.AddParts({"cvt.ftz.f32", name}, Unary<Widen<Format, float, true>, float, U>,
             "=r h");
  t.AddParts({"cvt.f64", name}, Unary<Widen<Format, double, false>, double, U>,
             "=l h");
  t.AddParts({"cvt.rn", name, ".f64"}, Unary<NarrowDouble<Format>, U, double>,
             "=h l");
  AddNarrow<Format, false>(t, ".rn");
  AddNarrow<Format, true>(t, ".rz");
  t.AddParts({"cvt.rni", name, name},
             Unary<Integral<Format, Format, RoundNearest>, U, U>, "=h h");
  t.AddParts({"cvt.rzi", name, name},
             Unary<Integral<Format, Format, RoundZero>, U, U>, "=h h");
  t.AddParts({"cvt.rmi", name, name},
             Unary<Integral<Format, Format, RoundDown>, U, U>, "=h h");
  t.AddParts({"cvt.rpi", name, name},
             Unary<Integral<Format, Format, RoundUp>, U, U>, "=h h");
  AddIntegerPair<Format, uint8_t>(t);
  AddIntegerPair<Format, int8_t>(t);
  AddIntegerPair<Format, uint16_t>(t);
  AddIntegerPair<Format, int16_t>(t);
  AddIntegerPair<Format, uint32_t>(t);
  AddIntegerPair<Format, int32_t>(t);
  AddIntegerPair<Format, uint64_t>(t);
  AddIntegerPair<Format, int64_t>(t);
}

template <class Format>
void AddBytes(FormTable& t, const char* name) {
  t.AddParts({"cvt.rn.satfinite.", name, ".f32"},
             Binary<PackBytes<Format, false>, uint16_t, float, float>,
             "=h r r");
  t.AddParts({"cvt.rn.satfinite.relu.", name, ".f32"},
             Binary<PackBytes<Format, true>, uint16_t, float, float>, "=h r r");
  t.AddParts({"cvt.rn.satfinite.", name, ".f16x2"},
             Unary<HalvesToBytes<Format, false>, uint16_t, uint32_t>, "=h r");
  t.AddParts({"cvt.rn.satfinite.relu.", name, ".f16x2"},
             Unary<HalvesToBytes<Format, true>, uint16_t, uint32_t>, "=h r");
  t.AddParts({"cvt.rn.f16x2.", name},
             Unary<BytesToHalves<Format, false>, uint32_t, uint16_t>, "=r h");
  t.AddParts({"cvt.rn.relu.f16x2.", name},
             Unary<BytesToHalves<Format, true>, uint32_t, uint16_t>, "=r h");
}

template <Tf32Round kRound>
void AddTf32(FormTable& t, const char* round) {
  t.AddParts({"cvt", round, ".tf32.f32"},
             Unary<ToTf32<kRound, false>, uint32_t, float>, "=r r");
  t.AddParts({"cvt", round, ".relu.tf32.f32"},
             Unary<ToTf32<kRound, true>, uint32_t, float>, "=r r");
}

}  // namespace

void AddNarrowConvertForms(FormTable& t) {
  AddFormat<F16>(t);
  AddFormat<Bf16>(t);
  t.Add("cvt.rn.bf16.f16",
        Unary<Integral<Bf16, F16, NoRound>, uint16_t, uint16_t>, "=h h");
  t.Add("cvt.rn.f16.bf16",
        Unary<Integral<F16, Bf16, NoRound>, uint16_t, uint16_t>, "=h h");
  AddBytes<E4m3>(t, "e4m3x2");
  AddBytes<E5m2>(t, "e5m2x2");
  AddTf32<Tf32Round::kNearestAway>(t, ".rna");
  AddTf32<Tf32Round::kNearestEven>(t, ".rn");
  AddTf32<Tf32Round::kZero>(t, ".rz");
}

}  // namespace softcuda::exec::SOFTCUDA_ISA
