// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "permafrost/driver/context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "permafrost/driver/faulting_driver.h"
#include "tests/support/soft_driver.h"
#include "tests/support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::StatusIs;
using ::testing::HasSubstr;

class ContextTest : public ::permafrost::testing::DriverTest {
 protected:
  CUcontext Current() const {
    CUcontext current = nullptr;
    EXPECT_EQ(api().CtxGetCurrent(&current), CUDA_SUCCESS);
    return current;
  }
};

TEST_F(ContextTest, RetainingDoesNotMakeItCurrent) {
  EXPECT_NE(context()->get(), nullptr);
  EXPECT_EQ(Current(), nullptr);
}

TEST_F(ContextTest, ScopesNestAndPutTheOneBeforeBack) {
  {
    const Context::Scope outer = context()->MakeCurrent();
    EXPECT_OK(outer.status());
    EXPECT_EQ(Current(), context()->get());
    {
      const Context::Scope inner = context()->MakeCurrent();
      EXPECT_EQ(Current(), context()->get());
    }
    EXPECT_EQ(Current(), context()->get());
  }
  EXPECT_EQ(Current(), nullptr);
}

TEST_F(ContextTest, AFailedPushIsTheStatusAndPopsNothing) {
  const auto faulting = FaultingDriver::Wrap(driver());
  ASSERT_OK_AND_ASSIGN(const ContextRef faulty,
                       Context::RetainPrimary(faulting->driver()));
  const Context::Scope outer = context()->MakeCurrent();
  faulting->FailCall(1, CUDA_ERROR_INVALID_CONTEXT, "cuCtxPushCurrent");
  {
    const Context::Scope scope = faulty->MakeCurrent();
    EXPECT_THAT(scope.status(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                         HasSubstr("cuCtxPushCurrent")));
  }
  EXPECT_EQ(Current(), context()->get());
}

TEST_F(ContextTest, TellsTheDevice) {
  ASSERT_OK_AND_ASSIGN(const std::string name, context()->DeviceName());
  EXPECT_NE(name, "");
  ASSERT_OK_AND_ASSIGN(const int64_t total, context()->TotalMemoryBytes());
  ASSERT_OK_AND_ASSIGN(const int64_t free, context()->FreeMemoryBytes());
  EXPECT_GT(free, 0);
  EXPECT_LE(free, total);
  EXPECT_GE(context()->compute_capability(), 80);
}

TEST_F(ContextTest, OrdinalOutOfRangeIsRefusedWithTheLimit) {
  EXPECT_THAT(Context::RetainPrimary(driver(), 1000),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("got 1000, limit")));
  EXPECT_THAT(Context::RetainPrimary(driver(), -1),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(ContextTest, EveryFailingCallOfRetainIsReportedByName) {
  const auto faulting = FaultingDriver::Wrap(driver());
  int64_t n = 1;
  for (;; ++n) {
    faulting->FailCall(n, CUDA_ERROR_UNKNOWN);
    const absl::StatusOr<ContextRef> retained =
        Context::RetainPrimary(faulting->driver());
    const std::string failed = faulting->last_failed_call();
    faulting->Disarm();
    if (failed.empty()) {
      EXPECT_OK(retained);
      break;
    }
    EXPECT_THAT(retained,
                StatusIs(absl::StatusCode::kInternal, HasSubstr(failed)));
  }
  EXPECT_GT(n, 4);
}

}  // namespace
}  // namespace permafrost
