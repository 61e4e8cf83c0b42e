// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/captured_decode_meta.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "tests/arena/memory/decode_meta_fixture.h"

namespace permafrost {
namespace {

using ::permafrost::testing::Gate;
using ::permafrost::testing::kTestDummyBlock;
using ::permafrost::testing::StatusIs;
using ::permafrost::testing::TestSequence;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<TestSequence> Grown(int32_t tokens) {
  return {{.id = 3, .seq_len = 5 + tokens}, {.id = 2, .seq_len = 7 + tokens}};
}

class CapturedDecodeMetaTest
    : public ::permafrost::testing::DecodeMetaUploadTest {
 protected:
  /// A graph of the copy and the kernel that echoes.
  absl::StatusOr<GraphExec> CaptureStep(CapturedDecodeMeta& meta) {
    PERMAFROST_RETURN_IF_ERROR(CuStatus(
        api().StreamBeginCapture(stream(), CU_STREAM_CAPTURE_MODE_GLOBAL),
        "cuStreamBeginCapture"));
    absl::Status recorded = meta.Record(stream());
    if (recorded.ok()) recorded = LaunchEcho();
    CUgraph graph = nullptr;
    const CUresult ended = api().StreamEndCapture(stream(), &graph);
    const Graph owned = Graph::Adopt(DriverTest::context(), graph);
    PERMAFROST_RETURN_IF_ERROR(recorded);
    PERMAFROST_RETURN_IF_ERROR(CuStatus(ended, "cuStreamEndCapture"));
    return GraphExec::Instantiate(DriverTest::context(), graph);
  }

  absl::Status Launch(const GraphExec& exec) const {
    return CuStatus(api().GraphLaunch(exec.get(), stream()), "cuGraphLaunch");
  }

  /// One step from acquiring to the replay's record.
  absl::StatusOr<StepEcho> Step(CapturedDecodeMeta& meta, const GraphExec& exec,
                                uint64_t step, DecodeMetaMode mode,
                                const std::vector<TestSequence>& batch) {
    PERMAFROST_ASSIGN_OR_RETURN(WrittenDecodeMeta written,
                                Write(meta, step, mode, batch));
    const StepEcho echo = written.echo();
    PERMAFROST_RETURN_IF_ERROR(meta.Arm(std::move(written), stream()));
    PERMAFROST_RETURN_IF_ERROR(Launch(exec));
    PERMAFROST_RETURN_IF_ERROR(meta.RecordReplay(stream()));
    return echo;
  }
};

TEST_F(CapturedDecodeMetaTest, EachReplayCopiesWhatWasWrittenForIt) {
  ASSERT_OK_AND_ASSIGN(CapturedDecodeMeta meta, MakeCaptured(kFull));
  ASSERT_OK_AND_ASSIGN(const GraphExec exec, CaptureStep(meta));
  for (uint64_t step = 1; step <= 5; ++step) {
    ASSERT_OK_AND_ASSIGN(
        const StepEcho echo,
        Step(meta, exec, step, kFull, Grown(static_cast<int32_t>(step))));
    EXPECT_OK(CheckStepEcho(echo, ReadEcho()));
  }
}

TEST_F(CapturedDecodeMetaTest, ACapturedDeltaLeavesTheTableToTheDevice) {
  ASSERT_OK_AND_ASSIGN(CapturedDecodeMeta meta, MakeCaptured(kDelta));
  ASSERT_OK_AND_ASSIGN(const GraphExec exec, CaptureStep(meta));
  // The first step is FULL, which Arm uploads.
  ASSERT_OK_AND_ASSIGN(const StepEcho first,
                       Step(meta, exec, 1, kFull, Grown(0)));
  EXPECT_OK(CheckStepEcho(first, ReadEcho()));
  EXPECT_EQ(ReadWords(layout().block_table, 3),
            (std::vector<int32_t>{70, 71, kTestDummyBlock}));
  // What a kernel entered since then survives the replays that follow.
  ASSERT_EQ(api().MemsetD32Async((block().base + layout().block_table).value(),
                                 4711, 1, stream()),
            CUDA_SUCCESS);
  for (uint64_t step = 2; step <= 6; ++step) {
    ASSERT_OK_AND_ASSIGN(
        const StepEcho echo,
        Step(meta, exec, step, kDelta, Grown(static_cast<int32_t>(step) - 1)));
    EXPECT_OK(CheckStepEcho(echo, ReadEcho()));
  }
  EXPECT_EQ(ReadWords(layout().block_table, 1), std::vector<int32_t>{4711});
}

TEST_F(CapturedDecodeMetaTest, ADeltaStepIsRefusedWhereTheCopyIsFull) {
  ASSERT_OK_AND_ASSIGN(CapturedDecodeMeta meta, MakeCaptured(kFull));
  ASSERT_OK_AND_ASSIGN(const GraphExec exec, CaptureStep(meta));
  ASSERT_OK(Step(meta, exec, 1, kFull, Grown(0)));
  EXPECT_THAT(Step(meta, exec, 2, kDelta, Grown(1)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("the captured copy is FULL")));
  EXPECT_OK(Step(meta, exec, 2, kFull, Grown(1)));
}

TEST_F(CapturedDecodeMetaTest, B89TheSlotIsHandedOutAfterTheLastReplay) {
  ASSERT_OK_AND_ASSIGN(CapturedDecodeMeta meta, MakeCaptured(kFull));
  ASSERT_OK_AND_ASSIGN(const GraphExec exec, CaptureStep(meta));
  Gate gate;
  ASSERT_EQ(gate.Enqueue(api(), stream()), CUDA_SUCCESS);
  ASSERT_OK_AND_ASSIGN(const StepEcho first,
                       Step(meta, exec, 1, kFull, Grown(0)));
  EXPECT_THAT(meta.TryAcquire(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("step 1")));
  std::thread opener([&gate] { gate.Open(); });
  // Blocks until the opener has run, whichever comes first.
  const absl::StatusOr<WrittenDecodeMeta> second =
      Write(meta, 2, kFull, Grown(1));
  opener.join();
  ASSERT_OK(second);
  EXPECT_OK(CheckStepEcho(first, ReadEcho()));
}

TEST_F(CapturedDecodeMetaTest, B89ASlotRewrittenBeforeTheReplayIsSeen) {
  // The planted fault: CancelReplay for a replay that does run.
  ASSERT_OK_AND_ASSIGN(CapturedDecodeMeta meta, MakeCaptured(kFull));
  ASSERT_OK_AND_ASSIGN(const GraphExec exec, CaptureStep(meta));
  ASSERT_OK_AND_ASSIGN(WrittenDecodeMeta written,
                       Write(meta, 1, kFull, Grown(0)));
  const StepEcho first = written.echo();
  Gate gate;
  ASSERT_EQ(gate.Enqueue(api(), stream()), CUDA_SUCCESS);
  ASSERT_OK(meta.Arm(std::move(written), stream()));
  ASSERT_OK(Launch(exec));
  meta.CancelReplay();
  ASSERT_OK(Write(meta, 2, kFull, Grown(1)));
  gate.Open();
  EXPECT_THAT(
      CheckStepEcho(first, ReadEcho()),
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("got 2, expected 1")));
}

TEST_F(CapturedDecodeMetaTest, B28AReplayThatWasNotArmedForIsRefused) {
  ASSERT_OK_AND_ASSIGN(CapturedDecodeMeta meta, MakeCaptured(kFull));
  ASSERT_OK_AND_ASSIGN(const GraphExec exec, CaptureStep(meta));
  EXPECT_THAT(meta.RecordReplay(stream()),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  ASSERT_OK(Step(meta, exec, 1, kFull, Grown(0)));
  ASSERT_OK(Launch(exec));
  EXPECT_THAT(meta.RecordReplay(stream()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("it ran on step 1 again")));
  // And the echo tells it too.
  EXPECT_THAT(CheckStepEcho(2, ReadEcho().step),
              StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(CapturedDecodeMetaTest, AnArmedSlotWaitsForNewsOfItsReplay) {
  ASSERT_OK_AND_ASSIGN(CapturedDecodeMeta meta, MakeCaptured(kFull));
  ASSERT_OK_AND_ASSIGN(WrittenDecodeMeta written,
                       Write(meta, 1, kFull, Grown(0)));
  ASSERT_OK(meta.Arm(std::move(written), stream()));
  const auto untold =
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("armed with step 1"), HasSubstr("RecordReplay"),
                     HasSubstr("CancelReplay")));
  EXPECT_THAT(meta.Acquire(), untold);
  EXPECT_THAT(meta.LeaveStream(), untold);
  EXPECT_THAT(meta.Release(), untold);
  ASSERT_OK_AND_ASSIGN(const Stream other, Stream::Create(context()));
  EXPECT_THAT(meta.RecordReplay(other.get()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("launch the graph on that stream")));
  meta.CancelReplay();
  EXPECT_OK(meta.Acquire());
}

TEST_F(CapturedDecodeMetaTest, ACancelledReplayNeedsFull) {
  ASSERT_OK_AND_ASSIGN(CapturedDecodeMeta meta, MakeCaptured(kDelta));
  ASSERT_OK_AND_ASSIGN(const GraphExec exec, CaptureStep(meta));
  ASSERT_OK(Step(meta, exec, 1, kFull, Grown(0)));
  ASSERT_OK_AND_ASSIGN(WrittenDecodeMeta second,
                       Write(meta, 2, kDelta, Grown(1)));
  ASSERT_OK(meta.Arm(std::move(second), stream()));
  meta.CancelReplay();
  EXPECT_THAT(Write(meta, 3, kDelta, Grown(2)),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_OK(Step(meta, exec, 3, kFull, Grown(2)));
}

TEST_F(CapturedDecodeMetaTest, TheCopyIsRecordedInACaptureOnly) {
  ASSERT_OK_AND_ASSIGN(CapturedDecodeMeta meta, MakeCaptured(kFull));
  EXPECT_THAT(meta.Record(stream()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("does not capture")));
  EXPECT_EQ(faulting().calls("cuMemcpyHtoDAsync"), 0);
  ASSERT_OK(CaptureStep(meta));
  EXPECT_EQ(faulting().calls("cuMemcpyHtoDAsync"), 1);
}

TEST_F(CapturedDecodeMetaTest, AReplayBeforeTheFirstStepEchoesNone) {
  ASSERT_OK_AND_ASSIGN(CapturedDecodeMeta meta, MakeCaptured(kFull));
  ASSERT_OK_AND_ASSIGN(const GraphExec exec, CaptureStep(meta));
  ASSERT_OK(Launch(exec));
  EXPECT_EQ(ReadEcho().step, 0u);
}

TEST_F(CapturedDecodeMetaTest, DestroyingItWaitsForAReplayNobodyRecorded) {
  absl::StatusOr<CapturedDecodeMeta> meta = MakeCaptured(kFull);
  ASSERT_OK(meta);
  ASSERT_OK_AND_ASSIGN(const GraphExec exec, CaptureStep(*meta));
  ASSERT_OK_AND_ASSIGN(WrittenDecodeMeta written,
                       Write(*meta, 1, kFull, Grown(0)));
  const StepEcho echo = written.echo();
  ASSERT_OK(meta->Arm(std::move(written), stream()));
  ASSERT_OK(Launch(exec));
  faulting().ResetCounts();
  meta = absl::CancelledError();
  EXPECT_EQ(faulting().calls("cuStreamSynchronize"), 1);
  EXPECT_OK(CheckStepEcho(echo, ReadEcho()));
}

}  // namespace
}  // namespace permafrost
