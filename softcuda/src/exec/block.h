// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_EXEC_BLOCK_H_
#define SOFTCUDA_EXEC_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "exec/launch_state.h"
#include "exec/warp.h"
#include "exec/watch.h"

namespace softcuda::exec {

/// The memory of one resident thread block and the turns of its warps. One
/// object runs many blocks, one after the other.
///
/// Threads: one at a time.
class Block {
 public:
  /// What a block needs in bytes, to bound how many are resident.
  static uint64_t BytesNeeded(const LaunchState& launch);

  explicit Block(LaunchState& launch);
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /// Makes this the block at `position` of the launch's order.
  void Start(uint64_t position);

  enum class Outcome {
    kFinished,  ///< all threads exited, or the block faulted
    kRunning,   ///< has used its turn
    kWaiting,   ///< its threads gave up their turns to wait for something
  };

  /// Runs each warp for some time.
  Outcome Run();

  uint64_t position() const { return position_; }
  LaunchState& launch() { return launch_; }
  void set_faulted() { faulted_ = true; }
  const uint32_t* ctaid() const { return ctaid_; }
  BlockWatch* watch() { return watch_.get(); }

 private:
  static constexpr uint32_t kBarriers = 16;

  struct Barrier {
    uint32_t arrived = 0;   // warps
    uint32_t expected = 0;  // warps; 0: all that have not exited
    uint32_t popc = 0;
    bool all = true;
    bool any = false;
    std::vector<Warp*> waiting;
  };

  struct AlignedDelete {
    void operator()(std::byte* p) const {
      ::operator delete (p, std::align_val_t{kAlignment});
    }
  };
  using Bytes = std::unique_ptr<std::byte, AlignedDelete>;
  static constexpr size_t kAlignment = 128;

  static Bytes Allocate(uint64_t bytes);
  void SetRegister32(Warp& warp, uint32_t slot, uint32_t value);
  void SetRegister64(Warp& warp, uint32_t slot, uint64_t value);
  void InitializeRegisters(Warp& warp);
  void SetSpecial(Warp& warp, const SpecialSlot& special);
  bool RunWarp(Warp& warp, int64_t slice);
  void OnStopped(Warp& warp);
  void Arrive(Warp& warp);
  bool CompleteIfReady(Barrier& barrier);
  uint32_t BarrierIndex(const Barrier& barrier) const {
    return static_cast<uint32_t>(&barrier - barriers_);
  }
  void CompleteBarriers();
  void ReportDeadlock();

  LaunchState& launch_;
  const Program& program_;
  Bytes registers_;
  Bytes shared_;
  Bytes local_;
  uint32_t shared_bytes_;
  std::vector<Warp> warps_;
  std::vector<uint32_t> order_;
  Barrier barriers_[kBarriers];
  std::unique_ptr<BlockWatch> watch_;
  uint64_t position_ = 0;
  uint32_t ctaid_[3] = {0, 0, 0};
  uint32_t live_warps_ = 0;
  uint64_t random_ = 0;
  bool faulted_ = false;
};

}  // namespace softcuda::exec

#endif  // SOFTCUDA_EXEC_BLOCK_H_
