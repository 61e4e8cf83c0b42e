// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "permafrost/kernels/moe_layer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "moe_layer_fixture.h"
#include "permafrost/arena/moe_fp8_layout.h"
#include "permafrost/arena/moe_routing_layout.h"
#include "permafrost/kernels/oracle.h"

namespace permafrost::kernels::testing {
namespace {

using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

const auto kNoPadding = [](int64_t) { return false; };

absl::Status Enqueue(const MoeKernels& kernels, CUstream stream,
                     const MoeLayerSetup& setup, int64_t rows,
                     bool stable = true) {
  PERMAFROST_ASSIGN_OR_RETURN(
      const MoeFp8Layout layout,
      stable ? MoeFp8Layout::Stable(setup.config, setup.max_rows, rows)
             : MoeFp8Layout::ForRows(setup.config, rows));
  PERMAFROST_ASSIGN_OR_RETURN(const MoeRoutingLayout routing_layout,
                              MoeRoutingLayout::ForRows(setup.config, rows));
  return EnqueueMoeLayer(kernels, stream, setup.buffers, setup.shape,
                         setup.weights, layout, routing_layout, rows,
                         setup.logits.ptr(), setup.layer_in.ptr(),
                         setup.layer_out.ptr());
}

TEST_P(MoeLayerTest, EqualsTheOracleInEveryKindOfModel) {
  struct Model {
    const char* name;
    int64_t hidden, width, experts, topk, distinct;
    bool normalize;
  };
  for (const Model& model :
       {Model{"one block a row", 128, 64, 8, 2, 8, true},
        Model{"partial groups, shared matrices", 144, 80, 6, 3, 2, false},
        Model{"small list", 128, 64, 256, 4, 4, true}}) {
    SCOPED_TRACE(model.name);
    ModelConfig config =
        TinyMoeConfig(model.hidden, model.width, model.experts, model.topk);
    config.normalize_topk = model.normalize;
    ASSERT_OK_AND_ASSIGN(
        const MoeLayerSetup setup,
        MoeLayerSetup::Create(context(), config, model.distinct, 16));
    TestData data(21);
    const MoeLayerInput input = MakeLayerInput(
        data, setup.shape, 11, [](int64_t row) { return row % 4 == 3; });
    const MoeLayerResult want = Oracle(setup, input);
    for (bool stable : {true, false}) {
      uint8_t poison = 0x7f;
      ASSERT_OK(Run(
          GetParam(),
          [&](CUstream s) {
            return Enqueue(kernels(), s, setup, input.rows, stable);
          },
          [&] {
            poison ^= 0xff;
            PERMAFROST_RETURN_IF_ERROR(PoisonAll(setup, poison));
            return Upload(setup, input);
          },
          [&] { ExpectOutput(setup, input, want); }));
    }
  }
}

TEST_P(MoeLayerTest, PaddingRowsComeOutAsTheyWentIn) {
  ASSERT_OK_AND_ASSIGN(
      const MoeLayerSetup setup,
      MoeLayerSetup::Create(context(), TinyMoeConfig(128, 64, 256, 2), 2, 16));
  TestData data(22);
  const MoeLayerInput input =
      MakeLayerInput(data, setup.shape, 5, [](int64_t) { return true; });
  ASSERT_OK(Run(
      GetParam(),
      [&](CUstream s) { return Enqueue(kernels(), s, setup, input.rows); },
      [&] {
        PERMAFROST_RETURN_IF_ERROR(PoisonAll(setup, 0x7f));
        return Upload(setup, input);
      },
      [&] {
        ASSERT_OK_AND_ASSIGN(std::vector<uint16_t> got,
                             setup.layer_out.Download());
        got.resize(input.layer_in.size());
        EXPECT_EQ(got, input.layer_in);
      }));
}

INSTANTIATE_TEST_SUITE_P(Modes, MoeLayerTest, AllModes(), ModeParamName);

// The bug class of stale tails: a large batch, then a smaller one over what it
// left, then nothing at all, then the large one again; each captured once.
class MoeLayerReplayTest : public MoeLayerTest {
 protected:
  struct Replay {
    MoeLayerInput input;
    MoeLayerResult want;
    size_t graph = 0;
  };

  void ReplayShrinkingBatches(bool stable) {
    const Context::Scope scope = context()->MakeCurrent();
    ASSERT_OK(scope.status());
    ASSERT_OK_AND_ASSIGN(const MoeLayerSetup setup,
                         MoeLayerSetup::Create(
                             context(), TinyMoeConfig(128, 64, 256, 4), 3, 24));
    std::vector<GraphExec> graphs;
    for (int64_t rows : {24, 3}) {
      ASSERT_OK(CuStatus(
          api().StreamBeginCapture(stream(), CU_STREAM_CAPTURE_MODE_GLOBAL),
          "cuStreamBeginCapture"));
      EXPECT_OK(Enqueue(kernels(), stream(), setup, rows, stable));
      CUgraph raw = nullptr;
      ASSERT_OK(CuStatus(api().StreamEndCapture(stream(), &raw),
                         "cuStreamEndCapture"));
      const Graph graph = Graph::Adopt(context(), raw);
      size_t nodes = 0;
      ASSERT_OK(CuStatus(api().GraphGetNodes(raw, nullptr, &nodes),
                         "cuGraphGetNodes"));
      EXPECT_EQ(nodes, 9U);
      ASSERT_OK_AND_ASSIGN(GraphExec exec,
                           GraphExec::Instantiate(context(), raw));
      graphs.push_back(std::move(exec));
    }
    TestData data(23);
    std::vector<Replay> replays;
    for (const auto& [graph, is_empty] :
         {std::pair{0, false}, {1, false}, {0, true}, {1, true}, {0, false}}) {
      Replay replay;
      replay.graph = static_cast<size_t>(graph);
      replay.input =
          MakeLayerInput(data, setup.shape, graph == 0 ? 24 : 3,
                         [empty = is_empty](int64_t) { return empty; });
      replay.want = Oracle(setup, replay.input);
      replays.push_back(std::move(replay));
    }
    ASSERT_OK(PoisonAll(setup, 0x7f));
    for (const Replay& replay : replays) {
      // Only the output is poisoned: scratch is what the replay before left.
      ASSERT_OK(Poison(setup.layer_out));
      ASSERT_OK(Upload(setup, replay.input));
      ASSERT_OK(
          CuStatus(api().GraphLaunch(graphs[replay.graph].get(), stream()),
                   "cuGraphLaunch"));
      ASSERT_OK(
          CuStatus(api().StreamSynchronize(stream()), "cuStreamSynchronize"));
      ExpectOutput(setup, replay.input, replay.want);
    }
  }
};

TEST_P(MoeLayerReplayTest, ShrinkingBatchesInOneStableLayout) {
  ReplayShrinkingBatches(true);
}

// Offsets that depend on the rows: the small graph's counter lies inside the
// large graph's activation region.
TEST_P(MoeLayerReplayTest, ShrinkingBatchesInPackedLayouts) {
  ReplayShrinkingBatches(false);
}

INSTANTIATE_TEST_SUITE_P(Modes, MoeLayerReplayTest,
                         ::testing::Values(LaunchMode::kCaptured),
                         ModeParamName);

class MoeLayerRefusalTest : public MoeLayerTest {};

TEST_P(MoeLayerRefusalTest, ABufferThatIsTooSmallIsNamedAndNothingRuns) {
  ASSERT_OK_AND_ASSIGN(
      MoeLayerSetup setup,
      MoeLayerSetup::Create(context(), TinyMoeConfig(128, 64, 8, 2), 2, 16));
  const int64_t before = soft() ? soft()->kernels_executed() : 0;
  for (BufferRef* buffer :
       {&setup.buffers.moe_routing, &setup.buffers.moe_fp8_scratch,
        &setup.buffers.expert_gate_out, &setup.buffers.expert_up_out,
        &setup.buffers.expert_down_out}) {
    const int64_t bytes = buffer->bytes;
    buffer->bytes = 64;
    EXPECT_THAT(Enqueue(kernels(), stream(), setup, 16),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         AllOf(HasSubstr(buffer->name),
                               HasSubstr("max_batch_tokens"))));
    buffer->bytes = bytes;
  }
  EXPECT_THAT(Enqueue(kernels(), stream(), setup, 17, /*stable=*/false),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("moe_fp8_scratch")));
  ASSERT_OK(Synchronize());
  if (soft()) {
    EXPECT_EQ(soft()->kernels_executed(), before);
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, MoeLayerRefusalTest,
                         ::testing::Values(LaunchMode::kEager), ModeParamName);

}  // namespace
}  // namespace permafrost::kernels::testing
