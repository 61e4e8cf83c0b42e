// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// setp, set, selp and slct on integers, f32 and f64.
#include <type_traits>

#include "exec/ops/compare.h"
#include "exec/ops/lanes.h"
#include "exec/ops/numbers.h"
#include "exec/ops/registration.h"

namespace softcuda::exec::SOFTCUDA_ISA {
namespace {

template <class T>
struct Plain {
  using Storage = T;
  static SOFTCUDA_INLINE T Load(T v) { return v; }
};
struct Flushed {
  using Storage = float;
  static SOFTCUDA_INLINE float Load(float v) { return Flush(v); }
};

template <class T>
void AddEqualForms(FormTable& t, const char* type, const char* r) {
  AddCompare<Eq, Plain<T>>(t, "eq", type, r);
  AddCompare<Ne, Plain<T>>(t, "ne", type, r);
}

template <class T>
void AddIntegerForms(FormTable& t, const char* type, const char* r) {
  AddEqualForms<T>(t, type, r);
  AddCompare<Lt, Plain<T>>(t, "lt", type, r);
  AddCompare<Le, Plain<T>>(t, "le", type, r);
  AddCompare<Gt, Plain<T>>(t, "gt", type, r);
  AddCompare<Ge, Plain<T>>(t, "ge", type, r);
  if constexpr (std::is_unsigned_v<T>) {
    AddCompare<Lt, Plain<T>>(t, "lo", type, r);
    AddCompare<Le, Plain<T>>(t, "ls", type, r);
    AddCompare<Gt, Plain<T>>(t, "hi", type, r);
    AddCompare<Ge, Plain<T>>(t, "hs", type, r);
  }
}

struct Select {
  template <class T>
  static const Inst* Run(Warp& w, const Inst& i, uint32_t mask) {
    const T* a = Lanes<T>(w, i.a);
    const T* b = Lanes<T>(w, i.b);
    const uint32_t p = Predicate(w, i.c);
    ForLanes(Lanes<T>(w, i.dst), mask,
             [=](uint32_t l) { return (p >> l & 1) != 0 ? a[l] : b[l]; });
    return &i + 1;
  }
};

struct SelectBySign {
  template <class T, class C>
  static SOFTCUDA_INLINE T Do(T a, T b, C c) {
    return c >= C{0} ? a : b;
  }
};
struct SelectBySignFtz {
  template <class T>
  static SOFTCUDA_INLINE T Do(T a, T b, float c) {
    return Flush(c) >= 0 ? a : b;
  }
};

template <class T>
void AddSelect(FormTable& t, const char* type, const char* r) {
  t.Add("selp", type, Select::Run<T>, "=? ? ? p", r);
  t.AddParts({"slct", type, ".s32"}, Ternary<SelectBySign, T, T, T, int32_t>,
             r[0] == 'h'   ? "=h h h r"
             : r[0] == 'r' ? "=r r r r"
                           : "=l l l r");
  t.AddParts({"slct", type, ".f32"}, Ternary<SelectBySign, T, T, T, float>,
             r[0] == 'h'   ? "=h h h r"
             : r[0] == 'r' ? "=r r r r"
                           : "=l l l r");
  t.AddParts({"slct.ftz", type, ".f32"},
             Ternary<SelectBySignFtz, T, T, T, float>,
             r[0] == 'h'   ? "=h h h r"
             : r[0] == 'r' ? "=r r r r"
                           : "=l l l r");
}

}  // namespace

void AddCompareForms(FormTable& t) {
  AddEqualForms<uint16_t>(t, ".b16", "h");
  AddEqualForms<uint32_t>(t, ".b32", "r");
  AddEqualForms<uint64_t>(t, ".b64", "l");
  AddIntegerForms<uint16_t>(t, ".u16", "h");
  AddIntegerForms<int16_t>(t, ".s16", "h");
  AddIntegerForms<uint32_t>(t, ".u32", "r");
  AddIntegerForms<int32_t>(t, ".s32", "r");
  AddIntegerForms<uint64_t>(t, ".u64", "l");
  AddIntegerForms<int64_t>(t, ".s64", "l");
  AddFloatCompares<Plain<float>>(t, "", ".f32", "r");
  AddFloatCompares<Flushed>(t, ".ftz", ".f32", "r");
  AddFloatCompares<Plain<double>>(t, "", ".f64", "l");
  for (const char* type : {".b16", ".u16", ".s16", ".f16", ".bf16"}) {
    AddSelect<uint16_t>(t, type, "h");
  }
  for (const char* type : {".b32", ".u32", ".s32", ".f32"}) {
    AddSelect<uint32_t>(t, type, "r");
  }
  for (const char* type : {".b64", ".u64", ".s64", ".f64"}) {
    AddSelect<uint64_t>(t, type, "l");
  }
}

}  // namespace softcuda::exec::SOFTCUDA_ISA
