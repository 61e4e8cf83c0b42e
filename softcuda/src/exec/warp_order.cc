// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/warp_order.h"

#include <algorithm>
#include <utility>

namespace softcuda::exec {

void Knowledge::Join(const Knowledge& other) {
  for (uint32_t w = 0; w < kMaxWarps; ++w) {
    clock[w] = std::max(clock[w], other.clock[w]);
  }
  for (const auto& [log, seen] : other.learned) {
    uint32_t& mine = learned[log];
    mine = std::max(mine, seen);
  }
}

void SyncOrder::Append(uint64_t variable, Entry entry) {
  const auto [it, is_new] = log_of_variable_.try_emplace(
      variable, static_cast<uint32_t>(logs_.size()));
  if (is_new) logs_.emplace_back();
  Log& log = logs_[it->second];
  const auto position = static_cast<uint32_t>(log.entries.size());
  // Whoever sees this entry sees the ones before it anyway.
  entry.learned.erase(it->second);
  log.of_block[entry.block].push_back(position);
  if (!entry.learned.empty()) log.with_learned.push_back(position);
  log.entries.push_back(std::move(entry));
}

void SyncOrder::Release(uint64_t variable, uint32_t block,
                        const WarpOrder& warp) {
  if (warp.has_fence) {
    Append(variable, {block, false, warp.fenced.clock, warp.fenced.learned});
  }
  if (warp.has_block_fence) {
    Append(variable, {block, true, warp.fenced_in_block.clock, {}});
  }
}

void SyncOrder::Acquire(uint64_t variable, WarpOrder* warp) const {
  const auto found = log_of_variable_.find(variable);
  if (found == log_of_variable_.end()) return;
  uint32_t& seen = warp->now.learned[found->second];
  seen = static_cast<uint32_t>(logs_[found->second].entries.size());
}

bool SyncOrder::Search(uint32_t log_index, uint32_t seen, uint32_t block,
                       const Stamp& stamp, Learned* visited) const {
  uint32_t& before = (*visited)[log_index];
  if (before >= seen) return false;
  before = seen;
  const Log& log = logs_[log_index];
  const auto of_block = log.of_block.find(stamp.block);
  if (of_block != log.of_block.end()) {
    for (const uint32_t position : of_block->second) {
      if (position >= seen) break;
      const Entry& entry = log.entries[position];
      if (entry.block_only && stamp.block != block) continue;
      if (entry.clock[stamp.warp] >= stamp.clock) return true;
    }
  }
  for (const uint32_t position : log.with_learned) {
    if (position >= seen) break;
    for (const auto& [other, count] : log.entries[position].learned) {
      if (Search(other, count, block, stamp, visited)) return true;
    }
  }
  return false;
}

bool SyncOrder::IsBehind(const Knowledge& knowledge, uint32_t block,
                         const Stamp& stamp) const {
  if (stamp.block == block && knowledge.clock[stamp.warp] >= stamp.clock) {
    return true;
  }
  Learned visited;
  for (const auto& [log, seen] : knowledge.learned) {
    if (Search(log, seen, block, stamp, &visited)) return true;
  }
  return false;
}

}  // namespace softcuda::exec
