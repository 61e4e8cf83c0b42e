// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "check_fixture.h"

namespace softcuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class AccessLogTest : public CheckTest {
 protected:
  void SetUp() override {
    CheckTest::SetUp();
    softcuda_enable_racecheck(0);
    softcuda_enable_access_log(1);
  }
  void TearDown() override {
    softcuda_enable_access_log(0);
    TakeAccesses();
    CheckTest::TearDown();
  }
  static std::string TakeAccesses() {
    std::string text(softcuda_take_accesses(nullptr, 0), '\0');
    if (!text.empty()) softcuda_take_accesses(text.data(), text.size());
    return text;
  }
};

TEST_F(AccessLogTest, EachBufferOfAKernelHasALine) {
  Add(stream_, a_ + 64, b_, 100);
  EXPECT_OK(cuStreamSynchronize(stream_));
  const std::string lines = TakeAccesses();
  EXPECT_THAT(lines, HasSubstr("\"kernel\":\"k_add\""));
  EXPECT_THAT(lines, HasSubstr("\"buffer_bytes\":1024,\"read_bytes\":400,"
                               "\"read_begin\":64,\"read_end\":464,"
                               "\"write_bytes\":0"));
  EXPECT_THAT(lines, HasSubstr("\"read_bytes\":0,\"read_begin\":0,"
                               "\"read_end\":0,\"write_bytes\":400,"
                               "\"write_begin\":0,\"write_end\":400}"));
}

TEST_F(AccessLogTest, BytesCountOnce) {
  void* params[] = {&a_, &b_};
  EXPECT_OK(cuLaunchKernel(Function("k_read_only_sharing"), 2, 1, 1, 128, 1, 1,
                           0, stream_, params, nullptr));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_THAT(TakeAccesses(), HasSubstr("\"read_bytes\":128,"));
}

TEST_F(AccessLogTest, CopiesAndMemsetsOfGraphsHaveLines) {
  CaptureAndRun([&] {
    EXPECT_OK(cuMemsetD32Async(a_, 1, 16, stream_));
    EXPECT_OK(cuMemcpyDtoDAsync(b_ + 8, a_, 32, stream_));
  });
  EXPECT_THAT(
      TakeAccesses(),
      AllOf(HasSubstr("\"what\":\"memset\""), HasSubstr("\"what\":\"copy\""),
            HasSubstr("\"write_bytes\":64,"),
            HasSubstr("\"write_bytes\":32,\"write_begin\":8,\"write_end\":40"),
            HasSubstr("graph node 1")));
}

TEST_F(AccessLogTest, OffItKeepsNothing) {
  softcuda_enable_access_log(0);
  Add(stream_, a_, b_);
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(TakeAccesses(), "");
}

}  // namespace
}  // namespace softcuda
