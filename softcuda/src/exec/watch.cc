// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/watch.h"

#include <algorithm>

#include "exec/block.h"
#include "exec/fault_report.h"
#include "exec/launch.h"
#include "exec/launch_state.h"

namespace softcuda::exec {
namespace {

using check::AccessClass;

// Variables in shared memory are other ones than those at the same number in
// device memory, and other ones in each block.
uint64_t SharedVariable(uint32_t block, uint64_t address) {
  return uint64_t{1} << 63 | uint64_t{block} << 24 | address;
}

}  // namespace

void LaunchWatch::Record(const Warp& warp, AccessClass access, uint64_t address,
                         uint64_t bytes, uint32_t site) {
  if (accesses_ == nullptr) return;
  accesses_->waited = accesses_->waited || warp.waited_for_grid;
  check::AccessLog& log =
      warp.waited_for_grid ? accesses_->late : accesses_->early;
  log.Add(access, address, bytes, site);
}

BlockWatch::BlockWatch(LaunchState& state, LaunchWatch* launch, bool initcheck,
                       uint32_t shared_bytes)
    : state_(state),
      launch_(launch),
      initcheck_(initcheck),
      shared_bytes_(shared_bytes) {}

void BlockWatch::Start(uint64_t block) {
  block_ = static_cast<uint32_t>(block);
  if (initcheck_) undefined_.assign(shared_bytes_, true);
  if (!HasRaces()) return;
  shared_.Clear();
  for (uint32_t w = 0; w < kMaxWarps; ++w) {
    warps_[w] = WarpOrder();
    warps_[w].now.clock[w] = 1;
  }
  for (uint32_t b = 0; b < kBarriers; ++b) OnBarrierDone(b);
}

uint32_t BlockWatch::IndexOf(const Inst& inst) const {
  return static_cast<uint32_t>(&inst - state_.program().code.data());
}

AccessClass BlockWatch::ClassOf(const Inst& inst, AccessKind kind) const {
  if (kind == AccessKind::kAtomic) return AccessClass::kAtomic;
  const bool strong = state_.program().strong[IndexOf(inst)];
  if (kind == AccessKind::kRead) {
    return strong ? AccessClass::kStrongRead : AccessClass::kRead;
  }
  return strong ? AccessClass::kStrongWrite : AccessClass::kWrite;
}

Stamp BlockWatch::StampOf(const Warp& warp, const Inst& inst, uint32_t lane,
                          AccessClass access) const {
  Stamp stamp;
  stamp.block = block_;
  stamp.clock = warps_[warp.index].now.clock[warp.index];
  stamp.inst = IndexOf(inst) + 1;
  stamp.warp = static_cast<uint8_t>(warp.index);
  stamp.lane = static_cast<uint8_t>(lane);
  stamp.access = access;
  return stamp;
}

void BlockWatch::Synchronize(const Warp& warp, uint64_t variable,
                             AccessClass access) {
  if (check::IsWeak(access)) return;
  WarpOrder& order = warps_[warp.index];
  if (check::Reads(access)) launch_->sync().Acquire(variable, &order);
  if (check::Writes(access)) {
    launch_->sync().Release(variable, block_, order);
  }
}

bool BlockWatch::IsOrdered(const Stamp& before, const Stamp& now) const {
  if (before.block == block_ && before.warp == now.warp) return true;
  const Knowledge& knowledge = warps_[now.warp].now;
  if (before.block == block_ && knowledge.clock[before.warp] >= before.clock) {
    return true;
  }
  return launch_->sync().IsBehind(knowledge, block_, before);
}

void BlockWatch::CompareCell(Warp& warp, const Inst& inst, bool is_shared,
                             uint64_t address, const Stamp& stamp,
                             ShadowCell* cell) {
  const auto compare = [&](const Stamp& before) {
    if (!before.exists() || !check::Conflict(before.access, stamp.access) ||
        IsOrdered(before, stamp)) {
      return;
    }
    if (launch_->IsNewPair(stamp.inst, before.inst)) {
      ReportRace(warp, inst, stamp, is_shared, address, 1, before);
    }
  };
  compare(cell->write);
  if (check::Writes(stamp.access)) {
    for (const Stamp& read : cell->reads) compare(read);
    cell->write = stamp;
    cell->reads = {};
    return;
  }
  for (Stamp& read : cell->reads) {
    const bool is_replaced =
        !read.exists() ||
        (read.block == stamp.block && read.warp == stamp.warp) ||
        IsOrdered(read, stamp);
    if (!is_replaced) continue;
    read = stamp;
    return;
  }
  cell->reads[1] = stamp;
}

void BlockWatch::Compare(Warp& warp, const Inst& inst, uint32_t lane,
                         bool is_shared, uint64_t address, uint64_t bytes,
                         uint64_t lane_bytes, AccessClass access) {
  RaceShadow& shadow = is_shared ? shared_ : launch_->global();
  Stamp stamp = StampOf(warp, inst, lane, access);
  for (uint64_t done = 0; done < bytes; done += lane_bytes) {
    shadow.ForEachCell(address + done, lane_bytes,
                       [&](ShadowCell& cell, uint64_t at, uint64_t) {
                         CompareCell(warp, inst, is_shared, at, stamp, &cell);
                       });
    ++stamp.lane;
  }
}

void BlockWatch::OnGlobal(Warp& warp, const Inst& inst, uint32_t lane,
                          uint64_t address, uint64_t bytes, uint64_t lane_bytes,
                          AccessKind kind) {
  if (launch_ == nullptr) return;
  const AccessClass access = ClassOf(inst, kind);
  launch_->Record(warp, access, address, bytes, IndexOf(inst) + 1);
  if (!launch_->races()) return;
  Synchronize(warp, address, access);
  Compare(warp, inst, lane, false, address, bytes, lane_bytes, access);
}

void BlockWatch::SetUndefined(uint64_t address, uint64_t bytes,
                              bool undefined) {
  for (uint64_t k = 0; k < bytes; ++k) undefined_[address + k] = undefined;
}

bool BlockWatch::AnyUndefined(uint64_t address, uint64_t bytes) const {
  for (uint64_t k = 0; k < bytes; ++k) {
    if (undefined_[address + k]) return true;
  }
  return false;
}

void BlockWatch::OnShared(Warp& warp, const Inst& inst, uint32_t lane,
                          uint64_t address, uint64_t bytes, AccessKind kind) {
  if (initcheck_) {
    const bool reads = kind == AccessKind::kRead || kind == AccessKind::kAtomic;
    if (reads && AnyUndefined(address, bytes)) {
      ReportUndefinedShared(warp, inst, lane, address, bytes);
    }
    // Until a copy is done, what it will write is not there.
    if (kind != AccessKind::kRead) {
      SetUndefined(address, bytes, kind == AccessKind::kWriteLater);
    }
  }
  if (!HasRaces()) return;
  const AccessClass access = ClassOf(inst, kind);
  Synchronize(warp, SharedVariable(block_, address), access);
  Compare(warp, inst, lane, true, address, bytes, bytes, access);
}

void BlockWatch::OnCopyDone(Warp& warp, const PendingCopy& copy) {
  if (copy.to + uint64_t{copy.bytes} > shared_bytes_) return;
  if (initcheck_) SetUndefined(copy.to, copy.bytes, false);
  if (!HasRaces()) return;
  Compare(warp, *copy.inst, copy.lane, true, copy.to, copy.bytes, copy.bytes,
          AccessClass::kWrite);
}

void BlockWatch::OnFence(const Warp& warp, bool is_block_wide) {
  if (!HasRaces()) return;
  WarpOrder& order = warps_[warp.index];
  order.fenced_in_block = order.now;
  order.has_block_fence = true;
  if (!is_block_wide) {
    order.fenced = order.now;
    order.has_fence = true;
    order.has_block_fence = false;
  }
  ++order.now.clock[warp.index];
}

void BlockWatch::OnArrive(const Warp& warp, uint32_t barrier) {
  if (!HasRaces()) return;
  WarpOrder& order = warps_[warp.index];
  at_barrier_[barrier].Join(order.now);
  // A fence of each thread before the barrier, and one thread's atomic behind
  // it, is a common way to write a release.
  WarpOrder& fences = fences_at_barrier_[barrier];
  if (order.has_fence) {
    fences.has_fence = true;
    fences.fenced.Join(order.fenced);
  }
  if (order.has_block_fence) {
    fences.has_block_fence = true;
    fences.fenced_in_block.Join(order.fenced_in_block);
  }
  ++order.now.clock[warp.index];
}

void BlockWatch::OnLeave(const Warp& warp, uint32_t barrier) {
  if (!HasRaces()) return;
  WarpOrder& order = warps_[warp.index];
  order.now.Join(at_barrier_[barrier]);
  const WarpOrder& fences = fences_at_barrier_[barrier];
  if (fences.has_fence) {
    order.has_fence = true;
    order.fenced.Join(fences.fenced);
  }
  if (fences.has_block_fence) {
    order.has_block_fence = true;
    order.fenced_in_block.Join(fences.fenced_in_block);
  }
}

void BlockWatch::OnBarrierDone(uint32_t barrier) {
  if (!HasRaces()) return;
  at_barrier_[barrier] = Knowledge();
  fences_at_barrier_[barrier] = WarpOrder();
}

}  // namespace softcuda::exec
