// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Properties over random steps. The reference below states what may share in
// the plainest way there is: every pair of accesses, by an all-pairs closure.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "arena/overlay/step_builder.h"
#include "permafrost/arena/overlay.h"
#include "support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::Size;

using Matrix = std::vector<std::vector<bool>>;

/// A number in [0, limit), the same with every standard library.
size_t Below(std::mt19937_64& random, size_t limit) {
  return static_cast<size_t>(random() % limit);
}

struct RandomStep {
  StepDag step;
  Matrix before;
  std::vector<BufferSize> sizes;
};

/// Streams of operations with random waits between them, and buffers that are
/// written, then read by operations that come after.
///
/// @param max_values  how often one buffer may be overwritten.
RandomStep MakeRandomStep(uint64_t seed, size_t buffers, size_t streams,
                          int max_values = 2) {
  std::mt19937_64 random(seed);
  RandomStep made;
  const size_t ops = buffers;
  made.step.name = "random";
  made.before.assign(ops, std::vector<bool>(ops, false));
  const auto add_edge = [&](size_t from, size_t to) {
    made.step.edges.push_back(
        {.from = static_cast<int>(from), .to = static_cast<int>(to)});
    for (size_t op = 0; op < ops; ++op) {
      if (op == from || made.before[op][from]) made.before[op][to] = true;
    }
  };
  std::vector<std::vector<size_t>> on_stream(streams);
  for (size_t op = 0; op < ops; ++op) {
    made.step.ops.push_back({.name = "op" + std::to_string(op)});
    std::vector<size_t>& stream = on_stream[Below(random, streams)];
    if (!stream.empty()) add_edge(stream.back(), op);
    stream.push_back(op);
    for (const std::vector<size_t>& other : on_stream) {
      if (other.empty() || other.back() == op || Below(random, 4) != 0)
        continue;
      add_edge(other.back(), op);
    }
  }
  for (size_t buffer = 0; buffer < buffers; ++buffer) {
    const std::string name = "b" + std::to_string(buffer);
    const double exponent =
        static_cast<double>(Below(random, 1000)) / 1000.0 * 14.4;
    made.sizes.push_back(
        Size(name, static_cast<int64_t>(256.0 * std::exp2(exponent))));
    size_t write = Below(random, ops);
    // Mostly one value a step; at times more, each after every use of the last.
    for (int value = 0; value < max_values; ++value) {
      made.step.ops[write].accesses.push_back(
          {.buffer = name, .access = Access::kWrite});
      std::vector<size_t> uses = {write};
      const size_t reads = 1 + Below(random, 3);
      for (size_t op = write + 1; op < ops && uses.size() <= reads; ++op) {
        if (!made.before[write][op] || Below(random, 4) != 0) continue;
        made.step.ops[op].accesses.push_back(
            {.buffer = name, .access = Access::kRead});
        uses.push_back(op);
      }
      if (Below(random, 4) != 0) break;
      size_t next = uses.back() + 1 + Below(random, 8);
      const auto is_after_all = [&](size_t op) {
        for (const size_t use : uses) {
          if (!made.before[use][op]) return false;
        }
        return true;
      };
      while (next < ops && !is_after_all(next)) ++next;
      if (next >= ops) break;
      write = next;
    }
  }
  return made;
}

/// Whether every range of one is wholly before or after every range of the
/// other.
bool MayShare(const BufferLife& a, const BufferLife& b, const Matrix& before) {
  const auto wholly_before = [&before](const LiveRange& x, const LiveRange& y) {
    for (const int i : x.ops) {
      for (const int j : y.ops) {
        if (!before[static_cast<size_t>(i)][static_cast<size_t>(j)]) {
          return false;
        }
      }
    }
    return true;
  };
  for (const LiveRange& x : a.ranges) {
    for (const LiveRange& y : b.ranges) {
      if (!wholly_before(x, y) && !wholly_before(y, x)) return false;
    }
  }
  return true;
}

OverlaidPlan PlanOf(const RandomStep& made, int max_placements = 400) {
  absl::StatusOr<OverlaidPlan> plan =
      PlanArenaWithOverlay(made.sizes, {.granularity_bytes = 256}, {made.step},
                           {.max_placements = max_placements});
  EXPECT_OK(plan.status());
  return *std::move(plan);
}

size_t CountFindings(const ArenaPlan& plan, const StepDag& step) {
  const absl::StatusOr<std::vector<OverlayFinding>> findings =
      VerifyOverlayOfLane(plan, {step});
  EXPECT_OK(findings.status());
  return findings.value_or(std::vector<OverlayFinding>()).size();
}

constexpr size_t kBufferCounts[] = {40, 80, 160};

RandomStep Numbered(int i, int max_values) {
  const size_t index = static_cast<size_t>(i);
  const size_t streams = index % 2 == 0 ? 1 : 2 + index / 2 % 2;
  return MakeRandomStep(index + 1, kBufferCounts[index % 3], streams,
                        max_values);
}

// With one value a buffer the bound is for just what a plan must do, so that
// missing it is the planner's fault or at most the arrangement's.
TEST(OverlayRandomTest, AThousandStepsReachTheBoundAndAreSafe) {
  constexpr int kSteps = 1000;
  int at_bound = 0;
  for (int i = 0; i < kSteps; ++i) {
    SCOPED_TRACE(i);
    const RandomStep made = Numbered(i, 1);
    const OverlaidPlan plan = PlanOf(made, 30000);
    ASSERT_OK(ValidatePlan(plan.plan));
    ASSERT_EQ(CountFindings(plan.plan, made.step), 0u);
    ASSERT_GE(plan.bytes_on, plan.bound_bytes);
    at_bound += plan.bytes_on == plan.bound_bytes ? 1 : 0;
  }
  RecordProperty("at_bound", at_bound);
  EXPECT_GE(at_bound, kSteps * 99 / 100);
}

TEST(OverlayRandomTest, StepsThatReuseTheirBuffersAreSafe) {
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE(i);
    const RandomStep made = Numbered(i, 4);
    const OverlaidPlan plan = PlanOf(made);
    ASSERT_OK(ValidatePlan(plan.plan));
    ASSERT_EQ(CountFindings(plan.plan, made.step), 0u);
    ASSERT_GE(plan.bytes_on, plan.bound_bytes);
    ASSERT_LT(plan.bytes_on, plan.bytes_off);
  }
}

TEST(OverlayRandomTest, TheVerifierFindsEveryUnsafeOverlapAndNoSafeOne) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    const RandomStep made = MakeRandomStep(seed, 24, 1 + seed % 3);
    ASSERT_OK_AND_ASSIGN(const std::vector<BufferLife> lives,
                         FindLives(made.step));
    ASSERT_EQ(lives.size(), 24u);
    size_t unsafe = 0;
    size_t safe = 0;
    for (size_t a = 0; a < lives.size(); ++a) {
      for (size_t b = a + 1; b < lives.size(); ++b) {
        // Only these two share: the second one's first byte, the first one's
        // last.
        std::vector<PlannedBuffer> buffers = {
            {.name = lives[a].buffer, .offset_bytes = 0, .bytes = 257},
            {.name = lives[b].buffer, .offset_bytes = 256, .bytes = 256}};
        const ArenaPlan plan =
            ArenaPlan::FromParts(std::move(buffers), {}, 512, {});
        const bool may_share = MayShare(lives[a], lives[b], made.before);
        ASSERT_EQ(CountFindings(plan, made.step), may_share ? 0u : 1u)
            << lives[a].buffer << " " << lives[b].buffer;
        ++(may_share ? safe : unsafe);
      }
    }
    EXPECT_GT(unsafe, 0u);
    EXPECT_GT(safe, 0u);
  }
}

TEST(OverlayRandomTest, APlanWithOneBufferMovedIsSafeOrFound) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    const RandomStep made = MakeRandomStep(seed, 40, 2);
    const OverlaidPlan plan = PlanOf(made);
    ASSERT_OK_AND_ASSIGN(const std::vector<BufferLife> lives,
                         FindLives(made.step));
    const auto life = [&lives](const std::string& name) -> const BufferLife& {
      for (const BufferLife& candidate : lives) {
        if (candidate.buffer == name) return candidate;
      }
      return lives.front();
    };
    for (size_t moved = 0; moved < plan.plan.buffers().size(); ++moved) {
      std::vector<PlannedBuffer> buffers = plan.plan.buffers();
      PlannedBuffer& buffer = buffers[moved];
      buffer.offset_bytes = buffer.offset_bytes > 0 ? 0 : 256;
      size_t unsafe = 0;
      for (const PlannedBuffer& other : buffers) {
        if (&other == &buffer ||
            other.offset_bytes >= buffer.offset_bytes + buffer.bytes ||
            buffer.offset_bytes >= other.offset_bytes + other.bytes) {
          continue;
        }
        unsafe += MayShare(life(buffer.name), life(other.name), made.before)
                      ? 0u
                      : 1u;
      }
      const ArenaPlan changed =
          ArenaPlan::FromParts(buffers, plan.plan.segments(),
                               plan.plan.total_bytes(), plan.plan.options());
      EXPECT_EQ(CountFindings(changed, made.step), unsafe) << buffer.name;
    }
  }
}

TEST(OverlayRandomTest, TheSameArgumentsGiveTheSamePlan) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const RandomStep made = MakeRandomStep(seed, 80, 2);
    const OverlaidPlan once = PlanOf(made);
    const OverlaidPlan again = PlanOf(made);
    EXPECT_EQ(once.plan.ToTable(), again.plan.ToTable());
    EXPECT_EQ(once.placements_tried, again.placements_tried);
  }
}

TEST(OverlayRandomTest, TheOrderOfTheListAndOfTheEdgesChangesNoRange) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    const RandomStep made = MakeRandomStep(seed, 40, 2);
    StepDag reversed = made.step;
    const int last = static_cast<int>(reversed.ops.size()) - 1;
    std::reverse(reversed.ops.begin(), reversed.ops.end());
    std::reverse(reversed.edges.begin(), reversed.edges.end());
    for (StepEdge& edge : reversed.edges) {
      edge = {.from = last - edge.from, .to = last - edge.to};
    }
    ASSERT_OK_AND_ASSIGN(const std::vector<BufferLife> lives,
                         FindLives(made.step));
    ASSERT_OK_AND_ASSIGN(const std::vector<BufferLife> lives_reversed,
                         FindLives(reversed));
    ASSERT_EQ(lives.size(), lives_reversed.size());
    for (size_t i = 0; i < lives.size(); ++i) {
      ASSERT_EQ(lives[i].ranges.size(), lives_reversed[i].ranges.size());
      for (size_t j = 0; j < lives[i].ranges.size(); ++j) {
        std::vector<int> ops = lives_reversed[i].ranges[j].ops;
        for (int& op : ops) op = last - op;
        std::sort(ops.begin() + 1, ops.end());
        EXPECT_EQ(lives[i].ranges[j].ops, ops);
      }
    }
    EXPECT_EQ(PlanOf({reversed, made.before, made.sizes}).bound_bytes,
              PlanOf(made).bound_bytes);
  }
}

}  // namespace
}  // namespace permafrost
