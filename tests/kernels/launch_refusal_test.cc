// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Launchers refuse bad arguments by field, before anything is enqueued. The
// addresses are invented: a launch that got through would be seen.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernel_fixture.h"
#include "permafrost/arena/moe_fp8_layout.h"
#include "permafrost/arena/moe_routing_layout.h"

namespace permafrost::kernels::testing {
namespace {

using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr DevicePtr kSomewhere(0x7000000000);
constexpr DevicePtr kOdd(0x7000000001);

class LaunchRefusalTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (HasFatalFailure()) return;
    executed_before_ = soft() ? soft()->kernels_executed() : 0;
  }

  void TearDown() override {
    ASSERT_OK(Synchronize());
    if (soft()) {
      EXPECT_EQ(soft()->kernels_executed(), executed_before_);
    }
    KernelTest::TearDown();
  }

  // One wrong field of otherwise good arguments.
  template <typename Args>
  struct Wrong {
    const char* field;
    std::function<void(Args&)> spoil;
  };

  template <typename Args>
  void ExpectRefused(const char* kernel, const Args& good,
                     const std::function<absl::Status(const Args&)>& launch,
                     const std::vector<Wrong<Args>>& wrongs) {
    for (const Wrong<Args>& wrong : wrongs) {
      SCOPED_TRACE(wrong.field);
      Args args = good;
      wrong.spoil(args);
      EXPECT_THAT(launch(args),
                  StatusIs(absl::StatusCode::kInvalidArgument,
                           AllOf(HasSubstr(kernel), HasSubstr(wrong.field),
                                 HasSubstr("got"))));
    }
  }

  static constexpr int64_t kHuge = INT64_MAX;

 private:
  int64_t executed_before_ = 0;
};

TEST_F(LaunchRefusalTest, TopK) {
  const TopKArgs good = {.logits = kSomewhere,
                         .topk_ids = kSomewhere,
                         .topk_weights = kSomewhere,
                         .rows = 4,
                         .experts = 8,
                         .topk = 2};
  ExpectRefused<TopKArgs>(
      "moe_topk", good,
      [&](const TopKArgs& args) { return kernels().TopK(stream(), args); },
      {{"rows", [](TopKArgs& a) { a.rows = 0; }},
       {"rows", [](TopKArgs& a) { a.rows = kMaxRows + 1; }},
       {"rows", [](TopKArgs& a) { a.rows = kHuge; }},
       {"experts", [](TopKArgs& a) { a.experts = kMaxExperts + 1; }},
       {"experts", [](TopKArgs& a) { a.experts = -1; }},
       {"topk", [](TopKArgs& a) { a.topk = 9; }},
       {"topk", [](TopKArgs& a) { a.topk = 0; }},
       {"topk",
        [](TopKArgs& a) {
          a.experts = 64;
          a.topk = kMaxTopK + 1;
        }},
       {"logits", [](TopKArgs& a) { a.logits = DevicePtr(); }},
       {"logits", [](TopKArgs& a) { a.logits = kOdd; }},
       {"topk_ids", [](TopKArgs& a) { a.topk_ids = kOdd; }},
       {"topk_weights", [](TopKArgs& a) { a.topk_weights = DevicePtr(); }}});
}

TEST_F(LaunchRefusalTest, Quantize) {
  const QuantizeArgs good = {.input = kSomewhere,
                             .output = kSomewhere,
                             .scales = kSomewhere,
                             .live_rows = DevicePtr(),
                             .rows = 4,
                             .columns = 64};
  ExpectRefused<QuantizeArgs>(
      "quantize_bf16", good,
      [&](const QuantizeArgs& args) {
        return kernels().QuantizeBf16(stream(), args);
      },
      {{"rows", [](QuantizeArgs& a) { a.rows = 0; }},
       {"rows", [](QuantizeArgs& a) { a.rows = kHuge; }},
       {"columns", [](QuantizeArgs& a) { a.columns = 72; }},
       {"columns", [](QuantizeArgs& a) { a.columns = 0; }},
       {"columns", [](QuantizeArgs& a) { a.columns = kHuge; }},
       {"input", [](QuantizeArgs& a) { a.input = kSomewhere + 8; }},
       {"output", [](QuantizeArgs& a) { a.output = kSomewhere + 4; }},
       {"scales", [](QuantizeArgs& a) { a.scales = kOdd; }},
       {"live_rows", [](QuantizeArgs& a) { a.live_rows = kSomewhere; }}});
  ExpectRefused<QuantizeArgs>(
      "quantize_f32", good,
      [&](const QuantizeArgs& args) {
        return kernels().QuantizeF32(stream(), args);
      },
      {{"live_rows", [](QuantizeArgs&) {}},
       {"live_rows", [](QuantizeArgs& a) { a.live_rows = kOdd; }}});
}

TEST_F(LaunchRefusalTest, SwiGluAndCombine) {
  const SwiGluArgs swiglu = {.gate = kSomewhere,
                             .up = kSomewhere,
                             .live_rows = kSomewhere,
                             .rows = 4,
                             .topk = 2,
                             .width = 64};
  ExpectRefused<SwiGluArgs>(
      "moe_swiglu", swiglu,
      [&](const SwiGluArgs& args) { return kernels().SwiGlu(stream(), args); },
      {{"rows", [](SwiGluArgs& a) { a.rows = kHuge; }},
       {"topk", [](SwiGluArgs& a) { a.topk = 11; }},
       {"width", [](SwiGluArgs& a) { a.width = 60; }},
       {"gate", [](SwiGluArgs& a) { a.gate = kSomewhere + 4; }},
       {"up", [](SwiGluArgs& a) { a.up = DevicePtr(); }},
       {"live_rows", [](SwiGluArgs& a) { a.live_rows = kOdd; }}});
  const CombineArgs combine = {.residual = kSomewhere,
                               .down = kSomewhere,
                               .inverse = kSomewhere,
                               .weights = kSomewhere,
                               .out = kSomewhere,
                               .rows = 4,
                               .topk = 2,
                               .hidden = 64};
  ExpectRefused<CombineArgs>(
      "moe_combine", combine,
      [&](const CombineArgs& args) {
        return kernels().Combine(stream(), args);
      },
      {{"rows", [](CombineArgs& a) { a.rows = -4; }},
       {"topk", [](CombineArgs& a) { a.topk = 0; }},
       {"hidden", [](CombineArgs& a) { a.hidden = 8; }},
       {"residual", [](CombineArgs& a) { a.residual = kSomewhere + 2; }},
       {"down", [](CombineArgs& a) { a.down = DevicePtr(); }},
       {"inverse", [](CombineArgs& a) { a.inverse = kOdd; }},
       {"weights", [](CombineArgs& a) { a.weights = kOdd; }},
       {"out", [](CombineArgs& a) { a.out = kSomewhere + 8; }}});
}

// Layouts of one model, eight rows of 128 x 64, four experts of 256.
class ListRefusalTest : public LaunchRefusalTest {
 protected:
  void SetUp() override {
    LaunchRefusalTest::SetUp();
    if (HasFatalFailure()) return;
    const ModelConfig config = TinyMoeConfig(128, 64, 256, 4);
    ASSERT_OK_AND_ASSIGN(list_.layout, MoeFp8Layout::ForRows(config, 8));
    ASSERT_OK_AND_ASSIGN(list_.routing_layout,
                         MoeRoutingLayout::ForRows(config, 8));
    list_.slab = kSomewhere;
    list_.routing = kSomewhere;
    list_.rows = 8;
    list_.experts = 256;
    list_.topk = 4;
    list_.width = 64;
    ASSERT_OK_AND_ASSIGN(other_layout_, MoeFp8Layout::ForRows(config, 16));
    ASSERT_OK_AND_ASSIGN(other_routing_, MoeRoutingLayout::ForRows(config, 16));
  }

  WorklistArgs list_;
  MoeFp8Layout other_layout_;
  MoeRoutingLayout other_routing_;
};

TEST_F(ListRefusalTest, BuildWorklist) {
  ExpectRefused<WorklistArgs>(
      "moe_build_worklist", list_,
      [&](const WorklistArgs& args) {
        return kernels().BuildWorklist(stream(), args);
      },
      {{"rows", [](WorklistArgs& a) { a.rows = 9; }},
       {"rows", [](WorklistArgs& a) { a.rows = kHuge; }},
       {"experts", [](WorklistArgs& a) { a.experts = 1025; }},
       {"topk", [](WorklistArgs& a) { a.topk = 11; }},
       {"width", [](WorklistArgs& a) { a.width = 0; }},
       {"width", [](WorklistArgs& a) { a.width = kMaxWidth + 1; }},
       {"small_rows", [](WorklistArgs& a) { a.small_rows = 129; }},
       {"slab", [](WorklistArgs& a) { a.slab = DevicePtr(); }},
       {"slab", [](WorklistArgs& a) { a.slab = kSomewhere + 128; }},
       {"routing", [](WorklistArgs& a) { a.routing = kSomewhere + 4; }},
       {"layout", [](WorklistArgs& a) { a.layout = MoeFp8Layout(); }},
       {"routing_layout",
        [](WorklistArgs& a) { a.routing_layout = MoeRoutingLayout(); }},
       {"routing_layout.rows",
        [this](WorklistArgs& a) { a.routing_layout = other_routing_; }},
       {"layout.small_worklist", [](WorklistArgs& a) { a.width = 1088; }},
       {"layout.worklist", [](WorklistArgs& a) { a.width = 1536; }},
       {"routing_layout.offsets", [](WorklistArgs& a) { a.experts = 400; }},
       {"routing_layout.topk_ids", [](WorklistArgs& a) { a.topk = 9; }}});
}

TEST_F(ListRefusalTest, GateUp) {
  const GateUpArgs good = {.layout = list_.layout,
                           .slab = list_.slab,
                           .routing_layout = list_.routing_layout,
                           .routing = list_.routing,
                           .worklist = DescribeWorklist(list_),
                           .shape = {.hidden = 128,
                                     .expert_width = 64,
                                     .experts = 256,
                                     .topk = 4,
                                     .distinct_experts = 2},
                           .rows = 8,
                           .gate = kSomewhere,
                           .gate_scale = kSomewhere,
                           .up = kSomewhere,
                           .up_scale = kSomewhere,
                           .gate_out = kSomewhere,
                           .up_out = kSomewhere};
  ExpectRefused<GateUpArgs>(
      "moe_gemm_gate_up", good,
      [&](const GateUpArgs& args) {
        return kernels().GroupedGemmGateUp(stream(), args);
      },
      {{"layout",
        [this](GateUpArgs& a) {
          a.layout = other_layout_;
          a.routing_layout = other_routing_;
        }},
       {"slab", [](GateUpArgs& a) { a.slab = kSomewhere + 256; }},
       {"rows", [](GateUpArgs& a) { a.rows = 7; }},
       {"rows", [](GateUpArgs& a) { a.rows = kHuge; }},
       {"width", [](GateUpArgs& a) { a.worklist.width = 128; }},
       {"shape", [](GateUpArgs& a) { a.shape.experts = 128; }},
       {"shape", [](GateUpArgs& a) { a.shape.topk = 3; }},
       {"hidden", [](GateUpArgs& a) { a.shape.hidden = 100; }},
       {"expert_width", [](GateUpArgs& a) { a.shape.expert_width = 8; }},
       {"layout.activation", [](GateUpArgs& a) { a.shape.hidden = 8192; }},
       {"distinct_experts",
        [](GateUpArgs& a) { a.shape.distinct_experts = 0; }},
       {"distinct_experts",
        [](GateUpArgs& a) { a.shape.distinct_experts = 257; }},
       {"routing_layout.rows",
        [this](GateUpArgs& a) { a.routing_layout = other_routing_; }},
       {"gate", [](GateUpArgs& a) { a.gate = kSomewhere + 8; }},
       {"gate_scale", [](GateUpArgs& a) { a.gate_scale = kOdd; }},
       {"up", [](GateUpArgs& a) { a.up = DevicePtr(); }},
       {"up_scale", [](GateUpArgs& a) { a.up_scale = DevicePtr(); }},
       {"gate_out", [](GateUpArgs& a) { a.gate_out = kOdd; }},
       {"up_out", [](GateUpArgs& a) { a.up_out = DevicePtr(); }}});
}

TEST_F(ListRefusalTest, Down) {
  list_.width = 128;
  const DownArgs good = {.layout = list_.layout,
                         .slab = list_.slab,
                         .worklist = DescribeWorklist(list_),
                         .shape = {.hidden = 128,
                                   .expert_width = 64,
                                   .experts = 256,
                                   .topk = 4,
                                   .distinct_experts = 2},
                         .rows = 8,
                         .down = kSomewhere,
                         .down_scale = kSomewhere,
                         .down_out = kSomewhere};
  ExpectRefused<DownArgs>(
      "moe_gemm_down", good,
      [&](const DownArgs& args) {
        return kernels().GroupedGemmDown(stream(), args);
      },
      {{"layout", [this](DownArgs& a) { a.layout = other_layout_; }},
       {"slab", [](DownArgs& a) { a.slab = kSomewhere + 256; }},
       {"rows", [](DownArgs& a) { a.rows = 7; }},
       // The list that gate and up used: the down GEMM has twice the columns.
       {"width", [](DownArgs& a) { a.worklist.width = 64; }},
       {"layout.activation", [](DownArgs& a) { a.shape.expert_width = 4096; }},
       {"down", [](DownArgs& a) { a.down = kSomewhere + 4; }},
       {"down_scale", [](DownArgs& a) { a.down_scale = DevicePtr(); }},
       {"down_out", [](DownArgs& a) { a.down_out = kOdd; }}});
}

}  // namespace
}  // namespace permafrost::kernels::testing
