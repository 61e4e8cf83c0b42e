// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "arena/overlay/step_builder.h"
#include "permafrost/arena/overlay.h"
#include "support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::Line;
using ::permafrost::testing::Op;
using ::permafrost::testing::StatusIs;
using ::permafrost::testing::Step;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Ranges = std::vector<LiveRange>;

BufferLife LifeIn(const StepDag& step, const std::string& buffer) {
  const absl::StatusOr<std::vector<BufferLife>> lives = FindLives(step);
  if (!lives.ok()) {
    ADD_FAILURE() << lives.status();
    return {};
  }
  for (const BufferLife& life : *lives) {
    if (life.buffer == buffer) return life;
  }
  ADD_FAILURE() << "no life of " << buffer;
  return {};
}

TEST(LiveRangesTest, AWriteBeginsARangeAndReadsBelongToTheLastWrite) {
  const StepDag step = Line({Op("w0", {}, {"a"}), Op("r1", {"a"}, {"b"}),
                             Op("r2", {"a", "b"}, {}), Op("w3", {}, {"a"}),
                             Op("r4", {"a"}, {})});
  EXPECT_EQ(LifeIn(step, "a").ranges, (Ranges{{{0, 1, 2}}, {{3, 4}}}));
  EXPECT_EQ(LifeIn(step, "b").ranges, (Ranges{{{1, 2}}}));
  EXPECT_THAT(LifeIn(step, "a").kept_because, IsEmpty());
}

TEST(LiveRangesTest, SortedByName) {
  ASSERT_OK_AND_ASSIGN(const std::vector<BufferLife> lives,
                       FindLives(Line({Op("w", {}, {"b", "c", "a"})})));
  ASSERT_EQ(lives.size(), 3u);
  EXPECT_EQ(lives[0].buffer, "a");
  EXPECT_EQ(lives[1].buffer, "b");
  EXPECT_EQ(lives[2].buffer, "c");
}

TEST(LiveRangesTest, WritesThatCoverAPartStayInTheRange) {
  StepDag step = Line({Op("w", {}, {"a"}), Op("part", {}, {"a"}),
                       Op("update", {"a"}, {"a"}), Op("r", {"a"}, {})});
  step.ops[1].accesses[0].overwrites = false;
  EXPECT_EQ(LifeIn(step, "a").ranges, (Ranges{{{0, 1, 2, 3}}}));
}

TEST(LiveRangesTest, AnAccessListedAsBothIsNoNewValue) {
  StepDag step = Line({Op("w", {}, {"a"}), Op("both", {}, {})});
  step.ops[1].accesses.push_back({.buffer = "a", .access = Access::kReadWrite});
  EXPECT_EQ(LifeIn(step, "a").ranges, (Ranges{{{0, 1}}}));
}

TEST(LiveRangesTest, ListOrderDecidesNothing) {
  const StepDag step =
      Step({Op("r", {"a"}, {}), Op("w", {}, {"a"})}, {{.from = 1, .to = 0}});
  EXPECT_EQ(LifeIn(step, "a").ranges, (Ranges{{{1, 0}}}));
}

TEST(LiveRangesTest, AFirstReadMeansAValueOfAnEarlierReplay) {
  const StepDag step = Line({Op("r", {"a"}, {}), Op("w", {}, {"a"})});
  const BufferLife life = LifeIn(step, "a");
  EXPECT_THAT(life.ranges, IsEmpty());
  EXPECT_THAT(life.kept_because,
              AllOf(HasSubstr("'r'"), HasSubstr("earlier replay")));
}

TEST(LiveRangesTest, AFirstWriteOfAPartMeansAValueOfAnEarlierReplay) {
  StepDag step = Line({Op("part", {}, {"a"}), Op("r", {"a"}, {})});
  step.ops[0].accesses[0].overwrites = false;
  EXPECT_THAT(LifeIn(step, "a").kept_because, HasSubstr("'part'"));
  step.ops[0].accesses[0].overwrites = true;
  EXPECT_THAT(LifeIn(step, "a").kept_because, IsEmpty());
}

TEST(LiveRangesTest, AReadOnASideStreamBelongsToTheWriteBeforeTheFork) {
  // w0 forks into r1 and r2; both join at w3.
  const StepDag step = Step({Op("w0", {}, {"a"}), Op("r1", {"a"}, {}),
                             Op("r2", {"a"}, {}), Op("w3", {}, {"a"})},
                            {{0, 1}, {0, 2}, {1, 3}, {2, 3}});
  EXPECT_EQ(LifeIn(step, "a").ranges, (Ranges{{{0, 1, 2}}, {{3}}}));
}

TEST(LiveRangesTest, AnOverwriteThatRacesWithARead) {
  // The read on the side stream never joins before the second write.
  const StepDag step =
      Step({Op("w0", {}, {"a"}), Op("side", {"a"}, {}), Op("w2", {}, {"a"})},
           {{0, 1}, {0, 2}});
  EXPECT_THAT(LifeIn(step, "a").kept_because,
              AllOf(HasSubstr("'w2'"), HasSubstr("'side'"),
                    HasSubstr("without an order")));
}

TEST(LiveRangesTest, ProgrammaticEdgesOrderOnlyWhereTheConsumerWaits) {
  StepDag step = Step({Op("w", {}, {"a"}), Op("r", {"a"}, {})},
                      {{.from = 0, .to = 1, .kind = EdgeKind::kProgrammatic}});
  EXPECT_THAT(LifeIn(step, "a").kept_because, HasSubstr("without an order"));
  step.ops[1].waits_on_grid_dependency = true;
  EXPECT_EQ(LifeIn(step, "a").ranges, (Ranges{{{0, 1}}}));
  step.edges[0].kind = EdgeKind::kLaunchOrder;
  EXPECT_THAT(LifeIn(step, "a").kept_because, HasSubstr("without an order"));
}

TEST(LiveRangesTest, AnInvalidStepIsRefused) {
  EXPECT_THAT(FindLives(Step({Op("x", {}, {"a"})}, {{0, 0}})),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(LiveRangesTest, AThousandOperationsInALine) {
  std::vector<StepOp> ops;
  for (int i = 0; i < 1000; ++i) {
    ops.push_back(Op("w" + std::to_string(i), {}, {"a"}));
    ops.push_back(Op("r" + std::to_string(i), {"a"}, {}));
  }
  const BufferLife life = LifeIn(Line(ops), "a");
  ASSERT_EQ(life.ranges.size(), 1000u);
  EXPECT_THAT(life.ranges[999].ops, ElementsAre(1998, 1999));
}

}  // namespace
}  // namespace permafrost
