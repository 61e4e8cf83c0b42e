// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_EXEC_WATCH_H_
#define SOFTCUDA_EXEC_WATCH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "check/access_log.h"
#include "exec/memory_check.h"
#include "exec/race_shadow.h"
#include "exec/warp.h"
#include "exec/warp_order.h"

namespace softcuda::exec {

class LaunchState;
struct LaunchAccesses;

/// What is kept of all accesses of one launch: which bytes it touched, and, for
/// the racecheck, who touched each last.
///
/// Threads: one at a time, so a watched launch runs on one host thread.
class LaunchWatch {
 public:
  /// `accesses` may be null: then they are not recorded.
  LaunchWatch(LaunchState& state, LaunchAccesses* accesses, bool races)
      : state_(state), accesses_(accesses), races_(races) {}

  bool races() const { return races_; }
  LaunchState& state() { return state_; }
  SyncOrder& sync() { return sync_; }

  void Record(const Warp& warp, check::AccessClass access, uint64_t address,
              uint64_t bytes, uint32_t site);
  RaceShadow& global() { return global_; }

  /// True the first time that two instructions race.
  bool IsNewPair(uint32_t inst, uint32_t previous) {
    return told_.insert({inst, previous}).second;
  }

 private:
  LaunchState& state_;
  LaunchAccesses* accesses_;
  bool races_;
  RaceShadow global_;
  SyncOrder sync_;
  std::set<std::pair<uint32_t, uint32_t>> told_;
};

/// What is kept of one resident block: its undefined bytes of shared memory,
/// and the order of its warps.
///
/// Threads: those of the block.
class BlockWatch {
 public:
  /// `launch` is null when only undefined shared memory is looked for.
  BlockWatch(LaunchState& state, LaunchWatch* launch, bool initcheck,
             uint32_t shared_bytes);

  bool watches_global() const { return launch_ != nullptr; }
  bool watches_shared() const { return initcheck_ || HasRaces(); }

  /// A new block begins.
  void Start(uint64_t block);

  /// `bytes` from `address` by one lane, or by neighbouring lanes from `lane`
  /// on, `lane_bytes` each.
  void OnGlobal(Warp& warp, const Inst& inst, uint32_t lane, uint64_t address,
                uint64_t bytes, uint64_t lane_bytes, AccessKind kind);
  void OnShared(Warp& warp, const Inst& inst, uint32_t lane, uint64_t address,
                uint64_t bytes, AccessKind kind);
  void OnCopyDone(Warp& warp, const PendingCopy& copy);
  void OnFence(const Warp& warp, bool is_block_wide);
  /// The warp reached a barrier; then, for each warp that goes on behind it.
  void OnArrive(const Warp& warp, uint32_t barrier);
  void OnLeave(const Warp& warp, uint32_t barrier);
  /// All that waited have left.
  void OnBarrierDone(uint32_t barrier);

 private:
  static constexpr uint32_t kBarriers = 16;

  bool HasRaces() const { return launch_ != nullptr && launch_->races(); }
  check::AccessClass ClassOf(const Inst& inst, AccessKind kind) const;
  Stamp StampOf(const Warp& warp, const Inst& inst, uint32_t lane,
                check::AccessClass access) const;
  void Synchronize(const Warp& warp, uint64_t variable,
                   check::AccessClass access);
  void Compare(Warp& warp, const Inst& inst, uint32_t lane, bool is_shared,
               uint64_t address, uint64_t bytes, uint64_t lane_bytes,
               check::AccessClass access);
  void CompareCell(Warp& warp, const Inst& inst, bool is_shared,
                   uint64_t address, const Stamp& stamp, ShadowCell* cell);
  bool IsOrdered(const Stamp& before, const Stamp& now) const;
  uint32_t IndexOf(const Inst& inst) const;
  void SetUndefined(uint64_t address, uint64_t bytes, bool undefined);
  bool AnyUndefined(uint64_t address, uint64_t bytes) const;

  LaunchState& state_;
  LaunchWatch* launch_;
  bool initcheck_;
  uint32_t shared_bytes_;
  uint32_t block_ = 0;
  std::vector<bool> undefined_;
  RaceShadow shared_;
  std::array<WarpOrder, kMaxWarps> warps_;
  std::array<Knowledge, kBarriers> at_barrier_;
  std::array<WarpOrder, kBarriers> fences_at_barrier_;
};

}  // namespace softcuda::exec

#endif  // SOFTCUDA_EXEC_WATCH_H_
