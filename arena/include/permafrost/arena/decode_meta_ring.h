// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_DECODE_META_RING_H_
#define PERMAFROST_ARENA_DECODE_META_RING_H_

#include <cuda.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "permafrost/arena/arena.h"
#include "permafrost/arena/decode_batch.h"
#include "permafrost/arena/decode_meta_layout.h"
#include "permafrost/arena/decode_meta_slot.h"
#include "permafrost/driver/context.h"
#include "permafrost/driver/device_ptr.h"

namespace permafrost {

/// The block on the device that metadata is uploaded to. Its address is frozen
/// into every graph that reads it.
struct DecodeMetaBlock {
  DevicePtr base;  ///< a multiple of 256
  int64_t bytes = 0;
};

/// Uploads decode metadata, one copy a step, from a ring of pinned slots into
/// the one fixed block on the device.
///
///   DecodeMetaSlot slot = ring.Acquire();           // its last copy is done
///   WrittenDecodeMeta step = std::move(slot).Write(batch, mode);
///   ring.Upload(std::move(step), stream);           // one copy, one event
///   cuGraphLaunch(graph, stream);
///
/// The copy is not part of the graph. It runs on the graph's stream, so the
/// replay before it has read the old content and the replay after it reads the
/// new; the host writes the next slot meanwhile.
///
/// Everything is taken in `Create`, each slot as large as the largest upload;
/// a step allocates nothing.
///
/// Threads: externally synchronised, slots too.
class DecodeMetaRing {
 public:
  /// @param slots  1 or more; with 2 the host writes one step ahead.
  /// Errors: kInvalidArgument for a block that is smaller than the layout or
  ///   not aligned, slots below 1, or limits that `CheckDecodeMetaLimits`
  ///   refuses; those of the driver. Nothing is left behind.
  /// Capture: unsafe, pinned memory is allocated.
  static absl::StatusOr<DecodeMetaRing> Create(ContextRef context,
                                               const DecodeMetaLayout& layout,
                                               const DecodeMetaLimits& limits,
                                               DecodeMetaBlock block,
                                               int slots = 2);

  /// Over the arena's buffer `decode_meta`. The ring notices when the arena is
  /// released or its memory replaced; it does not keep the arena alive.
  /// Errors: those of `ArenaView::Find`, and as above.
  static absl::StatusOr<DecodeMetaRing> ForArena(const ArenaView& arena,
                                                 const DecodeMetaLayout& layout,
                                                 const DecodeMetaLimits& limits,
                                                 int slots = 2);

  DecodeMetaRing(DecodeMetaRing&&) noexcept = default;
  DecodeMetaRing& operator=(DecodeMetaRing&&) noexcept = default;

  /// The next slot; waits until its last copy has run.
  ///
  /// Capture: unsafe while a stream captures in global mode, and while the
  ///   stream of that copy captures: a wait breaks the capture.
  /// Errors: kFailedPrecondition while another slot is out, and after
  ///   `Release`; those of the driver, then the slot stays unavailable.
  absl::StatusOr<DecodeMetaSlot> Acquire();

  /// As Acquire, and does not wait.
  /// Errors: kUnavailable, naming slot and step, while its copy has not run.
  absl::StatusOr<DecodeMetaSlot> TryAcquire();

  /// Enqueues the copy of full_bytes or delta_bytes, and an event behind it.
  ///
  /// @param stream  the one that the graph is launched on. The first upload
  ///   decides it: on another stream a copy could overtake a replay.
  /// Capture: refused while `stream` captures, because the graph would read
  ///   this slot again at each replay: that is what `CapturedDecodeMeta` is
  ///   for.
  /// Errors: kFailedPrecondition for a stream that captures or is not that of
  ///   the uploads before, for an arena that was released or changed its epoch
  ///   since `Write`; kInvalidArgument for a step of another ring; those of the
  ///   driver. Then the block may hold anything, and a FULL upload has to
  ///   follow.
  /// Cost: three driver calls and a context switch; no allocation.
  absl::Status Upload(WrittenDecodeMeta&& step, CUstream stream);

  /// Waits for all work of the stream, replays included, and lets the next
  /// upload choose another. Capture: breaks a capture of that stream.
  absl::Status LeaveStream();

  /// The block's content is lost or was written by somebody else: a DELTA is
  /// refused until a FULL upload.
  void ForgetDevice();

  /// Whether kernels that were recorded with `recorded` read what is written
  /// here.
  /// Errors: kFailedPrecondition with both ids.
  absl::Status CheckLayout(const DecodeMetaLayout& recorded) const;

  const DecodeMetaLayout& layout() const;

  /// Waits for all copies and gives slots and events back; a second call does
  /// nothing. The destructor does the same and has nobody to report to.
  /// Errors: kFailedPrecondition while a slot is out; those of the driver, then
  ///   what is left is kept and another call goes on with it.
  /// Capture: unsafe.
  absl::Status Release();

 private:
  explicit DecodeMetaRing(std::shared_ptr<internal::DecodeMetaStaging> staging);

  std::shared_ptr<internal::DecodeMetaStaging> staging_;
};

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_DECODE_META_RING_H_
