// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// ld and st on shared, local and parameter memory.
#include "exec/ops/lanes.h"
#include "exec/ops/memory.h"
#include "exec/ops/registration.h"

namespace softcuda::exec::SOFTCUDA_ISA {
namespace {

template <class M, class R, uint32_t N>
const Inst* LoadShared(Warp& w, const Inst& i, uint32_t mask) {
  if (mask == 0) return &i + 1;
  alignas(64) uint32_t at[kLanes];
  const Pattern pattern = PrepareWindow<sizeof(M) * N>(
      w, i, mask, i.a, w.shared_plain_bytes, FaultKind::kShared, at);
  if (pattern == Pattern::kFault) return nullptr;
  ReadLanes<M, R, N>(pattern, Registers<R, N>(w, i, i.dst), mask,
                     [&](uint32_t l) { return w.shared + at[l]; });
  return &i + 1;
}

template <class M, class R, uint32_t N>
const Inst* StoreShared(Warp& w, const Inst& i, uint32_t mask) {
  if (mask == 0) return &i + 1;
  alignas(64) uint32_t at[kLanes];
  const Pattern pattern = PrepareWindow<sizeof(M) * N, true>(
      w, i, mask, i.dst, w.shared_plain_bytes, FaultKind::kShared, at);
  if (pattern == Pattern::kFault) return nullptr;
  WriteLanes<M, R, N>(pattern, Registers<R, N>(w, i, i.a), mask,
                      [&](uint32_t l) { return w.shared + at[l]; });
  return &i + 1;
}

// Each lane has its own stretch of local memory, so lanes never lie one behind
// the other.
template <class M, class R, uint32_t N>
const Inst* LoadLocal(Warp& w, const Inst& i, uint32_t mask) {
  if (mask == 0) return &i + 1;
  alignas(64) uint32_t at[kLanes];
  if (PrepareWindow<sizeof(M) * N>(w, i, mask, i.a, w.local_bytes,
                                   FaultKind::kLocal, at) == Pattern::kFault) {
    return nullptr;
  }
  ReadLanes<M, R, N>(
      Pattern::kGather, Registers<R, N>(w, i, i.dst), mask,
      [&](uint32_t l) { return w.local + l * w.local_bytes + at[l]; });
  return &i + 1;
}

template <class M, class R, uint32_t N>
const Inst* StoreLocal(Warp& w, const Inst& i, uint32_t mask) {
  if (mask == 0) return &i + 1;
  alignas(64) uint32_t at[kLanes];
  if (PrepareWindow<sizeof(M) * N>(w, i, mask, i.dst, w.local_bytes,
                                   FaultKind::kLocal, at) == Pattern::kFault) {
    return nullptr;
  }
  WriteLanes<M, R, N>(
      Pattern::kGather, Registers<R, N>(w, i, i.a), mask,
      [&](uint32_t l) { return w.local + l * w.local_bytes + at[l]; });
  return &i + 1;
}

template <class M, class R, uint32_t N>
const Inst* LoadParam(Warp& w, const Inst& i, uint32_t mask) {
  if (mask == 0) return &i + 1;
  alignas(64) uint32_t at[kLanes];
  Pattern pattern = PrepareWindow<sizeof(M) * N>(w, i, mask, i.a, w.param_bytes,
                                                 FaultKind::kParam, at);
  if (pattern == Pattern::kFault) return nullptr;
  ReadLanes<M, R, N>(pattern, Registers<R, N>(w, i, i.dst), mask,
                     [&](uint32_t l) { return w.params + at[l]; });
  return &i + 1;
}

template <class M, class R, uint32_t N>
void AddVector(FormTable& t, const char* vector, const char* type,
               const char* load, const char* store) {
  t.AddParts({"ld.shared", vector, type}, LoadShared<M, R, N>, load);
  t.AddParts({"ld.local", vector, type}, LoadLocal<M, R, N>, load);
  t.AddParts({"ld.param", vector, type}, LoadParam<M, R, N>, load);
  t.AddParts({"st.shared", vector, type}, StoreShared<M, R, N>, store);
  t.AddParts({"st.local", vector, type}, StoreLocal<M, R, N>, store);
}

}  // namespace

void AddLocalMemoryForms(FormTable& t) {
#define SOFTCUDA_ADD_TYPE(M, R, type, to, from)                     \
  AddVector<M, R, 1>(t, "", type, "=" to " m32", "m32 " from);      \
  AddVector<M, R, 2>(t, ".v2", type, "=2" to " m32", "m32 2" from); \
  AddVector<M, R, 4>(t, ".v4", type, "=4" to " m32", "m32 4" from)
  SOFTCUDA_NARROW_MEMORY_TYPES(SOFTCUDA_ADD_TYPE);
#undef SOFTCUDA_ADD_TYPE
#define SOFTCUDA_ADD_TYPE(type)                                     \
  AddVector<uint64_t, uint64_t, 1>(t, "", type, "=l m32", "m32 l"); \
  AddVector<uint64_t, uint64_t, 2>(t, ".v2", type, "=2l m32", "m32 2l")
  SOFTCUDA_WIDE_MEMORY_TYPES(SOFTCUDA_ADD_TYPE);
#undef SOFTCUDA_ADD_TYPE
}

}  // namespace softcuda::exec::SOFTCUDA_ISA
