// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Graphs on an arena whose buffers share bytes: observed on one arena, planned
// from that, captured on the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "permafrost/arena/overlay.h"
#include "permafrost/capture/observed_step.h"
#include "permafrost/driver/status.h"
#include "tests/capture/capture_fixture.h"

namespace permafrost {
namespace {

using ::permafrost::testing::CaptureTest;
using ::permafrost::testing::Floats;
using ::permafrost::testing::kBufferBytes;
using ::permafrost::testing::StatusIs;
using ::permafrost::testing::TestKernels;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Bucket kBucket = {8};

std::vector<BufferSize> ChainSizes() {
  std::vector<BufferSize> sizes;
  for (const char* name : {"input", "a", "b", "c", "output"}) {
    BufferSize size;
    size.name = name;
    size.bytes = kBufferBytes;
    const bool is_host = size.name == "input" || size.name == "output";
    size.lifetime = is_host ? Lifetime::kHostWritten : Lifetime::kPerLayer;
    size.tag = "step";
    sizes.push_back(std::move(size));
  }
  return sizes;
}

// Each doubles the one before; `from` and `to` alike for all pairs of a chain.
Step MakeChain(const TestKernels& kernels, std::vector<const char*> names) {
  return [&kernels, names = std::move(names)](const StepContext& step) {
    for (size_t i = 1; i < names.size(); ++i) {
      PERMAFROST_ASSIGN_OR_RETURN(const BufferRef from,
                                  step.arena.Find(names[i - 1]));
      PERMAFROST_ASSIGN_OR_RETURN(const BufferRef to,
                                  step.arena.Find(names[i]));
      PERMAFROST_RETURN_IF_ERROR(kernels.Scale(step.stream, to.base, from.base,
                                               Floats(step.bucket), 2.0F));
    }
    return absl::OkStatus();
  };
}

class OverlayCaptureTest : public CaptureTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(CaptureTest::SetUp());
    ASSERT_OK_AND_ASSIGN(ArenaPlan apart, PlanArena(ChainSizes(), {}));
    const Step step = Chain();
    ASSERT_OK(PrepareWith(std::move(apart), step, {kBucket}));
    ASSERT_OK_AND_ASSIGN(
        const Graph graph, Record([&](CUstream stream) {
          return step(StepContext{arena().view(), stream, kBucket});
        }));
    const ArenaView view = arena().view();
    AuditScope scope;
    scope.arena = &view;
    scope.signatures = &kernels().signatures();
    ASSERT_OK_AND_ASSIGN(
        observed_, ObserveStep(*driver(), graph.get(), scope,
                               AuditGraph(*driver(), graph.get(), scope)));
  }

  Step Chain() const {
    return MakeChain(kernels(), {"input", "a", "b", "c", "output"});
  }

  ArenaPlan Overlaid() const {
    PlanOptions options;
    options.overlay = Overlay::kOn;
    absl::StatusOr<OverlaidPlan> planned =
        PlanArenaWithOverlay(ChainSizes(), options, {&observed_, 1});
    EXPECT_OK(planned);
    return std::move(planned->plan);
  }

  // The plan with one more pair over each other than the planner allows.
  ArenaPlan Forced(const char* first, const char* second) const {
    const ArenaPlan plan = Overlaid();
    std::vector<PlannedBuffer> buffers = plan.buffers();
    int64_t offset = 0;
    for (const PlannedBuffer& buffer : buffers) {
      if (buffer.name == first) offset = buffer.offset_bytes;
    }
    for (PlannedBuffer& buffer : buffers) {
      if (buffer.name == second) buffer.offset_bytes = offset;
    }
    for (PlannedBuffer& buffer : buffers) {
      buffer.shares_with.clear();
      for (const PlannedBuffer& other : buffers) {
        if (other.name != buffer.name && other.is_present() &&
            other.offset_bytes == buffer.offset_bytes) {
          buffer.shares_with.push_back(other.name);
        }
      }
      std::sort(buffer.shares_with.begin(), buffer.shares_with.end());
    }
    return ArenaPlan::FromParts(std::move(buffers), plan.segments(),
                                plan.total_bytes(), plan.options());
  }

  CaptureOptions Observed() const {
    CaptureOptions options;
    options.observed = {{kBucket.rows, observed_}};
    return options;
  }

  StepDag observed_;
};

TEST_F(OverlayCaptureTest, APlanFromTheObservedStepRunsAsWithoutOverlay) {
  ArenaPlan plan = Overlaid();
  ASSERT_THAT(plan.Find("a")->shares_with, ElementsAre("c"));
  ASSERT_OK(PrepareWith(std::move(plan), Chain(), {kBucket}));
  ASSERT_OK_AND_ASSIGN(GraphSet graphs, Capture(Observed()));
  const std::vector<float> input(static_cast<size_t>(Floats(kBucket)), 1.5F);
  for (int replay = 0; replay < 2; ++replay) {
    Write(Buffer("input").base, input);
    ASSERT_OK(graphs[0].Replay());
    ASSERT_OK(lane().Drain());
    EXPECT_EQ(Read(Buffer("output").base, 1), std::vector<float>{24.0F});
  }
  EXPECT_OK(graphs.Destroy());
}

TEST_F(OverlayCaptureTest, WithoutAnObservedStepNothingIsInstantiated) {
  ASSERT_OK(PrepareWith(Overlaid(), Chain(), {kBucket}));
  EXPECT_THAT(Capture().status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("8 rows"), HasSubstr("share bytes"),
                             HasSubstr("ObserveStep"))));
}

TEST_F(OverlayCaptureTest, AnOverlayThatTheGraphDoesNotBearIsRefused) {
  ASSERT_OK(PrepareWith(Forced("a", "b"), Chain(), {kBucket}));
  EXPECT_THAT(Capture(Observed()).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("not safe"), HasSubstr("'a'"),
                             HasSubstr("'b'"))));
}

TEST_F(OverlayCaptureTest, AGraphThatIsNotTheObservedStepIsRefused) {
  ASSERT_OK(PrepareWith(Overlaid(),
                        MakeChain(kernels(), {"input", "a", "b", "output"}),
                        {kBucket}));
  EXPECT_THAT(Capture(Observed()).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("4 operations"), HasSubstr("3 nodes"))));
}

TEST_F(OverlayCaptureTest, AnAddressInSharedBytesIsNotObserved) {
  ASSERT_OK(PrepareWith(Overlaid(), Chain(), {kBucket}));
  ASSERT_OK_AND_ASSIGN(
      const Graph graph, Record([&](CUstream stream) {
        return Chain()(StepContext{arena().view(), stream, kBucket});
      }));
  const ArenaView view = arena().view();
  AuditScope scope;
  scope.arena = &view;
  scope.signatures = &kernels().signatures();
  EXPECT_THAT(ObserveStep(*driver(), graph.get(), scope,
                          AuditGraph(*driver(), graph.get(), scope))
                  .status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("'a'"), HasSubstr("'c'"),
                             HasSubstr("without overlay"))));
}

}  // namespace
}  // namespace permafrost
