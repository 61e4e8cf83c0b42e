// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_BENCH_MODEL_WEIGHTS_H_
#define PERMAFROST_BENCH_MODEL_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "permafrost/arena/external_region.h"
#include "permafrost/arena/model_config.h"
#include "permafrost/driver/context.h"
#include "permafrost/driver/handles.h"
#include "permafrost/kernels/moe_layer.h"
#include "permafrost/kernels/oracle.h"

namespace permafrost::bench {

/// The matrices that a weight layout is made for.
struct WeightDimensions {
  int64_t layers = 0;
  int64_t distinct_experts = 0;
  int64_t hidden = 0;
  int64_t expert_width = 0;
};

/// Where the six parts of one layer lie in its block. Units: bytes, each offset
/// a multiple of 256.
struct WeightLayout {
  static absl::StatusOr<WeightLayout> For(const WeightDimensions& dimensions);

  int64_t matrix_bytes = 0;  ///< Of gate, of up and of down, each.
  int64_t scale_bytes = 0;   ///< Of each scale part.
  int64_t gate = 0;
  int64_t up = 0;
  int64_t down = 0;
  int64_t gate_scale = 0;
  int64_t up_scale = 0;
  int64_t down_scale = 0;
  int64_t layer_bytes = 0;
  int64_t bytes = 0;  ///< Of all layers.
};

/// Random expert weights: one copy on the device, and the one on the host that
/// it was uploaded from.
class ModelWeights {
 public:
  /// Errors: ResourceExhausted when device memory does not suffice; the
  ///   driver's.
  /// Cost: well under a second for each GB, most of it writing memory once.
  static absl::StatusOr<ModelWeights> Create(const ContextRef& context,
                                             const WeightDimensions& dimensions,
                                             uint64_t seed);

  ModelWeights(ModelWeights&&) = default;
  ModelWeights& operator=(ModelWeights&&) = default;

  kernels::MoeLayerWeights device_layer(int64_t layer) const;
  const kernels::MoeLayerHostWeights& host_layer(int64_t layer) const {
    return layers_[static_cast<size_t>(layer)].host;
  }

  /// Every part as a region that kernels may read.
  std::vector<ExternalRegion> regions() const;

  int64_t bytes() const { return layout_.bytes; }

  /// Frees the device copy; the first error is returned.
  absl::Status Release();

 private:
  explicit ModelWeights(const WeightLayout& layout) : layout_(layout) {}

  struct Layer {
    kernels::MoeLayerHostWeights host;
    DeviceBuffer device;
  };
  WeightLayout layout_;
  std::vector<Layer> layers_;
};

}  // namespace permafrost::bench

#endif  // PERMAFROST_BENCH_MODEL_WEIGHTS_H_
