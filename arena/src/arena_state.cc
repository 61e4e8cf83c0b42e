// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "arena_state.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "evidence.h"
#include "permafrost/driver/check.h"
#include "permafrost/driver/status.h"

namespace permafrost::internal {
namespace {

constexpr size_t kLargestBuffersNamed = 3;

// Never destroyed: handles may end after static objects do.
struct AbandonedList {
  Mutex mutex;
  std::vector<SegmentMemory> memories ABSL_GUARDED_BY(mutex);
};

AbandonedList& Abandoned() {
  static AbandonedList* const list = new AbandonedList;
  return *list;
}

// What a plan spends most on: "'a' 12, 'b' 7, 'c' 5".
std::string LargestBuffers(const ArenaPlan& plan) {
  std::vector<const PlannedBuffer*> buffers;
  for (const PlannedBuffer& buffer : plan.buffers()) {
    buffers.push_back(&buffer);
  }
  const size_t count = std::min(kLargestBuffersNamed, buffers.size());
  std::partial_sort(
      buffers.begin(), buffers.begin() + static_cast<std::ptrdiff_t>(count),
      buffers.end(), [](const PlannedBuffer* a, const PlannedBuffer* b) {
        return a->bytes > b->bytes;
      });
  buffers.resize(count);
  return absl::StrJoin(
      buffers, ", ", [](std::string* out, const PlannedBuffer* buffer) {
        absl::StrAppend(out, "'", buffer->name, "' ", buffer->bytes);
      });
}

int64_t SegmentBytes(const ArenaPlan& plan) {
  int64_t bytes = 0;
  for (const PlannedSegment& segment : plan.segments()) bytes += segment.bytes;
  return bytes;
}

absl::Status ReleasedError() {
  return absl::FailedPreconditionError(
      "arena: its memory was released; create another");
}

}  // namespace

int64_t AbandonedBytes() {
  AbandonedList& list = Abandoned();
  const MutexLock lock(list.mutex);
  int64_t bytes = 0;
  for (const SegmentMemory& memory : list.memories) {
    bytes += memory.live_bytes();
  }
  return bytes;
}

absl::Status ReclaimAbandonedMemory() {
  AbandonedList& list = Abandoned();
  const MutexLock lock(list.mutex);
  absl::Status first;
  for (SegmentMemory& memory : list.memories) {
    absl::Status status = memory.Quiesce();
    if (status.ok()) status = memory.GiveBack();
    first.Update(status);
  }
  list.memories.erase(
      std::remove_if(list.memories.begin(), list.memories.end(),
                     [](const SegmentMemory& m) { return m.empty(); }),
      list.memories.end());
  return first;
}

absl::StatusOr<std::shared_ptr<ArenaState>> ArenaState::Create(
    ContextRef context, ArenaPlan plan, const ArenaOptions& options) {
  PERMAFROST_CHECK(context != nullptr, "an arena needs a context");
  PERMAFROST_RETURN_IF_ERROR(ValidatePlan(plan));
  std::shared_ptr<ArenaState> state(
      new ArenaState(std::move(context), std::move(plan)));
  const MutexLock lock(state->mutex_);
  absl::Status status = state->Populate(options);
  if (status.ok()) return state;
  // The fill may still be running on what is about to go.
  const bool is_idle = state->memory_.empty() || state->memory_.Quiesce().ok();
  if (is_idle) state->memory_.GiveBack().IgnoreError();
  if (!state->memory_.empty()) {
    status = Annotate(
        status, absl::StrCat("arena creation failed and left ",
                             state->memory_.live_bytes(),
                             " bytes behind (see Arena::ReclaimAbandoned())"));
    state->AbandonMemory();
  }
  return status;
}

absl::Status ArenaState::Populate(const ArenaOptions& options) {
  PERMAFROST_RETURN_IF_ERROR(
      Annotate(RefuseDuringCapture(*context_), "arena creation"));
  bool use_vmm = options.use_vmm;
  if (use_vmm) {
    PERMAFROST_ASSIGN_OR_RETURN(
        const int has_vmm,
        context_->DeviceAttribute(
            CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED));
    use_vmm = has_vmm != 0;
  }
  PERMAFROST_RETURN_IF_ERROR(CheckFreeMemory(use_vmm));
  PERMAFROST_RETURN_IF_ERROR(use_vmm ? memory_.Map(plan_)
                                     : memory_.Allocate(plan_));
  base_ = memory_.base();
  if (base_.value() % kBufferAlignmentBytes != 0) {
    return absl::InternalError(
        absl::StrCat("arena memory: the driver gave ", base_.ToString(),
                     ", which is no multiple of ", kBufferAlignmentBytes));
  }
  PERMAFROST_RETURN_IF_ERROR(memory_.ZeroFill(plan_));
  if (options.register_nvtx) RegisterNvtx();
  return absl::OkStatus();
}

absl::Status ArenaState::CheckFreeMemory(bool use_vmm) const {
  const int64_t needed_bytes =
      use_vmm ? SegmentBytes(plan_) : plan_.total_bytes();
  PERMAFROST_ASSIGN_OR_RETURN(const int64_t free_bytes,
                              context_->FreeMemoryBytes());
  if (needed_bytes <= free_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("arena does not fit on device ", context_->ordinal(),
                   ": it needs ", needed_bytes, " bytes, ", free_bytes,
                   " are free; the largest buffers are ", LargestBuffers(plan_),
                   " bytes; lower max_batch_tokens or free device memory"));
}

void ArenaState::RegisterNvtx() {
  nvtx_heap_ = NvtxHeap::Register(context_->driver(), "permafrost arena", base_,
                                  plan_.total_bytes());
  std::vector<NamedRange> ranges;
  for (const PlannedBuffer& buffer : plan_.buffers()) {
    if (!buffer.is_present()) continue;
    ranges.push_back({buffer.name, base_ + buffer.offset_bytes, buffer.bytes});
  }
  nvtx_heap_.AddRegions(ranges);
}

absl::StatusOr<ArenaEvidence> ArenaState::ReadBack() const {
  // Held throughout, so that the memory cannot go between two reads.
  const MutexLock lock(mutex_);
  if (is_released()) return ReleasedError();
  return ReadEvidence(*context_, plan_, base_,
                      memory_.is_mapped_by_segment()
                          ? MemorySource::kSegmentMappings
                          : MemorySource::kOneAllocation);
}

absl::Status ArenaState::Freeze() {
  PERMAFROST_ASSIGN_OR_RETURN(ArenaEvidence evidence, ReadBack());
  PERMAFROST_RETURN_IF_ERROR(CheckComplete(evidence, plan_, base_));
  recorded_ = std::move(evidence);
  phase_.store(Phase::kFrozen);
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> ArenaState::AddLease(absl::string_view holder) {
  const MutexLock lock(mutex_);
  if (is_released()) return ReleasedError();
  leases_.emplace_back(++last_lease_id_, std::string(holder));
  return last_lease_id_;
}

void ArenaState::DropLease(uint64_t id) {
  const MutexLock lock(mutex_);
  leases_.erase(
      std::remove_if(leases_.begin(), leases_.end(),
                     [id](const auto& lease) { return lease.first == id; }),
      leases_.end());
}

absl::Status ArenaState::Release() {
  const MutexLock lock(mutex_);
  if (memory_.empty()) return absl::OkStatus();
  if (!leases_.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "arena release: refused while ", leases_.size(),
        " leases are out, held by ",
        absl::StrJoin(leases_, ", ",
                      [](std::string* out, const auto& lease) {
                        absl::StrAppend(out, "'", lease.second, "'");
                      }),
        "; destroy the holders first"));
  }
  PERMAFROST_RETURN_IF_ERROR(Annotate(memory_.Quiesce(), "arena release"));
  // From here on parts of the memory may be gone, whatever the outcome.
  phase_.store(Phase::kReleased);
  nvtx_heap_.Unregister();
  return Annotate(memory_.GiveBack(), "arena release");
}

int64_t ArenaState::live_bytes() const {
  const MutexLock lock(mutex_);
  return memory_.live_bytes();
}

void ArenaState::ReleaseOrAbandon() {
  const MutexLock lock(mutex_);
  phase_.store(Phase::kReleased);
  nvtx_heap_.Unregister();
  if (memory_.empty()) return;
  if (memory_.Quiesce().ok()) memory_.GiveBack().IgnoreError();
  if (!memory_.empty()) AbandonMemory();
}

void ArenaState::AbandonMemory() {
  AbandonedList& list = Abandoned();
  const MutexLock lock(list.mutex);
  list.memories.push_back(std::exchange(memory_, SegmentMemory(context_)));
}

}  // namespace permafrost::internal
