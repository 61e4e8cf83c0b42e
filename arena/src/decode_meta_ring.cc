// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/decode_meta_ring.h"

#include <utility>

#include "decode_meta_staging.h"
#include "permafrost/driver/status.h"

namespace permafrost {

using ::permafrost::internal::DecodeMetaStaging;

DecodeMetaRing::DecodeMetaRing(std::shared_ptr<DecodeMetaStaging> staging)
    : staging_(std::move(staging)) {}

absl::StatusOr<DecodeMetaRing> DecodeMetaRing::Create(
    ContextRef context, const DecodeMetaLayout& layout,
    const DecodeMetaLimits& limits, DecodeMetaBlock block, int slots) {
  PERMAFROST_ASSIGN_OR_RETURN(
      std::shared_ptr<DecodeMetaStaging> staging,
      DecodeMetaStaging::Create(std::move(context),
                                {.layout = layout,
                                 .limits = limits,
                                 .block = block,
                                 .arena = std::nullopt,
                                 .captured_mode = std::nullopt},
                                slots));
  return DecodeMetaRing(std::move(staging));
}

absl::StatusOr<DecodeMetaRing> DecodeMetaRing::ForArena(
    const ArenaView& arena, const DecodeMetaLayout& layout,
    const DecodeMetaLimits& limits, int slots) {
  PERMAFROST_ASSIGN_OR_RETURN(
      DecodeMetaStaging::Target target,
      DecodeMetaStaging::InArena(arena, layout, limits));
  PERMAFROST_ASSIGN_OR_RETURN(
      std::shared_ptr<DecodeMetaStaging> staging,
      DecodeMetaStaging::Create(arena.context(), std::move(target), slots));
  return DecodeMetaRing(std::move(staging));
}

absl::StatusOr<DecodeMetaSlot> DecodeMetaRing::Acquire() {
  return staging_->Acquire(/*may_wait=*/true);
}

absl::StatusOr<DecodeMetaSlot> DecodeMetaRing::TryAcquire() {
  return staging_->Acquire(/*may_wait=*/false);
}

absl::Status DecodeMetaRing::Upload(WrittenDecodeMeta&& step, CUstream stream) {
  return staging_->Upload(std::move(step), stream);
}

absl::Status DecodeMetaRing::LeaveStream() { return staging_->LeaveStream(); }

void DecodeMetaRing::ForgetDevice() { staging_->ForgetDevice(); }

absl::Status DecodeMetaRing::CheckLayout(
    const DecodeMetaLayout& recorded) const {
  return staging_->CheckLayout(recorded);
}

const DecodeMetaLayout& DecodeMetaRing::layout() const {
  return staging_->layout();
}

absl::Status DecodeMetaRing::Release() { return staging_->Release(); }

}  // namespace permafrost
