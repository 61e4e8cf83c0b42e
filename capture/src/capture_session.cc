// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/capture/capture_session.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "permafrost/driver/guarded_call.h"
#include "permafrost/driver/status.h"

namespace permafrost {
namespace {

CUstreamCaptureMode DriverMode(CaptureMode mode) {
  switch (mode) {
    case CaptureMode::kThreadLocal:
      return CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    case CaptureMode::kGlobal:
      return CU_STREAM_CAPTURE_MODE_GLOBAL;
    case CaptureMode::kRelaxed:
      return CU_STREAM_CAPTURE_MODE_RELAXED;
  }
  return CU_STREAM_CAPTURE_MODE_GLOBAL;
}

// What to do about a capture error, by the driver's result.
absl::string_view Cure(CUresult result) {
  switch (result) {
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
      return "the call is not permitted while a stream captures: allocate, "
             "load, synchronise and query before capture (warm-up is the "
             "place), never in the step";
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
      return "an earlier call broke the capture: return the Status of every "
             "driver call from the step so that it can be named";
    case CUDA_ERROR_STREAM_CAPTURE_MERGE:
      return "the step waited on an event of another capture: capture one lane "
             "at a time";
    case CUDA_ERROR_STREAM_CAPTURE_UNMATCHED:
    case CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD:
      return "end a capture on the stream and the thread that began it";
    case CUDA_ERROR_STREAM_CAPTURE_UNJOINED:
      return "a stream forked inside the step was not joined: record an event "
             "on it and make the lane's stream wait for it before returning";
    case CUDA_ERROR_STREAM_CAPTURE_ISOLATION:
      return "the step waited on an event recorded before capture: record it "
             "inside the step, or wait before capture";
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
      return "the step used the legacy stream: enqueue on the stream in the "
             "step's context";
    case CUDA_ERROR_CAPTURED_EVENT:
      return "the step queried or synchronised an event recorded in the "
             "capture: do that after a replay";
    case CUDA_ERROR_ILLEGAL_STATE:
      return "the step must neither begin nor end a capture of the lane";
    default:
      return "";
  }
}

std::string WithCure(const absl::Status& status) {
  const std::optional<CUresult> result = CuResultOf(status);
  const absl::string_view cure = result ? Cure(*result) : "";
  if (cure.empty()) return "";
  return absl::StrCat(" (", cure, ")");
}

// Puts `before` and `after` around the message; code and payloads stay.
absl::Status Surround(const absl::Status& status, absl::string_view before,
                      absl::string_view after) {
  absl::Status result(status.code(),
                      absl::StrCat(before, ": ", status.message(), after));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    result.SetPayload(url, payload);
  });
  return result;
}

std::string Label(const Lane& lane, CaptureMode mode) {
  return absl::StrCat("capture on lane '", lane.name(), "' (mode ",
                      CaptureModeName(mode), ")");
}

// Drops a graph that nobody will get. One failing destroy is no leak.
void Drop(const Lane& lane, CUgraph graph) {
  Graph owner = Graph::Adopt(lane.context(), graph);
  if (!owner.Destroy().ok()) owner.Destroy().IgnoreError();
}

// Takes the stream out of capture when ending it failed without doing so, which
// a driver does for a wrong thread and a test does for any call.
void LeaveCapture(const Lane& lane) {
  const DriverApi& api = lane.context()->api();
  CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
  if (api.StreamIsCapturing(lane.stream(), &state) != CUDA_SUCCESS ||
      state == CU_STREAM_CAPTURE_STATUS_NONE) {
    return;
  }
  CUgraph graph = nullptr;
  if (api.StreamEndCapture(lane.stream(), &graph) == CUDA_SUCCESS) {
    Drop(lane, graph);
  }
}

}  // namespace

const char* CaptureModeName(CaptureMode mode) {
  switch (mode) {
    case CaptureMode::kThreadLocal:
      return "thread_local";
    case CaptureMode::kGlobal:
      return "global";
    case CaptureMode::kRelaxed:
      return "relaxed";
  }
  return "unknown";
}

CaptureSession::CaptureSession(Lane lane, CaptureMode mode)
    : lane_(std::move(lane)), mode_(mode) {}

CaptureSession::CaptureSession(CaptureSession&& other) noexcept
    : lane_(std::exchange(other.lane_, std::nullopt)), mode_(other.mode_) {}

CaptureSession::~CaptureSession() {
  if (lane_.has_value()) {
    End(absl::CancelledError("the session was abandoned"))
        .status()
        .IgnoreError();
  }
}

absl::StatusOr<CaptureSession> CaptureSession::Begin(const Lane& lane,
                                                     CaptureMode mode) {
  const Lane::Use use(lane);
  const Context::Scope scope = lane.context()->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  const DriverApi& api = lane.context()->api();
  CUstreamCaptureStatus running = CU_STREAM_CAPTURE_STATUS_NONE;
  absl::Status status = CuStatus(api.StreamIsCapturing(lane.stream(), &running),
                                 "cuStreamIsCapturing");
  if (status.ok() && running != CU_STREAM_CAPTURE_STATUS_NONE) {
    // Asked first, because draining would break the capture that runs.
    return absl::FailedPreconditionError(
        absl::StrCat(Label(lane, mode),
                     ": the lane captures already; end that capture "
                     "first"));
  }
  if (status.ok()) status = lane.Drain();
  if (status.ok()) {
    status = CuStatus(api.StreamBeginCapture(lane.stream(), DriverMode(mode)),
                      "cuStreamBeginCapture");
  }
  if (!status.ok()) {
    return Surround(status, Label(lane, mode), WithCure(status));
  }
  return CaptureSession(lane, mode);
}

absl::StatusOr<Graph> CaptureSession::End(const absl::Status& recorded) {
  if (!lane_.has_value()) {
    return absl::FailedPreconditionError(
        "capture session: End was called a second time");
  }
  const Lane lane = *std::exchange(lane_, std::nullopt);
  const Lane::Use use(lane);
  const Context::Scope scope = lane.context()->MakeCurrent();
  const std::string label = Label(lane, mode_);

  CUgraph graph = nullptr;
  const CUresult result =
      lane.context()->api().StreamEndCapture(lane.stream(), &graph);
  if (result != CUDA_SUCCESS) LeaveCapture(lane);

  // The capture was ended whether or not the context could be made current; a
  // scope that failed is an error of this call all the same.
  const absl::Status& first = recorded.ok() ? scope.status() : recorded;
  if (!first.ok()) {
    if (result == CUDA_SUCCESS && graph != nullptr) Drop(lane, graph);
    const std::string call = CuCallOf(first);
    const char* failed =
        recorded.ok() ? ": ending the capture failed" : ": the step failed";
    return Surround(first,
                    call.empty() ? absl::StrCat(label, failed)
                                 : absl::StrCat(label, failed, " in ", call),
                    WithCure(first));
  }
  if (result == CUDA_SUCCESS) {
    if (graph == nullptr) {
      return absl::InternalError(absl::StrCat(
          label, ": cuStreamEndCapture succeeded and gave no graph"));
    }
    return Graph::Adopt(lane.context(), graph);
  }
  absl::Status status = CuStatus(result, "cuStreamEndCapture");
  if (result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) {
    return Surround(status,
                    absl::StrCat(label,
                                 ": a call the step did not report "
                                 "invalidated the capture"),
                    WithCure(status));
  }
  return Surround(status, label, WithCure(status));
}

absl::StatusOr<Graph> CaptureStep(const Lane& lane, CaptureMode mode,
                                  const std::function<absl::Status()>& record) {
  if (record == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(Label(lane, mode), ": got no function to record"));
  }
  const Lane::Use use(lane);
  const Context::Scope scope = lane.context()->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  PERMAFROST_ASSIGN_OR_RETURN(CaptureSession session,
                              CaptureSession::Begin(lane, mode));
  return session.End(GuardedCall("the step", record));
}

}  // namespace permafrost
