// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "permafrost/arena/arena.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "arena_state.h"
#include "permafrost/driver/check.h"
#include "permafrost/driver/status.h"

namespace permafrost {

ArenaView::ArenaView(std::shared_ptr<const internal::ArenaState> state)
    : state_(std::move(state)) {}

absl::StatusOr<BufferRef> ArenaView::Find(absl::string_view name) const {
  const PlannedBuffer* buffer = state_->plan().Find(name);
  if (buffer == nullptr) {
    return absl::NotFoundError(absl::StrCat(
        "arena has no buffer '", name, "'; its plan has ",
        state_->plan().buffers().size(), " buffers, see ArenaPlan::ToTable()"));
  }
  if (!buffer->is_present()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "buffer '", name, "' is absent for this model: ", buffer->gate_reason));
  }
  const DevicePtr base = state_->base();
  if (base.is_null()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "buffer '", name, "': the arena was released; create another"));
  }
  if (state_->IsAsleep(*buffer)) {
    return absl::FailedPreconditionError(
        absl::StrCat("buffer '", name, "' is asleep, with the tag '",
                     buffer->tag, "'; call FrozenArena::Wake() first"));
  }
  return BufferRef{buffer->name, base + buffer->offset_bytes, buffer->bytes};
}

absl::Status ArenaView::CheckFits(absl::string_view name, int64_t bytes) const {
  PERMAFROST_ASSIGN_OR_RETURN(const BufferRef buffer, Find(name));
  if (bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "buffer '", name, "': asked for ", bytes, " bytes, need 0 or more"));
  }
  if (bytes > buffer.bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "buffer '", name, "' is too small: asked for ", bytes, " bytes, holds ",
        buffer.bytes, "; ", SizeRemedy(plan().Find(name)->sized_by)));
  }
  return absl::OkStatus();
}

const ArenaPlan& ArenaView::plan() const { return state_->plan(); }
ContextRef ArenaView::context() const { return state_->context(); }
bool ArenaView::is_frozen() const { return state_->is_frozen(); }
DevicePtr ArenaView::base() const { return state_->base(); }
uint64_t ArenaView::epoch() const { return state_->epoch(); }

bool ArenaView::IsAsleep(absl::string_view name) const {
  const PlannedBuffer* buffer = state_->plan().Find(name);
  return buffer != nullptr && buffer->is_present() && state_->IsAsleep(*buffer);
}

std::vector<MemoryWatch> ArenaView::Watch(
    absl::Span<const std::string> names) const {
  const ArenaPlan& plan = state_->plan();
  std::vector<MemoryWatch> watches;
  for (size_t i = 0; i < plan.segments().size(); ++i) {
    const bool is_named =
        std::any_of(names.begin(), names.end(), [&](const std::string& name) {
          const PlannedBuffer* buffer = plan.Find(name);
          return buffer != nullptr &&
                 plan.SegmentOf(*buffer) == &plan.segments()[i];
        });
    if (!is_named) continue;
    watches.emplace_back(
        std::shared_ptr<const std::atomic<uint64_t>>(state_,
                                                     &state_->asleep_word(i)),
        0, absl::StrCat("arena ", SegmentLabel(plan.segments()[i])));
  }
  return watches;
}

Lease::Lease(std::shared_ptr<internal::ArenaOwner> owner, std::string holder,
             uint64_t id)
    : owner_(std::move(owner)), holder_(std::move(holder)), id_(id) {}

Lease::Lease(Lease&& other) noexcept
    : owner_(std::move(other.owner_)),
      holder_(std::move(other.holder_)),
      id_(other.id_) {}

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this != &other) {
    Drop();
    owner_ = std::move(other.owner_);
    holder_ = std::move(other.holder_);
    id_ = other.id_;
  }
  return *this;
}

Lease::~Lease() { Drop(); }

void Lease::Drop() {
  if (owner_ == nullptr) return;
  owner_->state()->DropLease(id_);
  owner_.reset();
}

FrozenArena::FrozenArena(std::shared_ptr<internal::ArenaOwner> owner)
    : owner_(std::move(owner)) {}

ArenaView FrozenArena::view() const { return ArenaView(owner_->state()); }

uint64_t FrozenArena::fingerprint() const {
  return owner_->state()->fingerprint();
}

uint64_t FrozenArena::epoch() const { return owner_->state()->epoch(); }

absl::StatusOr<Lease> FrozenArena::TakeLease(std::string holder,
                                             LeaseWork work) const {
  PERMAFROST_ASSIGN_OR_RETURN(
      const uint64_t id, owner_->state()->AddLease(holder, std::move(work)));
  return Lease(owner_, std::move(holder), id);
}

absl::StatusOr<ArenaEvidence> FrozenArena::ReadBack() const {
  return owner_->state()->ReadBack();
}

absl::Status FrozenArena::VerifyStable() const {
  return owner_->state()->VerifyStable();
}

absl::Status FrozenArena::Sleep(const SleepRequest& request) {
  return Annotate(owner_->state()->Sleep(request), "arena sleep");
}

absl::Status FrozenArena::Wake(const WakeRequest& request) {
  return Annotate(owner_->state()->Wake(request), "arena wake");
}

absl::Status FrozenArena::DeclareStream(absl::string_view name,
                                        CUstream stream) {
  return owner_->state()->DeclareStream(name, stream);
}

absl::Status FrozenArena::ForgetStream(absl::string_view name) {
  return owner_->state()->ForgetStream(name);
}

absl::Status FrozenArena::SetRestoreHook(absl::string_view buffer,
                                         RestoreHook hook) {
  return owner_->state()->SetRestoreHook(buffer, std::move(hook));
}

absl::Status FrozenArena::RegisterOutside(OutsideBuffer buffer) {
  return owner_->state()->RegisterOutside(std::move(buffer));
}

std::vector<SegmentStatus> FrozenArena::segments() const {
  return owner_->state()->segments();
}

absl::Status FrozenArena::Release() { return owner_->state()->Release(); }

int64_t FrozenArena::live_bytes() const {
  return owner_->state()->live_bytes();
}

int64_t FrozenArena::host_bytes() const {
  return owner_->state()->host_bytes();
}

Arena::Arena(std::shared_ptr<internal::ArenaOwner> owner)
    : owner_(std::move(owner)) {}

absl::StatusOr<Arena> Arena::Create(ContextRef context, ArenaPlan plan,
                                    ArenaOptions options) {
  PERMAFROST_ASSIGN_OR_RETURN(
      std::shared_ptr<internal::ArenaState> state,
      internal::ArenaState::Create(std::move(context), std::move(plan),
                                   options));
  return Arena(std::make_shared<internal::ArenaOwner>(std::move(state)));
}

int64_t Arena::abandoned_bytes() { return internal::AbandonedBytes(); }

absl::Status Arena::ReclaimAbandoned() {
  return internal::ReclaimAbandonedMemory();
}

ArenaView Arena::view() const {
  PERMAFROST_CHECK(owner_ != nullptr, "view() of an arena that was moved from");
  return ArenaView(owner_->state());
}

absl::StatusOr<FrozenArena> Arena::Freeze() && {
  if (owner_ == nullptr) {
    return absl::FailedPreconditionError(
        "arena freeze: the arena was frozen or moved before");
  }
  PERMAFROST_RETURN_IF_ERROR(
      Annotate(owner_->state()->Freeze(), "arena freeze"));
  return FrozenArena(std::move(owner_));
}

absl::Status Arena::Release() {
  return owner_ == nullptr ? absl::OkStatus() : owner_->state()->Release();
}

int64_t Arena::live_bytes() const {
  return owner_ == nullptr ? 0 : owner_->state()->live_bytes();
}

}  // namespace permafrost
