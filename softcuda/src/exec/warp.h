// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_EXEC_WARP_H_
#define SOFTCUDA_EXEC_WARP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/program.h"

namespace softcuda::memory {
class InitShadow;
}  // namespace softcuda::memory

namespace softcuda::exec {

class BlockWatch;
class Block;
class LaunchState;

/// A span of device memory with one answer, cached by a warp.
struct Span {
  uint64_t begin = 1;  ///< a fresh span contains nothing
  uint64_t end = 0;
  bool readable = false;
  bool writable = false;
  bool plain = false;  ///< nothing to note or to look up at an access
  memory::InitShadow* shadow = nullptr;
  uint64_t shadow_offset = 0;  ///< where `begin` is in the shadow
};

/// Lanes that wait for their turn: the other side of a jump, or, at the
/// reconvergence point, the lanes of both sides.
struct Path {
  const Inst* pc = nullptr;
  const Inst* reconverge = nullptr;
  uint32_t mask = 0;
};

enum class WarpState : uint8_t {
  kReady,    ///< can run; a slice that ended leaves it so
  kBarrier,  ///< waits at `barrier_inst`
  kExited,
};

/// cp.async copies wait here until their group is waited for, so that a read
/// without the wait sees the old bytes, as it may on a device.
struct PendingCopy {
  uint32_t to = 0;  ///< in shared memory
  uint8_t bytes = 0;
  uint8_t from_bytes = 0;  ///< the rest is zero
  uint32_t group = 0;
  uint64_t from = 0;
  const Inst* inst = nullptr;
  uint32_t lane = 0;
};

inline constexpr uint32_t kSpans = 4;

/// The state of 32 threads between two instructions.
struct alignas(64) Warp {
  std::byte* registers = nullptr;
  uint32_t active = 0;  ///< lanes of the current path
  uint32_t live = 0;    ///< lanes that have not exited
  const Inst* reconverge = nullptr;
  int64_t slice = 0;  ///< steps left of this turn
  int64_t turn = 0;   ///< steps that this turn began with
  Block* block = nullptr;
  std::byte* shared = nullptr;
  uint32_t shared_bytes = 0;
  /// `shared_bytes`, or 0 when each access to shared memory must be noted.
  uint32_t shared_plain_bytes = 0;
  uint32_t local_bytes = 0;  ///< a lane
  std::byte* local = nullptr;
  const std::byte* params = nullptr;
  uint32_t param_bytes = 0;
  uint32_t next_span = 0;
  Span spans[kSpans];

  const Inst* pc = nullptr;  ///< where to go on when it runs again
  WarpState state = WarpState::kReady;
  bool turn_over = false;  ///< the warp gave up the rest of its turn
  int64_t polls = 0;       ///< of this turn; see kMaxPolls
  uint32_t index = 0;
  uint32_t threads = 0;  ///< lanes that exist
  uint64_t steps = 0;    ///< executed in earlier turns
  std::vector<Path> paths;

  /// The barrier instruction that the warp waits at.
  const Inst* barrier_inst = nullptr;

  std::vector<PendingCopy> copies;
  uint32_t copy_group = 0;  ///< of the next copy

  BlockWatch* watch = nullptr;   ///< null: nobody wants to know
  bool waited_for_grid = false;  ///< executed griddepcontrol.wait
};

/// A warp that polls this often in one turn waits for someone else, and its
/// turn ends at the next jump.
inline constexpr int64_t kMaxPolls = 1024;

/// What a barrier instruction does; in Inst::imm, with kBarrierHasCount when a
/// thread count is among the operands. The operands are the destination of a
/// reduction, the barrier, the count, the predicate, as far as there are any.
enum class BarrierKind : uint8_t { kSync, kArrive, kPopc, kAnd, kOr };
inline constexpr int64_t kBarrierHasCount = 256;

enum class FaultKind : uint8_t {
  kRead,
  kWrite,
  kMisaligned,
  kMisalignedShared,
  kTrap,
  kAssert,
  kShared,
  kLocal,
  kParam,
  kDiverged,  ///< `address` is the mask of the threads that are there
  kBarrier,   ///< `bytes` is the barrier
  kDeadlock,
  kTimeout,  ///< `address` is the number of steps
};

/// Ends the launch with a report. Returns null, for handlers to return.
/// `lane` is the first thread at fault; `bytes` the size of its access.
const Inst* Fault(Warp& warp, const Inst& inst, FaultKind kind, uint32_t lane,
                  uint64_t address, uint64_t bytes);

/// Reports a read of undefined bytes once an instruction; execution goes on.
void ReportUndefined(Warp& warp, const Inst& inst, uint32_t lane,
                     uint64_t address, uint64_t bytes);

/// Finds the span around an address and caches it. Null where no memory is.
const Span* ResolveSpan(Warp& warp, uint64_t address);

/// Marks bytes defined, or finds undefined ones: true when all are defined.
void SpanWritten(const Span& span, uint64_t address, uint64_t bytes);
bool SpanDefined(const Span& span, uint64_t address, uint64_t bytes);

/// Notes a fence for the racecheck. `is_block_wide`: it orders nothing beyond
/// the block.
void NoteFence(Warp& warp, bool is_block_wide);

/// Notes that a copy of cp.async has been carried out.
void NoteCopyDone(Warp& warp, const PendingCopy& copy);

/// Reports lanes that a member mask names and that are on another path, once
/// an instruction. To be called only when `mask` is not all live lanes.
void CheckMembers(Warp& warp, const Inst& inst, uint32_t mask,
                  const uint32_t* members);

/// Gives the warp up to other lanes after the current ones exited or met the
/// others: the next instruction, or null when no lane is left.
const Inst* NextPath(Warp& warp);

}  // namespace softcuda::exec

#endif  // SOFTCUDA_EXEC_WARP_H_
