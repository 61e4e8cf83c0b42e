// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// mov with its packing forms, cvta, and the resizes that the decoder inserts
// where a register is wider or narrower than an instruction's type.
#include <type_traits>

#include "exec/ops/lanes.h"
#include "exec/ops/registration.h"

namespace softcuda::exec::SOFTCUDA_ISA {
namespace {

struct Copy {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a) {
    return a;
  }
};
template <class D>
struct Resize {
  template <class T>
  static SOFTCUDA_INLINE D Do(T a) {
    return static_cast<D>(a);
  }
};
// A shared or local address out of a 64-bit register: what does not fit must
// not become a valid address.
struct NarrowAddress {
  static SOFTCUDA_INLINE uint32_t Do(uint64_t a) {
    return a > 0xffffffffULL ? 0xffffffffU : static_cast<uint32_t>(a);
  }
};
template <uint64_t kWindow>
struct FromWindow {
  static SOFTCUDA_INLINE uint64_t Do(uint64_t a) { return a - kWindow; }
};
template <uint64_t kWindow>
struct ToWindow {
  static SOFTCUDA_INLINE uint64_t Do(uint64_t a) { return a + kWindow; }
};

const Inst* MovePredicate(Warp& w, const Inst& i, uint32_t mask) {
  SetPredicate(w, i.dst, Predicate(w, i.a), mask);
  return &i + 1;
}

template <class T, class Part, uint32_t N>
const Inst* Pack(Warp& w, const Inst& i, uint32_t mask) {
  const Part* parts[N];
  for (uint32_t k = 0; k < N; ++k) parts[k] = Lanes<Part>(w, i.ext[i.a + k]);
  ForLanes(Lanes<T>(w, i.dst), mask, [&](uint32_t l) {
    T value = 0;
    for (uint32_t k = 0; k < N; ++k) {
      value = static_cast<T>(
          value | static_cast<T>(T{parts[k][l]} << (8 * sizeof(Part) * k)));
    }
    return value;
  });
  return &i + 1;
}

template <class T, class Part, uint32_t N>
const Inst* Unpack(Warp& w, const Inst& i, uint32_t mask) {
  // A part may be the register that is taken apart.
  alignas(64) T whole[kLanes];
  std::memcpy(whole, Lanes<T>(w, i.a), sizeof(whole));
  for (uint32_t k = 0; k < N; ++k) {
    ForLanes(Lanes<Part>(w, i.ext[i.dst + k]), mask, [&](uint32_t l) {
      return static_cast<Part>(whole[l] >> (8 * sizeof(Part) * k));
    });
  }
  return &i + 1;
}

enum class SpaceOf { kGlobal, kShared, kLocal };

template <SpaceOf kSpace>
const Inst* IsSpace(Warp& w, const Inst& i, uint32_t mask) {
  const uint64_t* a = Lanes<uint64_t>(w, i.a);
  const uint32_t bits = BitsOf([=](uint32_t l) {
    const uint64_t window = a[l] >> kWindowShift;
    return window == (kSpace == SpaceOf::kGlobal ? 0
                      : kSpace == SpaceOf::kShared
                          ? kSharedWindow >> kWindowShift
                          : kLocalWindow >> kWindowShift);
  });
  SetPredicate(w, i.dst, bits, mask);
  return &i + 1;
}

}  // namespace

void AddMoveForms(FormTable& t) {
  using U16 = uint16_t;
  using U32 = uint32_t;
  using U64 = uint64_t;
  for (const char* type : {".b16", ".u16", ".s16", ".f16", ".bf16"}) {
    t.Add("mov", type, Unary<Copy, U16, U16>, "=h h", "");
  }
  for (const char* type : {".b32", ".u32", ".s32", ".f32"}) {
    t.Add("mov", type, Unary<Copy, U32, U32>, "=r r", "");
  }
  for (const char* type : {".b64", ".u64", ".s64", ".f64"}) {
    t.Add("mov", type, Unary<Copy, U64, U64>, "=l l", "");
  }
  t.Add("mov.pred", MovePredicate, "=p p");
  t.Add("mov.pack.b32.2", Pack<U32, U16, 2>, "=r 2h");
  t.Add("mov.pack.b64.2", Pack<U64, U32, 2>, "=l 2r");
  t.Add("mov.pack.b64.4", Pack<U64, U16, 4>, "=l 4h");
  t.Add("mov.unpack.b32.2", Unpack<U32, U16, 2>, "=2h r");
  t.Add("mov.unpack.b64.2", Unpack<U64, U32, 2>, "=2r l");
  t.Add("mov.unpack.b64.4", Unpack<U64, U16, 4>, "=4h l");

  t.Add(".resize.u16.u32", Unary<Resize<U16>, U16, U32>, "=h r");
  t.Add(".resize.u16.u64", Unary<Resize<U16>, U16, U64>, "=h l");
  t.Add(".resize.u32.u16", Unary<Resize<U32>, U32, U16>, "=r h");
  t.Add(".resize.u32.u64", Unary<Resize<U32>, U32, U64>, "=r l");
  t.Add(".resize.u64.u16", Unary<Resize<U64>, U64, U16>, "=l h");
  t.Add(".resize.u64.u32", Unary<Resize<U64>, U64, U32>, "=l r");
  t.Add(".resize.s32.s16", Unary<Resize<int32_t>, int32_t, int16_t>, "=r h");
  t.Add(".resize.s64.s16", Unary<Resize<int64_t>, int64_t, int16_t>, "=l h");
  t.Add(".resize.s64.s32", Unary<Resize<int64_t>, int64_t, int32_t>, "=l r");
  t.Add(".resize.address", Unary<NarrowAddress, U32, U64>, "=r l");

  for (const char* space : {"global", "const"}) {
    t.AddParts({"cvta.", space, ".u64"}, Unary<Copy, U64, U64>, "=l l");
    t.AddParts({"cvta.to.", space, ".u64"}, Unary<Copy, U64, U64>, "=l l");
  }
  t.Add("cvta.shared.u64", Unary<ToWindow<kSharedWindow>, U64, U64>, "=l l");
  t.Add("cvta.local.u64", Unary<ToWindow<kLocalWindow>, U64, U64>, "=l l");
  t.Add("cvta.param.u64", Unary<ToWindow<kParamWindow>, U64, U64>, "=l l");
  t.Add("cvta.to.shared.u64", Unary<FromWindow<kSharedWindow>, U64, U64>,
        "=l l");
  t.Add("cvta.to.local.u64", Unary<FromWindow<kLocalWindow>, U64, U64>, "=l l");
  t.Add("cvta.to.param.u64", Unary<FromWindow<kParamWindow>, U64, U64>, "=l l");
  t.Add("isspacep.global", IsSpace<SpaceOf::kGlobal>, "=p l");
  t.Add("isspacep.shared", IsSpace<SpaceOf::kShared>, "=p l");
  t.Add("isspacep.local", IsSpace<SpaceOf::kLocal>, "=p l");
}

}  // namespace softcuda::exec::SOFTCUDA_ISA
