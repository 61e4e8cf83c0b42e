// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/external_region.h"

#include "absl/strings/str_cat.h"

namespace permafrost {

void ExternalRegionState::MarkAwake(bool is_other_memory) {
  uint64_t word = word_.load();
  uint64_t awake = 0;
  do {
    awake = (word & ~kAsleepBit) + (is_other_memory ? kEpochStep : 0);
  } while (!word_.compare_exchange_weak(word, awake));
}

MemoryWatch ExternalRegionState::Watch(
    const std::shared_ptr<const ExternalRegionState>& state,
    absl::string_view name) {
  return MemoryWatch(
      std::shared_ptr<const std::atomic<uint64_t>>(state, &state->word_),
      state->word_.load() & ~kAsleepBit,
      absl::StrCat("external region '", name, "'"));
}

}  // namespace permafrost
