// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_ARENA_SRC_ARENA_STATE_H_
#define PERMAFROST_ARENA_SRC_ARENA_STATE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "permafrost/arena/arena.h"
#include "permafrost/arena/arena_plan.h"
#include "permafrost/driver/context.h"
#include "permafrost/driver/device_ptr.h"
#include "permafrost/driver/mutex.h"
#include "permafrost/driver/nvtx.h"
#include "segment_memory.h"

namespace permafrost::internal {

// What all handles, leases and views of one arena share.
//
// Handles and leases reach it through an ArenaOwner, whose end gives the memory
// back; views reach it directly and keep only this record alive.
class ArenaState {
 public:
  static absl::StatusOr<std::shared_ptr<ArenaState>> Create(
      ContextRef context, ArenaPlan plan, const ArenaOptions& options);

  const ArenaPlan& plan() const { return plan_; }
  const ContextRef& context() const { return context_; }
  bool is_frozen() const { return phase_.load() == Phase::kFrozen; }
  bool is_released() const { return phase_.load() == Phase::kReleased; }
  DevicePtr base() const { return is_released() ? DevicePtr() : base_; }
  uint64_t epoch() const { return 1; }

  absl::Status Freeze();
  absl::StatusOr<ArenaEvidence> ReadBack() const;
  // What Freeze read; valid once it succeeded.
  const ArenaEvidence& recorded() const { return recorded_; }

  absl::StatusOr<uint64_t> AddLease(absl::string_view holder);
  void DropLease(uint64_t id);

  absl::Status Release();
  int64_t live_bytes() const;

  // For the end of the last handle or lease: gives the memory back, and hands
  // what the driver does not take to the list of abandoned memory.
  void ReleaseOrAbandon();

 private:
  enum class Phase { kMapped, kFrozen, kReleased };

  ArenaState(ContextRef context, ArenaPlan plan)
      : context_(context),
        plan_(std::move(plan)),
        memory_(std::move(context)) {}

  absl::Status Populate(const ArenaOptions& options)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckFreeMemory(bool use_vmm) const;
  void AbandonMemory() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RegisterNvtx() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ContextRef context_;
  const ArenaPlan plan_;
  std::atomic<Phase> phase_{Phase::kMapped};
  // Written before the state is shared, and by Freeze before the phase tells.
  DevicePtr base_;
  ArenaEvidence recorded_;

  mutable Mutex mutex_;
  SegmentMemory memory_ ABSL_GUARDED_BY(mutex_);
  NvtxHeap nvtx_heap_ ABSL_GUARDED_BY(mutex_);
  // (id, holder), in the order taken.
  std::vector<std::pair<uint64_t, std::string>> leases_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_lease_id_ ABSL_GUARDED_BY(mutex_) = 0;
};

// One for all handles and leases of an arena. Its end is theirs.
class ArenaOwner {
 public:
  explicit ArenaOwner(std::shared_ptr<ArenaState> state)
      : state_(std::move(state)) {}
  ~ArenaOwner() { state_->ReleaseOrAbandon(); }
  ArenaOwner(const ArenaOwner&) = delete;
  ArenaOwner& operator=(const ArenaOwner&) = delete;

  const std::shared_ptr<ArenaState>& state() const { return state_; }

 private:
  const std::shared_ptr<ArenaState> state_;
};

// Memory that no arena holds any more and the driver did not take back.
int64_t AbandonedBytes();
absl::Status ReclaimAbandonedMemory();

}  // namespace permafrost::internal

#endif  // PERMAFROST_ARENA_SRC_ARENA_STATE_H_
