// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/rowwise_slab.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "checked_size.h"
#include "permafrost/arena/buffer_table.h"
#include "permafrost/driver/check.h"
#include "permafrost/driver/mutex.h"
#include "permafrost/driver/status.h"

namespace permafrost {

struct RowwiseSlab::State {
  State(ArenaView slab_arena, std::string buffer_name, int64_t bytes)
      : arena(std::move(slab_arena)),
        buffer(std::move(buffer_name)),
        held_bytes(bytes) {}

  const ArenaView arena;
  const std::string buffer;
  const int64_t held_bytes;
  Mutex mutex;
  int64_t used_bytes ABSL_GUARDED_BY(mutex) = 0;
};

RowwiseSlab::RowwiseSlab(std::unique_ptr<State> state)
    : state_(std::move(state)) {}
RowwiseSlab::RowwiseSlab(RowwiseSlab&&) noexcept = default;
RowwiseSlab& RowwiseSlab::operator=(RowwiseSlab&&) noexcept = default;
RowwiseSlab::~RowwiseSlab() = default;

absl::StatusOr<RowwiseSlab> RowwiseSlab::Over(ArenaView arena,
                                              absl::string_view buffer) {
  PERMAFROST_ASSIGN_OR_RETURN(const BufferRef found, arena.Find(buffer));
  const Lifetime lifetime = arena.plan().Find(buffer)->lifetime;
  if (lifetime != Lifetime::kPersistentSlab) {
    return absl::InvalidArgumentError(absl::StrCat(
        "slab over buffer '", buffer, "': lifetime: got ",
        LifetimeName(lifetime), ", limit ",
        LifetimeName(Lifetime::kPersistentSlab),
        "; give the pieces a row of their own in the buffer table"));
  }
  return RowwiseSlab(
      std::make_unique<State>(std::move(arena), found.name, found.bytes));
}

absl::StatusOr<BufferRef> RowwiseSlab::Carve(absl::string_view piece,
                                             int64_t bytes) {
  PERMAFROST_CHECK(state_ != nullptr, "Carve() of a slab that was moved from");
  State& state = *state_;
  const MutexLock lock(state.mutex);
  const std::string what =
      absl::StrCat("slab '", state.buffer, "': piece '", piece, "': asked for ",
                   bytes, " bytes");
  const std::string holds =
      absl::StrCat("carved ", state.used_bytes, " of ", state.held_bytes);
  if (bytes < 1) {
    return absl::InvalidArgumentError(absl::StrCat(what, ", limit at least 1"));
  }
  if (state.arena.is_frozen()) {
    return absl::FailedPreconditionError(
        absl::StrCat(what, " after the freeze, ", holds,
                     "; carve every piece in warm-up, before Arena::Freeze()"));
  }
  PERMAFROST_ASSIGN_OR_RETURN(const BufferRef buffer,
                              state.arena.Find(state.buffer));
  const CheckedSize begin =
      CheckedSize(state.used_bytes).AlignUp(kBufferAlignmentBytes);
  const std::optional<int64_t> end = (begin + bytes).value();
  if (!end || *end > state.held_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        what, ", ", holds, "; ",
        SizeRemedy(state.arena.plan().Find(state.buffer)->sized_by)));
  }
  state.used_bytes = *end;
  return BufferRef{std::string(piece), buffer.base + *begin.value(), bytes};
}

int64_t RowwiseSlab::used_bytes() const {
  PERMAFROST_CHECK(state_ != nullptr, "used_bytes() of a moved-from slab");
  const MutexLock lock(state_->mutex);
  return state_->used_bytes;
}

int64_t RowwiseSlab::held_bytes() const {
  PERMAFROST_CHECK(state_ != nullptr, "held_bytes() of a moved-from slab");
  return state_->held_bytes;
}

}  // namespace permafrost
