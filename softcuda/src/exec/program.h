// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_EXEC_PROGRAM_H_
#define SOFTCUDA_EXEC_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace softcuda::exec {

struct Inst;
struct Warp;

/// Executes one instruction for the lanes of `mask` and returns the next one,
/// or null when the warp must stop: `Warp::state` then says why.
using Handler = const Inst* (*)(Warp&, const Inst&, uint32_t mask);

inline constexpr uint32_t kLanes = 32;

/// Generic addresses of shared and local memory. Bits 56 and up of a host
/// address are never set, so the windows cannot meet device memory.
inline constexpr uint64_t kSharedWindow = uint64_t{1} << 56;
inline constexpr uint64_t kLocalWindow = uint64_t{2} << 56;
inline constexpr uint64_t kParamWindow = uint64_t{3} << 56;
inline constexpr int kWindowShift = 56;

/// One decoded instruction. Operands are byte offsets into the register file
/// of a warp, where each register is an array over the 32 lanes (a predicate is
/// one word). Immediates, symbol addresses and special registers are slots as
/// well, so handlers have one kind of operand.
struct Inst {
  Handler fn = nullptr;
  uint32_t dst = 0;  ///< first operand; the others follow in text order
  uint32_t a = 0;
  uint32_t b = 0;
  uint32_t c = 0;
  uint32_t d = 0;
  uint32_t e = 0;
  uint32_t guard = 0;   ///< slot of the guard predicate, or of all ones
  uint32_t invert = 0;  ///< xor-ed into the guard
  uint32_t location = 0;
  /// Instructions of the straight line that ends here: what a jump from here
  /// costs of the step budget.
  uint32_t steps = 0;
  int64_t imm = 0;
  const uint32_t* ext = nullptr;  ///< slots of vector operands
  const Inst* target = nullptr;   ///< of jumps
  const Inst* reconverge =
      nullptr;  ///< where the sides of a jump meet, or null
};

/// A line of the source, and where the function it belongs to was inlined.
struct SourceLocation {
  uint32_t file = 0;
  uint32_t line = 0;
  uint32_t column = 0;
  uint32_t inlined_at = 0;  ///< index of a location, 0 for none
};

enum class Special : uint8_t {
  kTidX,
  kTidY,
  kTidZ,
  kNtidX,
  kNtidY,
  kNtidZ,
  kCtaidX,
  kCtaidY,
  kCtaidZ,
  kNctaidX,
  kNctaidY,
  kNctaidZ,
  kLaneId,
  kWarpId,
  kNwarpId,
  kSmId,
  kNsmId,
  kGridId,
  kGridId64,
  kLanemaskEq,
  kLanemaskLe,
  kLanemaskLt,
  kLanemaskGe,
  kLanemaskGt,
  kDynamicSharedBytes,
  kTotalSharedBytes,
};

/// A slot that holds one value in all lanes for the whole launch.
struct ConstantSlot {
  uint32_t slot = 0;
  uint8_t bytes = 0;  ///< 2, 4 or 8 a lane
  uint64_t value = 0;
};

struct SpecialSlot {
  uint32_t slot = 0;
  Special special = Special::kTidX;
};

/// The code of one kernel. Immutable once built; instructions point at each
/// other and into `ext`, so it cannot be copied.
struct Program {
  Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  std::string name;
  std::vector<Inst> code;
  std::vector<uint32_t> ext;
  std::vector<ConstantSlot> constants;
  std::vector<SpecialSlot> specials;
  /// Bytes of one warp's register file, constants included. Slot 0 is the
  /// all-ones guard.
  uint32_t register_bytes = 0;
  uint32_t registers_per_thread = 0;
  uint32_t param_bytes = 0;
  uint32_t static_shared_bytes = 0;  ///< dynamic shared memory follows
  uint32_t local_bytes = 0;          ///< a thread
  uint32_t max_threads = 1024;
  /// The bits a launch leaves behind may depend on the order of its blocks.
  bool order_sensitive = false;
  /// Of each instruction: whether its access to memory is a strong one
  /// (relaxed, acquire, release, volatile).
  std::vector<bool> strong;
  std::vector<SourceLocation> locations;
  std::vector<std::string> files;
};

}  // namespace softcuda::exec

#endif  // SOFTCUDA_EXEC_PROGRAM_H_
