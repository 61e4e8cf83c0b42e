// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "moe_layer_fixture.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "permafrost/arena/arena_plan.h"
#include "permafrost/arena/buffer_table.h"
#include "permafrost/driver/status.h"

namespace permafrost::kernels::testing {
namespace {

template <typename T>
absl::StatusOr<DevicePtr> AddArray(const ContextRef& context,
                                   const std::vector<T>& values,
                                   std::vector<DeviceArray<uint8_t>>& arrays) {
  std::vector<uint8_t> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  PERMAFROST_ASSIGN_OR_RETURN(auto array,
                              DeviceArray<uint8_t>::Create(
                                  context, static_cast<int64_t>(bytes.size())));
  PERMAFROST_RETURN_IF_ERROR(array.Upload(bytes));
  arrays.push_back(std::move(array));
  return arrays.back().ptr();
}

}  // namespace

absl::StatusOr<MoeLayerSetup> MoeLayerSetup::Create(const ContextRef& context,
                                                    const ModelConfig& config,
                                                    int64_t distinct_experts,
                                                    int64_t max_rows) {
  MoeLayerSetup setup;
  setup.config = config;
  setup.max_rows = max_rows;
  setup.shape = ShapeOf(config);
  setup.shape.distinct_experts = distinct_experts;
  PERMAFROST_ASSIGN_OR_RETURN(
      std::vector<BufferSize> sizes,
      ComputeBufferSizes(config, {.max_batch_tokens = max_rows}));
  PERMAFROST_ASSIGN_OR_RETURN(
      ArenaPlan plan, PlanArena(std::move(sizes), {.guard_bytes = 256}));
  PERMAFROST_ASSIGN_OR_RETURN(Arena arena,
                              Arena::Create(context, std::move(plan)));
  setup.arena.emplace(std::move(arena));
  PERMAFROST_ASSIGN_OR_RETURN(setup.buffers,
                              MoeLayerBuffers::Find(setup.arena->view()));

  TestData data(20);
  const int64_t hidden = config.hidden_size;
  const int64_t width = config.moe_intermediate_size;
  const int64_t weight_count = distinct_experts * hidden * width;
  const int64_t scale_count =
      distinct_experts * ((hidden + 127) / 128) * ((width + 127) / 128);
  const float scale = 0.2F / std::sqrt(static_cast<float>(hidden));
  MoeLayerHostWeights& host = setup.host_weights;
  host.gate = data.E4m3s(weight_count);
  host.up = data.E4m3s(weight_count);
  host.down = data.E4m3s(weight_count);
  host.gate_scale = data.Scales(scale_count, scale);
  host.up_scale = data.Scales(scale_count, scale);
  host.down_scale = data.Scales(scale_count, scale);
  auto& arrays = setup.weight_arrays;
  MoeLayerWeights& weights = setup.weights;
  PERMAFROST_ASSIGN_OR_RETURN(weights.gate,
                              AddArray(context, host.gate, arrays));
  PERMAFROST_ASSIGN_OR_RETURN(weights.up, AddArray(context, host.up, arrays));
  PERMAFROST_ASSIGN_OR_RETURN(weights.down,
                              AddArray(context, host.down, arrays));
  PERMAFROST_ASSIGN_OR_RETURN(weights.gate_scale,
                              AddArray(context, host.gate_scale, arrays));
  PERMAFROST_ASSIGN_OR_RETURN(weights.up_scale,
                              AddArray(context, host.up_scale, arrays));
  PERMAFROST_ASSIGN_OR_RETURN(weights.down_scale,
                              AddArray(context, host.down_scale, arrays));
  PERMAFROST_ASSIGN_OR_RETURN(
      setup.logits,
      DeviceArray<float>::Create(context, max_rows * config.num_experts));
  PERMAFROST_ASSIGN_OR_RETURN(setup.layer_in, DeviceArray<uint16_t>::Create(
                                                  context, max_rows * hidden));
  PERMAFROST_ASSIGN_OR_RETURN(setup.layer_out, DeviceArray<uint16_t>::Create(
                                                   context, max_rows * hidden));
  return setup;
}

MoeLayerInput MakeLayerInput(TestData& data, const MoeLayerShape& shape,
                             int64_t rows,
                             const std::function<bool(int64_t)>& is_padding) {
  MoeLayerInput input;
  input.rows = rows;
  input.layer_in = data.Bf16s(rows * shape.hidden, 2.0F);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t expert = 0; expert < shape.experts; ++expert) {
      input.logits.push_back(is_padding(row)
                                 ? -std::numeric_limits<float>::infinity()
                                 : data.Unit() * 4.0F);
    }
  }
  return input;
}

absl::Status MoeLayerTest::PoisonAll(const MoeLayerSetup& setup, uint8_t byte) {
  for (const BufferRef* buffer :
       {&setup.buffers.moe_routing, &setup.buffers.moe_fp8_scratch,
        &setup.buffers.expert_gate_out, &setup.buffers.expert_up_out,
        &setup.buffers.expert_down_out}) {
    PERMAFROST_RETURN_IF_ERROR(
        FillDevice(*context(), buffer->base, byte, buffer->bytes));
    MarkUndefined(buffer->base, buffer->bytes);
  }
  return Poison(setup.layer_out, byte);
}

absl::Status MoeLayerTest::Upload(const MoeLayerSetup& setup,
                                  const MoeLayerInput& input) {
  PERMAFROST_RETURN_IF_ERROR(setup.logits.Upload(input.logits));
  return setup.layer_in.Upload(input.layer_in);
}

MoeLayerResult MoeLayerTest::Oracle(const MoeLayerSetup& setup,
                                    const MoeLayerInput& input) {
  return RunMoeLayerOracle(setup.shape, setup.host_weights, input.logits,
                           input.layer_in, input.rows);
}

void MoeLayerTest::ExpectOutput(const MoeLayerSetup& setup,
                                const MoeLayerInput& input,
                                const MoeLayerResult& want) {
  ASSERT_OK_AND_ASSIGN(const std::vector<uint16_t> got,
                       setup.layer_out.Download());
  int failures = 0;
  for (size_t i = 0; i < want.out.size() && failures < 5; ++i) {
    const float value = Bf16ToFloat(got[i]);
    if (!(std::fabs(value - want.out[i]) <= want.tolerance[i])) {
      ADD_FAILURE() << "row " << i / static_cast<size_t>(setup.shape.hidden)
                    << " column " << i % static_cast<size_t>(setup.shape.hidden)
                    << ": got " << value << ", want " << want.out[i] << " +- "
                    << want.tolerance[i];
      ++failures;
    }
  }
  for (size_t i = static_cast<size_t>(input.rows * setup.shape.hidden) + 1;
       i < got.size() && failures < 5; ++i) {
    if (got[i] != got[i - 1]) {
      ADD_FAILURE() << "element " << i << " behind the last row was written";
      ++failures;
    }
  }
}

}  // namespace permafrost::kernels::testing
