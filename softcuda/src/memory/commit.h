// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_MEMORY_COMMIT_H_
#define SOFTCUDA_MEMORY_COMMIT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace softcuda::memory {

/// The host memory that all device memory may take. Device memory takes it when
/// it is first touched, so a device may be far larger than its host.
///
/// Threads: any.
class CommitBudget {
 public:
  /// The process's budget: what PERMAFROST_SOFTCUDA_MEMORY_BUDGET says, in
  /// bytes, or half of the host's memory.
  static CommitBudget& Get();

  bool Take(uint64_t bytes);
  void GiveBack(uint64_t bytes) { used_ -= bytes; }

  uint64_t limit() const { return limit_.load(); }
  void set_limit(uint64_t bytes) { limit_.store(bytes); }
  uint64_t used() const { return used_.load(); }

  /// "the host memory budget: 2097152 bytes more do not fit 67108864, of which
  /// 67108864 are committed".
  std::string Refusal(uint64_t bytes) const;

 private:
  CommitBudget();

  std::atomic<uint64_t> limit_;
  std::atomic<uint64_t> used_{0};
};

/// Which steps of a physical block have host memory.
///
/// Units: bytes; offsets count from the start of the block.
/// Threads: any.
class CommitMap {
 public:
  static constexpr uint64_t kStepBytes = uint64_t{2} << 20;

  /// `bytes` in whole host pages.
  explicit CommitMap(uint64_t bytes);
  ~CommitMap() { Clear(); }
  CommitMap(const CommitMap&) = delete;
  CommitMap& operator=(const CommitMap&) = delete;

  /// Commits the steps of [offset, offset + bytes). False when the budget does
  /// not allow it; steps before the one that did not fit stay committed.
  bool Commit(uint64_t offset, uint64_t bytes);

  /// Widens to the committed steps around a committed offset.
  void FindRun(uint64_t offset, uint64_t* begin, uint64_t* end) const;

  /// Of the step that holds the offset.
  uint64_t StepBytesAt(uint64_t offset) const;
  bool IsCommitted(uint64_t offset) const { return IsSet(offset / kStepBytes); }

  /// Gives everything back to the budget.
  void Clear();

 private:
  bool IsSet(uint64_t step) const {
    return (words_[step / 64].load(std::memory_order_acquire) >> (step % 64) &
            1) != 0;
  }
  bool CommitStep(uint64_t step);

  const uint64_t bytes_;
  const uint64_t steps_;
  std::atomic<uint64_t> committed_steps_{0};
  std::unique_ptr<std::atomic<uint64_t>[]> words_;
};

}  // namespace softcuda::memory

#endif  // SOFTCUDA_MEMORY_COMMIT_H_
