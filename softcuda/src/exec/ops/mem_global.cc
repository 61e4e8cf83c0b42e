// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// ld and st on device memory, by global, const and generic addresses.
#include "exec/ops/lanes.h"
#include "exec/ops/memory.h"
#include "exec/ops/registration.h"

namespace softcuda::exec::SOFTCUDA_ISA {
namespace {

template <class M, class R, uint32_t N>
SOFTCUDA_DEVICE_MEMORY const Inst* Load(Warp& w, const Inst& i, uint32_t mask) {
  if (mask == 0) return &i + 1;
  alignas(64) uint64_t at[kLanes];
  const Pattern pattern =
      PrepareGlobal<sizeof(M) * N, false>(w, i, mask, i.a, at);
  if (pattern == Pattern::kFault) return nullptr;
  ReadLanes<M, R, N>(pattern, Registers<R, N>(w, i, i.dst), mask,
                     [&](uint32_t l) { return HostPointer(at[l]); });
  return &i + 1;
}

template <class M, class R, uint32_t N>
SOFTCUDA_DEVICE_MEMORY const Inst* Store(Warp& w, const Inst& i,
                                         uint32_t mask) {
  if (mask == 0) return &i + 1;
  alignas(64) uint64_t at[kLanes];
  const Pattern pattern =
      PrepareGlobal<sizeof(M) * N, true>(w, i, mask, i.dst, at);
  if (pattern == Pattern::kFault) return nullptr;
  WriteLanes<M, R, N>(pattern, Registers<R, N>(w, i, i.a), mask,
                      [&](uint32_t l) { return HostPointer(at[l]); });
  return &i + 1;
}

SOFTCUDA_INLINE bool IsInWindow(const Warp& w, const Inst& i, uint32_t mask,
                                uint32_t base_slot) {
  const uint64_t* base = Lanes<uint64_t>(w, base_slot);
  const uint64_t offset = static_cast<uint64_t>(i.imm);
  uint64_t any = 0;
  for (uint32_t l = 0; l < kLanes; ++l) {
    any |= (mask >> l & 1) != 0 ? base[l] + offset : 0;
  }
  return any >> kWindowShift != 0;
}

template <class M, class R, uint32_t N>
SOFTCUDA_DEVICE_MEMORY const Inst* LoadGeneric(Warp& w, const Inst& i,
                                               uint32_t mask) {
  if (!IsInWindow(w, i, mask, i.a)) return Load<M, R, N>(w, i, mask);
  const uint64_t* base = Lanes<uint64_t>(w, i.a);
  const std::byte* from[kLanes];
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const uint32_t l = FirstLane(rest);
    from[l] = GenericPointer(w, i, l, base[l] + static_cast<uint64_t>(i.imm),
                             sizeof(M) * N, AccessKind::kRead);
    if (from[l] == nullptr) return nullptr;
  }
  ReadLanes<M, R, N>(Pattern::kGather, Registers<R, N>(w, i, i.dst), mask,
                     [&](uint32_t l) { return from[l]; });
  return &i + 1;
}

template <class M, class R, uint32_t N>
SOFTCUDA_DEVICE_MEMORY const Inst* StoreGeneric(Warp& w, const Inst& i,
                                                uint32_t mask) {
  if (!IsInWindow(w, i, mask, i.dst)) return Store<M, R, N>(w, i, mask);
  const uint64_t* base = Lanes<uint64_t>(w, i.dst);
  std::byte* to[kLanes];
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const uint32_t l = FirstLane(rest);
    to[l] = GenericPointer(w, i, l, base[l] + static_cast<uint64_t>(i.imm),
                           sizeof(M) * N, AccessKind::kWrite);
    if (to[l] == nullptr) return nullptr;
  }
  WriteLanes<M, R, N>(Pattern::kGather, Registers<R, N>(w, i, i.a), mask,
                      [&](uint32_t l) { return to[l]; });
  return &i + 1;
}

template <class M, class R, uint32_t N>
void AddVector(FormTable& t, const char* vector, const char* type,
               const char* load, const char* store) {
  t.AddParts({"ld.global", vector, type}, Load<M, R, N>, load);
  t.AddParts({"ld.const", vector, type}, Load<M, R, N>, load);
  t.AddParts({"ld", vector, type}, LoadGeneric<M, R, N>, load);
  t.AddParts({"st.global", vector, type}, Store<M, R, N>, store);
  t.AddParts({"st", vector, type}, StoreGeneric<M, R, N>, store);
}

}  // namespace

void AddGlobalMemoryForms(FormTable& t) {
#define SOFTCUDA_ADD_TYPE(M, R, type, to, from)                     \
  AddVector<M, R, 1>(t, "", type, "=" to " m64", "m64 " from);      \
  AddVector<M, R, 2>(t, ".v2", type, "=2" to " m64", "m64 2" from); \
  AddVector<M, R, 4>(t, ".v4", type, "=4" to " m64", "m64 4" from)
  SOFTCUDA_NARROW_MEMORY_TYPES(SOFTCUDA_ADD_TYPE);
#undef SOFTCUDA_ADD_TYPE
#define SOFTCUDA_ADD_TYPE(type)                                     \
  AddVector<uint64_t, uint64_t, 1>(t, "", type, "=l m64", "m64 l"); \
  AddVector<uint64_t, uint64_t, 2>(t, ".v2", type, "=2l m64", "m64 2l")
  SOFTCUDA_WIDE_MEMORY_TYPES(SOFTCUDA_ADD_TYPE);
#undef SOFTCUDA_ADD_TYPE
}

}  // namespace softcuda::exec::SOFTCUDA_ISA
