// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "arena_state.h"
#include "evidence.h"
#include "permafrost/driver/guarded_call.h"
#include "permafrost/driver/status.h"

namespace permafrost::internal {
namespace {

std::string Quoted(const std::vector<std::string>& tags) {
  return absl::StrJoin(tags, ", ",
                       [](std::string* out, const std::string& tag) {
                         absl::StrAppend(out, "'", tag, "'");
                       });
}

// What `tags` of a request mean, for messages.
std::string Asked(const std::vector<std::string>& tags) {
  return tags.empty() ? "every part"
                      : absl::StrCat("every part tagged ", Quoted(tags));
}

// Contents of these lifetimes are written once, or carried on: nobody writes
// them again because the arena slept.
bool MustSurvive(Lifetime lifetime) {
  return lifetime == Lifetime::kConstant ||
         lifetime == Lifetime::kPersistentSlab ||
         lifetime == Lifetime::kInitOnce || lifetime == Lifetime::kState;
}

std::string StreamLabel(absl::string_view name) {
  return absl::StrCat("declared stream '", name, "'");
}

}  // namespace

absl::Status ArenaState::CheckCanSleep() const {
  if (is_released()) return ReleasedError();
  if (memory_.is_mapped_by_segment()) return absl::OkStatus();
  return absl::UnimplementedError(
      "the arena's memory comes from one cuMemAlloc, which cannot go without "
      "its addresses; create the arena with ArenaOptions::use_vmm on a device "
      "that has virtual memory management");
}

absl::StatusOr<ArenaState::Parts> ArenaState::PartsWithTags(
    const std::vector<std::string>& tags) const {
  std::set<std::string> known;
  for (const PlannedSegment& segment : plan_.segments()) {
    known.insert(segment.tag);
  }
  for (const Outside& outside : outside_) known.insert(outside.buffer.tag);
  for (const std::string& tag : tags) {
    if (known.count(tag) > 0) continue;
    return absl::NotFoundError(absl::StrCat(
        "the arena has no part with the tag '", tag, "'; it has ",
        Quoted(std::vector<std::string>(known.begin(), known.end()))));
  }
  const auto is_asked = [&tags](const std::string& tag) {
    return tags.empty() || std::count(tags.begin(), tags.end(), tag) > 0;
  };
  Parts parts;
  for (size_t i = 0; i < plan_.segments().size(); ++i) {
    const PlannedSegment& segment = plan_.segments()[i];
    if (segment.sleep == SleepPolicy::kStay) continue;
    if (is_asked(segment.tag)) parts.segments.push_back(i);
  }
  for (size_t i = 0; i < outside_.size(); ++i) {
    if (is_asked(outside_[i].buffer.tag)) parts.outside.push_back(i);
  }
  return parts;
}

ArenaState::Parts ArenaState::Only(const Parts& parts, bool is_asleep) const {
  Parts only;
  for (const size_t i : parts.segments) {
    if ((asleep_words_[i].load() != 0) == is_asleep) only.segments.push_back(i);
  }
  for (const size_t i : parts.outside) {
    if (outside_[i].is_asleep == is_asleep) only.outside.push_back(i);
  }
  return only;
}

absl::Status ArenaState::CheckContentsSurvive(const Parts& parts) const {
  for (size_t i = 0; i < plan_.buffers().size(); ++i) {
    const PlannedBuffer& buffer = plan_.buffers()[i];
    if (!buffer.is_present() ||
        std::count(parts.segments.begin(), parts.segments.end(),
                   segment_of_[i]) == 0) {
      continue;
    }
    if (buffer.sleep == SleepPolicy::kDiscard && MustSurvive(buffer.lifetime)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "buffer '", buffer.name,
          "' would lose its contents: its sleep policy is discard and its "
          "lifetime ",
          LifetimeName(buffer.lifetime),
          "; plan it with the policy keep or restore, or zero if zeros are "
          "what "
          "it holds"));
    }
    if (buffer.sleep == SleepPolicy::kRestore &&
        restore_hooks_.count(buffer.name) == 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("buffer '", buffer.name,
                       "' has the sleep policy restore and no "
                       "hook; call FrozenArena::SetRestoreHook() first"));
    }
  }
  return absl::OkStatus();
}

std::vector<LeaseWork> ArenaState::KnownStreams() const {
  std::vector<LeaseWork> known;
  const auto add = [&known](const LeaseWork& work) {
    const bool is_known = std::any_of(
        known.begin(), known.end(),
        [&work](const LeaseWork& one) { return one.stream == work.stream; });
    if (!is_known) known.push_back(work);
  };
  for (const HeldLease& lease : leases_) {
    if (lease.work.stream != nullptr) add(lease.work);
  }
  for (const LeaseWork& stream : streams_) add(stream);
  return known;
}

absl::Status ArenaState::RefuseWhileStreamsCapture() const {
  for (const LeaseWork& known : KnownStreams()) {
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    PERMAFROST_RETURN_IF_ERROR(
        CuStatus(context_->api().StreamIsCapturing(known.stream, &capture),
                 "cuStreamIsCapturing", known.name));
    if (capture != CU_STREAM_CAPTURE_STATUS_NONE) {
      return absl::FailedPreconditionError(
          absl::StrCat(known.name, " captures; end the capture first"));
    }
  }
  return absl::OkStatus();
}

absl::Status ArenaState::WaitForWork(BusyPolicy busy) const {
  const DriverApi& api = context_->api();
  for (const LeaseWork& known : KnownStreams()) {
    if (busy == BusyPolicy::kWait) {
      PERMAFROST_RETURN_IF_ERROR(
          CuStatus(api.StreamSynchronize(known.stream), "cuStreamSynchronize",
                   absl::StrCat("waiting for ", known.name)));
      continue;
    }
    const CUresult result = api.StreamQuery(known.stream);
    if (result == CUDA_ERROR_NOT_READY) {
      return absl::FailedPreconditionError(
          absl::StrCat(known.name,
                       " has work in flight; wait for it, or sleep with "
                       "BusyPolicy::kWait"));
    }
    PERMAFROST_RETURN_IF_ERROR(CuStatus(result, "cuStreamQuery", known.name));
  }
  return absl::OkStatus();
}

// Everything that can be taken back without touching a mapping.
absl::Status ArenaState::PrepareSleep(const Parts& parts, BusyPolicy busy) {
  PERMAFROST_RETURN_IF_ERROR(WaitForWork(busy));
  if (!parts.segments.empty()) {
    // What is not the arena's memory must not pass for it after waking.
    PERMAFROST_ASSIGN_OR_RETURN(
        const ArenaEvidence now,
        ReadEvidence(*context_, plan_, base_, MemorySource::kSegmentMappings,
                     parts.segments));
    PERMAFROST_RETURN_IF_ERROR(CompareEvidence(recorded_, now));
  }
  for (const size_t i : parts.segments) {
    if (plan_.segments()[i].sleep != SleepPolicy::kKeep) continue;
    PERMAFROST_RETURN_IF_ERROR(memory_.Save(plan_, i));
  }
  PERMAFROST_RETURN_IF_ERROR(memory_.EndTransfers());
  return CallHooks(parts.outside, /*sleep=*/true);
}

absl::Status ArenaState::CallHooks(const std::vector<size_t>& outside,
                                   bool sleep) {
  for (const size_t i : outside) {
    const OutsideBuffer& buffer = outside_[i].buffer;
    PERMAFROST_RETURN_IF_ERROR(
        Annotate(GuardedCall("it", sleep ? buffer.on_sleep : buffer.on_wake),
                 absl::StrCat(sleep ? "on_sleep" : "on_wake",
                              " hook of outside buffer '", buffer.name, "'")));
    outside_[i].is_asleep = sleep;
  }
  return absl::OkStatus();
}

// What was to sleep and still has its memory is awake again.
void ArenaState::EndSleep(const Parts& parts) {
  CallHooks(Only(parts, /*is_asleep=*/true).outside, /*sleep=*/false)
      .IgnoreError();
  const bool is_idle = memory_.EndTransfers().ok();
  for (const size_t i : parts.segments) {
    if (!memory_.is_up(i)) continue;
    // A copy that is still under way needs its place; the next Sleep ends it.
    if (is_idle) memory_.DropKept(i).IgnoreError();
    asleep_words_[i].store(0, std::memory_order_release);
  }
  ForgetEvidence(Only(parts, /*is_asleep=*/true).segments);
}

void ArenaState::ForgetEvidence(const std::vector<size_t>& segments) {
  for (BufferEvidence& recorded : recorded_.buffers) {
    const size_t segment = SegmentOf(recorded.name);
    if (std::count(segments.begin(), segments.end(), segment) == 0) continue;
    BufferEvidence gone;
    gone.name = recorded.name;
    gone.bytes = recorded.bytes;
    recorded = std::move(gone);
  }
}

absl::Status ArenaState::GiveBackAsleep(const std::vector<size_t>& segments) {
  absl::Status first;
  for (const size_t i : segments) first.Update(memory_.TakeDown(i));
  return Annotate(
      first,
      "asleep, and not all memory was given back (see live_bytes(); "
      "Sleep again finishes)");
}

absl::Status ArenaState::Sleep(const SleepRequest& request) {
  const MutexLock lock(mutex_);
  PERMAFROST_RETURN_IF_ERROR(CheckCanSleep());
  PERMAFROST_ASSIGN_OR_RETURN(const Parts asked, PartsWithTags(request.tags));
  const Parts parts = Only(asked, /*is_asleep=*/false);
  // Of earlier calls, what could not be given back then.
  std::vector<size_t> remains;
  for (const size_t i : Only(asked, /*is_asleep=*/true).segments) {
    if (memory_.has_remains(i)) remains.push_back(i);
  }
  if (asked.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        Asked(request.tags), " has the sleep policy stay and stays mapped"));
  }
  if (parts.empty() && remains.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(Asked(request.tags), " is asleep already"));
  }
  PERMAFROST_RETURN_IF_ERROR(CheckContentsSurvive(parts));
  const Context::Scope scope = context_->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  PERMAFROST_RETURN_IF_ERROR(RefuseDuringCapture(*context_));
  PERMAFROST_RETURN_IF_ERROR(RefuseWhileStreamsCapture());
  PERMAFROST_RETURN_IF_ERROR(memory_.EndTransfers());

  for (const size_t i : parts.segments) {
    asleep_words_[i].store(1, std::memory_order_release);
  }
  absl::Status status = PrepareSleep(parts, request.busy);
  if (!status.ok()) {
    EndSleep(parts);
    return status;
  }

  std::vector<DevicePtr> regions;
  for (const NamedRange& region : Regions(parts.segments)) {
    regions.push_back(region.base);
  }
  nvtx_heap_.RemoveRegions(regions);
  // Handles go only when every mapping is gone: until then the contents are
  // there, and mapping them again is a full undo.
  for (const size_t i : parts.segments) {
    status = memory_.Unmap(i);
    if (!status.ok()) break;
  }
  if (!status.ok()) {
    std::vector<size_t> up;
    for (size_t k = parts.segments.size(); k-- > 0;) {
      const size_t i = parts.segments[k];
      memory_.BringUp(i).IgnoreError();
      if (memory_.is_up(i)) up.push_back(i);
    }
    nvtx_heap_.AddRegions(Regions(up));
    EndSleep(parts);
    return up.size() == parts.segments.size()
               ? status
               : Annotate(status,
                          "parts stay asleep, their contents kept (Sleep again "
                          "finishes, Wake goes back)");
  }
  ForgetEvidence(parts.segments);
  std::vector<size_t> gone = parts.segments;
  gone.insert(gone.end(), remains.begin(), remains.end());
  return GiveBackAsleep(gone);
}

absl::Status ArenaState::BringBack(const Parts& parts,
                                   ArenaEvidence* evidence) {
  for (const size_t i : parts.segments) {
    PERMAFROST_RETURN_IF_ERROR(memory_.BringUp(i));
  }
  for (const size_t i : parts.segments) {
    PERMAFROST_RETURN_IF_ERROR(memory_.Refill(plan_, i, restore_hooks_));
    PERMAFROST_RETURN_IF_ERROR(memory_.VerifyKept(plan_, i));
  }
  PERMAFROST_RETURN_IF_ERROR(memory_.EndTransfers());
  if (!parts.segments.empty()) {
    PERMAFROST_ASSIGN_OR_RETURN(
        *evidence,
        ReadEvidence(*context_, plan_, base_, MemorySource::kSegmentMappings,
                     parts.segments));
    PERMAFROST_RETURN_IF_ERROR(CheckComplete(*evidence, plan_, base_));
  }
  return CallHooks(parts.outside, /*sleep=*/false);
}

absl::Status ArenaState::CheckRoomToWake(
    const std::vector<size_t>& segments) const {
  int64_t needed_bytes = 0;
  for (const size_t i : segments) {
    needed_bytes += plan_.segments()[i].bytes - memory_.live_bytes(i);
  }
  if (needed_bytes == 0) return absl::OkStatus();
  PERMAFROST_ASSIGN_OR_RETURN(const int64_t free_bytes,
                              context_->FreeMemoryBytes());
  if (needed_bytes <= free_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the sleeping parts do not fit on device ", context_->ordinal(),
      ": they need ", needed_bytes, " bytes, ", free_bytes,
      " are free; free device memory, or wake fewer tags"));
}

absl::Status ArenaState::Wake(const WakeRequest& request) {
  const MutexLock lock(mutex_);
  PERMAFROST_RETURN_IF_ERROR(CheckCanSleep());
  PERMAFROST_ASSIGN_OR_RETURN(const Parts asked, PartsWithTags(request.tags));
  const Parts parts = Only(asked, /*is_asleep=*/true);
  if (parts.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(Asked(request.tags), " is awake already"));
  }
  const Context::Scope scope = context_->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  PERMAFROST_RETURN_IF_ERROR(RefuseDuringCapture(*context_));
  PERMAFROST_RETURN_IF_ERROR(RefuseWhileStreamsCapture());
  PERMAFROST_RETURN_IF_ERROR(memory_.EndTransfers());
  PERMAFROST_RETURN_IF_ERROR(CheckRoomToWake(parts.segments));

  ArenaEvidence evidence;
  const absl::Status status = BringBack(parts, &evidence);
  if (!status.ok()) {
    CallHooks(Only(parts, /*is_asleep=*/false).outside, /*sleep=*/true)
        .IgnoreError();
    int64_t left_bytes = 0;
    const bool is_idle = memory_.EndTransfers().ok();
    for (size_t k = parts.segments.size(); k-- > 0;) {
      if (is_idle) memory_.TakeDown(parts.segments[k]).IgnoreError();
      left_bytes += memory_.live_bytes(parts.segments[k]);
    }
    if (left_bytes == 0) return status;
    return Annotate(status, absl::StrCat("still asleep, and ", left_bytes,
                                         " bytes could not be given back (Wake "
                                         "and Sleep go on with them)"));
  }
  nvtx_heap_.AddRegions(Regions(parts.segments));
  for (BufferEvidence& now : evidence.buffers) {
    const auto recorded = std::find_if(
        recorded_.buffers.begin(), recorded_.buffers.end(),
        [&now](const BufferEvidence& one) { return one.name == now.name; });
    *recorded = std::move(now);
  }
  if (!parts.segments.empty()) epoch_.fetch_add(1);
  for (const size_t i : parts.segments) {
    ++segment_epochs_[i];
    asleep_words_[i].store(0, std::memory_order_release);
    // A copy that the driver does not take back now goes with the next Sleep
    // or with Release; host_bytes() tells.
    memory_.DropKept(i).IgnoreError();
  }
  return absl::OkStatus();
}

absl::Status ArenaState::DeclareStream(absl::string_view name,
                                       CUstream stream) {
  const MutexLock lock(mutex_);
  if (name.empty()) {
    return absl::InvalidArgumentError(
        "declared stream: got an empty name; messages need one");
  }
  const std::string label = StreamLabel(name);
  for (const LeaseWork& declared : streams_) {
    if (declared.name != label) continue;
    return absl::AlreadyExistsError(
        absl::StrCat(label, " is declared already; forget it first"));
  }
  streams_.push_back(LeaseWork{label, stream});
  return absl::OkStatus();
}

absl::Status ArenaState::ForgetStream(absl::string_view name) {
  const MutexLock lock(mutex_);
  const std::string label = StreamLabel(name);
  const auto found = std::find_if(
      streams_.begin(), streams_.end(),
      [&label](const LeaseWork& declared) { return declared.name == label; });
  if (found == streams_.end()) {
    return absl::NotFoundError(absl::StrCat(label, " is not declared"));
  }
  streams_.erase(found);
  return absl::OkStatus();
}

absl::Status ArenaState::SetRestoreHook(absl::string_view name,
                                        RestoreHook hook) {
  const MutexLock lock(mutex_);
  const PlannedBuffer* buffer = plan_.Find(name);
  if (buffer == nullptr || !buffer->is_present()) {
    return absl::NotFoundError(absl::StrCat(
        "restore hook: the arena has no buffer '", name, "' with memory"));
  }
  if (buffer->sleep != SleepPolicy::kRestore || hook == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "restore hook of buffer '", name, "': ",
        hook == nullptr
            ? "got none"
            : absl::StrCat("its sleep policy is ",
                           SleepPolicyName(buffer->sleep), ", limit restore")));
  }
  restore_hooks_[buffer->name] = std::move(hook);
  return absl::OkStatus();
}

absl::Status ArenaState::RegisterOutside(OutsideBuffer buffer) {
  const MutexLock lock(mutex_);
  if (buffer.name.empty() || buffer.tag.empty() || buffer.on_sleep == nullptr ||
      buffer.on_wake == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "outside buffer '", buffer.name,
        "': it needs a name, a tag and both hooks; one that stays mapped while "
        "the arena sleeps is not registered"));
  }
  for (const Outside& outside : outside_) {
    if (outside.buffer.name != buffer.name) continue;
    return absl::AlreadyExistsError(absl::StrCat(
        "outside buffer '", buffer.name, "' is registered already"));
  }
  outside_.push_back(Outside{std::move(buffer)});
  return absl::OkStatus();
}

std::vector<SegmentStatus> ArenaState::segments() const {
  const MutexLock lock(mutex_);
  std::vector<SegmentStatus> all;
  for (size_t i = 0; i < plan_.segments().size(); ++i) {
    const PlannedSegment& planned = plan_.segments()[i];
    all.push_back(SegmentStatus{.tag = planned.tag,
                                .sleep = planned.sleep,
                                .bytes = planned.bytes,
                                .is_asleep = asleep_words_[i].load() != 0,
                                .live_bytes = memory_.is_mapped_by_segment()
                                                  ? memory_.live_bytes(i)
                                              : memory_.empty() ? 0
                                                                : planned.bytes,
                                .epoch = segment_epochs_[i]});
  }
  return all;
}

int64_t ArenaState::host_bytes() const {
  const MutexLock lock(mutex_);
  return memory_.host_bytes();
}

}  // namespace permafrost::internal
