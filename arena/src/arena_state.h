// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_ARENA_SRC_ARENA_STATE_H_
#define PERMAFROST_ARENA_SRC_ARENA_STATE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
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
  uint64_t epoch() const { return epoch_.load(); }

  // 1 while the segment is asleep, else 0.
  const std::atomic<uint64_t>& asleep_word(size_t segment) const {
    return asleep_words_[segment];
  }
  // `buffer` is a present one of plan().
  bool IsAsleep(const PlannedBuffer& buffer) const;

  absl::Status Freeze();
  absl::StatusOr<ArenaEvidence> ReadBack() const;
  absl::Status VerifyStable() const;
  // As Freeze read it; valid once it succeeded.
  uint64_t fingerprint() const { return fingerprint_; }

  absl::StatusOr<uint64_t> AddLease(absl::string_view holder, LeaseWork work);
  void DropLease(uint64_t id);

  // These are what FrozenArena says of them.
  absl::Status Sleep(const SleepRequest& request);
  absl::Status Wake(const WakeRequest& request);
  absl::Status DeclareStream(absl::string_view name, CUstream stream);
  absl::Status ForgetStream(absl::string_view name);
  absl::Status SetRestoreHook(absl::string_view name, RestoreHook hook);
  absl::Status RegisterOutside(OutsideBuffer buffer);
  std::vector<SegmentStatus> segments() const;
  int64_t host_bytes() const;

  absl::Status Release();
  int64_t live_bytes() const;

  // For the end of the last handle or lease: gives the memory back, and hands
  // what the driver does not take to the list of abandoned memory.
  void ReleaseOrAbandon();

 private:
  enum class Phase { kMapped, kFrozen, kReleased };

  struct HeldLease {
    uint64_t id = 0;
    std::string holder;
    LeaseWork work;
  };

  struct Outside {
    OutsideBuffer buffer;
    bool is_asleep = false;
  };

  // What a Sleep or a Wake is about: segments by number, outside buffers by
  // place in `outside_`.
  struct Parts {
    std::vector<size_t> segments;
    std::vector<size_t> outside;
    bool empty() const { return segments.empty() && outside.empty(); }
  };

  ArenaState(ContextRef context, ArenaPlan plan);

  absl::Status Populate(const ArenaOptions& options)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckFreeMemory(int64_t needed_bytes,
                               const ArenaOptions& options) const;
  absl::StatusOr<ArenaEvidence> ReadBackLocked() const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AbandonMemory() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RegisterNvtx() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Sleep and wake, in arena_sleep.cc. Parts that are to sleep are awake, and
  // the other way round.
  absl::Status CheckCanSleep() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Parts> PartsWithTags(const std::vector<std::string>& tags)
      const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Parts Only(const Parts& parts, bool is_asleep) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckContentsSurvive(const Parts& parts) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WaitForWork(BusyPolicy busy) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status RefuseWhileStreamsCapture() const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<LeaseWork> KnownStreams() const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status PrepareSleep(const Parts& parts, BusyPolicy busy)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status GiveBackAsleep(const std::vector<size_t>& segments)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status BringBack(const Parts& parts, ArenaEvidence* evidence)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CallHooks(const std::vector<size_t>& outside, bool sleep)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndSleep(const Parts& parts) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetEvidence(const std::vector<size_t>& segments)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckRoomToWake(const std::vector<size_t>& segments) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<NamedRange> Regions(const std::vector<size_t>& segments) const;
  std::vector<size_t> AllSegments() const;
  // The segment of a present buffer of the plan.
  size_t SegmentOf(absl::string_view name) const;

  const ContextRef context_;
  const ArenaPlan plan_;
  std::atomic<Phase> phase_{Phase::kMapped};
  // Written before the state is shared, and by Freeze before the phase tells.
  DevicePtr base_;
  uint64_t fingerprint_ = 0;
  // By buffer of the plan: its segment; meaningless for an absent one.
  std::vector<size_t> segment_of_;
  // By segment. Written under the mutex, read without.
  const std::unique_ptr<std::atomic<uint64_t>[]> asleep_words_;
  std::atomic<uint64_t> epoch_{1};

  mutable Mutex mutex_;
  // What the driver must say: read by Freeze, and by Wake for its part.
  ArenaEvidence recorded_ ABSL_GUARDED_BY(mutex_);
  SegmentMemory memory_ ABSL_GUARDED_BY(mutex_);
  NvtxHeap nvtx_heap_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> segment_epochs_ ABSL_GUARDED_BY(mutex_);
  // In the order taken.
  std::vector<HeldLease> leases_ ABSL_GUARDED_BY(mutex_);
  std::vector<LeaseWork> streams_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, RestoreHook> restore_hooks_ ABSL_GUARDED_BY(mutex_);
  std::vector<Outside> outside_ ABSL_GUARDED_BY(mutex_);
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

// For calls on an arena that has no memory any more.
absl::Status ReleasedError();

// Memory that no arena holds any more and the driver did not take back.
int64_t AbandonedBytes();
absl::Status ReclaimAbandonedMemory();

}  // namespace permafrost::internal

#endif  // PERMAFROST_ARENA_SRC_ARENA_STATE_H_
