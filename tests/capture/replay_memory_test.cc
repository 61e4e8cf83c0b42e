// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// The verdict "addresses stable", the guards between buffers, and what a
// checker of memory must see.

#include <gtest/gtest.h>

#include "permafrost/driver/status.h"
#include "tests/capture/verifier_fixture.h"

namespace permafrost {
namespace {

using ::permafrost::testing::Floats;
using ::permafrost::testing::kBufferBytes;
using ::permafrost::testing::MakeScaleStep;
using ::permafrost::testing::VerifierTest;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ReplayMemoryTest : public VerifierTest {
 protected:
  // Puts other memory behind the arena's first segment, at the same addresses.
  void Remap() {
    const ArenaView view = arena().view();
    const PlannedSegment& segment = view.plan().segments()[0];
    const CUdeviceptr base = (view.base() + segment.offset_bytes).value();
    const auto bytes = static_cast<size_t>(segment.bytes);
    ASSERT_OK(lane().Drain());
    ASSERT_EQ(api().MemUnmap(base, bytes), CUDA_SUCCESS);
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = context()->device();
    CUmemGenericAllocationHandle handle = 0;
    ASSERT_EQ(api().MemCreate(&handle, bytes, &properties, 0), CUDA_SUCCESS);
    ASSERT_EQ(api().MemMap(base, bytes, 0, handle, 0), CUDA_SUCCESS);
    ASSERT_EQ(api().MemRelease(handle), CUDA_SUCCESS);
    CUmemAccessDesc access = {};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    ASSERT_EQ(api().MemSetAccess(base, bytes, &access, 1), CUDA_SUCCESS);
  }
};

TEST_F(ReplayMemoryTest, MemoryRemappedBeforeTheRunIsFound) {
  ASSERT_NO_FATAL_FAILURE(CaptureStepForVerifier(MakeScaleStep(kernels())));
  ASSERT_NO_FATAL_FAILURE(Remap());
  const VerifyReport report = Verify();
  EXPECT_FALSE(report.addresses_stable);
  EXPECT_FALSE(report.results_stable);
  EXPECT_EQ(report.replays, 0);
  EXPECT_TRUE(Has(report, VerifyFindingKind::kAddressChanged));
  EXPECT_THAT(report.first_difference, HasSubstr("'input'"));
}

// The addresses and even the results are as before: only the driver's block id
// tells.
TEST_F(ReplayMemoryTest, MemoryRemappedDuringTheRunIsFound) {
  ASSERT_NO_FATAL_FAILURE(CaptureStepForVerifier(MakeScaleStep(kernels())));
  int replays = 0;
  options().replay = [&](CapturedGraph& graph) {
    const absl::Status status = graph.Replay();
    if (++replays == 5) Remap();
    return status;
  };
  const VerifyReport report = Verify();
  EXPECT_FALSE(report.addresses_stable);
  EXPECT_EQ(report.replays, 5);
  ASSERT_TRUE(Has(report, VerifyFindingKind::kAddressChanged));
  EXPECT_THAT(report.first_difference, HasSubstr("replay 4"));
}

TEST_F(ReplayMemoryTest, AParameterChangedAfterCaptureIsFound) {
  ASSERT_NO_FATAL_FAILURE(CaptureStepForVerifier(MakeScaleStep(kernels())));
  size_t count = 2;
  CUgraphNode nodes[2] = {};
  ASSERT_EQ(api().GraphGetNodes(set()[1].graph(), nodes, &count), CUDA_SUCCESS);
  CUDA_KERNEL_NODE_PARAMS params = {};
  ASSERT_EQ(api().GraphKernelNodeGetParams(nodes[1], &params), CUDA_SUCCESS);
  CUdeviceptr dst = Buffer("input").base.value();
  CUdeviceptr src = Buffer("scratch").base.value();
  int32_t floats = 64;
  float factor = 3.0f;
  void* changed[] = {&dst, &src, &floats, &factor};
  params.kernelParams = changed;
  ASSERT_EQ(api().GraphKernelNodeSetParams(nodes[1], &params), CUDA_SUCCESS);

  const VerifyReport report = Verify();
  EXPECT_FALSE(report.addresses_stable);
  EXPECT_TRUE(report.results_stable);  // the executable graph is a snapshot
  ASSERT_EQ(report.findings.size(), 1u) << report.ToText();
  EXPECT_EQ(report.findings[0].kind, VerifyFindingKind::kNodeChanged);
  EXPECT_THAT(report.findings[0].message,
              AllOf(HasSubstr("graph of 4 rows"), HasSubstr("node 1 (k_scale)"),
                    HasSubstr("'dst'")));
}

TEST_F(ReplayMemoryTest, AWriteBehindABufferNamesIt) {
  const Step scale = MakeScaleStep(kernels());
  CaptureOptions options;
  options.policy.Allow(FindingKind::kOutOfRange);  // the audit would tell first
  ASSERT_NO_FATAL_FAILURE(CaptureStepForVerifier(
      [&](const StepContext& step) -> absl::Status {
        PERMAFROST_RETURN_IF_ERROR(CuStatus(
            api().MemsetD8Async(
                step.arena.Find("scratch")->base.value() + kBufferBytes, 0, 1,
                step.stream),
            "cuMemsetD8Async"));
        return scale(step);
      },
      /*guard_bytes=*/256, options));
  const VerifyReport report = Verify();
  EXPECT_FALSE(report.results_stable);
  EXPECT_TRUE(report.addresses_stable);
  EXPECT_TRUE(Has(report, VerifyFindingKind::kGuardDamaged, "scratch"));
  EXPECT_FALSE(Has(report, VerifyFindingKind::kGuardDamaged, "output"));
  EXPECT_THAT(report.first_difference,
              HasSubstr("byte 0 past the end of 'scratch' was written"));
}

TEST_F(ReplayMemoryTest, WithoutGuardsNoGapIsCompared) {
  ASSERT_NO_FATAL_FAILURE(CaptureStepForVerifier(MakeScaleStep(kernels())));
  const VerifyReport report = Verify();
  EXPECT_EQ(report.guard_bytes, 0);
  EXPECT_TRUE(report.results_stable) << report.ToText();
}

// The sum is right whatever the tail holds, but it was read: only a checker of
// undefined memory can tell.
TEST_F(ReplayMemoryTest, AReadOfUndefinedScratchIsADriverReport) {
  PERMAFROST_NEEDS_SOFTCUDA();
  ASSERT_NO_FATAL_FAILURE(
      CaptureStepForVerifier([&](const StepContext& step) -> absl::Status {
        PERMAFROST_RETURN_IF_ERROR(
            kernels().Scale(step.stream, step.arena.Find("state")->base,
                            step.arena.Find("scratch")->base, 1, 0.0f));
        return kernels().Scale(step.stream, step.arena.Find("output")->base,
                               step.arena.Find("input")->base,
                               Floats(step.bucket), 6.0f);
      }));
  soft()->SetQuiet(true);
  const VerifyReport report = Verify();
  EXPECT_FALSE(report.results_stable);
  ASSERT_TRUE(Has(report, VerifyFindingKind::kDriverReport));
  EXPECT_THAT(report.first_difference,
              AllOf(HasSubstr("k_scale"), HasSubstr("scratch")));
  options().use_softcuda_checks = false;
  EXPECT_TRUE(Verify().results_stable);
  soft()->SetQuiet(false);
}

}  // namespace
}  // namespace permafrost
