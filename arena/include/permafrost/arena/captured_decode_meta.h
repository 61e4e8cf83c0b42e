// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_CAPTURED_DECODE_META_H_
#define PERMAFROST_ARENA_CAPTURED_DECODE_META_H_

#include <cuda.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "permafrost/arena/arena.h"
#include "permafrost/arena/decode_batch.h"
#include "permafrost/arena/decode_meta_layout.h"
#include "permafrost/arena/decode_meta_ring.h"
#include "permafrost/arena/decode_meta_slot.h"
#include "permafrost/driver/context.h"

namespace permafrost {

/// Uploads decode metadata by a copy that is a node of the graph.
///
/// A captured copy has one host address and one size for the graph's life, so
/// there is one slot, and it is handed out only after the last replay:
///
///   meta.Record(capturing_stream);                  // once for each graph
///   ...
///   DecodeMetaSlot slot = meta.Acquire();           // the last replay is done
///   WrittenDecodeMeta step = std::move(slot).Write(batch, mode);
///   meta.Arm(std::move(step), stream);
///   cuGraphLaunch(graph, stream);
///   meta.RecordReplay(stream);                      // or CancelReplay()
///
/// With a captured DELTA copy a FULL step is uploaded by `Arm`, and the graph
/// copies its first part once more; with a captured FULL copy a DELTA step is
/// refused, for the slot does not have what kernels entered into the table.
///
/// It owns the memory that the graphs read: destroy it after them.
///
/// Threads: externally synchronised, slots too.
class CapturedDecodeMeta {
 public:
  /// @param mode  how much the captured copy copies.
  /// Errors and capture: as `DecodeMetaRing::Create`.
  static absl::StatusOr<CapturedDecodeMeta> Create(
      ContextRef context, const DecodeMetaLayout& layout,
      const DecodeMetaLimits& limits, DecodeMetaBlock block,
      DecodeMetaMode mode);

  /// As `DecodeMetaRing::ForArena`.
  static absl::StatusOr<CapturedDecodeMeta> ForArena(
      const ArenaView& arena, const DecodeMetaLayout& layout,
      const DecodeMetaLimits& limits, DecodeMetaMode mode);

  CapturedDecodeMeta(CapturedDecodeMeta&&) noexcept = default;
  CapturedDecodeMeta& operator=(CapturedDecodeMeta&&) noexcept = default;

  /// Records the copy; kernels that read the block are recorded after it, on
  /// the same stream or behind it.
  /// Capture: this is for a stream that captures.
  /// Errors: kFailedPrecondition when it does not; those of the driver.
  absl::Status Record(CUstream capturing_stream);

  /// As of `DecodeMetaRing`; the copy waited for is that of the last replay.
  /// Errors: kFailedPrecondition also when the replay that was armed for was
  ///   neither recorded nor cancelled.
  absl::StatusOr<DecodeMetaSlot> Acquire();
  absl::StatusOr<DecodeMetaSlot> TryAcquire();

  /// Makes ready for one replay on `stream`.
  /// Errors: as `DecodeMetaRing::Upload`.
  /// Cost: one driver call and a context switch; for FULL over a captured DELTA
  ///   two more.
  absl::Status Arm(WrittenDecodeMeta&& step, CUstream stream);

  /// The graph was launched on `stream`; the slot is free when it is done.
  /// Errors: kFailedPrecondition when no step was armed: the replay ran on the
  ///   step before; those of the driver, and then the slot is free only when
  ///   the stream was waited for.
  absl::Status RecordReplay(CUstream stream);

  /// The launch failed, or is not going to happen. A FULL step has to follow.
  void CancelReplay();

  absl::Status LeaveStream();
  void ForgetDevice();
  absl::Status CheckLayout(const DecodeMetaLayout& recorded) const;
  const DecodeMetaLayout& layout() const;

  /// As of `DecodeMetaRing`. Graphs that hold the copy must be gone.
  absl::Status Release();

 private:
  explicit CapturedDecodeMeta(
      std::shared_ptr<internal::DecodeMetaStaging> staging);

  std::shared_ptr<internal::DecodeMetaStaging> staging_;
};

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_CAPTURED_DECODE_META_H_
