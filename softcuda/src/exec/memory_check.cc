// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/memory_check.h"

#include "exec/block.h"
#include "exec/launch_state.h"
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

// One lane's access to device memory. False after a fault.
bool CheckLane(Warp& warp, const Inst& inst, uint32_t lane, uint64_t address,
               uint64_t bytes, bool write) {
  if (address % bytes != 0) {
    Fault(warp, inst, FaultKind::kMisaligned, lane, address, bytes);
    return false;
  }
  const Span* span = FindOrResolve(warp, address, bytes);
  if (span == nullptr || !(write ? span->writable : span->readable)) {
    Fault(warp, inst, write ? FaultKind::kWrite : FaultKind::kRead, lane,
          address, bytes);
    return false;
  }
  if (span->shadow != nullptr) {
    const uint64_t offset = span->shadow_offset + (address - span->begin);
    if (write) {
      span->shadow->MarkDefined(offset, bytes);
    } else if (warp.block->launch().initcheck() &&
               span->shadow->AnyUndefined(offset, bytes) !=
                   memory::InitShadow::npos) {
      ReportUndefined(warp, inst, lane, address, bytes);
    }
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
  return &span;
}

bool CheckGlobalLanes(Warp& warp, const Inst& inst, uint32_t mask,
                      const uint64_t* addresses, uint64_t bytes, bool write) {
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) != 0 &&
        !CheckLane(warp, inst, lane, addresses[lane], bytes, write)) {
      return false;
    }
  }
  return true;
}

std::byte* SharedPointer(Warp& warp, const Inst& inst, uint32_t lane,
                         uint64_t address, uint64_t bytes) {
  if (address > warp.shared_bytes || bytes > warp.shared_bytes - address) {
    Fault(warp, inst, FaultKind::kShared, lane, address, bytes);
    return nullptr;
  }
  if (address % bytes != 0) {
    Fault(warp, inst, FaultKind::kMisalignedShared, lane, address, bytes);
    return nullptr;
  }
  return warp.shared + address;
}

std::byte* GenericPointer(Warp& warp, const Inst& inst, uint32_t lane,
                          uint64_t address, uint64_t bytes, bool write) {
  const uint64_t window = address >> kWindowShift << kWindowShift;
  const uint64_t offset = address - window;
  if (window == kSharedWindow) {
    return SharedPointer(warp, inst, lane, offset, bytes);
  }
  if (window == kLocalWindow || window == kParamWindow) {
    const bool is_local = window == kLocalWindow;
    const uint64_t size = is_local ? warp.local_bytes : warp.param_bytes;
    if (offset > size || bytes > size - offset || (write && !is_local)) {
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
  if (!CheckLane(warp, inst, lane, address, bytes, write)) return nullptr;
  return reinterpret_cast<std::byte*>(address);
}

}  // namespace softcuda::exec
