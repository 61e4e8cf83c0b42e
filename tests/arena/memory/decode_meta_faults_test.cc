// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Every driver call of an upload's life fails once.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/arena/memory/decode_meta_fixture.h"
#include "tests/support/unreported_calls.h"

namespace permafrost {
namespace {

using ::permafrost::testing::Gate;
using ::permafrost::testing::IsOk;
using ::permafrost::testing::MayGoUnreported;
using ::permafrost::testing::StatusIs;
using ::permafrost::testing::TestSequence;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<TestSequence> kOne = {{.id = 3, .seq_len = 5}};
const std::vector<TestSequence> kOneLater = {{.id = 3, .seq_len = 6}};

class DecodeMetaFaultsTest
    : public ::permafrost::testing::DecodeMetaUploadTest {
 protected:
  /// Runs `flow` with its n-th call failing, for every n it has. The flow calls
  /// `done` behind its last statement, before its destructors.
  std::vector<std::string> FailEachCall(
      const std::function<absl::Status(const std::function<void()>& done)>&
          flow) {
    int64_t statement_calls = 0;
    faulting().ResetCounts();
    EXPECT_OK(flow([&] { statement_calls = faulting().calls(); }));
    std::vector<std::string> calls;
    for (int64_t n = 1;; ++n) {
      SCOPED_TRACE(absl::StrCat("call ", n, " fails once"));
      faulting().FailCall(n);
      const absl::Status status = flow([] {});
      const std::string failed = faulting().last_failed_call();
      faulting().Disarm();
      DropStrayContexts();
      ExpectNothingLeft();
      if (failed.empty()) {
        EXPECT_OK(status);
        return calls;
      }
      calls.push_back(failed);
      if (MayGoUnreported(n, failed, statement_calls) && status.ok()) continue;
      EXPECT_EQ(CuCallOf(status), failed) << status;
    }
  }

  // A scope whose pop was made to fail leaves its context on the stack, above
  // the one of the fixture.
  void DropStrayContexts() const {
    CUcontext popped = nullptr;
    while (api().CtxPopCurrent(&popped) == CUDA_SUCCESS) {
    }
    ASSERT_EQ(api().CtxPushCurrent(DriverTest::context()->get()), CUDA_SUCCESS);
  }
};

TEST_F(DecodeMetaFaultsTest, ARingsLifeReportsEachFailureAndLeavesNothing) {
  const std::vector<std::string> calls =
      FailEachCall([&](const std::function<void()>& done) -> absl::Status {
        PERMAFROST_ASSIGN_OR_RETURN(DecodeMetaRing ring, MakeRing(2));
        PERMAFROST_RETURN_IF_ERROR(Upload(ring, 1, kFull, kOne));
        PERMAFROST_RETURN_IF_ERROR(Upload(ring, 2, kDelta, kOneLater));
        PERMAFROST_RETURN_IF_ERROR(Upload(ring, 3, kDelta, kOneLater));
        PERMAFROST_RETURN_IF_ERROR(ring.LeaveStream());
        const absl::Status released = ring.Release();
        done();
        return released;
      });
  EXPECT_THAT(calls, Contains("cuMemHostAlloc").Times(2));
  EXPECT_THAT(calls, Contains("cuEventCreate").Times(2));
  EXPECT_THAT(calls, Contains("cuMemcpyHtoDAsync").Times(3));
  EXPECT_THAT(calls, Contains("cuEventRecord").Times(3));
  EXPECT_THAT(calls, Contains("cuEventSynchronize"));
  EXPECT_THAT(calls, Contains("cuStreamSynchronize"));
  EXPECT_THAT(calls, Contains("cuMemFreeHost").Times(2));
  EXPECT_THAT(calls, Contains("cuEventDestroy").Times(2));
}

TEST_F(DecodeMetaFaultsTest, ACapturedCopysLifeReportsEachFailure) {
  const std::vector<std::string> calls =
      FailEachCall([&](const std::function<void()>& done) -> absl::Status {
        PERMAFROST_ASSIGN_OR_RETURN(CapturedDecodeMeta meta,
                                    MakeCaptured(kDelta));
        if (api().StreamBeginCapture(stream(), CU_STREAM_CAPTURE_MODE_GLOBAL) !=
            CUDA_SUCCESS) {
          return absl::InternalError("the stream does not capture");
        }
        const absl::Status recorded = meta.Record(stream());
        CUgraph graph = nullptr;
        const CUresult ended = api().StreamEndCapture(stream(), &graph);
        const Graph owned = Graph::Adopt(DriverTest::context(), graph);
        PERMAFROST_RETURN_IF_ERROR(recorded);
        PERMAFROST_RETURN_IF_ERROR(CuStatus(ended, "cuStreamEndCapture"));
        PERMAFROST_ASSIGN_OR_RETURN(
            const GraphExec exec,
            GraphExec::Instantiate(DriverTest::context(), graph));
        for (uint64_t step = 1; step <= 2; ++step) {
          PERMAFROST_ASSIGN_OR_RETURN(
              WrittenDecodeMeta written,
              Write(meta, step, step == 1 ? kFull : kDelta, kOne));
          PERMAFROST_RETURN_IF_ERROR(meta.Arm(std::move(written), stream()));
          PERMAFROST_RETURN_IF_ERROR(CuStatus(
              api().GraphLaunch(exec.get(), stream()), "cuGraphLaunch"));
          PERMAFROST_RETURN_IF_ERROR(meta.RecordReplay(stream()));
        }
        PERMAFROST_ASSIGN_OR_RETURN(const DecodeMetaSlot slot, meta.Acquire());
        done();
        return absl::OkStatus();
      });
  // One in the capture, one for the FULL step.
  EXPECT_THAT(calls, Contains("cuMemcpyHtoDAsync").Times(2));
  EXPECT_THAT(calls, Contains("cuEventRecord").Times(3));
}

TEST_F(DecodeMetaFaultsTest, AFailedUploadNeedsFull) {
  for (const char* call : {"cuMemcpyHtoDAsync", "cuEventRecord"}) {
    SCOPED_TRACE(call);
    ASSERT_OK_AND_ASSIGN(DecodeMetaRing ring, MakeRing());
    ASSERT_OK(Upload(ring, 1, kFull, kOne));
    faulting().FailCall(1, CUDA_ERROR_UNKNOWN, call);
    EXPECT_THAT(Upload(ring, 2, kDelta, kOneLater),
                StatusIs(absl::StatusCode::kInternal, HasSubstr(call)));
    EXPECT_THAT(Upload(ring, 2, kDelta, kOneLater),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("an upload failed")));
    ASSERT_OK_AND_ASSIGN(const StepEcho echo,
                         Upload(ring, 2, kFull, kOneLater));
    EXPECT_OK(CheckStepEcho(echo, RunStep()));
  }
}

TEST_F(DecodeMetaFaultsTest, ASlotWithoutAnEventIsFreeWhenTheStreamIs) {
  // Neither the event nor the wait that replaces it can be had, and the copy is
  // held back: the slot must not be handed out.
  ASSERT_OK_AND_ASSIGN(DecodeMetaRing ring, MakeRing(1));
  Gate gate;
  ASSERT_EQ(gate.Enqueue(api(), stream()), CUDA_SUCCESS);
  ASSERT_OK_AND_ASSIGN(WrittenDecodeMeta written, Write(ring, 1, kFull, kOne));
  const StepEcho echo = written.echo();
  // The fourth call is the event; from it on all fail, the wait included, which
  // would otherwise wait for the gate.
  faulting().FailFrom(4, CUDA_ERROR_UNKNOWN);
  const absl::Status uploaded = ring.Upload(std::move(written), stream());
  EXPECT_THAT(ring.Acquire(), Not(IsOk()));
  faulting().Disarm();
  DropStrayContexts();
  EXPECT_THAT(uploaded, StatusIs(absl::StatusCode::kInternal,
                                 HasSubstr("cuEventRecord")));
  ASSERT_OK(LaunchEcho());
  gate.Open();
  ASSERT_OK(Write(ring, 2, kFull, kOneLater));
  EXPECT_OK(CheckStepEcho(echo, ReadEcho()));
}

TEST_F(DecodeMetaFaultsTest, AReleaseThatFailedIsFinishedByTheNext) {
  ASSERT_OK_AND_ASSIGN(DecodeMetaRing ring, MakeRing(2));
  ASSERT_OK(Upload(ring, 1, kFull, kOne));
  for (const char* call : {"cuEventSynchronize", "cuMemFreeHost"}) {
    faulting().FailCall(1, CUDA_ERROR_UNKNOWN, call);
    EXPECT_THAT(ring.Release(),
                StatusIs(absl::StatusCode::kInternal, HasSubstr(call)));
    EXPECT_THAT(ring.Acquire(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                         HasSubstr("released")));
    EXPECT_EQ(faulting().last_failed_call(), call);
  }
  EXPECT_OK(ring.Release());
  ExpectNothingLeft();
}

}  // namespace
}  // namespace permafrost
