// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_ARENA_ARENA_H_
#define PERMAFROST_ARENA_ARENA_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "permafrost/arena/arena_plan.h"
#include "permafrost/driver/context.h"
#include "permafrost/driver/device_ptr.h"

// The memory of a forward pass: allocated once, before capture, and then fixed.
//
// A plan becomes memory in `Arena::Create`; `Freeze` turns the arena into a
// `FrozenArena`, the only kind that can be captured from. What each state
// allows:
//
//   |                  | Arena   | FrozenArena          | after Release() |
//   | view().Find      | yes     | yes                  | error           |
//   | eager launches   | yes     | yes                  | no memory       |
//   | capture, replay  | no      | yes                  | no memory       |
//   | TakeLease        | -       | yes                  | error           |
//   | ReadBack, Verify | -       | yes                  | error           |
//   | Release          | yes     | refused under lease  | no-op           |
//
// Handles and leases share the memory: it is given back with the last of them,
// so that destroying a handle is safe at any time. An `ArenaView` is no handle.

namespace permafrost {

namespace internal {
class ArenaState;
class ArenaOwner;
}  // namespace internal

/// How an arena takes its memory.
struct ArenaOptions {
  /// Tell memory checkers about each buffer: see `NvtxHeap`.
  bool register_nvtx = true;
  /// Reserve addresses and map memory behind them (cuMemMap and its kin). When
  /// false, or when the device cannot, memory comes from one cuMemAlloc.
  bool use_vmm = true;
};

/// A buffer's place. Units: bytes.
struct BufferRef {
  std::string name;
  DevicePtr base;
  int64_t bytes = 0;
};

/// What the driver says about a buffer's memory, read at one moment.
///
/// An address alone proves nothing: other memory can be mapped at it, and a
/// freed range can be handed out again. The block id tells them apart; the
/// driver never uses one twice in a process.
struct BufferEvidence {
  std::string name;
  /// Where the driver has it: the start of the mapping that holds it, plus the
  /// buffer's place in its segment. Null when nothing is mapped.
  DevicePtr base;
  int64_t bytes = 0;    ///< from the arena's table
  bool mapped = false;  ///< memory lies behind the address
  /// Where the mapping (or the cuMemAlloc allocation) begins that holds `base`.
  DevicePtr mapping_base;
  int64_t mapping_bytes = 0;
  /// Physical memory block, or the allocation's id where cuMemAlloc made it.
  uint64_t block_id = 0;

  friend bool operator==(const BufferEvidence&,
                         const BufferEvidence&) = default;
};

/// The evidence of every present buffer, in the plan's order.
struct ArenaEvidence {
  std::vector<BufferEvidence> buffers;
  /// Over (name, address, bytes) of the buffers: see `AddressFingerprint`.
  uint64_t fingerprint = 0;
};

/// Where buffers are: what a step is given, before the freeze and after.
///
/// A value that can be copied freely and owns nothing. When the memory is
/// gone, every look-up is an error.
///
/// Capture: no driver call. Threads: const methods are safe from any thread.
class ArenaView {
 public:
  // Declared, so that a move is a copy and leaves no empty view behind.
  ArenaView(const ArenaView&) = default;
  ArenaView& operator=(const ArenaView&) = default;

  /// The buffer's place.
  /// Errors: kNotFound for a name the plan does not have; kFailedPrecondition
  ///   for a buffer that this model has not, with the reason, and for an arena
  ///   that was released.
  absl::StatusOr<BufferRef> Find(absl::string_view name) const;

  /// Whether `bytes` fit into the buffer: for code that is about to write so
  /// much. Nothing grows after the arena exists.
  /// Errors: those of Find; kInvalidArgument for negative bytes;
  ///   kResourceExhausted naming the buffer, bytes asked, bytes held, and the
  ///   option that would have reserved enough.
  absl::Status CheckFits(absl::string_view name, int64_t bytes) const;

  const ArenaPlan& plan() const;
  ContextRef context() const;

  /// Whether the arena was frozen.
  bool is_frozen() const;

  /// The address of the plan's offset 0; null after release.
  DevicePtr base() const;

  /// Counts how often other memory was put behind the addresses; 1 is the
  /// memory of `Create`.
  uint64_t epoch() const;

 private:
  friend class Arena;
  friend class FrozenArena;
  explicit ArenaView(std::shared_ptr<const internal::ArenaState> state);

  std::shared_ptr<const internal::ArenaState> state_;
};

/// A promise of the arena that it stays, given to whoever holds its addresses:
/// a captured graph above all.
///
/// While one is out, `FrozenArena::Release()` is refused. It also keeps the
/// memory alive when the last handle goes. Move-only; an empty lease (made by
/// moving) holds nothing.
///
/// Threads: safe to drop from any thread.
class Lease {
 public:
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  ~Lease();

  /// Who holds it, for the text of a refusal.
  const std::string& holder() const { return holder_; }

 private:
  friend class FrozenArena;
  Lease(std::shared_ptr<internal::ArenaOwner> owner, std::string holder,
        uint64_t id);
  void Drop();

  std::shared_ptr<internal::ArenaOwner> owner_;
  std::string holder_;
  uint64_t id_ = 0;
};

/// An arena whose addresses never change again. Copies share it.
///
/// Threads: safe from any thread, `Release()` too.
class FrozenArena {
 public:
  // Declared, so that a move is a copy and leaves no empty handle behind.
  FrozenArena(const FrozenArena&) = default;
  FrozenArena& operator=(const FrozenArena&) = default;

  ArenaView view() const;

  /// The value that "addresses stable" compares: over every present buffer's
  /// name, address and bytes, as the arena was frozen.
  uint64_t fingerprint() const;

  /// See `ArenaView::epoch()`.
  uint64_t epoch() const;

  /// Takes a lease in the name of `holder`, as "graph of rung 8".
  /// Errors: kFailedPrecondition after release.
  absl::StatusOr<Lease> TakeLease(std::string holder) const;

  /// Reads from the driver, not from our tables, what lies behind each buffer.
  /// Capture: legal. Cost: four driver calls a buffer.
  /// Errors: kFailedPrecondition after release; those of the driver.
  absl::StatusOr<ArenaEvidence> ReadBack() const;

  /// Reads again and compares with what was read at the freeze: same address,
  /// mapped, same mapping, same physical block, for every buffer.
  /// Errors: kInternal naming the first buffer that differs, what differs, and
  ///   how many do; those of ReadBack.
  absl::Status VerifyStable() const;

  /// Gives the memory back, after waiting for all work of the context. Every
  /// later use of any copy or view is an error; a second call does nothing.
  /// Errors: kFailedPrecondition while leases are out, naming their holders,
  ///   and while a stream captures. When a driver call fails, what could be
  ///   given back is, `live_bytes()` tells the rest, and another call goes on
  ///   with it.
  /// Capture: refused.
  absl::Status Release();

  /// Device memory that the arena holds. Units: bytes.
  int64_t live_bytes() const;

 private:
  friend class Arena;
  explicit FrozenArena(std::shared_ptr<internal::ArenaOwner> owner);

  std::shared_ptr<internal::ArenaOwner> owner_;
};

/// An arena before the freeze: its memory is there and its addresses are
/// fixed, so that a step can be warmed up on it, but it cannot be captured
/// from. Move-only.
///
/// Threads: externally synchronised.
class Arena {
 public:
  /// Takes memory for the whole plan: one reservation of addresses, one block
  /// of memory a segment, mapped and made accessible. Buffers of lifetime
  /// constant and init-once are filled with zeros; the rest is left as it
  /// comes.
  ///
  /// Nothing is mapped unless the device has room for all of it. When a step
  /// fails, the steps before it are undone and the first error is returned;
  /// memory that an undo could not give back is found by `abandoned_bytes()`.
  ///
  /// Capture: refused while a blocking stream of the context captures. Another
  ///   capture cannot be seen without breaking it, so do not call this in one.
  /// Errors: kResourceExhausted when the device has less free memory than the
  ///   plan needs, with both byte counts and the largest buffers, or runs out
  ///   on the way; kFailedPrecondition when the device's granularity does not
  ///   divide the plan's, or a stream captures; kInvalidArgument for a plan
  ///   that `ValidatePlan` refuses.
  /// Cost: a few driver calls a segment, tens of milliseconds per GiB.
  static absl::StatusOr<Arena> Create(ContextRef context, ArenaPlan plan,
                                      ArenaOptions options = {});

  /// Device memory of arenas that nobody holds any more: the driver refused to
  /// take it back when a Create failed or the last handle went. Units: bytes.
  /// Threads: any.
  static int64_t abandoned_bytes();

  /// Tries again to give that memory back; the first error of what still
  /// fails. Threads: any. Capture: refused.
  static absl::Status ReclaimAbandoned();

  Arena(Arena&&) noexcept = default;
  Arena& operator=(Arena&&) noexcept = default;

  ArenaView view() const;

  /// Fixes the addresses for good, and records what the driver says about each
  /// buffer, for `FrozenArena::VerifyStable()`.
  ///
  /// The arena is empty afterwards. When an error is returned it is unchanged,
  /// and the freeze can be tried again.
  /// Errors: kFailedPrecondition after release or a freeze; kInternal when a
  ///   buffer has no memory behind it; those of the driver.
  absl::StatusOr<FrozenArena> Freeze() &&;

  /// As `FrozenArena::Release()`.
  absl::Status Release();

  /// Device memory that the arena holds, 0 when empty. Units: bytes.
  int64_t live_bytes() const;

 private:
  explicit Arena(std::shared_ptr<internal::ArenaOwner> owner);

  std::shared_ptr<internal::ArenaOwner> owner_;
};

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_ARENA_H_
