// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_DECODE_META_SLOT_H_
#define PERMAFROST_ARENA_DECODE_META_SLOT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "permafrost/arena/decode_batch.h"
#include "permafrost/arena/step_echo.h"

// A slot of pinned staging memory on its way: acquired, written, uploaded. Each
// step takes the handle of the one before by rvalue, so that memory whose copy
// may still run cannot be named, and what was not written cannot be uploaded.

namespace permafrost {

namespace internal {
class DecodeMetaStaging;

/// Says that a slot is out, and gives it back when dropped.
class DecodeMetaSlotRef {
 public:
  explicit DecodeMetaSlotRef(std::shared_ptr<DecodeMetaStaging> staging);
  DecodeMetaSlotRef(DecodeMetaSlotRef&& other) noexcept = default;
  DecodeMetaSlotRef& operator=(DecodeMetaSlotRef&& other) noexcept;
  ~DecodeMetaSlotRef();

  DecodeMetaStaging* staging() const { return staging_.get(); }

 private:
  void GiveBack();

  std::shared_ptr<DecodeMetaStaging> staging_;
};
}  // namespace internal

/// A slot that holds a batch and waits for its upload. Move-only; dropping it
/// gives the slot back and uploads nothing.
class WrittenDecodeMeta {
 public:
  WrittenDecodeMeta(WrittenDecodeMeta&&) noexcept = default;
  WrittenDecodeMeta& operator=(WrittenDecodeMeta&&) noexcept = default;

  DecodeMetaMode mode() const { return mode_; }
  /// What the step's last kernel has to hand back.
  const StepEcho& echo() const { return echo_; }
  /// The bytes that the upload will copy; gone with the slot.
  absl::Span<const std::byte> bytes() const { return bytes_; }

 private:
  friend class internal::DecodeMetaStaging;
  WrittenDecodeMeta(internal::DecodeMetaSlotRef slot, DecodeMetaMode mode,
                    StepEcho echo, absl::Span<const std::byte> bytes,
                    uint64_t epoch)
      : slot_(std::move(slot)),
        mode_(mode),
        echo_(echo),
        bytes_(bytes),
        epoch_(epoch) {}

  internal::DecodeMetaSlotRef slot_;
  DecodeMetaMode mode_;
  StepEcho echo_;
  absl::Span<const std::byte> bytes_;
  uint64_t epoch_;
};

/// A slot whose last copy is done, to be written. Move-only; dropping it gives
/// the slot back.
class DecodeMetaSlot {
 public:
  DecodeMetaSlot(DecodeMetaSlot&&) noexcept = default;
  DecodeMetaSlot& operator=(DecodeMetaSlot&&) noexcept = default;

  /// Checks the batch and writes it. After an error the slot is given back, and
  /// the device's block is as it was.
  ///
  /// Capture: no driver call. Cost: that of `WriteDecodeMeta`; no allocation.
  /// Errors: those of `WriteDecodeMeta` and `DecodeMetaHistory::Stage`;
  ///   kFailedPrecondition for a DELTA where the captured copy is FULL, or when
  ///   the arena was released.
  absl::StatusOr<WrittenDecodeMeta> Write(const DecodeBatch& batch,
                                          DecodeMetaMode mode) &&;

 private:
  friend class internal::DecodeMetaStaging;
  explicit DecodeMetaSlot(internal::DecodeMetaSlotRef slot)
      : slot_(std::move(slot)) {}

  internal::DecodeMetaSlotRef slot_;
};

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_DECODE_META_SLOT_H_
