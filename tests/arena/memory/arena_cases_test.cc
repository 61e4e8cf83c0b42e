// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

//
// Public bug reports about memory taken before a graph, by their numbers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/arena/memory/arena_fixture.h"

namespace permafrost {
namespace {

using ::permafrost::testing::kSmallPlanBytes;
using ::permafrost::testing::SmallPlan;
using ::permafrost::testing::StatusIs;
using ::testing::HasSubstr;

class ArenaCasesTest : public ::permafrost::testing::ArenaTest {
 protected:
  static const char* MemoryCall() {
    return GetParam() ? "cuMemCreate" : "cuMemAlloc";
  }
};
PERMAFROST_ON_BOTH_MEMORIES(ArenaCasesTest);

TEST_P(ArenaCasesTest, B100AFailedAllocationLeaksNothingAndTheNextWorks) {
  const std::vector<std::string> named =
      GetParam() ? std::vector<std::string>{"segment 'step'", "segment 'slab'"}
                 : std::vector<std::string>{"arena memory"};
  for (size_t k = 0; k < named.size(); ++k) {
    faulting().FailCall(static_cast<int64_t>(k) + 1, CUDA_ERROR_OUT_OF_MEMORY,
                        MemoryCall());
    EXPECT_THAT(CreateSmall(), StatusIs(absl::StatusCode::kResourceExhausted,
                                        HasSubstr(named[k])));
    faulting().Disarm();
    ExpectNothingLeft();
    EXPECT_OK(CreateSmall());
  }
}

TEST_P(ArenaCasesTest, B101ABufferOfNoBytesHasNoPlaceAndNothingToGiveBack) {
  ASSERT_OK_AND_ASSIGN(Arena arena, CreateSmall());
  const PlannedBuffer* absent = arena.view().plan().Find("absent");
  EXPECT_EQ(absent->bytes, 0);
  EXPECT_EQ(absent->offset_bytes, 0);
  EXPECT_THAT(arena.view().Find("absent"),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_FALSE(arena.view().IsAsleep("absent"));
  EXPECT_OK(arena.Release());
  faulting().ResetCounts();
  EXPECT_OK(arena.Release());
  EXPECT_EQ(faulting().calls(), 0);
}

TEST_P(ArenaCasesTest, B113ThePlanIsWhatTheDriverGivesToTheByte) {
  PERMAFROST_NEEDS_SOFTCUDA();
  const ArenaPlan plan = SmallPlan();
  EXPECT_EQ(plan.total_bytes(), kSmallPlanBytes);
  ASSERT_OK_AND_ASSIGN(const Arena arena, CreateSmall());
  EXPECT_EQ(LiveBytes() - bytes_before(), plan.total_bytes());
  EXPECT_EQ(arena.live_bytes(), plan.total_bytes());
}

TEST_P(ArenaCasesTest, B113OneByteTooLittleIsRefusedBeforeAnythingIsTaken) {
  PERMAFROST_NEEDS_SOFTCUDA();
  ASSERT_OK_AND_ASSIGN(const int64_t total, context()->TotalMemoryBytes());
  soft()->SetDeviceMemoryBytes(bytes_before() + kSmallPlanBytes - 1);
  faulting().ResetCounts();
  const absl::Status status = CreateSmall().status();
  soft()->SetDeviceMemoryBytes(total);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(faulting().calls(MemoryCall()), 0);
}

}  // namespace
}  // namespace permafrost
