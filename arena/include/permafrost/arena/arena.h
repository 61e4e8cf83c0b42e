// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_ARENA_ARENA_H_
#define PERMAFROST_ARENA_ARENA_H_

#include <cuda.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "permafrost/arena/arena_plan.h"
#include "permafrost/arena/memory_watch.h"
#include "permafrost/arena/sleep.h"
#include "permafrost/driver/context.h"
#include "permafrost/driver/device_ptr.h"

// The memory of a forward pass: allocated once, before capture, and then fixed.
//
// A plan becomes memory in `Arena::Create`; `Freeze` turns the arena into a
// `FrozenArena`, the only kind that can be captured from. What each state
// allows:
//
//   |                  | Arena | FrozenArena         | asleep | released  |
//   | view().Find      | yes   | yes                 | error  | error     |
//   | eager launches   | yes   | yes                 | no     | no memory |
//   | capture, replay  | no    | yes                 | error  | no memory |
//   | TakeLease        | -     | yes                 | yes    | error     |
//   | ReadBack, Verify | -     | yes                 | yes    | error     |
//   | Sleep            | -     | yes                 | error  | error     |
//   | Wake             | -     | error               | yes    | error     |
//   | Release          | yes   | refused under lease | same   | no-op     |
//
// Parts can sleep apart, by tag; "asleep" then means the buffers of that part.
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
  /// Ordinals of other devices that read and write the memory as well. Waking
  /// gives them the same access again.
  std::vector<int> peers = {};
  /// What the memory can be exported as, for other processes: a union of
  /// CU_MEM_HANDLE_TYPE_* flags. Exported handles name the memory, not the
  /// addresses: they are of no use once the arena slept.
  CUmemAllocationHandleType shareable_handle_types = CU_MEM_HANDLE_TYPE_NONE;
  /// Network adapters reach the memory directly (GPUDirect RDMA).
  bool rdma_capable = false;
  /// Called by a Create that does not fit, with the bytes that are free, for
  /// the text of its error: the largest max_batch_tokens that would fit. See
  /// `LargestFittingBatchTokens`.
  std::function<absl::StatusOr<int64_t>(int64_t free_bytes)> largest_fitting =
      nullptr;
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
  ///   for a buffer that this model has not, with the reason, for one that is
  ///   asleep, and for an arena that was released.
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

  /// Counts how often other memory was put behind the addresses, of the whole
  /// or of a part; 1 is the memory of `Create`.
  uint64_t epoch() const;

  /// Whether the buffer's memory was given back by Sleep; false for a name that
  /// is no present buffer.
  bool IsAsleep(absl::string_view name) const;

  /// A watch for each segment that the named buffers lie in, without repeats;
  /// names that are no present buffers are passed over. It holds while the
  /// segment is awake.
  std::vector<MemoryWatch> Watch(absl::Span<const std::string> names) const;

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

  /// Takes a lease in the name of `holder`, as "graph of rung 8". `work` says
  /// where the holder enqueues what uses the memory, so that Sleep waits for
  /// it.
  /// Errors: kFailedPrecondition after release.
  absl::StatusOr<Lease> TakeLease(std::string holder,
                                  LeaseWork work = {}) const;

  /// Gives the memory of the parts back, and keeps their addresses.
  ///
  /// Replays and look-ups that touch the parts are refused from the start. Then
  /// the streams of all leases and the declared streams are waited for (work on
  /// any other stream is not seen), the memory is checked to be the arena's
  /// own, contents of policy keep go to pinned host memory, hooks of outside
  /// buffers run, NVTX regions leave, mappings and memory go.
  ///
  /// When a step fails, the steps before it are undone, the parts are awake as
  /// before, and the first error is returned. When a later step or an undo
  /// fails too, `segments()` tells which parts are asleep, with their contents
  /// kept, and `live_bytes()` what is still held; Sleep again finishes, Wake
  /// goes back.
  ///
  /// Capture: refused while a lane or a declared stream captures, or a blocking
  ///   stream of the context.
  /// Threads: counts as a use of every lane that has a lease: no other thread
  ///   replays meanwhile.
  /// Errors: kUnimplemented when the memory came from cuMemAlloc; kNotFound for
  ///   an unknown tag; kFailedPrecondition when all of it is asleep already,
  ///   after release, for work in flight under `BusyPolicy::kRefuse`, and when
  ///   contents would be lost: a buffer of lifetime constant, persistent slab,
  ///   init-once or state whose policy is discard, or one of policy restore
  ///   without a hook; kInternal when other
  ///   memory lies behind the addresses; kResourceExhausted for host memory.
  /// Cost: four driver calls a buffer and some a segment, and the copies.
  absl::Status Sleep(const SleepRequest& request = {});

  /// Puts memory behind the addresses of the parts again, made as `Create` made
  /// it, and fills it as each buffer's policy says. What was kept is read back
  /// and compared with the checksums of before. The epoch goes up by one.
  ///
  /// When a step fails, the steps before it are undone, the parts are asleep
  /// as before, and what was kept is still kept. What an undo could not give
  /// back `live_bytes()` tells; Wake again, Sleep or Release go on with it.
  ///
  /// Capture: as Sleep. Threads: as Sleep.
  /// Errors: kUnimplemented and kNotFound as Sleep; kFailedPrecondition when
  ///   all of it is awake already, and after release; kResourceExhausted, with
  ///   both byte counts, when the device has too little free memory; kDataLoss
  ///   naming a buffer whose checksum is another; those of hooks, named.
  absl::Status Wake(const WakeRequest& request = {});

  /// Declares a stream on which the engine itself uses the memory, so that
  /// Sleep waits for it. It is alive until it is forgotten.
  /// Errors: kInvalidArgument for an empty name; kAlreadyExists.
  absl::Status DeclareStream(absl::string_view name, CUstream stream);
  /// Errors: kNotFound.
  absl::Status ForgetStream(absl::string_view name);

  /// Says how a buffer of policy restore gets its contents back; replaces an
  /// earlier hook.
  /// Errors: kInvalidArgument for a null hook, or a buffer of another policy;
  ///   kNotFound for a name that is no present buffer.
  absl::Status SetRestoreHook(absl::string_view buffer, RestoreHook hook);

  /// Lets a buffer of the engine's own sleep and wake with its tag.
  /// Errors: kInvalidArgument for an empty name or tag, or a missing hook;
  ///   kAlreadyExists.
  absl::Status RegisterOutside(OutsideBuffer buffer);

  /// The segments, in the plan's order.
  std::vector<SegmentStatus> segments() const;

  /// Reads from the driver, not from our tables, what lies behind each buffer.
  /// Capture: legal. Cost: four driver calls a buffer.
  /// Errors: kFailedPrecondition after release; those of the driver.
  absl::StatusOr<ArenaEvidence> ReadBack() const;

  /// Reads again and compares with what was read at the freeze, and for what
  /// slept since, at its last waking: same address, mapped, same mapping, same
  /// physical block, for every buffer. Behind one that is asleep nothing may
  /// be mapped.
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

  /// Pinned host memory that holds kept contents. Units: bytes.
  int64_t host_bytes() const;

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
  ///   plan needs, with both byte counts, the three largest buffers and what
  ///   would fit, or runs out on the way; kUnimplemented for peers, handle
  ///   types or RDMA that a device has not; kFailedPrecondition when the
  ///   device's granularity does not divide the plan's, or a stream captures;
  ///   kInvalidArgument for a plan that `ValidatePlan` refuses.
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
