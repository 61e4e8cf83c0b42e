// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// cp.async. A copy is checked when it is issued and carried out when its group
// is waited for, which is as late as a device may do it.
#include "exec/ops/lanes.h"
#include "exec/ops/memory.h"
#include "exec/ops/registration.h"

namespace softcuda::exec::SOFTCUDA_ISA {
namespace {

template <bool kHasSourceSize>
const Inst* Issue(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t* to = Lanes<uint32_t>(w, i.dst);
  const uint64_t* from = Lanes<uint64_t>(w, i.a);
  const uint32_t* size = Lanes<uint32_t>(w, i.b);
  const uint32_t* source_size = Lanes<uint32_t>(w, kHasSourceSize ? i.c : i.b);
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const uint32_t l = FirstLane(rest);
    PendingCopy copy;
    copy.to = to[l] + static_cast<uint32_t>(i.imm);
    copy.bytes = static_cast<uint8_t>(size[l]);
    copy.from_bytes = static_cast<uint8_t>(
        source_size[l] < copy.bytes ? source_size[l] : copy.bytes);
    copy.from = from[l];
    copy.group = w.copy_group;
    copy.inst = &i;
    copy.lane = l;
    if (SharedPointer(w, i, l, copy.to, copy.bytes, AccessKind::kWriteLater) ==
        nullptr) {
      return nullptr;
    }
    if (copy.from % copy.bytes != 0) {
      return Fault(w, i, FaultKind::kMisaligned, l, copy.from, copy.bytes);
    }
    uint64_t at[kLanes];
    // A part of a chunk need not be aligned to its own size.
    const bool is_whole = copy.from_bytes == copy.bytes;
    const uint32_t step = is_whole ? copy.bytes : 1;
    for (uint32_t k = 0; k < copy.from_bytes; k += step) {
      at[l] = copy.from + k;
      if (!CheckGlobalLanes(w, i, 1U << l, at, step, AccessKind::kRead)) {
        return nullptr;
      }
    }
    w.copies.push_back(copy);
  }
  return &i + 1;
}

void Complete(Warp& w, uint32_t end_group) {
  size_t kept = 0;
  for (const PendingCopy& copy : w.copies) {
    if (static_cast<int32_t>(copy.group - end_group) >= 0) {
      w.copies[kept++] = copy;
      continue;
    }
    std::memcpy(w.shared + copy.to, HostPointer(copy.from), copy.from_bytes);
    std::memset(w.shared + copy.to + copy.from_bytes, 0,
                copy.bytes - size_t{copy.from_bytes});
    if (w.watch != nullptr) NoteCopyDone(w, copy);
  }
  w.copies.resize(kept);
}

const Inst* Commit(Warp& w, const Inst& i, uint32_t mask) {
  if (mask != 0) ++w.copy_group;
  return &i + 1;
}

const Inst* WaitGroup(Warp& w, const Inst& i, uint32_t mask) {
  if (mask != 0) Complete(w, w.copy_group - static_cast<uint32_t>(i.imm));
  return &i + 1;
}

const Inst* WaitAll(Warp& w, const Inst& i, uint32_t mask) {
  if (mask != 0) Complete(w, ++w.copy_group);
  return &i + 1;
}

}  // namespace

void AddAsyncCopyForms(FormTable& t) {
  for (const char* cache : {"ca", "cg"}) {
    t.AddParts({"cp.async.", cache, ".shared.global/3"}, Issue<false>,
               "m32 m64 r");
    t.AddParts({"cp.async.", cache, ".shared.global/4"}, Issue<true>,
               "m32 m64 r r");
  }
  t.Add("cp.async.commit_group", Commit, "");
  t.Add("cp.async.wait_group", WaitGroup, "i");
  t.Add("cp.async.wait_all", WaitAll, "");
}

}  // namespace softcuda::exec::SOFTCUDA_ISA
