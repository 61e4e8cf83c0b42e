// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/captured_decode_meta.h"

#include <utility>

#include "decode_meta_staging.h"
#include "permafrost/driver/status.h"

namespace permafrost {

using ::permafrost::internal::DecodeMetaStaging;

CapturedDecodeMeta::CapturedDecodeMeta(
    std::shared_ptr<DecodeMetaStaging> staging)
    : staging_(std::move(staging)) {}

absl::StatusOr<CapturedDecodeMeta> CapturedDecodeMeta::Create(
    ContextRef context, const DecodeMetaLayout& layout,
    const DecodeMetaLimits& limits, DecodeMetaBlock block,
    DecodeMetaMode mode) {
  PERMAFROST_ASSIGN_OR_RETURN(std::shared_ptr<DecodeMetaStaging> staging,
                              DecodeMetaStaging::Create(std::move(context),
                                                        {.layout = layout,
                                                         .limits = limits,
                                                         .block = block,
                                                         .arena = std::nullopt,
                                                         .captured_mode = mode},
                                                        /*slots=*/1));
  return CapturedDecodeMeta(std::move(staging));
}

absl::StatusOr<CapturedDecodeMeta> CapturedDecodeMeta::ForArena(
    const ArenaView& arena, const DecodeMetaLayout& layout,
    const DecodeMetaLimits& limits, DecodeMetaMode mode) {
  PERMAFROST_ASSIGN_OR_RETURN(
      DecodeMetaStaging::Target target,
      DecodeMetaStaging::InArena(arena, layout, limits));
  target.captured_mode = mode;
  PERMAFROST_ASSIGN_OR_RETURN(
      std::shared_ptr<DecodeMetaStaging> staging,
      DecodeMetaStaging::Create(arena.context(), std::move(target),
                                /*slots=*/1));
  return CapturedDecodeMeta(std::move(staging));
}

absl::Status CapturedDecodeMeta::Record(CUstream capturing_stream) {
  return staging_->RecordCapturedCopy(capturing_stream);
}

absl::StatusOr<DecodeMetaSlot> CapturedDecodeMeta::Acquire() {
  return staging_->Acquire(/*may_wait=*/true);
}

absl::StatusOr<DecodeMetaSlot> CapturedDecodeMeta::TryAcquire() {
  return staging_->Acquire(/*may_wait=*/false);
}

absl::Status CapturedDecodeMeta::Arm(WrittenDecodeMeta&& step,
                                     CUstream stream) {
  return staging_->Arm(std::move(step), stream);
}

absl::Status CapturedDecodeMeta::RecordReplay(CUstream stream) {
  return staging_->RecordReplay(stream);
}

void CapturedDecodeMeta::CancelReplay() { staging_->CancelReplay(); }

absl::Status CapturedDecodeMeta::LeaveStream() {
  return staging_->LeaveStream();
}

void CapturedDecodeMeta::ForgetDevice() { staging_->ForgetDevice(); }

absl::Status CapturedDecodeMeta::CheckLayout(
    const DecodeMetaLayout& recorded) const {
  return staging_->CheckLayout(recorded);
}

const DecodeMetaLayout& CapturedDecodeMeta::layout() const {
  return staging_->layout();
}

absl::Status CapturedDecodeMeta::Release() { return staging_->Release(); }

}  // namespace permafrost
