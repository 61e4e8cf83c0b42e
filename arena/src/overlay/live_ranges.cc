// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "overlay/live_ranges.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "permafrost/driver/status.h"

namespace permafrost {
namespace {

/// All that one operation does with one buffer, however often it lists it.
struct Use {
  int op = 0;
  bool reads = false;
  bool overwrites = false;

  /// Nothing of the old content matters from here on.
  bool begins_value() const { return overwrites && !reads; }
};

std::map<std::string, std::vector<Use>> UsesByBuffer(const StepDag& step) {
  std::map<std::string, std::vector<Use>> uses;
  for (size_t op = 0; op < step.ops.size(); ++op) {
    for (const BufferAccess& access : step.ops[op].accesses) {
      std::vector<Use>& of_buffer = uses[access.buffer];
      if (of_buffer.empty() || of_buffer.back().op != static_cast<int>(op)) {
        of_buffer.push_back({.op = static_cast<int>(op)});
      }
      Use& use = of_buffer.back();
      use.reads = use.reads || access.access != Access::kWrite;
      use.overwrites = use.overwrites ||
                       (access.access == Access::kWrite && access.overwrites);
    }
  }
  return uses;
}

BufferLife LifeOf(const std::string& buffer, const std::vector<Use>& uses,
                  const StepDag& step, const StepOrder& order) {
  const auto name = [&step](int op) -> const std::string& {
    return step.ops[static_cast<size_t>(op)].name;
  };
  BufferLife life = {.buffer = buffer};
  for (const Use& use : uses) {
    if (use.begins_value()) life.ranges.push_back({.ops = {use.op}});
  }
  const auto keep = [&life](std::string reason) {
    life.ranges.clear();
    life.kept_because = std::move(reason);
    return life;
  };
  for (const LiveRange& range : life.ranges) {
    for (const Use& use : uses) {
      const int write = range.ops[0];
      if (use.op != write && !order.Before(write, use.op) &&
          !order.Before(use.op, write)) {
        return keep(absl::StrCat("'", name(write), "' overwrites it and '",
                                 name(use.op), "' uses it without an order"));
      }
    }
  }
  // The writes are a chain from here on, and every other use has its place in
  // it.
  std::sort(life.ranges.begin(), life.ranges.end(),
            [&order](const LiveRange& a, const LiveRange& b) {
              return order.Before(a.ops[0], b.ops[0]);
            });
  for (const Use& use : uses) {
    if (use.begins_value()) continue;
    const auto next = std::partition_point(
        life.ranges.begin(), life.ranges.end(), [&](const LiveRange& range) {
          return order.Before(range.ops[0], use.op);
        });
    if (next == life.ranges.begin()) {
      return keep(absl::StrCat("'", name(use.op),
                               "' uses what an earlier replay left in it"));
    }
    std::prev(next)->ops.push_back(use.op);
  }
  return life;
}

}  // namespace

std::vector<BufferLife> LivesOf(const StepDag& step, const StepOrder& order) {
  std::vector<BufferLife> lives;
  for (const auto& [buffer, uses] : UsesByBuffer(step)) {
    lives.push_back(LifeOf(buffer, uses, step, order));
  }
  return lives;
}

absl::StatusOr<std::vector<BufferLife>> FindLives(const StepDag& step) {
  PERMAFROST_RETURN_IF_ERROR(ValidateStepDag(step));
  return LivesOf(step, StepOrder(step));
}

}  // namespace permafrost
