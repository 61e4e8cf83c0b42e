// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Each planted fault is found, and the sound kernel in its place is silent.

#include "permafrost/kernels/planted_faults.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "moe_layer_fixture.h"
#include "permafrost/arena/moe_fp8_layout.h"
#include "permafrost/arena/moe_routing_layout.h"

namespace permafrost::kernels::testing {
namespace {

using planted::LoadWithFault;
using planted::PlantedKernelFault;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PlantedFaultsTest : public MoeLayerTest {
 protected:
  void SetUp() override {
    MoeLayerTest::SetUp();
    if (HasFatalFailure()) return;
    absl::StatusOr<MoeLayerSetup> setup = MoeLayerSetup::Create(
        context(), TinyMoeConfig(128, 64, 256, 2), 2, kRows);
    ASSERT_OK(setup);
    setup_.emplace(*std::move(setup));
  }

  // One layer over undefined scratch, in the test's mode.
  void RunLayer(const MoeKernels& kernels, bool is_empty) {
    TestData data(30);
    const MoeLayerInput input = MakeLayerInput(
        data, setup_->shape, kRows, [is_empty](int64_t) { return is_empty; });
    const MoeLayerResult want = Oracle(*setup_, input);
    ASSERT_OK(Run(
        GetParam(),
        [&](CUstream s) -> absl::Status {
          PERMAFROST_ASSIGN_OR_RETURN(
              const MoeFp8Layout layout,
              MoeFp8Layout::ForRows(setup_->config, kRows));
          PERMAFROST_ASSIGN_OR_RETURN(
              const MoeRoutingLayout routing_layout,
              MoeRoutingLayout::ForRows(setup_->config, kRows));
          return EnqueueMoeLayer(kernels, s, setup_->buffers, setup_->shape,
                                 setup_->weights, layout, routing_layout, kRows,
                                 setup_->logits.ptr(), setup_->layer_in.ptr(),
                                 setup_->layer_out.ptr());
        },
        [&] {
          PERMAFROST_RETURN_IF_ERROR(PoisonAll(*setup_, 0x00));
          return Upload(*setup_, input);
        },
        [&] { ExpectOutput(*setup_, input, want); }));
  }

  static constexpr int64_t kRows = 16;
  std::optional<MoeLayerSetup> setup_;
};

TEST_P(PlantedFaultsTest, SoundKernelsAreSilent) {
  PERMAFROST_NEEDS_SOFTCUDA();
  RunLayer(kernels(), false);
  RunLayer(kernels(), true);
  EXPECT_THAT(TakeReports(), IsEmpty());
}

TEST_P(PlantedFaultsTest, InitcheckSeesAConsumerReadPastTheTotal) {
  PERMAFROST_NEEDS_SOFTCUDA();
  ASSERT_OK_AND_ASSIGN(
      const MoeKernels faulty,
      LoadWithFault(context(), PlantedKernelFault::kConsumerReadsPastTotal));
  for (bool is_empty : {false, true}) {
    // The results are right all the same: only a checker can see it.
    RunLayer(faulty, is_empty);
    const std::vector<std::string> reports = TakeReports();
    EXPECT_THAT(reports, Contains(AllOf(HasSubstr("initcheck"),
                                        HasSubstr("moe_gemm_gate_up"),
                                        HasSubstr("moe_fp8_scratch"))));
    EXPECT_THAT(reports, Contains(AllOf(HasSubstr("initcheck"),
                                        HasSubstr("moe_gemm_down"),
                                        HasSubstr("moe_fp8_scratch"))));
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, PlantedFaultsTest, AllModes(), ModeParamName);

// Faults of one kernel, run on its own.
class PlantedKernelTest : public PlantedFaultsTest {};

TEST_P(PlantedKernelTest, ABuilderThatSkipsAnEmptyTotalLeavesTheOldOne) {
  ASSERT_OK_AND_ASSIGN(
      const MoeKernels faulty,
      LoadWithFault(context(), PlantedKernelFault::kBuilderSkipsEmptyTotal));
  const Context::Scope scope = context()->MakeCurrent();
  ASSERT_OK(scope.status());
  ASSERT_OK_AND_ASSIGN(const MoeFp8Layout layout,
                       MoeFp8Layout::ForRows(setup_->config, kRows));
  ASSERT_OK_AND_ASSIGN(const MoeRoutingLayout routing_layout,
                       MoeRoutingLayout::ForRows(setup_->config, kRows));
  const WorklistArgs args = {.layout = layout,
                             .slab = setup_->buffers.moe_fp8_scratch.base,
                             .routing_layout = routing_layout,
                             .routing = setup_->buffers.moe_routing.base,
                             .rows = kRows,
                             .experts = 256,
                             .topk = 2,
                             .width = 64};
  const auto totals = [&](const MoeKernels& kernels,
                          int32_t id) -> absl::StatusOr<std::vector<int32_t>> {
    PERMAFROST_RETURN_IF_ERROR(PoisonAll(*setup_, 0x01));
    const std::vector<int32_t> ids(kRows * 2, id);
    PERMAFROST_RETURN_IF_ERROR(
        CopyToDevice(*context(), args.routing + routing_layout.topk_ids,
                     ids.data(), static_cast<int64_t>(ids.size() * 4)));
    PERMAFROST_RETURN_IF_ERROR(kernels.BuildWorklist(stream(), args));
    PERMAFROST_RETURN_IF_ERROR(
        CuStatus(api().StreamSynchronize(stream()), "cuStreamSynchronize"));
    std::vector<int32_t> result(2);
    PERMAFROST_RETURN_IF_ERROR(CuStatus(
        api().MemcpyDtoH(&result[0], (args.slab + layout.counter).value(), 4),
        "cuMemcpyDtoH"));
    PERMAFROST_RETURN_IF_ERROR(
        CuStatus(api().MemcpyDtoH(
                     &result[1], (args.slab + layout.small_counter).value(), 4),
                 "cuMemcpyDtoH"));
    return result;
  };
  using Totals = std::vector<int32_t>;
  EXPECT_EQ(*totals(kernels(), -1), (Totals{0, 0}));
  EXPECT_EQ(*totals(faulty, -1), (Totals{0x01010101, 0x01010101}));
  // 32 rows of one expert are one tile of the big list.
  EXPECT_EQ(*totals(kernels(), 5), (Totals{1, 0}));
  EXPECT_EQ(*totals(faulty, 5), (Totals{1, 0x01010101}));
}

// Last: the fault ends the launch, and the context is of no use after it.
TEST_P(PlantedKernelTest, MemcheckSeesABuilderWriteBehindTheSlab) {
  PERMAFROST_NEEDS_SOFTCUDA();
  ASSERT_OK_AND_ASSIGN(
      const MoeKernels faulty,
      LoadWithFault(context(), PlantedKernelFault::kBuilderWritesPastBuffer));
  const Context::Scope scope = context()->MakeCurrent();
  ASSERT_OK(scope.status());
  ASSERT_OK_AND_ASSIGN(const MoeFp8Layout layout,
                       MoeFp8Layout::ForRows(setup_->config, kRows));
  ASSERT_OK_AND_ASSIGN(const MoeRoutingLayout routing_layout,
                       MoeRoutingLayout::ForRows(setup_->config, kRows));
  ASSERT_EQ(layout.bytes, setup_->buffers.moe_fp8_scratch.bytes);
  const WorklistArgs args = {.layout = layout,
                             .slab = setup_->buffers.moe_fp8_scratch.base,
                             .routing_layout = routing_layout,
                             .routing = setup_->buffers.moe_routing.base,
                             .rows = kRows,
                             .experts = 256,
                             .topk = 2,
                             .width = 64};
  const auto enqueue = [&](const MoeKernels& kernels) -> absl::Status {
    const std::vector<int32_t> ids(kRows * 2, 5);
    PERMAFROST_RETURN_IF_ERROR(
        CopyToDevice(*context(), args.routing + routing_layout.topk_ids,
                     ids.data(), static_cast<int64_t>(ids.size() * 4)));
    PERMAFROST_RETURN_IF_ERROR(kernels.BuildWorklist(stream(), args));
    return CuStatus(api().StreamSynchronize(stream()), "cuStreamSynchronize");
  };
  EXPECT_OK(enqueue(kernels()));
  EXPECT_THAT(TakeReports(), IsEmpty());
  EXPECT_FALSE(enqueue(faulty).ok());
  EXPECT_THAT(
      TakeReports(),
      Contains(AllOf(HasSubstr("memcheck"), HasSubstr("moe_build_worklist"),
                     HasSubstr("moe_fp8_scratch"))));
}

INSTANTIATE_TEST_SUITE_P(Modes, PlantedKernelTest,
                         ::testing::Values(LaunchMode::kEager), ModeParamName);

}  // namespace
}  // namespace permafrost::kernels::testing
