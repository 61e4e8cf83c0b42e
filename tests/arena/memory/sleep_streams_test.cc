// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

//
// What Sleep does about work in flight and about captures.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "permafrost/driver/handles.h"
#include "tests/arena/memory/sleep_fixture.h"

namespace permafrost {
namespace {

using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Keeps a stream busy until it is opened.
class Latch {
 public:
  void Block(const DriverApi& api, CUstream stream) {
    ASSERT_EQ(api.LaunchHostFunc(stream, &Latch::Wait, this), CUDA_SUCCESS);
  }
  void Open() { is_open_.store(true); }

 private:
  static void CUDA_CB Wait(void* latch) {
    while (!static_cast<Latch*>(latch)->is_open_.load()) {
      std::this_thread::yield();
    }
  }
  std::atomic<bool> is_open_{false};
};

class SleepStreamsTest : public ::permafrost::testing::SleepTest {
 protected:
  void SetUp() override {
    SleepTest::SetUp();
    if (HasFatalFailure()) return;
    ASSERT_OK_AND_ASSIGN(arena_, CreateSleeper());
    ASSERT_OK_AND_ASSIGN(stream_, Stream::Create(DriverTest::context()));
  }
  void TearDown() override {
    latch_.Open();
    ASSERT_OK(stream_.Synchronize());
    arena_.reset();
    ASSERT_OK(stream_.Destroy());
    SleepTest::TearDown();
  }

  FrozenArena& arena() { return *arena_; }
  CUstream stream() const { return stream_.get(); }
  Latch& latch() { return latch_; }

  void BeginCapture() {
    const Context::Scope scope = context()->MakeCurrent();
    ASSERT_EQ(
        api().StreamBeginCapture(stream(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
        CUDA_SUCCESS);
  }
  void EndCapture() {
    const Context::Scope scope = context()->MakeCurrent();
    CUgraph graph = nullptr;
    EXPECT_EQ(api().StreamEndCapture(stream(), &graph), CUDA_SUCCESS);
    ASSERT_NE(graph, nullptr);
    EXPECT_EQ(api().GraphDestroy(graph), CUDA_SUCCESS);
  }

 private:
  std::optional<FrozenArena> arena_;
  Stream stream_;
  Latch latch_;
};
PERMAFROST_ON_MAPPED_MEMORY(SleepStreamsTest);

TEST_P(SleepStreamsTest, ABusyDeclaredStreamIsRefusedByNameAndLaterTaken) {
  ASSERT_OK(arena().DeclareStream("copies", stream()));
  {
    const Context::Scope scope = context()->MakeCurrent();
    latch().Block(api(), stream());
  }
  EXPECT_THAT(arena().Sleep({.busy = BusyPolicy::kRefuse}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("declared stream 'copies'"),
                             HasSubstr("work in flight"))));
  EXPECT_FALSE(arena().view().IsAsleep("state"));
  latch().Open();
  const Context::Scope scope = context()->MakeCurrent();
  ASSERT_EQ(api().StreamSynchronize(stream()), CUDA_SUCCESS);
  ExpectAwakeAsBefore(arena());
  EXPECT_OK(arena().Sleep({.busy = BusyPolicy::kRefuse}));
  EXPECT_OK(arena().Wake());
}

TEST_P(SleepStreamsTest, B115ABusyLaneOfALeaseIsRefusedByName) {
  ASSERT_OK_AND_ASSIGN(
      std::optional<Lease> first,
      arena().TakeLease("graph of rung 8", {"lane 'decode'", stream()}));
  ASSERT_OK_AND_ASSIGN(
      std::optional<Lease> second,
      arena().TakeLease("graph of rung 16", {"lane 'decode'", stream()}));
  {
    const Context::Scope scope = context()->MakeCurrent();
    latch().Block(api(), stream());
  }
  EXPECT_THAT(arena().Sleep({.busy = BusyPolicy::kRefuse}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("lane 'decode' has work")));
  latch().Open();
  // Two graphs of one lane are waited for once.
  faulting().ResetCounts();
  ASSERT_OK(arena().Sleep({.tags = {"step"}}));
  const int64_t with_leases = faulting().calls("cuStreamSynchronize");
  ASSERT_OK(arena().Wake());
  first.reset();
  second.reset();
  faulting().ResetCounts();
  ASSERT_OK(arena().Sleep({.tags = {"step"}}));
  EXPECT_EQ(faulting().calls("cuStreamSynchronize"), with_leases - 1);
}

TEST_P(SleepStreamsTest, B115SleepWaitsForWorkInFlight) {
  ASSERT_OK(arena().DeclareStream("copies", stream()));
  ASSERT_OK_AND_ASSIGN(const BufferRef state, arena().view().Find("state"));
  {
    const Context::Scope scope = context()->MakeCurrent();
    latch().Block(api(), stream());
    ASSERT_EQ(api().MemsetD8Async(state.base.value(), 0x77,
                                  static_cast<size_t>(state.bytes), stream()),
              CUDA_SUCCESS);
  }
  std::thread opener([this] { latch().Open(); });
  const absl::Status slept = arena().Sleep();
  opener.join();
  ASSERT_OK(slept);
  ASSERT_OK(arena().Wake());
  // What was kept is what the work in flight left.
  ExpectAll(arena(), "state", 0x77);
}

TEST_P(SleepStreamsTest, AStreamThatFailedIsNamedAndNothingSleeps) {
  ASSERT_OK(arena().DeclareStream("copies", stream()));
  for (const BusyPolicy busy : {BusyPolicy::kWait, BusyPolicy::kRefuse}) {
    faulting().FailCall(
        1, CUDA_ERROR_LAUNCH_FAILED,
        busy == BusyPolicy::kWait ? "cuStreamSynchronize" : "cuStreamQuery");
    EXPECT_THAT(arena().Sleep({.busy = busy}),
                StatusIs(absl::StatusCode::kInternal,
                         HasSubstr("declared stream 'copies'")));
    faulting().Disarm();
    ExpectAwakeAsBefore(arena());
  }
}

TEST_P(SleepStreamsTest, AForgottenStreamIsNotAskedAnyMore) {
  ASSERT_OK(arena().DeclareStream("copies", stream()));
  EXPECT_THAT(
      arena().DeclareStream("copies", stream()),
      StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("'copies'")));
  EXPECT_THAT(arena().DeclareStream("", stream()),
              StatusIs(absl::StatusCode::kInvalidArgument));
  ASSERT_OK(arena().ForgetStream("copies"));
  EXPECT_THAT(arena().ForgetStream("copies"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("'copies'")));
  faulting().ResetCounts();
  ASSERT_OK(arena().Sleep({.busy = BusyPolicy::kRefuse}));
  EXPECT_EQ(faulting().calls("cuStreamQuery"), 0);
}

TEST_P(SleepStreamsTest, ACapturingStreamRefusesBothAndItsCaptureSurvives) {
  ASSERT_OK(arena().DeclareStream("copies", stream()));
  ASSERT_OK(arena().Sleep({.tags = {"kv"}}));
  BeginCapture();
  for (const absl::Status& status : {arena().Sleep(), arena().Wake()}) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("stream 'copies' captures")));
  }
  EndCapture();
  EXPECT_FALSE(arena().view().IsAsleep("tables"));
  EXPECT_TRUE(arena().view().IsAsleep("state"));
  ASSERT_OK(arena().Wake());
  ExpectPattern(arena(), "state");
}

TEST_P(SleepStreamsTest, ABlockingCaptureThatNobodyDeclaredRefusesBoth) {
  ASSERT_OK_AND_ASSIGN(Stream blocking, Stream::Create(DriverTest::context(),
                                                       CU_STREAM_DEFAULT));
  ASSERT_OK(arena().Sleep({.tags = {"kv"}}));
  {
    const Context::Scope scope = context()->MakeCurrent();
    ASSERT_EQ(api().StreamBeginCapture(blocking.get(),
                                       CU_STREAM_CAPTURE_MODE_RELAXED),
              CUDA_SUCCESS);
  }
  for (const absl::Status& status : {arena().Sleep(), arena().Wake()}) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("end the capture")));
  }
  {
    const Context::Scope scope = context()->MakeCurrent();
    CUgraph graph = nullptr;
    EXPECT_EQ(api().StreamEndCapture(blocking.get(), &graph), CUDA_SUCCESS);
    EXPECT_EQ(api().GraphDestroy(graph), CUDA_SUCCESS);
  }
  ASSERT_OK(blocking.Destroy());
  EXPECT_OK(arena().Wake());
}

TEST_P(SleepStreamsTest, ALeaseRefusesReleaseOfASleepingArena) {
  ASSERT_OK(arena().Sleep());
  ASSERT_OK_AND_ASSIGN(std::optional<Lease> lease, arena().TakeLease("graph"));
  EXPECT_THAT(arena().Release(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                          HasSubstr("'graph'")));
  lease.reset();
  EXPECT_OK(arena().Release());
}

}  // namespace
}  // namespace permafrost
