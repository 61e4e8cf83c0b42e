// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/launch_state.h"

#include <numeric>
#include <utility>

namespace softcuda::exec {
namespace {

// Some minutes of a warp that spins.
constexpr uint64_t kDefaultStepLimit = uint64_t{1} << 34;

}  // namespace

LaunchState::LaunchState(const Launch& launch, const Program& program,
                         const memory::Snapshot& snapshot,
                         check::Reporter& reporter)
    : launch_(launch),
      program_(program),
      snapshot_(snapshot),
      reporter_(reporter),
      initcheck_(reporter.initcheck_enabled()),
      blocks_(uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z),
      threads_(launch.block.x * launch.block.y * launch.block.z),
      step_limit_(launch.step_limit != 0 ? launch.step_limit
                                         : kDefaultStepLimit) {
  if (launch.seed != 0 && blocks_ > 1) {
    // An affine map with a step coprime to the count visits every block once.
    order_offset_ = MixBits(launch.seed, 1) % blocks_;
    order_step_ = MixBits(launch.seed, 2) % blocks_;
    while (std::gcd(order_step_, blocks_) != 1) {
      order_step_ = (order_step_ + 1) % blocks_;
    }
  }
  if (initcheck_) {
    undefined_reported_.reset(new std::atomic<bool>[program.code.size()]());
  }
  const bool races = reporter.racecheck_enabled();
  if (races || launch.accesses != nullptr) {
    watch_ = std::make_unique<LaunchWatch>(*this, launch.accesses, races);
  }
}

bool LaunchState::TakePosition(uint64_t* position) {
  *position = next_position_.fetch_add(1, std::memory_order_relaxed);
  return *position < blocks_;
}

uint64_t LaunchState::BlockAt(uint64_t position) const {
  const auto step = static_cast<unsigned __int128>(order_step_);
  return static_cast<uint64_t>((position * step + order_offset_) % blocks_);
}

void LaunchState::RecordFault(uint64_t position, CUresult result,
                              check::Report report) {
  const std::lock_guard<std::mutex> lock(fault_mutex_);
  if (position >= first_fault_.load(std::memory_order_relaxed)) return;
  first_fault_.store(position, std::memory_order_relaxed);
  fault_result_ = result;
  fault_report_ = std::move(report);
}

bool LaunchState::FirstUndefinedRead(size_t inst_index) {
  return undefined_reported_ != nullptr &&
         !undefined_reported_[inst_index].exchange(true);
}

bool LaunchState::FirstMissingMember(size_t inst_index) {
  const std::lock_guard<std::mutex> lock(fault_mutex_);
  return missing_members_.insert(inst_index).second;
}

CUresult LaunchState::Finish() {
  const std::lock_guard<std::mutex> lock(fault_mutex_);
  if (fault_result_ != CUDA_SUCCESS) reporter_.Add(std::move(fault_report_));
  return fault_result_;
}

}  // namespace softcuda::exec
