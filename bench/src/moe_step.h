// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_BENCH_MOE_STEP_H_
#define PERMAFROST_BENCH_MOE_STEP_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model_weights.h"
#include "permafrost/arena/arena.h"
#include "permafrost/arena/external_region.h"
#include "permafrost/arena/model_config.h"
#include "permafrost/arena/moe_routing_layout.h"
#include "permafrost/capture/step.h"
#include "permafrost/driver/context.h"
#include "permafrost/driver/handles.h"
#include "permafrost/kernels/moe_kernels.h"
#include "permafrost/kernels/moe_layer.h"
#include "plant.h"
#include "report.h"
#include "routing_inputs.h"

namespace permafrost::bench {

WeightDimensions WeightDimensionsOf(const ShapeFigures& shape);
InputDimensions InputDimensionsOf(const ShapeFigures& shape, int64_t max_rows);

/// Everything that the step needs beside the arena. The step keeps a pointer,
/// so the parts stay where they are while it is used.
struct StepParts {
  /// Loads the kernels (with the fault in, where `plant` is one of a kernel),
  /// makes weights and inputs and uploads them.
  ///
  /// @param used  the shape to run; its layers and distinct experts may be
  ///   fewer than the config's.
  /// Errors: kResourceExhausted when memory does not suffice; kUnimplemented
  ///   when the kernels have no code for the device; the driver's.
  static absl::StatusOr<StepParts> Create(const ContextRef& context,
                                          const ModelConfig& config,
                                          const ShapeFigures& used,
                                          int64_t max_rows, uint64_t seed,
                                          Plant plant);

  /// The regions outside the arena that graphs may name.
  std::vector<ExternalRegion> regions() const;

  /// Frees the device memory; the first error is returned.
  absl::Status Release();

  ContextRef context;
  ModelConfig config;
  int64_t max_rows;
  Plant plant;
  kernels::MoeKernels kernels;
  kernels::MoeLayerShape shape;
  MoeRoutingLayout routing_layout;  ///< Of the largest bucket, for all.
  ModelWeights weights;
  RoutingInputs inputs;
  /// Memory that no region declares: for the fault foreign-address alone.
  DeviceBuffer undeclared;
};

/// The buffer that the last layer of a step writes.
const char* OutputBufferOf(int64_t layers);

/// A step that copies the batch's hidden rows into `hidden_states` (a memcpy
/// node) and then runs the layers one after the other, from `hidden_states`
/// into `moe_output` and back.
///
/// All buckets use one stable slab layout, that of the largest.
Step MakeMoeStep(const StepParts& parts);

}  // namespace permafrost::bench

#endif  // PERMAFROST_BENCH_MOE_STEP_H_
