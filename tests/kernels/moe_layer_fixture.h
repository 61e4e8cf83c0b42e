// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// One MoE layer in an arena with guards, and its oracle.

#ifndef PERMAFROST_TESTS_KERNELS_MOE_LAYER_FIXTURE_H_
#define PERMAFROST_TESTS_KERNELS_MOE_LAYER_FIXTURE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "kernel_fixture.h"
#include "permafrost/arena/arena.h"
#include "permafrost/kernels/moe_layer.h"
#include "permafrost/kernels/oracle.h"

namespace permafrost::kernels::testing {

/// The memory of one layer for up to `max_rows` rows.
struct MoeLayerSetup {
  ModelConfig config;
  MoeLayerShape shape;
  int64_t max_rows = 0;
  std::optional<Arena> arena;
  MoeLayerBuffers buffers;
  MoeLayerHostWeights host_weights;
  MoeLayerWeights weights;
  std::vector<DeviceArray<uint8_t>> weight_arrays;
  DeviceArray<float> logits;
  DeviceArray<uint16_t> layer_in;
  DeviceArray<uint16_t> layer_out;

  static absl::StatusOr<MoeLayerSetup> Create(const ContextRef& context,
                                              const ModelConfig& config,
                                              int64_t distinct_experts,
                                              int64_t max_rows);
};

/// Inputs of one step.
struct MoeLayerInput {
  int64_t rows = 0;
  std::vector<float> logits;
  std::vector<uint16_t> layer_in;
};

/// Random rows; row `r` is a padding row where `is_padding(r)`.
MoeLayerInput MakeLayerInput(TestData& data, const MoeLayerShape& shape,
                             int64_t rows,
                             const std::function<bool(int64_t)>& is_padding);

class MoeLayerTest : public KernelModeTest {
 protected:
  /// Makes every buffer of the arena and the output undefined, over `byte`.
  absl::Status PoisonAll(const MoeLayerSetup& setup, uint8_t byte);

  absl::Status Upload(const MoeLayerSetup& setup, const MoeLayerInput& input);

  /// The first `rows` rows of layer_out, compared with the oracle.
  void ExpectOutput(const MoeLayerSetup& setup, const MoeLayerInput& input,
                    const MoeLayerResult& want);

  static MoeLayerResult Oracle(const MoeLayerSetup& setup,
                               const MoeLayerInput& input);
};

}  // namespace permafrost::kernels::testing

#endif  // PERMAFROST_TESTS_KERNELS_MOE_LAYER_FIXTURE_H_
