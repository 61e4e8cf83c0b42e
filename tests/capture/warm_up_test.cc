// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/capture/warm_up.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "permafrost/driver/status.h"
#include "tests/capture/capture_fixture.h"

namespace permafrost {
namespace {

using ::permafrost::testing::CaptureTest;
using ::permafrost::testing::MakeTestPlan;
using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class WarmUpTest : public CaptureTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(CaptureTest::SetUp());
    ASSERT_OK_AND_ASSIGN(warm_arena_, Arena::Create(context(), MakeTestPlan()));
    Write(Place("state"), std::vector<float>(16, 1.5f));
    Write(Place("output"), std::vector<float>(16, 1.5f));
  }
  void TearDown() override {
    if (warm_arena_) {
      EXPECT_OK(warm_arena_->Release());
    }
    warm_arena_.reset();
    CaptureTest::TearDown();
  }

  const Arena& warm_arena() const { return *warm_arena_; }
  DevicePtr Place(absl::string_view name) const {
    return warm_arena().view().Find(name)->base;
  }

  absl::Status Overwrite(const StepContext& step,
                         absl::string_view name) const {
    PERMAFROST_ASSIGN_OR_RETURN(const BufferRef buffer, step.arena.Find(name));
    return CuStatus(
        api().MemsetD8Async(buffer.base.value(), 0x11, 64, step.stream),
        "cuMemsetD8Async");
  }

 private:
  std::optional<Arena> warm_arena_;
};

TEST_F(WarmUpTest, RunsEveryBucketOnceInTheOrderGiven) {
  std::vector<int64_t> rows;
  const Step step = [&](const StepContext& context) {
    EXPECT_FALSE(context.arena.is_frozen());
    EXPECT_EQ(context.stream, lane().stream());
    rows.push_back(context.bucket.rows);
    return absl::OkStatus();
  };
  ASSERT_OK_AND_ASSIGN(const WarmSet set,
                       WarmUp(warm_arena(), lane(), step, {{8}, {2}, {4}}));
  EXPECT_THAT(rows, ElementsAre(8, 2, 4));
  EXPECT_THAT(set.buckets(), ElementsAre(Bucket{2}, Bucket{4}, Bucket{8}));
  EXPECT_TRUE(set.Contains(Bucket{4}));
  EXPECT_FALSE(set.Contains(Bucket{3}));
  EXPECT_EQ(set.arena_base(), warm_arena().view().base());
}

TEST_F(WarmUpTest, StateIsRestoredAndTheRestIsNot) {
  const Step step = [&](const StepContext& context) -> absl::Status {
    PERMAFROST_RETURN_IF_ERROR(Overwrite(context, "state"));
    return Overwrite(context, "output");
  };
  ASSERT_OK(WarmUp(warm_arena(), lane(), step, {{2}, {4}}));
  EXPECT_THAT(Read(Place("state"), 16), Each(1.5f));
  EXPECT_NE(Read(Place("output"), 1)[0], 1.5f);
}

TEST_F(WarmUpTest, StateIsRestoredAfterAFailedRunToo) {
  const Step step = [&](const StepContext& context) -> absl::Status {
    PERMAFROST_RETURN_IF_ERROR(Overwrite(context, "state"));
    if (context.bucket.rows == 4) return absl::AbortedError("no luck");
    return absl::OkStatus();
  };
  EXPECT_THAT(WarmUp(warm_arena(), lane(), step, {{2}, {4}, {8}}),
              StatusIs(absl::StatusCode::kAborted,
                       AllOf(HasSubstr("4 rows"), HasSubstr("no luck"),
                             HasSubstr("lane 'decode'"))));
  EXPECT_THAT(Read(Place("state"), 16), Each(1.5f));
}

TEST_F(WarmUpTest, AnExceptionBecomesInternal) {
  const Step step = [](const StepContext&) -> absl::Status {
    throw std::runtime_error("boom");
  };
  EXPECT_THAT(WarmUp(warm_arena(), lane(), step, {{2}}),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("boom")));
}

TEST_F(WarmUpTest, BadBucketsAreNamed) {
  const Step step = [](const StepContext&) { return absl::OkStatus(); };
  EXPECT_THAT(WarmUp(warm_arena(), lane(), nullptr, {{2}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("step")));
  EXPECT_THAT(
      WarmUp(warm_arena(), lane(), step, {}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no bucket")));
  EXPECT_THAT(
      WarmUp(warm_arena(), lane(), step, {{2}, {0}}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 rows")));
  EXPECT_THAT(WarmUp(warm_arena(), lane(), step, {{2}, {4}, {2}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("2 rows is named twice")));
}

}  // namespace
}  // namespace permafrost
