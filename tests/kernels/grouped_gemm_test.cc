// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernel_fixture.h"
#include "permafrost/arena/moe_fp8_layout.h"
#include "permafrost/arena/moe_routing_layout.h"
#include "permafrost/kernels/oracle.h"

namespace permafrost::kernels::testing {
namespace {

struct GemmCase {
  MoeLayerShape shape;
  int64_t rows = 0;
  std::vector<int32_t> ids;
};

// Both GEMMs on a list that the builder made, each on quantised rows put into
// the slab directly. Positions past the live ones must keep their poison.
class GroupedGemmTest : public KernelModeTest {
 protected:
  void ExpectEqualsOracle(const GemmCase& test) {
    const MoeLayerShape& shape = test.shape;
    SCOPED_TRACE(::testing::Message()
                 << test.rows << " rows, hidden " << shape.hidden << ", width "
                 << shape.expert_width << ", " << shape.experts << " experts");
    const ModelConfig config = TinyMoeConfig(shape.hidden, shape.expert_width,
                                             shape.experts, shape.topk);
    ASSERT_OK_AND_ASSIGN(layout_, MoeFp8Layout::ForRows(config, test.rows));
    ASSERT_OK_AND_ASSIGN(routing_layout_,
                         MoeRoutingLayout::ForRows(config, test.rows));
    ASSERT_OK_AND_ASSIGN(
        slab_, DeviceArray<uint8_t>::Create(context(), layout_.bytes));
    ASSERT_OK_AND_ASSIGN(routing_, DeviceArray<uint8_t>::Create(
                                       context(), routing_layout_.bytes));
    wanted_ = BuildWorklistOracle(test.ids, shape.experts, shape.expert_width,
                                  /*small_rows=*/0);
    ExpectGateUpEqualsOracle(test);
    ExpectDownEqualsOracle(test);
  }

 private:
  WorklistArgs ListArgs(const GemmCase& test, int64_t width) const {
    return {.layout = layout_,
            .slab = slab_.ptr(),
            .routing_layout = routing_layout_,
            .routing = routing_.ptr(),
            .rows = test.rows,
            .experts = test.shape.experts,
            .topk = test.shape.topk,
            .width = width};
  }

  absl::Status Prepare(const GemmCase& test, const QuantizedRows& activation) {
    PERMAFROST_RETURN_IF_ERROR(Poison(slab_));
    PERMAFROST_RETURN_IF_ERROR(Poison(routing_));
    PERMAFROST_RETURN_IF_ERROR(CopyToDevice(
        *context(), slab_.ptr() + layout_.activation, activation.bytes.data(),
        static_cast<int64_t>(activation.bytes.size())));
    PERMAFROST_RETURN_IF_ERROR(CopyToDevice(
        *context(), slab_.ptr() + layout_.scale, activation.scales.data(),
        static_cast<int64_t>(activation.scales.size() * 4)));
    return CopyToDevice(*context(), routing_.ptr() + routing_layout_.topk_ids,
                        test.ids.data(),
                        static_cast<int64_t>(test.ids.size() * 4));
  }

  void ExpectGateUpEqualsOracle(const GemmCase& test) {
    const MoeLayerShape& shape = test.shape;
    const int64_t pairs = test.rows * shape.topk;
    TestData data(6);
    const QuantizedRows activation = QuantizeOracle(
        data.Floats(test.rows * shape.hidden, 2.0F), shape.hidden);
    const int64_t weight_count =
        shape.distinct_experts * shape.expert_width * shape.hidden;
    const int64_t scale_count = shape.distinct_experts *
                                ((shape.expert_width + 127) / 128) *
                                ((shape.hidden + 127) / 128);
    const std::vector<uint8_t> gate = data.E4m3s(weight_count);
    const std::vector<uint8_t> up = data.E4m3s(weight_count);
    const std::vector<float> gate_scale = data.Scales(scale_count, 0.01F);
    const std::vector<float> up_scale = data.Scales(scale_count, 0.03F);
    ASSERT_OK_AND_ASSIGN(const auto gate_array,
                         DeviceArray<uint8_t>::Create(context(), weight_count));
    ASSERT_OK_AND_ASSIGN(const auto up_array,
                         DeviceArray<uint8_t>::Create(context(), weight_count));
    ASSERT_OK_AND_ASSIGN(const auto gate_scale_array,
                         DeviceArray<float>::Create(context(), scale_count));
    ASSERT_OK_AND_ASSIGN(const auto up_scale_array,
                         DeviceArray<float>::Create(context(), scale_count));
    ASSERT_OK_AND_ASSIGN(
        const auto gate_out,
        DeviceArray<float>::Create(context(), pairs * shape.expert_width));
    ASSERT_OK_AND_ASSIGN(
        const auto up_out,
        DeviceArray<float>::Create(context(), pairs * shape.expert_width));
    ASSERT_OK(gate_array.Upload(gate));
    ASSERT_OK(up_array.Upload(up));
    ASSERT_OK(gate_scale_array.Upload(gate_scale));
    ASSERT_OK(up_scale_array.Upload(up_scale));

    std::vector<GemmRow> rows;
    for (int32_t expanded : wanted_.sorted) {
      rows.push_back(
          {expanded / shape.topk,
           test.ids[static_cast<size_t>(expanded)] % shape.distinct_experts});
    }
    const GemmResult want_gate = GroupedGemmOracle(
        activation, rows, gate, gate_scale, shape.expert_width, shape.hidden);
    const GemmResult want_up = GroupedGemmOracle(
        activation, rows, up, up_scale, shape.expert_width, shape.hidden);

    const WorklistArgs list = ListArgs(test, shape.expert_width);
    ASSERT_OK(Run(
        GetParam(),
        [&](CUstream s) {
          PERMAFROST_RETURN_IF_ERROR(kernels().BuildWorklist(s, list));
          return kernels().GroupedGemmGateUp(
              s, {.layout = layout_,
                  .slab = slab_.ptr(),
                  .routing_layout = routing_layout_,
                  .routing = routing_.ptr(),
                  .worklist = DescribeWorklist(list),
                  .shape = shape,
                  .rows = test.rows,
                  .gate = gate_array.ptr(),
                  .gate_scale = gate_scale_array.ptr(),
                  .up = up_array.ptr(),
                  .up_scale = up_scale_array.ptr(),
                  .gate_out = gate_out.ptr(),
                  .up_out = up_out.ptr()});
        },
        [&] {
          PERMAFROST_RETURN_IF_ERROR(Poison(gate_out));
          PERMAFROST_RETURN_IF_ERROR(Poison(up_out));
          return Prepare(test, activation);
        },
        [&] {
          ASSERT_OK_AND_ASSIGN(const std::vector<float> got_gate,
                               gate_out.Download());
          ASSERT_OK_AND_ASSIGN(const std::vector<float> got_up,
                               up_out.Download());
          ExpectWithinBounds("gate", got_gate, want_gate);
          ExpectWithinBounds("up", got_up, want_up);
        }));
  }

  void ExpectDownEqualsOracle(const GemmCase& test) {
    const MoeLayerShape& shape = test.shape;
    const int64_t pairs = test.rows * shape.topk;
    TestData data(7);
    const QuantizedRows activation = QuantizeOracle(
        data.Floats(pairs * shape.expert_width, 2.0F), shape.expert_width);
    const int64_t weight_count =
        shape.distinct_experts * shape.expert_width * shape.hidden;
    const int64_t scale_count = shape.distinct_experts *
                                ((shape.expert_width + 127) / 128) *
                                ((shape.hidden + 127) / 128);
    const std::vector<uint8_t> down = data.E4m3s(weight_count);
    const std::vector<float> down_scale = data.Scales(scale_count, 0.02F);
    ASSERT_OK_AND_ASSIGN(const auto down_array,
                         DeviceArray<uint8_t>::Create(context(), weight_count));
    ASSERT_OK_AND_ASSIGN(const auto down_scale_array,
                         DeviceArray<float>::Create(context(), scale_count));
    ASSERT_OK_AND_ASSIGN(
        const auto down_out,
        DeviceArray<uint16_t>::Create(context(), pairs * shape.hidden));
    ASSERT_OK(down_array.Upload(down));
    ASSERT_OK(down_scale_array.Upload(down_scale));

    std::vector<GemmRow> rows;
    for (size_t position = 0; position < wanted_.sorted.size(); ++position) {
      const auto expanded = static_cast<size_t>(wanted_.sorted[position]);
      rows.push_back({static_cast<int64_t>(position),
                      test.ids[expanded] % shape.distinct_experts});
    }
    GemmResult want = GroupedGemmOracle(activation, rows, down, down_scale,
                                        shape.hidden, shape.expert_width);
    for (size_t i = 0; i < want.values.size(); ++i) {
      want.bounds[i] += std::fabs(want.values[i]) * 0x1p-8;  // bf16
    }

    const WorklistArgs list = ListArgs(test, shape.hidden);
    ASSERT_OK(Run(
        GetParam(),
        [&](CUstream s) {
          PERMAFROST_RETURN_IF_ERROR(kernels().BuildWorklist(s, list));
          return kernels().GroupedGemmDown(
              s, {.layout = layout_,
                  .slab = slab_.ptr(),
                  .worklist = DescribeWorklist(list),
                  .shape = shape,
                  .rows = test.rows,
                  .down = down_array.ptr(),
                  .down_scale = down_scale_array.ptr(),
                  .down_out = down_out.ptr()});
        },
        [&] {
          PERMAFROST_RETURN_IF_ERROR(Poison(down_out));
          return Prepare(test, activation);
        },
        [&] {
          ASSERT_OK_AND_ASSIGN(const std::vector<uint16_t> got,
                               down_out.Download());
          std::vector<float> values;
          for (uint16_t bits : got) values.push_back(Bf16ToFloat(bits));
          ExpectWithinBounds("down", values, want);
        }));
  }

  static void ExpectWithinBounds(const char* what,
                                 const std::vector<float>& got,
                                 const GemmResult& want) {
    int failures = 0;
    for (size_t i = 0; i < want.values.size() && failures < 5; ++i) {
      if (!(std::fabs(got[i] - want.values[i]) <= want.bounds[i])) {
        ADD_FAILURE() << what << "[" << i << "]: got " << got[i] << ", want "
                      << want.values[i] << " +- " << want.bounds[i];
        ++failures;
      }
    }
    // The poison, read as what the array holds.
    const float poison = got.size() > want.values.size() ? got.back() : 0;
    for (size_t i = want.values.size(); i < got.size() && failures < 5; ++i) {
      if (got[i] != poison || std::fabs(poison) > 1e-6F) {
        ADD_FAILURE() << what << "[" << i << "] was written: " << got[i];
        ++failures;
      }
    }
  }

  MoeFp8Layout layout_;
  MoeRoutingLayout routing_layout_;
  DeviceArray<uint8_t> slab_;
  DeviceArray<uint8_t> routing_;
  WorklistResult wanted_;
};

TEST_P(GroupedGemmTest, RandomRoutes) {
  TestData data(8);
  ExpectEqualsOracle({.shape = {.hidden = 512,
                                .expert_width = 192,
                                .experts = 8,
                                .topk = 2,
                                .distinct_experts = 8},
                      .rows = 5,
                      .ids = data.TopKIds(5, 8, 2)});
}

TEST_P(GroupedGemmTest, WidthsThatEndInPartialGroupsTilesAndWarps) {
  TestData data(9);
  // 144 = 128 + 16; 80 columns are one tile and a quarter of another.
  ExpectEqualsOracle({.shape = {.hidden = 144,
                                .expert_width = 80,
                                .experts = 5,
                                .topk = 3,
                                .distinct_experts = 2},
                      .rows = 4,
                      .ids = data.TopKIds(4, 5, 3)});
  ExpectEqualsOracle({.shape = {.hidden = 16,
                                .expert_width = 16,
                                .experts = 1,
                                .topk = 1,
                                .distinct_experts = 1},
                      .rows = 1,
                      .ids = {0}});
}

TEST_P(GroupedGemmTest, TilesOfEveryRowCountUpTo128) {
  // 128 + 23 rows on one expert, 3 on another, 2 on a third: row chunks of
  // four, two and one, and a second row tile.
  std::vector<int32_t> ids(151, 2);
  ids.insert(ids.end(), {0, 0, 0, 1, 1});
  ExpectEqualsOracle({.shape = {.hidden = 64,
                                .expert_width = 80,
                                .experts = 3,
                                .topk = 1,
                                .distinct_experts = 3},
                      .rows = static_cast<int64_t>(ids.size()),
                      .ids = ids});
}

TEST_P(GroupedGemmTest, BothListsAreConsumed) {
  // 256 experts have a small list: 20 rows go to the big one, 9 to the small.
  std::vector<int32_t> ids(20, 100);
  ids.insert(ids.end(), {0, 255, 255, 7, 7, 7, 7, 7, 8});
  ExpectEqualsOracle({.shape = {.hidden = 128,
                                .expert_width = 64,
                                .experts = 256,
                                .topk = 1,
                                .distinct_experts = 3},
                      .rows = static_cast<int64_t>(ids.size()),
                      .ids = ids});
}

TEST_P(GroupedGemmTest, EmptyRoutesWriteNothing) {
  for (int64_t experts : {4, 256}) {
    ExpectEqualsOracle({.shape = {.hidden = 64,
                                  .expert_width = 64,
                                  .experts = experts,
                                  .topk = 2,
                                  .distinct_experts = 1},
                        .rows = 3,
                        .ids = std::vector<int32_t>(6, -1)});
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, GroupedGemmTest, AllModes(), ModeParamName);

}  // namespace
}  // namespace permafrost::kernels::testing
