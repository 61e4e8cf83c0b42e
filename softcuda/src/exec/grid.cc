// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "exec/block.h"
#include "exec/device_limits.h"
#include "exec/launch.h"
#include "exec/launch_state.h"
#include "exec/source_lines.h"
#include "exec/worker_pool.h"
#include "ptx/module.h"

namespace softcuda::exec {
namespace {

// Resident blocks are what a device of this size would hold, as long as they
// fit into this much host memory.
constexpr uint64_t kResidentBytes = uint64_t{512} << 20;

uint64_t MaxResident(const LaunchState& state) {
  const uint64_t by_device =
      uint64_t{kMultiprocessors} *
      std::max<uint32_t>(1, kMaxThreadsPerMultiprocessor / state.threads());
  const uint64_t by_memory = kResidentBytes / Block::BytesNeeded(state);
  return std::max<uint64_t>(1, std::min(by_device, by_memory));
}

// One host thread's share of a launch. A block that has used its turn goes to
// the back of the queue and a fresh one starts, as long as more may be
// resident, because the first may wait for the second.
class Worker {
 public:
  Worker(LaunchState& state, std::atomic<int64_t>& resident_left)
      : state_(state), resident_left_(resident_left) {}

  void Work() {
    while (true) {
      std::unique_ptr<Block> block = Next();
      if (block == nullptr) return;
      const Block::Outcome outcome = state_.IsMoot(block->position())
                                         ? Block::Outcome::kFinished
                                         : block->Run();
      stalled_ = outcome == Block::Outcome::kWaiting ? stalled_ + 1 : 0;
      if (outcome == Block::Outcome::kFinished) {
        if (idle_ != nullptr) {
          resident_left_.fetch_add(1, std::memory_order_relaxed);
        }
        idle_ = std::move(block);
        continue;
      }
      // After a fault nobody waits for blocks that may never end.
      if (state_.has_fault()) continue;
      suspended_.push_back(std::move(block));
    }
  }

 private:
  std::unique_ptr<Block> Next() {
    uint64_t position = 0;
    if (!out_of_blocks_ && CanStart()) {
      if (!state_.has_fault() && state_.TakePosition(&position)) {
        std::unique_ptr<Block> block = idle_ != nullptr
                                           ? std::move(idle_)
                                           : std::make_unique<Block>(state_);
        block->Start(position);
        return block;
      }
      out_of_blocks_ = true;
    }
    if (suspended_.empty()) return nullptr;
    if (stalled_ > suspended_.size()) {
      // All that is left waits, perhaps for the host.
      stalled_ = 0;
      std::this_thread::yield();
    }
    std::unique_ptr<Block> block = std::move(suspended_.front());
    suspended_.pop_front();
    return block;
  }

  bool CanStart() {
    if (idle_ != nullptr) return true;
    if (suspended_.empty()) return true;
    return resident_left_.fetch_sub(1, std::memory_order_relaxed) > 0;
  }

  LaunchState& state_;
  std::atomic<int64_t>& resident_left_;
  std::deque<std::unique_ptr<Block>> suspended_;
  std::unique_ptr<Block> idle_;
  bool out_of_blocks_ = false;
  size_t stalled_ = 0;  // turns in a row that only waited
};

bool IsValid(const Launch& launch) {
  if (launch.kernel == nullptr) return false;
  const Dim3& block = launch.block;
  const Dim3& grid = launch.grid;
  if (block.x == 0 || block.y == 0 || block.z == 0 || grid.x == 0 ||
      grid.y == 0 || grid.z == 0) {
    return false;
  }
  const uint64_t threads = uint64_t{block.x} * block.y;
  if (threads > kMaxThreadsPerBlock ||
      threads * block.z > kMaxThreadsPerBlock) {
    return false;
  }
  // Keeps the number of blocks inside 63 bits.
  if (grid.x > 0x7fffffffU || grid.y > 0xffffU || grid.z > 0xffffU) {
    return false;
  }
  const Program& program = launch.kernel->program();
  return launch.params.size() >= program.param_bytes &&
         launch.dynamic_shared_bytes <= (1U << 30);
}

}  // namespace

check::AccessSite SiteOf(const ptx::Kernel& kernel, uint32_t site) {
  const Program& program = kernel.program();
  if (site == 0 || site > program.code.size()) return {};
  const SourceLine line =
      FindSourceLine(program, program.code[site - 1].location);
  return {line.file, line.line};
}

CUresult Run(const Launch& launch, const memory::Snapshot& snapshot,
             check::Reporter& reporter) {
  if (!IsValid(launch)) return CUDA_ERROR_INVALID_VALUE;
  const Program& program = launch.kernel->program();
  LaunchState state(launch, program, snapshot, reporter);
  std::atomic<int64_t> resident_left{static_cast<int64_t>(MaxResident(state))};
  const std::function<void()> work = [&] {
    Worker(state, resident_left).Work();
  };
  WorkerPool& pool = WorkerPool::Get();
  const uint64_t useful = std::min<uint64_t>(state.blocks(), pool.threads());
  // A seed promises the same bits, to kernels with a race in them too.
  const bool on_one_thread =
      program.order_sensitive || launch.seed != 0 || state.watch() != nullptr;
  pool.Run(on_one_thread ? 0 : useful - 1, work);
  return state.Finish();
}

}  // namespace softcuda::exec
