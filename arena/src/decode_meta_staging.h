// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_SRC_DECODE_META_STAGING_H_
#define PERMAFROST_ARENA_SRC_DECODE_META_STAGING_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "permafrost/arena/arena.h"
#include "permafrost/arena/decode_batch.h"
#include "permafrost/arena/decode_meta_history.h"
#include "permafrost/arena/decode_meta_layout.h"
#include "permafrost/arena/decode_meta_ring.h"
#include "permafrost/arena/decode_meta_slot.h"
#include "permafrost/driver/context.h"
#include "permafrost/driver/handles.h"

namespace permafrost::internal {

/// Pinned slots, the block that they are copied to, and what is known of both:
/// what a ring and a captured copy share.
class DecodeMetaStaging
    : public std::enable_shared_from_this<DecodeMetaStaging> {
 public:
  struct Target {
    DecodeMetaLayout layout;
    DecodeMetaLimits limits;
    DecodeMetaBlock block;
    /// Whose block it is; nullopt: nobody tells of its end or its epoch.
    std::optional<ArenaView> arena;
    /// How much a captured copy copies; nullopt: copies are not captured.
    std::optional<DecodeMetaMode> captured_mode;
  };

  static absl::StatusOr<Target> InArena(const ArenaView& arena,
                                        const DecodeMetaLayout& layout,
                                        const DecodeMetaLimits& limits);
  static absl::StatusOr<std::shared_ptr<DecodeMetaStaging>> Create(
      ContextRef context, Target target, int slots);
  ~DecodeMetaStaging();
  DecodeMetaStaging(const DecodeMetaStaging&) = delete;
  DecodeMetaStaging& operator=(const DecodeMetaStaging&) = delete;

  const DecodeMetaLayout& layout() const { return target_.layout; }
  void ForgetDevice() { history_.Forget(); }
  absl::Status CheckLayout(const DecodeMetaLayout& recorded) const;

  absl::StatusOr<DecodeMetaSlot> Acquire(bool may_wait);
  absl::StatusOr<WrittenDecodeMeta> Write(DecodeMetaSlotRef slot,
                                          const DecodeBatch& batch,
                                          DecodeMetaMode mode);
  void GiveBack() { is_slot_out_ = false; }

  absl::Status Upload(WrittenDecodeMeta&& step, CUstream stream);
  absl::Status RecordCapturedCopy(CUstream stream);
  absl::Status Arm(WrittenDecodeMeta&& step, CUstream stream);
  absl::Status RecordReplay(CUstream stream);
  void CancelReplay();

  absl::Status LeaveStream();
  absl::Status Release();

 private:
  struct Slot {
    PinnedBuffer memory;
    Event copied;
    /// The event stands behind the last work that reads the memory.
    bool is_event_pending = false;
    /// That work was enqueued and no event could be recorded behind it.
    bool is_stream_pending = false;
    uint64_t step = 0;
  };

  DecodeMetaStaging(ContextRef context, Target target);

  Slot& current() { return slots_[current_]; }
  uint64_t Epoch() const;
  std::string ArmedText() const;
  absl::Status CheckArena() const;
  absl::Status CheckTaken(const WrittenDecodeMeta& step, CUstream stream) const;
  absl::Status CheckNotCapturing(CUstream stream) const;
  absl::Status WaitFor(Slot& slot, bool may_wait);
  absl::Status Copy(CUstream stream, DecodeMetaMode mode);
  absl::Status RecordEvent(CUstream stream);

  ContextRef context_;
  Target target_;
  DecodeMetaHistory history_;
  std::vector<Slot> slots_;
  size_t current_ = 0;
  bool is_slot_out_ = false;
  bool is_armed_ = false;
  /// Slots are being given back, and may have been in part.
  bool is_released_ = false;
  /// Where uploads go; nullopt until the first.
  std::optional<CUstream> stream_;
};

}  // namespace permafrost::internal

#endif  // PERMAFROST_ARENA_SRC_DECODE_META_STAGING_H_
