// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/memory_check.h"

#include "exec/block.h"
#include "exec/launch_state.h"
#include "exec/watch.h"
#include "memory/init_shadow.h"
#include "memory/snapshot.h"

namespace softcuda::exec {
namespace {

const Span* FindOrResolve(Warp& warp, uint64_t address, uint64_t bytes) {
  for (const Span& span : warp.spans) {
    if (span.begin <= address && address < span.end &&
        bytes <= span.end - address) {
      return &span;
    }
  }
  const Span* span = ResolveSpan(warp, address);
  if (span == nullptr || bytes > span->end - address) return nullptr;
  return span;
}

bool IsWrite(AccessKind kind) { return kind != AccessKind::kRead; }
bool IsRead(AccessKind kind) {
  return kind == AccessKind::kRead || kind == AccessKind::kAtomic;
}

bool Allows(const Span& span, AccessKind kind) {
  return (!IsRead(kind) || span.readable) && (!IsWrite(kind) || span.writable);
}

// Looks for undefined bytes before a read, and marks what is written.
void CheckDefined(Warp& warp, const Inst& inst, uint32_t lane, const Span& span,
                  uint64_t address, uint64_t bytes, AccessKind kind) {
  if (span.shadow == nullptr) return;
  const uint64_t offset = span.shadow_offset + (address - span.begin);
  if (IsRead(kind) && warp.block->launch().initcheck() &&
      span.shadow->AnyUndefined(offset, bytes) != memory::InitShadow::npos) {
    ReportUndefined(warp, inst, lane, address, bytes);
  }
  if (IsWrite(kind)) span.shadow->MarkDefined(offset, bytes);
}

// One lane's access to device memory. False after a fault.
bool CheckLane(Warp& warp, const Inst& inst, uint32_t lane, uint64_t address,
               uint64_t bytes, AccessKind kind) {
  if (address % bytes != 0) {
    Fault(warp, inst, FaultKind::kMisaligned, lane, address, bytes);
    return false;
  }
  const Span* span = FindOrResolve(warp, address, bytes);
  if (span == nullptr || !Allows(*span, kind)) {
    Fault(warp, inst, IsWrite(kind) ? FaultKind::kWrite : FaultKind::kRead,
          lane, address, bytes);
    return false;
  }
  CheckDefined(warp, inst, lane, *span, address, bytes, kind);
  if (warp.watch != nullptr) {
    warp.watch->OnGlobal(warp, inst, lane, address, bytes, bytes, kind);
  }
  return true;
}

// The access of all 32 lanes when they lie one behind the other in one span:
// false when they do not, or when one lane has something to report.
bool CheckInARow(Warp& warp, const Inst& inst, const uint64_t* addresses,
                 uint64_t bytes, AccessKind kind) {
  const uint64_t first = addresses[0];
  if (first % bytes != 0) return false;
  for (uint32_t l = 1; l < kLanes; ++l) {
    if (addresses[l] != first + l * bytes) return false;
  }
  const uint64_t all = kLanes * bytes;
  const Span* span = FindOrResolve(warp, first, all);
  if (span == nullptr || !Allows(*span, kind)) return false;
  if (span->shadow != nullptr) {
    const uint64_t offset = span->shadow_offset + (first - span->begin);
    if (IsRead(kind) && warp.block->launch().initcheck() &&
        span->shadow->AnyUndefined(offset, all) != memory::InitShadow::npos) {
      return false;
    }
    if (IsWrite(kind)) span->shadow->MarkDefined(offset, all);
  }
  if (warp.watch != nullptr) {
    warp.watch->OnGlobal(warp, inst, 0, first, all, bytes, kind);
  }
  return true;
}

}  // namespace

const Span* ResolveSpan(Warp& warp, uint64_t address) {
  memory::Interval interval;
  if (!warp.block->launch().snapshot().Resolve(address, &interval)) {
    return nullptr;
  }
  Span& span = warp.spans[warp.next_span++ % kSpans];
  span.begin = interval.begin;
  span.end = interval.end;
  span.readable = memory::Allows(interval.access, false);
  span.writable = memory::Allows(interval.access, true);
  span.shadow = interval.shadow;
  span.shadow_offset = interval.shadow_offset;
  span.plain = interval.shadow == nullptr &&
               (warp.watch == nullptr || !warp.watch->watches_global());
  return &span;
}

bool CheckGlobalLanes(Warp& warp, const Inst& inst, uint32_t mask,
                      const uint64_t* addresses, uint64_t bytes,
                      AccessKind kind) {
  if (mask == 0xffffffffU && CheckInARow(warp, inst, addresses, bytes, kind)) {
    return true;
  }
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(__builtin_ctz(rest));
    if (!CheckLane(warp, inst, lane, addresses[lane], bytes, kind)) {
      return false;
    }
  }
  return true;
}

bool CheckSharedLanes(Warp& warp, const Inst& inst, uint32_t mask,
                      const uint32_t* addresses, uint64_t bytes,
                      AccessKind kind) {
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(__builtin_ctz(rest));
    if (SharedPointer(warp, inst, lane, addresses[lane], bytes, kind) ==
        nullptr) {
      return false;
    }
  }
  return true;
}

std::byte* SharedPointer(Warp& warp, const Inst& inst, uint32_t lane,
                         uint64_t address, uint64_t bytes, AccessKind kind) {
  if (address > warp.shared_bytes || bytes > warp.shared_bytes - address) {
    Fault(warp, inst, FaultKind::kShared, lane, address, bytes);
    return nullptr;
  }
  if (address % bytes != 0) {
    Fault(warp, inst, FaultKind::kMisalignedShared, lane, address, bytes);
    return nullptr;
  }
  if (warp.watch != nullptr) {
    warp.watch->OnShared(warp, inst, lane, address, bytes, kind);
  }
  return warp.shared + address;
}

void NoteFence(Warp& warp, bool is_block_wide) {
  warp.watch->OnFence(warp, is_block_wide);
}

void NoteCopyDone(Warp& warp, const PendingCopy& copy) {
  warp.watch->OnCopyDone(warp, copy);
}

std::byte* GenericPointer(Warp& warp, const Inst& inst, uint32_t lane,
                          uint64_t address, uint64_t bytes, AccessKind kind) {
  const uint64_t window = address >> kWindowShift << kWindowShift;
  const uint64_t offset = address - window;
  if (window == kSharedWindow) {
    return SharedPointer(warp, inst, lane, offset, bytes, kind);
  }
  if (window == kLocalWindow || window == kParamWindow) {
    const bool is_local = window == kLocalWindow;
    const uint64_t size = is_local ? warp.local_bytes : warp.param_bytes;
    if (offset > size || bytes > size - offset ||
        (IsWrite(kind) && !is_local)) {
      Fault(warp, inst, is_local ? FaultKind::kLocal : FaultKind::kParam, lane,
            offset, bytes);
      return nullptr;
    }
    if (offset % bytes != 0) {
      Fault(warp, inst, FaultKind::kMisaligned, lane, address, bytes);
      return nullptr;
    }
    if (is_local) return warp.local + uint64_t{lane} * size + offset;
    return const_cast<std::byte*>(warp.params) + offset;
  }
  if (!CheckLane(warp, inst, lane, address, bytes, kind)) return nullptr;
  return reinterpret_cast<std::byte*>(address);
}

}  // namespace softcuda::exec
