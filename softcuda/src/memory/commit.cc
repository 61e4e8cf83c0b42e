// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "memory/commit.h"

#include <unistd.h>

#include <algorithm>

#include "check/options.h"

namespace softcuda::memory {
namespace {

uint64_t HalfOfTheHost() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) return uint64_t{4} << 30;
  return static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes) / 2;
}

}  // namespace

CommitBudget& CommitBudget::Get() {
  static auto* const budget = new CommitBudget;
  return *budget;
}

CommitBudget::CommitBudget()
    : limit_(check::NumberOption("PERMAFROST_SOFTCUDA_MEMORY_BUDGET",
                                 HalfOfTheHost(), 0, UINT64_MAX)) {}

bool CommitBudget::Take(uint64_t bytes) {
  uint64_t used = used_.load();
  do {
    const uint64_t limit = limit_.load();
    if (used > limit || bytes > limit - used) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes));
  return true;
}

std::string CommitBudget::Refusal(uint64_t bytes) const {
  return "the host memory budget: " + std::to_string(bytes) +
         " bytes more do not fit " + std::to_string(limit()) + ", of which " +
         std::to_string(used()) + " are committed";
}

CommitMap::CommitMap(uint64_t bytes)
    : bytes_(bytes),
      steps_((bytes + kStepBytes - 1) / kStepBytes),
      words_(new std::atomic<uint64_t>[steps_ / 64 + 1]) {
  for (uint64_t word = 0; word <= steps_ / 64; ++word) words_[word] = 0;
}

uint64_t CommitMap::StepBytesAt(uint64_t offset) const {
  const uint64_t step = offset / kStepBytes;
  return std::min(kStepBytes, bytes_ - step * kStepBytes);
}

bool CommitMap::CommitStep(uint64_t step) {
  const uint64_t bytes = StepBytesAt(step * kStepBytes);
  if (!CommitBudget::Get().Take(bytes)) return false;
  const uint64_t bit = uint64_t{1} << (step % 64);
  if ((words_[step / 64].fetch_or(bit) & bit) != 0) {
    // Another thread was first.
    CommitBudget::Get().GiveBack(bytes);
  } else {
    ++committed_steps_;
  }
  return true;
}

bool CommitMap::Commit(uint64_t offset, uint64_t bytes) {
  if (bytes == 0 || committed_steps_.load() == steps_) return true;
  const uint64_t last = std::min(offset + bytes - 1, bytes_ - 1) / kStepBytes;
  for (uint64_t step = offset / kStepBytes; step <= last; ++step) {
    if (!IsSet(step) && !CommitStep(step)) return false;
  }
  return true;
}

void CommitMap::FindRun(uint64_t offset, uint64_t* begin, uint64_t* end) const {
  if (committed_steps_.load() == steps_) {
    *begin = 0;
    *end = bytes_;
    return;
  }
  // Far enough for streams of accesses, near enough to be quick.
  constexpr uint64_t kMostSteps = 64;
  uint64_t first = offset / kStepBytes;
  uint64_t behind = first + 1;
  while (first > 0 && offset / kStepBytes - first < kMostSteps &&
         IsSet(first - 1)) {
    --first;
  }
  while (behind < steps_ && behind - offset / kStepBytes < kMostSteps &&
         IsSet(behind)) {
    ++behind;
  }
  *begin = first * kStepBytes;
  *end = std::min(behind * kStepBytes, bytes_);
}

void CommitMap::Clear() {
  for (uint64_t step = 0; step < steps_; ++step) {
    const uint64_t bit = uint64_t{1} << (step % 64);
    if ((words_[step / 64].fetch_and(~bit) & bit) == 0) continue;
    --committed_steps_;
    CommitBudget::Get().GiveBack(StepBytesAt(step * kStepBytes));
  }
}

}  // namespace softcuda::memory
