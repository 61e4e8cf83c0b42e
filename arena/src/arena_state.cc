// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "arena_state.h"

#include <algorithm>
#include <numeric>

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

int64_t TotalSegmentBytes(const ArenaPlan& plan) {
  int64_t bytes = 0;
  for (const PlannedSegment& segment : plan.segments()) bytes += segment.bytes;
  return bytes;
}

// What the engine should do about an arena that does not fit.
std::string Remedy(int64_t free_bytes, const ArenaOptions& options) {
  constexpr char kInGeneral[] = "lower max_batch_tokens or free device memory";
  if (options.largest_fitting == nullptr) return kInGeneral;
  const absl::StatusOr<int64_t> rows = options.largest_fitting(free_bytes);
  if (!rows.ok()) {
    return absl::StrCat(kInGeneral, " (what would fit is not known: ",
                        rows.status().message(), ")");
  }
  if (*rows < 1) {
    return "no max_batch_tokens would fit; free device memory";
  }
  return absl::StrCat("the largest max_batch_tokens that would fit is ", *rows,
                      "; lower it or free device memory");
}

}  // namespace

absl::Status ReleasedError() {
  return absl::FailedPreconditionError(
      "arena: its memory was released; create another");
}

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

ArenaState::ArenaState(ContextRef context, ArenaPlan plan)
    : context_(context),
      plan_(std::move(plan)),
      asleep_words_(new std::atomic<uint64_t>[plan_.segments().size()]()),
      memory_(std::move(context)),
      segment_epochs_(plan_.segments().size(), 1) {
  for (const PlannedBuffer& buffer : plan_.buffers()) {
    const PlannedSegment* segment = plan_.SegmentOf(buffer);
    segment_of_.push_back(
        segment == nullptr
            ? 0
            : static_cast<size_t>(segment - plan_.segments().data()));
  }
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
  if (use_vmm) {
    PERMAFROST_ASSIGN_OR_RETURN(MappingProperties properties,
                                MakeMappingProperties(*context_, options));
    PERMAFROST_RETURN_IF_ERROR(
        CheckFreeMemory(TotalSegmentBytes(plan_), options));
    PERMAFROST_RETURN_IF_ERROR(memory_.Map(plan_, std::move(properties)));
  } else {
    PERMAFROST_RETURN_IF_ERROR(CheckNeedsNoMapping(options));
    PERMAFROST_RETURN_IF_ERROR(CheckFreeMemory(plan_.total_bytes(), options));
    PERMAFROST_RETURN_IF_ERROR(memory_.Allocate(plan_));
  }
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

absl::Status ArenaState::CheckFreeMemory(int64_t needed_bytes,
                                         const ArenaOptions& options) const {
  PERMAFROST_ASSIGN_OR_RETURN(const int64_t free_bytes,
                              context_->FreeMemoryBytes());
  if (needed_bytes <= free_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("arena does not fit on device ", context_->ordinal(),
                   ": it needs ", needed_bytes, " bytes, ", free_bytes,
                   " are free; the largest buffers are ", LargestBuffers(plan_),
                   " bytes; ", Remedy(free_bytes, options)));
}

void ArenaState::RegisterNvtx() {
  nvtx_heap_ = NvtxHeap::Register(context_->driver(), "permafrost arena", base_,
                                  plan_.total_bytes());
  nvtx_heap_.AddRegions(Regions(AllSegments()));
}

std::vector<size_t> ArenaState::AllSegments() const {
  std::vector<size_t> all(plan_.segments().size());
  std::iota(all.begin(), all.end(), size_t{0});
  return all;
}

std::vector<NamedRange> ArenaState::Regions(
    const std::vector<size_t>& segments) const {
  std::vector<const PlannedBuffer*> buffers;
  for (size_t i = 0; i < plan_.buffers().size(); ++i) {
    const PlannedBuffer& buffer = plan_.buffers()[i];
    if (buffer.is_present() &&
        std::count(segments.begin(), segments.end(), segment_of_[i]) > 0) {
      buffers.push_back(&buffer);
    }
  }
  std::stable_sort(buffers.begin(), buffers.end(),
                   [](const PlannedBuffer* a, const PlannedBuffer* b) {
                     return a->offset_bytes < b->offset_bytes;
                   });
  std::vector<NamedRange> ranges;
  for (const PlannedBuffer* buffer : buffers) {
    const DevicePtr base = base_ + buffer->offset_bytes;
    const DevicePtr end = base + buffer->bytes;
    // Buffers that share bytes are one region to a checker, under both names.
    if (!ranges.empty() && base < ranges.back().base + ranges.back().bytes) {
      NamedRange& shared = ranges.back();
      absl::StrAppend(&shared.name, "|", buffer->name);
      shared.bytes = std::max(shared.bytes, end - shared.base);
    } else {
      ranges.push_back({buffer->name, base, buffer->bytes});
    }
  }
  return ranges;
}

size_t ArenaState::SegmentOf(absl::string_view name) const {
  const PlannedBuffer* buffer = plan_.Find(name);
  return segment_of_[static_cast<size_t>(buffer - plan_.buffers().data())];
}

bool ArenaState::IsAsleep(const PlannedBuffer& buffer) const {
  const auto index = static_cast<size_t>(&buffer - plan_.buffers().data());
  return asleep_words_[segment_of_[index]].load(std::memory_order_acquire) != 0;
}

absl::StatusOr<ArenaEvidence> ArenaState::ReadBack() const {
  // Held throughout, so that the memory cannot go between two reads.
  const MutexLock lock(mutex_);
  return ReadBackLocked();
}

absl::Status ArenaState::VerifyStable() const {
  const MutexLock lock(mutex_);
  PERMAFROST_ASSIGN_OR_RETURN(const ArenaEvidence read, ReadBackLocked());
  ArenaEvidence now;
  for (const BufferEvidence& buffer : read.buffers) {
    const size_t segment = SegmentOf(buffer.name);
    // Behind a sleeping part lies nothing, or what an undo of ours could not
    // unmap.
    const bool is_left_behind =
        asleep_words_[segment].load() != 0 && memory_.is_mapped(segment);
    if (!is_left_behind) now.buffers.push_back(buffer);
  }
  return CompareEvidence(recorded_, now);
}

absl::StatusOr<ArenaEvidence> ArenaState::ReadBackLocked() const {
  if (is_released()) return ReleasedError();
  return ReadEvidence(*context_, plan_, base_,
                      memory_.is_mapped_by_segment()
                          ? MemorySource::kSegmentMappings
                          : MemorySource::kOneAllocation,
                      AllSegments());
}

absl::Status ArenaState::Freeze() {
  const MutexLock lock(mutex_);
  PERMAFROST_ASSIGN_OR_RETURN(ArenaEvidence evidence, ReadBackLocked());
  PERMAFROST_RETURN_IF_ERROR(CheckComplete(evidence, plan_, base_));
  fingerprint_ = evidence.fingerprint;
  recorded_ = std::move(evidence);
  phase_.store(Phase::kFrozen);
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> ArenaState::AddLease(absl::string_view holder,
                                              LeaseWork work) {
  const MutexLock lock(mutex_);
  if (is_released()) return ReleasedError();
  leases_.push_back(
      HeldLease{++last_lease_id_, std::string(holder), std::move(work)});
  return last_lease_id_;
}

void ArenaState::DropLease(uint64_t id) {
  const MutexLock lock(mutex_);
  leases_.erase(
      std::remove_if(leases_.begin(), leases_.end(),
                     [id](const HeldLease& lease) { return lease.id == id; }),
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
                      [](std::string* out, const HeldLease& lease) {
                        absl::StrAppend(out, "'", lease.holder, "'");
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
