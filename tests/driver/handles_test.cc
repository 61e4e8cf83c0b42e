// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "permafrost/driver/handles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <utility>

#include "permafrost/driver/faulting_driver.h"
#include "tests/support/soft_driver.h"
#include "tests/support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A context whose driver calls can be made to fail.
class HandlesTest : public ::permafrost::testing::DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    if (HasFatalFailure()) return;
    faulting_ = FaultingDriver::Wrap(driver());
    ASSERT_OK_AND_ASSIGN(faulty_, Context::RetainPrimary(faulting_->driver()));
    handles_before_ = LiveHandles();
  }
  void TearDown() override {
    if (faulting_ != nullptr) faulting_->Disarm();
    EXPECT_EQ(LiveHandles(), handles_before_) << "something was left behind";
  }

  int64_t LiveHandles() const {
    return soft().has_value() ? soft()->live_handles() : 0;
  }

  // `make` makes an owner; its object must survive a failed destroy, and go at
  // the second try.
  template <typename Make>
  void ExpectDestroyCanBeRetried(Make make, const char* call) {
    ASSERT_OK_AND_ASSIGN(auto handle, make());
    EXPECT_TRUE(handle);
    const auto raw = handle.get();
    faulting_->FailCall(1, CUDA_ERROR_UNKNOWN, call);
    EXPECT_THAT(handle.Destroy(),
                StatusIs(absl::StatusCode::kInternal, HasSubstr(call)));
    EXPECT_EQ(handle.get(), raw);
    EXPECT_OK(handle.Destroy());
    EXPECT_FALSE(handle);
    const int64_t calls = faulting_->calls();
    EXPECT_OK(handle.Destroy());
    EXPECT_EQ(faulting_->calls(), calls) << "an empty owner calls the driver";
  }

  std::unique_ptr<FaultingDriver> faulting_;
  ContextRef faulty_;
  int64_t handles_before_ = 0;
};

TEST_F(HandlesTest, AFailedDestroyKeepsTheObjectForAnotherTry) {
  ExpectDestroyCanBeRetried([this] { return Stream::Create(faulty_); },
                            "cuStreamDestroy");
  ExpectDestroyCanBeRetried([this] { return Event::Create(faulty_); },
                            "cuEventDestroy");
  ExpectDestroyCanBeRetried(
      [this] { return PinnedBuffer::Allocate(faulty_, 4096); },
      "cuMemFreeHost");
  ExpectDestroyCanBeRetried(
      [this] { return DeviceBuffer::Allocate(faulty_, 4096); }, "cuMemFree");
}

TEST_F(HandlesTest, TheDestructorTriesTwice) {
  ASSERT_OK_AND_ASSIGN(Stream stream, Stream::Create(faulty_));
  faulting_->FailCall(1, CUDA_ERROR_UNKNOWN, "cuStreamDestroy");
  { const Stream gone = std::move(stream); }
  EXPECT_EQ(faulting_->last_failed_call(), "cuStreamDestroy");
  EXPECT_EQ(faulting_->calls("cuStreamDestroy"), 2);
}

TEST_F(HandlesTest, MovingLeavesAnEmptyOwnerAndOneObject) {
  ASSERT_OK_AND_ASSIGN(Event a, Event::Create(faulty_));
  const CUevent raw = a.get();
  Event b = std::move(a);
  EXPECT_EQ(b.get(), raw);
  EXPECT_FALSE(a);  // NOLINT(bugprone-use-after-move): what moving left
  ASSERT_OK_AND_ASSIGN(Event c, Event::Create(faulty_));
  faulting_->ResetCounts();
  c = std::move(b);
  EXPECT_EQ(faulting_->calls("cuEventDestroy"), 1);
  EXPECT_EQ(c.get(), raw);
}

TEST_F(HandlesTest, DestroyingWorksWithNoContextCurrent) {
  ASSERT_OK_AND_ASSIGN(DeviceBuffer buffer,
                       DeviceBuffer::Allocate(faulty_, 4096));
  CUcontext current = nullptr;
  ASSERT_EQ(api().CtxGetCurrent(&current), CUDA_SUCCESS);
  ASSERT_EQ(current, nullptr);
  EXPECT_OK(buffer.Destroy());
}

TEST_F(HandlesTest, GraphsAreAdoptedInstantiatedAndDestroyed) {
  CUgraph raw = nullptr;
  ASSERT_EQ(api().GraphCreate(&raw, 0), CUDA_SUCCESS);
  Graph graph = Graph::Adopt(faulty_, raw);
  EXPECT_EQ(graph.get(), raw);
  ASSERT_OK_AND_ASSIGN(GraphExec exec,
                       GraphExec::Instantiate(faulty_, graph.get()));
  EXPECT_TRUE(exec);
  EXPECT_OK(exec.Destroy());
  EXPECT_OK(graph.Destroy());
  EXPECT_FALSE(Graph::Adopt(faulty_, nullptr));
}

TEST_F(HandlesTest, AFailedInstantiationSaysSo) {
  faulting_->FailCall(1, CUDA_ERROR_OUT_OF_MEMORY,
                      "cuGraphInstantiateWithParams");
  EXPECT_THAT(GraphExec::Instantiate(faulty_, nullptr),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("cuGraphInstantiateWithParams")));
}

TEST_F(HandlesTest, BuffersHoldWhatTheySay) {
  ASSERT_OK_AND_ASSIGN(PinnedBuffer host, PinnedBuffer::Allocate(faulty_, 512));
  ASSERT_OK_AND_ASSIGN(DeviceBuffer device,
                       DeviceBuffer::Allocate(faulty_, 512));
  EXPECT_EQ(host.bytes(), 512);
  EXPECT_EQ(device.bytes(), 512);
  ASSERT_OK_AND_ASSIGN(Stream stream, Stream::Create(faulty_));
  std::memset(host.data(), 0x5a, 512);
  {
    const Context::Scope scope = faulty_->MakeCurrent();
    ASSERT_EQ(api().MemcpyHtoDAsync(device.ptr().value(), host.data(), 512,
                                    stream.get()),
              CUDA_SUCCESS);
    ASSERT_OK(stream.Synchronize());
    std::memset(host.data(), 0, 512);
    ASSERT_EQ(api().MemcpyDtoHAsync(host.data(), device.ptr().value(), 512,
                                    stream.get()),
              CUDA_SUCCESS);
  }
  ASSERT_OK(stream.Synchronize());
  EXPECT_EQ(std::to_integer<int>(host.data()[511]), 0x5a);
}

TEST_F(HandlesTest, SizesBelowOneAreRefusedWithoutADriverCall) {
  faulting_->ResetCounts();
  EXPECT_THAT(
      DeviceBuffer::Allocate(faulty_, 0),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("got 0 bytes")));
  EXPECT_THAT(
      PinnedBuffer::Allocate(faulty_, -5),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("got -5 bytes")));
  EXPECT_EQ(faulting_->calls(), 0);
}

TEST_F(HandlesTest, RunningOutOfMemoryNamesTheBytes) {
  EXPECT_THAT(DeviceBuffer::Allocate(faulty_, int64_t{1} << 60),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("1152921504606846976 bytes"),
                             HasSubstr("cuMemAlloc"))));
}

TEST_F(HandlesTest, AnImageThatIsNoneIsRefused) {
  EXPECT_THAT(Module::Load(faulty_, nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Module::Load(faulty_, "this is neither PTX nor a fatbin"),
              Not(::permafrost::testing::IsOk()));
}

TEST_F(HandlesTest, AModulesFunctionsAreFoundByName) {
  constexpr char kPtx[] =
      ".version 8.0\n.target sm_80\n.address_size 64\n"
      ".visible .entry nothing()\n{\n  ret;\n}\n";
  ASSERT_OK_AND_ASSIGN(const Module module, Module::Load(faulty_, kPtx));
  ASSERT_OK_AND_ASSIGN(const CUfunction function, module.Function("nothing"));
  EXPECT_NE(function, nullptr);
  EXPECT_THAT(module.Function("absent"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("absent")));
}

}  // namespace
}  // namespace permafrost
