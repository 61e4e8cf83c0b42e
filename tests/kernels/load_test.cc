// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "permafrost/driver/faulting_driver.h"
#include "permafrost/driver/softcuda_control.h"
#include "permafrost/kernels/image.h"
#include "permafrost/kernels/moe_kernels.h"
#include "soft_driver.h"
#include "status_matchers.h"

namespace permafrost::kernels::testing {
namespace {

using ::permafrost::testing::DriverTest;
using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

class LoadTest : public DriverTest {};

TEST_F(LoadTest, EveryFailingCallIsReportedAndLeaksNothing) {
  const std::unique_ptr<FaultingDriver> faults = FaultingDriver::Wrap(driver());
  ASSERT_OK_AND_ASSIGN(const ContextRef faulty,
                       Context::RetainPrimary(faults->driver()));
  faults->ResetCounts();
  int64_t calls = 0;
  {
    ASSERT_OK_AND_ASSIGN(const MoeKernels kernels, MoeKernels::Load(faulty));
    calls = faults->calls();  // without those that unload it again
  }
  ASSERT_GT(calls, 10);
  const int64_t live = soft() ? soft()->live_handles() : 0;
  for (int64_t nth = 1; nth <= calls; ++nth) {
    faults->FailCall(nth);
    const absl::Status status = MoeKernels::Load(faulty).status();
    faults->Disarm();
    const std::string failed = faults->last_failed_call();
    SCOPED_TRACE(::testing::Message() << "call " << nth << ": " << failed);
    if (failed == "cuCtxPopCurrent") {
      // The work is done by then, and there is nobody to tell.
      EXPECT_OK(status);
    } else {
      EXPECT_THAT(status.message(), HasSubstr(failed));
    }
    if (soft()) {
      EXPECT_EQ(soft()->live_handles(), live);
    }
  }
  EXPECT_OK(MoeKernels::Load(faulty));
}

TEST_F(LoadTest, ADeviceWithoutAnImageIsNamed) {
  const std::unique_ptr<FaultingDriver> faults = FaultingDriver::Wrap(driver());
  ASSERT_OK_AND_ASSIGN(const ContextRef faulty,
                       Context::RetainPrimary(faults->driver()));
  faults->FailCall(1, CUDA_ERROR_NO_BINARY_FOR_GPU, "cuModuleLoadData");
  EXPECT_THAT(MoeKernels::Load(faulty),
              StatusIs(absl::StatusCode::kUnimplemented,
                       AllOf(HasSubstr("compute_90"),
                             HasSubstr("device of architecture sm_"))));
}

TEST_F(LoadTest, TheImageIsAFatbinFollowedByANul) {
  const absl::Span<const unsigned char> image = MoeImage();
  ASSERT_GT(image.size(), 100000U);
  EXPECT_EQ(image[0], 0x50);
  EXPECT_EQ(image[1], 0xed);
  EXPECT_EQ(image[2], 0x55);
  EXPECT_EQ(image[3], 0xba);
  EXPECT_EQ(*(image.data() + image.size()), 0);
}

}  // namespace
}  // namespace permafrost::kernels::testing
