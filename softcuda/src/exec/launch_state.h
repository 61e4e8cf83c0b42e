// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_EXEC_LAUNCH_STATE_H_
#define SOFTCUDA_EXEC_LAUNCH_STATE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>

#include "check/report.h"
#include "exec/launch.h"
#include "exec/program.h"
#include "exec/watch.h"

namespace softcuda::exec {

/// What all blocks of one launch share.
///
/// Threads: any, after construction.
class LaunchState {
 public:
  LaunchState(const Launch& launch, const Program& program,
              const memory::Snapshot& snapshot, check::Reporter& reporter);

  const Launch& launch() const { return launch_; }
  const Program& program() const { return program_; }
  const memory::Snapshot& snapshot() const { return snapshot_; }
  bool initcheck() const { return initcheck_; }
  /// Null when nobody wants to know of accesses to device memory.
  LaunchWatch* watch() { return watch_.get(); }
  uint64_t blocks() const { return blocks_; }
  uint32_t threads() const { return threads_; }
  uint64_t step_limit() const { return step_limit_; }

  /// The next position of the order that nobody has taken, or false.
  bool TakePosition(uint64_t* position);

  /// Which block is at a position of the order.
  uint64_t BlockAt(uint64_t position) const;

  /// Keeps the fault of the earliest block: with several host threads, which
  /// fault comes first in time is chance.
  void RecordFault(uint64_t position, CUresult result, check::Report report);

  /// Blocks behind a fault need not run; those before it may still fault.
  bool IsMoot(uint64_t position) const {
    return position > first_fault_.load(std::memory_order_relaxed);
  }
  bool has_fault() const {
    return first_fault_.load(std::memory_order_relaxed) != kNoFault;
  }

  /// True the first time that it is asked about an instruction.
  bool FirstUndefinedRead(size_t inst_index);
  /// The same, for lanes that a member mask names in vain.
  bool FirstMissingMember(size_t inst_index);

  void AddReport(check::Report report) { reporter_.Add(std::move(report)); }

  /// The result of the launch; adds the report of its fault.
  CUresult Finish();

 private:
  static constexpr uint64_t kNoFault = ~uint64_t{0};

  const Launch& launch_;
  const Program& program_;
  const memory::Snapshot& snapshot_;
  check::Reporter& reporter_;
  bool initcheck_;
  uint64_t blocks_;
  uint32_t threads_;
  uint64_t step_limit_;
  uint64_t order_step_ = 1;
  uint64_t order_offset_ = 0;
  std::atomic<uint64_t> next_position_{0};
  std::atomic<uint64_t> first_fault_{kNoFault};
  std::mutex fault_mutex_;
  CUresult fault_result_ = CUDA_SUCCESS;
  check::Report fault_report_;
  std::unique_ptr<std::atomic<bool>[]> undefined_reported_;
  std::set<size_t> missing_members_;  // guarded by fault_mutex_
  std::unique_ptr<LaunchWatch> watch_;
};

/// A hash that turns a seed and a counter into well mixed bits.
constexpr uint64_t MixBits(uint64_t seed, uint64_t counter) {
  uint64_t z = seed + (counter + 1) * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace softcuda::exec

#endif  // SOFTCUDA_EXEC_LAUNCH_STATE_H_
