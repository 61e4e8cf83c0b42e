// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/capture/capture_session.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "permafrost/driver/faulting_driver.h"
#include "permafrost/driver/status.h"
#include "tests/capture/capture_fixture.h"

namespace permafrost {
namespace {

using ::permafrost::testing::DriverTest;
using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A lane and 4 KiB of memory, on the driver itself or on a faulting one.
class CaptureSessionTest : public DriverTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(DriverTest::SetUp());
    faulting_ = FaultingDriver::Wrap(driver());
    ASSERT_OK_AND_ASSIGN(faulty_, Context::RetainPrimary(faulting_->driver()));
    scope_.emplace(*faulty_);
    ASSERT_OK_AND_ASSIGN(lane_, Lane::Create(faulty_, "decode"));
    ASSERT_OK_AND_ASSIGN(memory_, DeviceBuffer::Allocate(faulty_, 4096));
    if (soft()) handles_ = soft()->live_handles();
  }

  void TearDown() override {
    if (soft()) {
      EXPECT_EQ(soft()->live_handles(), handles_) << "leak";
    }
    memory_ = DeviceBuffer();
    lane_.reset();
    scope_.reset();
  }

  const DriverApi& faulty_api() const { return faulty_->api(); }
  FaultingDriver& faulting() { return *faulting_; }
  const Lane& lane() const { return *lane_; }

  absl::Status Fill(unsigned value) const {
    return CuStatus(faulty_api().MemsetD32Async(memory_.get(), value, 1024,
                                                lane().stream()),
                    "cuMemsetD32Async");
  }

  uint32_t FirstWord() const {
    uint32_t word = 0;
    EXPECT_EQ(
        faulty_api().MemcpyDtoHAsync(&word, memory_.get(), 4, lane().stream()),
        CUDA_SUCCESS);
    EXPECT_OK(lane().Drain());
    return word;
  }

  absl::StatusOr<Graph> Capture(const std::function<absl::Status()>& record,
                                CaptureMode mode = CaptureMode::kThreadLocal) {
    return CaptureStep(lane(), mode, record);
  }

  // What a broken capture must not take away.
  void ExpectUsable() {
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    EXPECT_EQ(faulty_api().StreamIsCapturing(lane().stream(), &state),
              CUDA_SUCCESS);
    EXPECT_EQ(state, CU_STREAM_CAPTURE_STATUS_NONE);
    EXPECT_OK(Fill(5));
    EXPECT_EQ(FirstWord(), 5u);
    EXPECT_OK(Capture([&] { return Fill(6); }));
  }

  // An allocation, which no capture bears.
  absl::Status Allocate() const {
    CUdeviceptr pointer = 0;
    return CuStatus(faulty_api().MemAlloc(&pointer, 256), "cuMemAlloc");
  }

 private:
  std::unique_ptr<FaultingDriver> faulting_;
  ContextRef faulty_;
  std::optional<Context::Scope> scope_;
  std::optional<Lane> lane_;
  DeviceBuffer memory_;
  int64_t handles_ = 0;
};

TEST_F(CaptureSessionTest, RecordsWithoutRunning) {
  ASSERT_OK(Fill(1));
  ASSERT_OK_AND_ASSIGN(const Graph graph, Capture([&] { return Fill(2); }));
  size_t nodes = 0;
  ASSERT_EQ(faulty_api().GraphGetNodes(graph.get(), nullptr, &nodes),
            CUDA_SUCCESS);
  EXPECT_EQ(nodes, 1u);
  EXPECT_EQ(FirstWord(), 1u);
}

TEST_F(CaptureSessionTest, AnAllocationInTheStepIsNamed) {
  EXPECT_THAT(
      Capture([&] { return Allocate(); }),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("lane 'decode'"), HasSubstr("mode thread_local"),
                     HasSubstr("failed in cuMemAlloc"),
                     HasSubstr("STREAM_CAPTURE_UNSUPPORTED"),
                     HasSubstr("allocate, load"))));
  ExpectUsable();
}

TEST_F(CaptureSessionTest, TheResultOfTheFirstErrorIsKept) {
  const absl::StatusOr<Graph> graph = Capture([&] { return Allocate(); });
  EXPECT_EQ(CuResultOf(graph.status()), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(CuCallOf(graph.status()), "cuMemAlloc");
  ExpectUsable();
}

TEST_F(CaptureSessionTest, AnErrorTheStepSwallowedIsSaidToBeUnreported) {
  EXPECT_THAT(Capture([&] {
                Allocate().IgnoreError();
                return absl::OkStatus();
              }),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("a call the step did not report"),
                             HasSubstr("lane 'decode'"),
                             HasSubstr("return the Status"))));
  ExpectUsable();
}

TEST_F(CaptureSessionTest, TheHandleOfABrokenCaptureIsNotTouched) {
  faulting().ResetCounts();
  EXPECT_FALSE(Capture([&] { return Allocate(); }).ok());
  EXPECT_EQ(faulting().calls("cuGraphDestroy"), 0);
  EXPECT_EQ(faulting().calls("cuStreamEndCapture"), 1);
}

TEST_F(CaptureSessionTest, AnErrorOfTheStepKeepsItsCode) {
  EXPECT_THAT(Capture([&]() -> absl::Status {
                EXPECT_OK(Fill(1));
                return absl::NotFoundError("no such buffer: 'kv'");
              }),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("lane 'decode'"),
                             HasSubstr("no such buffer: 'kv'"))));
  ExpectUsable();
}

TEST_F(CaptureSessionTest, AnExceptionBecomesInternal) {
  EXPECT_THAT(Capture([&]() -> absl::Status {
                EXPECT_OK(Fill(1));
                throw std::runtime_error("boom");
              }),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("boom")));
  ExpectUsable();
  EXPECT_THAT(Capture([]() -> absl::Status { throw 7; }),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("exception")));
  ExpectUsable();
}

TEST_F(CaptureSessionTest, AnAbandonedSessionEndsItsCapture) {
  {
    ASSERT_OK_AND_ASSIGN(
        const CaptureSession session,
        CaptureSession::Begin(lane(), CaptureMode::kThreadLocal));
    ASSERT_OK(Fill(1));
  }
  ExpectUsable();
}

TEST_F(CaptureSessionTest, EndsOnce) {
  ASSERT_OK_AND_ASSIGN(
      CaptureSession session,
      CaptureSession::Begin(lane(), CaptureMode::kThreadLocal));
  EXPECT_OK(session.End());
  EXPECT_THAT(session.End(), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(CaptureSessionTest, ASecondSessionLeavesTheFirstAlone) {
  ASSERT_OK_AND_ASSIGN(
      CaptureSession session,
      CaptureSession::Begin(lane(), CaptureMode::kThreadLocal));
  EXPECT_THAT(CaptureSession::Begin(lane(), CaptureMode::kThreadLocal),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("captures already")));
  ASSERT_OK(Fill(1));
  EXPECT_OK(session.End());
}

TEST_F(CaptureSessionTest, AStepThatEndsTheCaptureItselfIsTold) {
  EXPECT_THAT(Capture([&] {
                CUgraph graph = nullptr;
                EXPECT_EQ(
                    faulty_api().StreamEndCapture(lane().stream(), &graph),
                    CUDA_SUCCESS);
                EXPECT_EQ(faulty_api().GraphDestroy(graph), CUDA_SUCCESS);
                return absl::OkStatus();
              }),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("neither begin nor end")));
  ExpectUsable();
}

TEST_F(CaptureSessionTest, AForkThatIsNotJoinedIsTold) {
  ASSERT_OK_AND_ASSIGN(const Stream side, Stream::Create(context()));
  ASSERT_OK_AND_ASSIGN(const Event fork, Event::Create(context()));
  ASSERT_OK_AND_ASSIGN(const DeviceBuffer other,
                       DeviceBuffer::Allocate(context(), 64));
  const auto record = [&](bool join) {
    return Capture([&]() -> absl::Status {
      const DriverApi& driver = faulty_api();
      PERMAFROST_RETURN_IF_ERROR(
          CuStatus(driver.EventRecord(fork.get(), lane().stream()), "record"));
      PERMAFROST_RETURN_IF_ERROR(
          CuStatus(driver.StreamWaitEvent(side.get(), fork.get(), 0), "wait"));
      PERMAFROST_RETURN_IF_ERROR(CuStatus(
          driver.MemsetD8Async(other.get(), 1, 64, side.get()), "memset"));
      if (!join) return absl::OkStatus();
      PERMAFROST_RETURN_IF_ERROR(
          CuStatus(driver.EventRecord(fork.get(), side.get()), "record"));
      return CuStatus(driver.StreamWaitEvent(lane().stream(), fork.get(), 0),
                      "wait");
    });
  };
  EXPECT_THAT(record(false), StatusIs(absl::StatusCode::kFailedPrecondition,
                                      HasSubstr("was not joined")));
  ExpectUsable();
  EXPECT_OK(record(true));
}

TEST_F(CaptureSessionTest, ThreadLocalBearsAnotherThreadsAllocation) {
  EXPECT_OK(Capture([&] {
    std::thread other([&] {
      const Context::Scope scope = context()->MakeCurrent();
      EXPECT_OK(DeviceBuffer::Allocate(context(), 256));
    });
    other.join();
    return Fill(1);
  }));
}

TEST_F(CaptureSessionTest, GlobalIsBrokenByAnotherThreadsAllocation) {
  EXPECT_THAT(
      Capture(
          [&] {
            std::thread other([&] {
              const Context::Scope scope = context()->MakeCurrent();
              EXPECT_FALSE(Allocate().ok());
            });
            other.join();
            return absl::OkStatus();
          },
          CaptureMode::kGlobal),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("mode global"), HasSubstr("did not report"))));
  ExpectUsable();
}

TEST_F(CaptureSessionTest, AFailingEndStillLeavesCapture) {
  faulting().FailCall(1, CUDA_ERROR_UNKNOWN, "cuStreamEndCapture");
  EXPECT_THAT(
      Capture([&] { return Fill(1); }),
      StatusIs(absl::StatusCode::kInternal, HasSubstr("cuStreamEndCapture")));
  faulting().Disarm();
  ExpectUsable();
}

TEST_F(CaptureSessionTest, AFailingBeginIsNamed) {
  faulting().FailCall(1, CUDA_ERROR_UNKNOWN, "cuStreamBeginCapture");
  EXPECT_THAT(Capture([&] { return Fill(1); }),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("cuStreamBeginCapture"),
                             HasSubstr("lane 'decode'"))));
  faulting().Disarm();
  ExpectUsable();
}

TEST_F(CaptureSessionTest, TheFirstErrorIsTheOneReported) {
  faulting().FailCall(1, CUDA_ERROR_UNKNOWN, "cuStreamEndCapture");
  EXPECT_THAT(Capture([&] { return absl::DataLossError("first"); }),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("first"),
                             Not(HasSubstr("cuStreamEndCapture")))));
  faulting().Disarm();
  ExpectUsable();
}

}  // namespace
}  // namespace permafrost
