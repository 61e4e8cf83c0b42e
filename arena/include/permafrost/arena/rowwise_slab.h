// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_ROWWISE_SLAB_H_
#define PERMAFROST_ARENA_ROWWISE_SLAB_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "permafrost/arena/arena.h"

namespace permafrost {

/// Hands out one buffer of an arena piece by piece, as layers find in warm-up
/// what they have to keep: copies of their weights in another format above all.
///
/// It only grows: a piece is never given back, and stays where it is until the
/// arena goes. Pieces start on multiples of 256. The first freeze ends it,
/// because a piece carved in a capture would be filled by that graph's replays
/// alone.
///
/// One slab is the only user of its buffer: another over the same one hands out
/// the same bytes.
///
/// Threads: safe from any thread, but not while the arena is being frozen.
/// Capture: no driver call.
class RowwiseSlab {
 public:
  /// The slab over that buffer; nothing of it is carved.
  /// Errors: those of `ArenaView::Find`; kInvalidArgument when the buffer's
  ///   lifetime is not `Lifetime::kPersistentSlab`, for then others use it.
  static absl::StatusOr<RowwiseSlab> Over(
      ArenaView arena, absl::string_view buffer = "ssm_rowwise_w_bf16");

  RowwiseSlab(RowwiseSlab&&) noexcept;
  RowwiseSlab& operator=(RowwiseSlab&&) noexcept;
  ~RowwiseSlab();

  /// The next `bytes` of the buffer, which nobody else gets. A refusal leaves
  /// the slab as it was.
  /// @param piece  names it in errors and in the result: "layer 3 in_proj".
  /// Errors: kFailedPrecondition once the arena is frozen or released;
  ///   kResourceExhausted naming buffer, piece, bytes asked, carved and held,
  ///   and the option that reserves them; kInvalidArgument for bytes below 1.
  absl::StatusOr<BufferRef> Carve(absl::string_view piece, int64_t bytes);

  /// What is carved, with the gaps before pieces. Units: bytes.
  int64_t used_bytes() const;
  /// What the buffer holds. Units: bytes.
  int64_t held_bytes() const;

 private:
  struct State;
  explicit RowwiseSlab(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_ROWWISE_SLAB_H_
