// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "moe_step.h"

#include <cuda.h>

#include <utility>

#include "permafrost/arena/moe_fp8_layout.h"
#include "permafrost/driver/status.h"
#include "permafrost/kernels/planted_faults.h"

namespace permafrost::bench {
namespace {

using kernels::planted::PlantedKernelFault;

absl::StatusOr<kernels::MoeKernels> LoadKernels(const ContextRef& context,
                                                Plant plant) {
  switch (plant) {
    case Plant::kBuilderSkipsTotal:
      return kernels::planted::LoadWithFault(
          context, PlantedKernelFault::kBuilderSkipsEmptyTotal);
    case Plant::kConsumerReadsPastTotal:
      return kernels::planted::LoadWithFault(
          context, PlantedKernelFault::kConsumerReadsPastTotal);
    case Plant::kWritePastBuffer:
      return kernels::planted::LoadWithFault(
          context, PlantedKernelFault::kBuilderWritesPastBuffer);
    default:
      return kernels::MoeKernels::Load(context);
  }
}

// What a step must not do: legal while it runs eagerly, fatal to a capture.
absl::Status AllocateAndFree(const DriverApi& api) {
  CUdeviceptr memory = 0;
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(api.MemAlloc(&memory, kBufferAlignmentBytes), "cuMemAlloc",
               "scratch that the step allocates for itself"));
  return CuStatus(api.MemFree(memory), "cuMemFree");
}

absl::Status EnqueueStep(const StepParts& parts, const StepContext& step) {
  const int64_t rows = step.bucket.rows;
  const DriverApi& api = parts.context->api();
  if (parts.plant == Plant::kAllocInCapture) {
    PERMAFROST_RETURN_IF_ERROR(AllocateAndFree(api));
  }
  PERMAFROST_ASSIGN_OR_RETURN(const BufferRef hidden_states,
                              step.arena.Find("hidden_states"));
  PERMAFROST_ASSIGN_OR_RETURN(const BufferRef moe_output,
                              step.arena.Find("moe_output"));
  PERMAFROST_ASSIGN_OR_RETURN(const kernels::MoeLayerBuffers buffers,
                              kernels::MoeLayerBuffers::Find(step.arena));
  PERMAFROST_ASSIGN_OR_RETURN(
      const MoeFp8Layout layout,
      MoeFp8Layout::Stable(parts.config, parts.max_rows, rows));

  const int64_t row_bytes = rows * parts.shape.hidden * 2;
  PERMAFROST_RETURN_IF_ERROR(step.arena.CheckFits("hidden_states", row_bytes));
  PERMAFROST_RETURN_IF_ERROR(step.arena.CheckFits("moe_output", row_bytes));
  const DevicePtr source = parts.plant == Plant::kForeignAddress
                               ? parts.undeclared.ptr()
                               : parts.inputs.hidden_rows();
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(api.MemcpyDtoDAsync(hidden_states.base.value(), source.value(),
                                   static_cast<size_t>(row_bytes), step.stream),
               "cuMemcpyDtoDAsync", "copying the batch into hidden_states"));
  DevicePtr from = hidden_states.base;
  DevicePtr to = moe_output.base;
  for (int64_t layer = 0; layer < parts.inputs.dimensions().layers; ++layer) {
    PERMAFROST_RETURN_IF_ERROR(kernels::EnqueueMoeLayer(
        parts.kernels, step.stream, buffers, parts.shape,
        parts.weights.device_layer(layer), layout, parts.routing_layout, rows,
        parts.inputs.logits(layer), from, to));
    std::swap(from, to);
  }
  return absl::OkStatus();
}

}  // namespace

WeightDimensions WeightDimensionsOf(const ShapeFigures& shape) {
  return {.layers = shape.layers,
          .distinct_experts = shape.distinct_experts,
          .hidden = shape.hidden,
          .expert_width = shape.expert_width};
}

InputDimensions InputDimensionsOf(const ShapeFigures& shape, int64_t max_rows) {
  return {.layers = shape.layers,
          .max_rows = max_rows,
          .hidden = shape.hidden,
          .experts = shape.experts,
          .experts_per_token = shape.experts_per_token};
}

absl::StatusOr<StepParts> StepParts::Create(const ContextRef& context,
                                            const ModelConfig& config,
                                            const ShapeFigures& used,
                                            int64_t max_rows, uint64_t seed,
                                            Plant plant) {
  PERMAFROST_ASSIGN_OR_RETURN(kernels::MoeKernels kernels,
                              LoadKernels(context, plant));
  PERMAFROST_ASSIGN_OR_RETURN(const MoeRoutingLayout routing_layout,
                              MoeRoutingLayout::ForRows(config, max_rows));
  PERMAFROST_ASSIGN_OR_RETURN(
      ModelWeights weights,
      ModelWeights::Create(context, WeightDimensionsOf(used), seed));
  const InputDimensions dimensions = InputDimensionsOf(used, max_rows);
  PERMAFROST_ASSIGN_OR_RETURN(RoutingInputs inputs,
                              RoutingInputs::Create(context, dimensions, seed));
  DeviceBuffer undeclared;
  if (plant == Plant::kForeignAddress) {
    PERMAFROST_ASSIGN_OR_RETURN(
        undeclared,
        DeviceBuffer::Allocate(context, max_rows * used.hidden * 2));
  }
  kernels::MoeLayerShape shape = kernels::ShapeOf(config);
  shape.distinct_experts = used.distinct_experts;
  return StepParts{.context = context,
                   .config = config,
                   .max_rows = max_rows,
                   .plant = plant,
                   .kernels = std::move(kernels),
                   .shape = shape,
                   .routing_layout = routing_layout,
                   .weights = std::move(weights),
                   .inputs = std::move(inputs),
                   .undeclared = std::move(undeclared)};
}

std::vector<ExternalRegion> StepParts::regions() const {
  std::vector<ExternalRegion> regions = weights.regions();
  for (ExternalRegion& region : inputs.regions()) {
    regions.push_back(std::move(region));
  }
  return regions;
}

absl::Status StepParts::Release() {
  absl::Status status = weights.Release();
  status.Update(inputs.Release());
  status.Update(undeclared.Destroy());
  return status;
}

const char* OutputBufferOf(int64_t layers) {
  return layers % 2 == 1 ? "moe_output" : "hidden_states";
}

Step MakeMoeStep(const StepParts& parts) {
  return [&parts](const StepContext& step) { return EnqueueStep(parts, step); };
}

}  // namespace permafrost::bench
