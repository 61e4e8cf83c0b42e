// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "decode_meta_staging.h"

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "permafrost/arena/decode_meta_writer.h"
#include "permafrost/driver/status.h"

namespace permafrost::internal {
namespace {

constexpr char kBufferName[] = "decode_meta";
constexpr uint64_t kBlockAlignment = 256;

template <typename... Parts>
absl::Status Refused(const Parts&... parts) {
  return absl::FailedPreconditionError(
      absl::StrCat("decode metadata: ", parts...));
}

/// As CuStatus, with a text that is made up only when the call failed: a step
/// allocates nothing.
template <typename... Parts>
absl::Status Called(CUresult result, absl::string_view call,
                    const Parts&... parts) {
  if (result == CUDA_SUCCESS) [[likely]]
    return absl::OkStatus();
  return CuStatus(result, call, absl::StrCat("decode metadata: ", parts...));
}

std::string StreamName(CUstream stream) {
  return absl::StrFormat("%p", static_cast<const void*>(stream));
}

}  // namespace

DecodeMetaSlotRef::DecodeMetaSlotRef(std::shared_ptr<DecodeMetaStaging> staging)
    : staging_(std::move(staging)) {}

DecodeMetaSlotRef& DecodeMetaSlotRef::operator=(
    DecodeMetaSlotRef&& other) noexcept {
  if (this != &other) {
    GiveBack();
    staging_ = std::move(other.staging_);
  }
  return *this;
}

DecodeMetaSlotRef::~DecodeMetaSlotRef() { GiveBack(); }

void DecodeMetaSlotRef::GiveBack() {
  if (staging_ != nullptr) staging_->GiveBack();
}

absl::StatusOr<DecodeMetaStaging::Target> DecodeMetaStaging::InArena(
    const ArenaView& arena, const DecodeMetaLayout& layout,
    const DecodeMetaLimits& limits) {
  PERMAFROST_ASSIGN_OR_RETURN(const BufferRef buffer, arena.Find(kBufferName));
  return Target{.layout = layout,
                .limits = limits,
                .block = {.base = buffer.base, .bytes = buffer.bytes},
                .arena = arena,
                .captured_mode = std::nullopt};
}

DecodeMetaStaging::DecodeMetaStaging(ContextRef context, Target target)
    : context_(std::move(context)),
      target_(std::move(target)),
      history_(target_.layout) {}

absl::StatusOr<std::shared_ptr<DecodeMetaStaging>> DecodeMetaStaging::Create(
    ContextRef context, Target target, int slots) {
  PERMAFROST_RETURN_IF_ERROR(
      CheckDecodeMetaLimits(target.layout, target.limits));
  if (slots < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "decode metadata: slots: got ", slots, ", limit at least 1"));
  }
  if (target.block.bytes < target.layout.full_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("decode metadata: block '", kBufferName, "': got ",
                     target.block.bytes, " bytes, limit at least ",
                     target.layout.full_bytes, "; size it by the same layout"));
  }
  if (target.block.base.is_null() ||
      target.block.base.value() % kBlockAlignment != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("decode metadata: block '", kBufferName, "': got address ",
                     target.block.base.ToString(), ", limit a multiple of ",
                     kBlockAlignment));
  }
  std::shared_ptr<DecodeMetaStaging> staging(
      new DecodeMetaStaging(std::move(context), std::move(target)));
  const int64_t bytes = staging->layout().full_bytes;
  for (int i = 0; i < slots; ++i) {
    Slot slot;
    PERMAFROST_ASSIGN_OR_RETURN(
        slot.memory, PinnedBuffer::Allocate(staging->context_, bytes));
    PERMAFROST_ASSIGN_OR_RETURN(slot.copied, Event::Create(staging->context_));
    // A replay before the first write copies step 0, which no step expects.
    std::memset(slot.memory.data(), 0, static_cast<size_t>(bytes));
    staging->slots_.push_back(std::move(slot));
  }
  return staging;
}

DecodeMetaStaging::~DecodeMetaStaging() {
  is_slot_out_ = false;
  if (is_armed_) {
    is_armed_ = false;
    // Its replay may be running; the stream tells.
    current().is_stream_pending = true;
  }
  // Nobody is left to report to or to try again later, so try twice.
  if (!Release().ok()) Release().IgnoreError();
}

absl::Status DecodeMetaStaging::CheckLayout(
    const DecodeMetaLayout& recorded) const {
  if (recorded.id() == layout().id()) return absl::OkStatus();
  return Refused("layout: got id ", recorded.id(), " of ", recorded.rows,
                 " rows, uploads are written with id ", layout().id(), " of ",
                 layout().rows, " rows; record kernels with the ring's layout");
}

uint64_t DecodeMetaStaging::Epoch() const {
  return target_.arena ? target_.arena->epoch() : 0;
}

absl::Status DecodeMetaStaging::CheckArena() const {
  if (is_released_) return Refused("the slots were released");
  if (target_.arena && target_.arena->base().is_null()) {
    return Refused("block '", kBufferName, "': its arena was released");
  }
  return absl::OkStatus();
}

std::string DecodeMetaStaging::ArmedText() const {
  return absl::StrCat(
      "slot ", current_, " was armed with step ", slots_[current_].step,
      "; tell of its replay with RecordReplay, or CancelReplay");
}

absl::StatusOr<DecodeMetaSlot> DecodeMetaStaging::Acquire(bool may_wait) {
  PERMAFROST_RETURN_IF_ERROR(CheckArena());
  if (is_slot_out_) {
    return Refused("slot ", current_,
                   " is out already; upload or drop it before the next");
  }
  if (is_armed_) return Refused(ArmedText());
  PERMAFROST_RETURN_IF_ERROR(WaitFor(current(), may_wait));
  is_slot_out_ = true;
  return DecodeMetaSlot(DecodeMetaSlotRef(shared_from_this()));
}

absl::Status DecodeMetaStaging::WaitFor(Slot& slot, bool may_wait) {
  if (!slot.is_event_pending && !slot.is_stream_pending) {
    return absl::OkStatus();
  }
  const Context::Scope scope = context_->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  const DriverApi& api = context_->api();
  if (slot.is_stream_pending) {
    // The event could not be recorded, so nothing less tells.
    PERMAFROST_RETURN_IF_ERROR(Called(api.StreamSynchronize(*stream_),
                                      "cuStreamSynchronize",
                                      "waiting for step ", slot.step));
    slot.is_stream_pending = false;
  }
  if (!slot.is_event_pending) return absl::OkStatus();
  if (may_wait) {
    PERMAFROST_RETURN_IF_ERROR(
        Called(api.EventSynchronize(slot.copied.get()), "cuEventSynchronize",
               "waiting for the copy of step ", slot.step));
  } else {
    const CUresult result = api.EventQuery(slot.copied.get());
    if (result == CUDA_ERROR_NOT_READY) {
      return absl::UnavailableError(absl::StrCat(
          "decode metadata: slot ", current_, ": the copy of step ", slot.step,
          " has not run; wait with Acquire, or use more slots"));
    }
    PERMAFROST_RETURN_IF_ERROR(
        Called(result, "cuEventQuery", "the copy of step ", slot.step));
  }
  slot.is_event_pending = false;
  return absl::OkStatus();
}

absl::StatusOr<WrittenDecodeMeta> DecodeMetaStaging::Write(
    DecodeMetaSlotRef slot, const DecodeBatch& batch, DecodeMetaMode mode) {
  PERMAFROST_RETURN_IF_ERROR(CheckArena());
  if (target_.captured_mode == DecodeMetaMode::kFull &&
      mode == DecodeMetaMode::kDelta) {
    return Refused("step ", batch.step,
                   ": got DELTA, the captured copy is FULL and would put back "
                   "the block table as it was written last; write FULL");
  }
  const PinnedBuffer& memory = current().memory;
  PERMAFROST_ASSIGN_OR_RETURN(
      const StepEcho echo,
      WriteDecodeMeta(
          layout(), batch, target_.limits, mode,
          absl::MakeSpan(memory.data(), static_cast<size_t>(memory.bytes()))));
  const uint64_t epoch = Epoch();
  PERMAFROST_RETURN_IF_ERROR(
      history_.Stage(batch, target_.limits, mode, epoch));
  current().step = batch.step;
  const int64_t bytes = mode == DecodeMetaMode::kFull ? layout().full_bytes
                                                      : layout().delta_bytes;
  return WrittenDecodeMeta(
      std::move(slot), mode, echo,
      absl::MakeConstSpan(memory.data(), static_cast<size_t>(bytes)), epoch);
}

absl::Status DecodeMetaStaging::CheckNotCapturing(CUstream stream) const {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  PERMAFROST_RETURN_IF_ERROR(
      Called(context_->api().StreamIsCapturing(stream, &status),
             "cuStreamIsCapturing", "asking whether the stream captures"));
  if (status == CU_STREAM_CAPTURE_STATUS_NONE) return absl::OkStatus();
  return Refused("stream ", StreamName(stream),
                 ": got a stream that captures, and the graph would read this "
                 "slot at each replay; upload before the replay, or record the "
                 "copy with CapturedDecodeMeta");
}

absl::Status DecodeMetaStaging::CheckTaken(const WrittenDecodeMeta& step,
                                           CUstream stream) const {
  if (step.slot_.staging() != this) {
    return absl::InvalidArgumentError(absl::StrCat(
        "decode metadata: step ", step.echo().step,
        ": got a slot of another ring, or one that was given away"));
  }
  PERMAFROST_RETURN_IF_ERROR(CheckArena());
  if (step.epoch_ != Epoch()) {
    return Refused("step ", step.echo().step, ": arena epoch: got ", Epoch(),
                   ", the step was written in ", step.epoch_,
                   "; write it again");
  }
  if (stream_ && *stream_ != stream) {
    return Refused("stream: got ", StreamName(stream),
                   ", uploads so far went to ", StreamName(*stream_),
                   ", whose replays may still read the block; call "
                   "LeaveStream first");
  }
  return absl::OkStatus();
}

absl::Status DecodeMetaStaging::Copy(CUstream stream, DecodeMetaMode mode) {
  const int64_t bytes = mode == DecodeMetaMode::kFull ? layout().full_bytes
                                                      : layout().delta_bytes;
  return Called(context_->api().MemcpyHtoDAsync(
                    target_.block.base.value(), current().memory.data(),
                    static_cast<size_t>(bytes), stream),
                "cuMemcpyHtoDAsync", DecodeMetaModeName(mode),
                " upload of step ", current().step, ", ", bytes, " bytes");
}

absl::Status DecodeMetaStaging::RecordEvent(CUstream stream) {
  const DriverApi& api = context_->api();
  Slot& slot = current();
  const absl::Status recorded =
      Called(api.EventRecord(slot.copied.get(), stream), "cuEventRecord",
             "behind step ", slot.step);
  if (recorded.ok()) {
    slot.is_event_pending = true;
    return recorded;
  }
  // Work that reads the slot is enqueued and nothing tells of its end.
  slot.is_stream_pending = api.StreamSynchronize(stream) != CUDA_SUCCESS;
  return recorded;
}

absl::Status DecodeMetaStaging::Upload(WrittenDecodeMeta&& step,
                                       CUstream stream) {
  const WrittenDecodeMeta taken = std::move(step);
  PERMAFROST_RETURN_IF_ERROR(CheckTaken(taken, stream));
  const Context::Scope scope = context_->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  PERMAFROST_RETURN_IF_ERROR(CheckNotCapturing(stream));
  stream_ = stream;
  history_.Forget();
  PERMAFROST_RETURN_IF_ERROR(Copy(stream, taken.mode()));
  PERMAFROST_RETURN_IF_ERROR(RecordEvent(stream));
  history_.Commit();
  current_ = (current_ + 1) % slots_.size();
  return absl::OkStatus();
}

absl::Status DecodeMetaStaging::RecordCapturedCopy(CUstream stream) {
  PERMAFROST_RETURN_IF_ERROR(CheckArena());
  const Context::Scope scope = context_->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  PERMAFROST_RETURN_IF_ERROR(
      Called(context_->api().StreamIsCapturing(stream, &status),
             "cuStreamIsCapturing", "asking whether the stream captures"));
  if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
    return Refused("stream ", StreamName(stream),
                   ": got one that does not capture, or whose capture is "
                   "broken; record the copy between begin and end of a "
                   "capture");
  }
  return Copy(stream, *target_.captured_mode);
}

absl::Status DecodeMetaStaging::Arm(WrittenDecodeMeta&& step, CUstream stream) {
  const WrittenDecodeMeta taken = std::move(step);
  PERMAFROST_RETURN_IF_ERROR(CheckTaken(taken, stream));
  const Context::Scope scope = context_->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  PERMAFROST_RETURN_IF_ERROR(CheckNotCapturing(stream));
  stream_ = stream;
  history_.Forget();
  if (taken.mode() == DecodeMetaMode::kFull &&
      target_.captured_mode == DecodeMetaMode::kDelta) {
    PERMAFROST_RETURN_IF_ERROR(Copy(stream, DecodeMetaMode::kFull));
    PERMAFROST_RETURN_IF_ERROR(RecordEvent(stream));
  }
  is_armed_ = true;
  return absl::OkStatus();
}

absl::Status DecodeMetaStaging::RecordReplay(CUstream stream) {
  if (!is_armed_) {
    return Refused(
        "replay: got one without a step armed for it, so it ran on "
        "step ",
        history_.last_step(), " again; write and arm each step");
  }
  if (stream != *stream_) {
    return Refused("replay: got stream ", StreamName(stream),
                   ", the step was armed on ", StreamName(*stream_),
                   "; launch the graph on that stream");
  }
  const Context::Scope scope = context_->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  PERMAFROST_RETURN_IF_ERROR(CheckNotCapturing(stream));
  is_armed_ = false;
  PERMAFROST_RETURN_IF_ERROR(RecordEvent(stream));
  history_.Commit();
  return absl::OkStatus();
}

void DecodeMetaStaging::CancelReplay() { is_armed_ = false; }

absl::Status DecodeMetaStaging::LeaveStream() {
  if (!stream_) return absl::OkStatus();
  if (is_armed_) return Refused(ArmedText());
  const Context::Scope scope = context_->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  PERMAFROST_RETURN_IF_ERROR(Called(context_->api().StreamSynchronize(*stream_),
                                    "cuStreamSynchronize",
                                    "leaving the stream"));
  for (Slot& slot : slots_) {
    slot.is_event_pending = false;
    slot.is_stream_pending = false;
  }
  stream_.reset();
  return absl::OkStatus();
}

absl::Status DecodeMetaStaging::Release() {
  if (is_slot_out_) {
    return Refused("slot ", current_, " is out; upload or drop it first");
  }
  if (is_armed_) return Refused(ArmedText());
  is_released_ = true;
  while (!slots_.empty()) {
    Slot& slot = slots_.back();
    PERMAFROST_RETURN_IF_ERROR(WaitFor(slot, /*may_wait=*/true));
    PERMAFROST_RETURN_IF_ERROR(slot.memory.Destroy());
    PERMAFROST_RETURN_IF_ERROR(slot.copied.Destroy());
    slots_.pop_back();
  }
  return absl::OkStatus();
}

}  // namespace permafrost::internal

namespace permafrost {

absl::StatusOr<WrittenDecodeMeta> DecodeMetaSlot::Write(
    const DecodeBatch& batch, DecodeMetaMode mode) && {
  internal::DecodeMetaStaging* const staging = slot_.staging();
  if (staging == nullptr) {
    return absl::FailedPreconditionError(
        "decode metadata: got a slot that was given away; acquire one for "
        "each step");
  }
  return staging->Write(std::move(slot_), batch, mode);
}

}  // namespace permafrost
