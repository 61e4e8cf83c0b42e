// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// The whole path, from the arena to the last destroy, with the n-th driver call
// failing, for every n: the first error is kept and nothing is left behind.

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

#include "permafrost/driver/faulting_driver.h"
#include "permafrost/driver/status.h"
#include "tests/capture/capture_fixture.h"
#include "tests/support/unreported_calls.h"

namespace permafrost {
namespace {

using ::permafrost::testing::MakeScaleStep;
using ::permafrost::testing::MakeTestPlan;
using ::permafrost::testing::TestKernels;

using DriverFaultsTest = testing::DriverTest;

// Errors that only the end of the path can give; a caller tries those again.
absl::Status DestroyAll(GraphSet& set, FrozenArena& arena) {
  absl::Status first = set.Destroy();
  if (!first.ok() && !set.Destroy().ok()) return first;
  const absl::Status released = arena.Release();
  if (first.ok()) first = released;
  if (!released.ok()) arena.Release().IgnoreError();
  return first;
}

// Calls `after_statements` before the destructors, when the path got that far.
absl::Status RunPath(const DriverRef& driver,
                     const std::function<void()>& after_statements) {
  PERMAFROST_ASSIGN_OR_RETURN(const ContextRef context,
                              Context::RetainPrimary(driver));
  const Context::Scope scope = context->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  PERMAFROST_ASSIGN_OR_RETURN(const Lane lane, Lane::Create(context, "decode"));
  PERMAFROST_ASSIGN_OR_RETURN(const TestKernels kernels,
                              TestKernels::Load(context));
  PERMAFROST_ASSIGN_OR_RETURN(Arena arena,
                              Arena::Create(context, MakeTestPlan()));
  PERMAFROST_ASSIGN_OR_RETURN(
      const WarmSet warm,
      WarmUp(arena, lane, MakeScaleStep(kernels), {{2}, {8}}));
  PERMAFROST_ASSIGN_OR_RETURN(FrozenArena frozen, std::move(arena).Freeze());
  CaptureOptions options;
  options.signatures = &kernels.signatures();
  options.verify_capture_ran_nothing = true;
  PERMAFROST_ASSIGN_OR_RETURN(GraphSet set,
                              CaptureAll(frozen, warm, lane, options));
  PERMAFROST_RETURN_IF_ERROR(set[0].Replay());
  PERMAFROST_RETURN_IF_ERROR(set[1].Replay());
  PERMAFROST_RETURN_IF_ERROR(set[0].VerifyNodes());
  PERMAFROST_RETURN_IF_ERROR(lane.Drain());
  const absl::Status destroyed = DestroyAll(set, frozen);
  after_statements();
  return destroyed;
}

TEST_F(DriverFaultsTest, EveryCallOfThePathMayFail) {
  PERMAFROST_NEEDS_SOFTCUDA();
  const auto faulting = FaultingDriver::Wrap(driver());
  int64_t statement_calls = 0;
  ASSERT_OK(RunPath(faulting->driver(),
                    [&] { statement_calls = faulting->calls(); }));
  const int64_t live_bytes = soft()->live_bytes();
  const int64_t live_handles = soft()->live_handles();

  std::set<std::string> failed_entries;
  int64_t n = 1;
  for (;; ++n) {
    faulting->FailCall(n, CUDA_ERROR_UNKNOWN);
    const absl::Status status = RunPath(faulting->driver(), [] {});
    const std::string failed = faulting->last_failed_call();
    faulting->Disarm();
    if (failed.empty()) {
      EXPECT_OK(status);
      break;
    }
    failed_entries.insert(failed);
    Arena::ReclaimAbandoned().IgnoreError();
    EXPECT_EQ(soft()->live_bytes(), live_bytes)
        << "call " << n << ", " << failed << ": " << status;
    ASSERT_EQ(soft()->live_handles(), live_handles)
        << "call " << n << ", " << failed << ": " << status;
    if (status.ok()) {
      EXPECT_TRUE(testing::MayGoUnreported(n, failed, statement_calls))
          << "call " << n << " of " << statement_calls << ": " << failed;
    } else {
      EXPECT_EQ(CuCallOf(status), failed) << "call " << n << ": " << status;
    }
  }
  EXPECT_GT(n, 100);
  for (const char* entry :
       {"cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphLaunch",
        "cuGraphUpload", "cuGraphExecDestroy", "cuGraphDestroy",
        "cuGraphKernelNodeGetParams", "cuLaunchKernel", "cuMemMap"}) {
    EXPECT_TRUE(failed_entries.count(entry)) << entry;
  }
}

}  // namespace
}  // namespace permafrost
