// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_CAPTURE_CAPTURE_SESSION_H_
#define PERMAFROST_CAPTURE_CAPTURE_SESSION_H_

#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "permafrost/capture/lane.h"
#include "permafrost/driver/handles.h"

namespace permafrost {

/// Which calls of which threads the driver forbids while a lane captures.
///
/// | mode | unsafe call by the capturing thread | by another thread |
/// |---|---|---|
/// | kThreadLocal | ends the capture | allowed: engines poll from threads |
/// | kGlobal | ends the capture | ends the capture: the loudest, for tests |
/// | kRelaxed | allowed, and may hide an allocation | allowed |
enum class CaptureMode { kThreadLocal, kGlobal, kRelaxed };

/// "thread_local", "global" or "relaxed".
const char* CaptureModeName(CaptureMode mode);

/// One stream capture that is ended on every path.
///
/// | state | reached by | End | destructor |
/// |---|---|---|---|
/// | recording | `Begin` | -> ended, gives the graph or the first error | ends
/// the capture and drops the graph | | ended | `End` | FailedPrecondition |
/// nothing |
///
/// Whatever happens in between, the lane's stream is out of capture afterwards
/// and a new capture may begin. The graph's handle is taken only from a capture
/// that ended well: after a broken one the driver has already destroyed it.
///
/// Threads: the thread that began ends (the driver's rule, except kRelaxed).
class CaptureSession {
 public:
  /// Drains the lane, so that nothing from before runs into the capture, and
  /// starts recording on its stream.
  ///
  /// Errors: the driver's; FailedPrecondition when the lane captures already.
  static absl::StatusOr<CaptureSession> Begin(const Lane& lane,
                                              CaptureMode mode);

  CaptureSession(CaptureSession&& other) noexcept;
  CaptureSession& operator=(CaptureSession&&) = delete;
  ~CaptureSession();

  /// Ends the capture and gives what was recorded.
  ///
  /// @param recorded  what the recording code returned. If it is an error it is
  ///   the first one, so it is what `End` returns, with lane, mode and, when it
  ///   carries a driver call, that call and the cure named.
  /// Errors: `recorded`; else the driver's verdict on the capture. A capture
  ///   that some call invalidated although `recorded` is OK says so.
  absl::StatusOr<Graph> End(const absl::Status& recorded = absl::OkStatus());

 private:
  CaptureSession(Lane lane, CaptureMode mode);

  std::optional<Lane> lane_;  // empty once ended
  CaptureMode mode_;
};

/// Captures what `record` enqueues on the lane's stream.
///
/// Errors: as `CaptureSession`; an exception out of `record` becomes Internal
///   with its text, after the capture has been ended.
absl::StatusOr<Graph> CaptureStep(const Lane& lane, CaptureMode mode,
                                  const std::function<absl::Status()>& record);

}  // namespace permafrost

#endif  // PERMAFROST_CAPTURE_CAPTURE_SESSION_H_
