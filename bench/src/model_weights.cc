// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "model_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "permafrost/arena/arena_plan.h"
#include "permafrost/driver/checked_math.h"
#include "permafrost/driver/status.h"
#include "permafrost/kernels/moe_limits.h"
#include "random.h"

namespace permafrost::bench {
namespace {

// Root mean square of e4m3 values whose bits are random and no NaN.
constexpr double kRandomE4m3Rms = 107.0;

// Turns the bytes that e4m3 reads as NaN, 0x7F and 0xFF, into 0x7E and 0xFE.
constexpr uint64_t WithoutNan(uint64_t bytes) {
  const uint64_t carries = (bytes & 0x7f7f7f7f7f7f7f7fU) + 0x0101010101010101U;
  return bytes ^ ((carries >> 7U) & 0x0101010101010101U);
}

std::vector<uint8_t> RandomE4m3(int64_t count, uint64_t seed) {
  // Whole words are written, the last one cut off where the vector ends.
  std::vector<uint8_t> values(static_cast<size_t>(count));
  for (int64_t at = 0; at < count; at += 8) {
    const uint64_t word =
        WithoutNan(RandomBits(seed, static_cast<uint64_t>(at) / 8));
    std::memcpy(values.data() + at, &word,
                static_cast<size_t>(std::min<int64_t>(8, count - at)));
  }
  return values;
}

// Scales within a factor of 3 of what keeps a product of unit activations at
// unit size, so that a wrong block scale shows.
std::vector<float> RandomScales(int64_t count, int64_t depth, uint64_t seed) {
  const auto unit = static_cast<float>(
      1.0 / (kRandomE4m3Rms * std::sqrt(static_cast<double>(depth))));
  std::vector<float> scales(static_cast<size_t>(count));
  for (size_t i = 0; i < scales.size(); ++i) {
    scales[i] = unit * (1.0F + 0.5F * RandomUnit(seed, i));
  }
  return scales;
}

kernels::MoeLayerHostWeights RandomLayer(const WeightLayout& layout,
                                         const WeightDimensions& dimensions,
                                         uint64_t seed) {
  const int64_t scales = layout.scale_bytes / 4;
  kernels::MoeLayerHostWeights weights;
  weights.gate = RandomE4m3(layout.matrix_bytes, DeriveSeed(seed, 0));
  weights.up = RandomE4m3(layout.matrix_bytes, DeriveSeed(seed, 1));
  weights.down = RandomE4m3(layout.matrix_bytes, DeriveSeed(seed, 2));
  weights.gate_scale =
      RandomScales(scales, dimensions.hidden, DeriveSeed(seed, 3));
  weights.up_scale =
      RandomScales(scales, dimensions.hidden, DeriveSeed(seed, 4));
  weights.down_scale =
      RandomScales(scales, dimensions.expert_width, DeriveSeed(seed, 5));
  return weights;
}

template <typename T>
absl::Status Upload(const DriverApi& api, DevicePtr to,
                    const std::vector<T>& values, absl::string_view what) {
  return CuStatus(
      api.MemcpyHtoD(to.value(), values.data(), values.size() * sizeof(T)),
      "cuMemcpyHtoD", what);
}

absl::Status UploadLayer(const DriverApi& api, const WeightLayout& layout,
                         const kernels::MoeLayerHostWeights& weights,
                         DevicePtr base, absl::string_view what) {
  PERMAFROST_RETURN_IF_ERROR(
      Upload(api, base + layout.gate, weights.gate, what));
  PERMAFROST_RETURN_IF_ERROR(Upload(api, base + layout.up, weights.up, what));
  PERMAFROST_RETURN_IF_ERROR(
      Upload(api, base + layout.down, weights.down, what));
  PERMAFROST_RETURN_IF_ERROR(
      Upload(api, base + layout.gate_scale, weights.gate_scale, what));
  PERMAFROST_RETURN_IF_ERROR(
      Upload(api, base + layout.up_scale, weights.up_scale, what));
  return Upload(api, base + layout.down_scale, weights.down_scale, what);
}

constexpr int64_t GroupsOf(int64_t width) {
  return (width + kernels::kQuantGroup - 1) / kernels::kQuantGroup;
}

std::optional<int64_t> Product(int64_t a, int64_t b, int64_t c) {
  const std::optional<int64_t> ab = CheckedMul(a, b);
  return ab.has_value() ? CheckedMul(*ab, c) : std::nullopt;
}

constexpr int64_t AlignedUp(int64_t bytes) {
  return (bytes + kBufferAlignmentBytes - 1) / kBufferAlignmentBytes *
         kBufferAlignmentBytes;
}

}  // namespace

absl::StatusOr<WeightLayout> WeightLayout::For(
    const WeightDimensions& dimensions) {
  const std::optional<int64_t> matrix = Product(
      dimensions.distinct_experts, dimensions.expert_width, dimensions.hidden);
  const std::optional<int64_t> scale =
      Product(dimensions.distinct_experts, GroupsOf(dimensions.expert_width),
              4 * GroupsOf(dimensions.hidden));
  // More than the six parts and their rounding can take, so that nothing below
  // overflows once this has not.
  const std::optional<int64_t> rough_bytes =
      matrix.has_value() && scale.has_value()
          ? Product(16, std::max(*matrix, *scale), dimensions.layers)
          : std::nullopt;
  if (!rough_bytes.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "weights of ", dimensions.layers, " layers of ",
        dimensions.distinct_experts, " experts, hidden ", dimensions.hidden,
        ", expert width ", dimensions.expert_width,
        ": more than 2^63-1 bytes; use fewer --layers or --distinct-experts"));
  }
  WeightLayout layout;
  layout.matrix_bytes = *matrix;
  layout.scale_bytes = *scale;
  const int64_t matrix_step = AlignedUp(*matrix);
  const int64_t scale_step = AlignedUp(*scale);
  layout.gate = 0;
  layout.up = matrix_step;
  layout.down = 2 * matrix_step;
  layout.gate_scale = 3 * matrix_step;
  layout.up_scale = layout.gate_scale + scale_step;
  layout.down_scale = layout.up_scale + scale_step;
  layout.layer_bytes = layout.down_scale + scale_step;
  layout.bytes = layout.layer_bytes * dimensions.layers;
  return layout;
}

absl::StatusOr<ModelWeights> ModelWeights::Create(
    const ContextRef& context, const WeightDimensions& dimensions,
    uint64_t seed) {
  PERMAFROST_ASSIGN_OR_RETURN(const WeightLayout layout,
                              WeightLayout::For(dimensions));
  const Context::Scope scope = context->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  ModelWeights weights(layout);
  for (int64_t i = 0; i < dimensions.layers; ++i) {
    const std::string name = absl::StrCat("weights of layer ", i, ", ",
                                          layout.layer_bytes, " bytes");
    Layer layer;
    absl::StatusOr<DeviceBuffer> device =
        DeviceBuffer::Allocate(context, layout.layer_bytes);
    if (!device.ok()) return Annotate(device.status(), name);
    layer.device = *std::move(device);
    layer.host = RandomLayer(layout, dimensions,
                             DeriveSeed(seed, static_cast<uint64_t>(i)));
    PERMAFROST_RETURN_IF_ERROR(UploadLayer(context->api(), layout, layer.host,
                                           layer.device.ptr(), name));
    weights.layers_.push_back(std::move(layer));
  }
  // A copy from pageable memory may return before the device has it all.
  PERMAFROST_RETURN_IF_ERROR(CuStatus(context->api().CtxSynchronize(),
                                      "cuCtxSynchronize",
                                      "uploading the weights"));
  return weights;
}

kernels::MoeLayerWeights ModelWeights::device_layer(int64_t layer) const {
  const DevicePtr base = layers_[static_cast<size_t>(layer)].device.ptr();
  kernels::MoeLayerWeights weights;
  weights.gate = base + layout_.gate;
  weights.up = base + layout_.up;
  weights.down = base + layout_.down;
  weights.gate_scale = base + layout_.gate_scale;
  weights.up_scale = base + layout_.up_scale;
  weights.down_scale = base + layout_.down_scale;
  return weights;
}

std::vector<ExternalRegion> ModelWeights::regions() const {
  const struct {
    const char* name;
    int64_t offset;
    int64_t bytes;
  } parts[] = {{"gate", layout_.gate, layout_.matrix_bytes},
               {"up", layout_.up, layout_.matrix_bytes},
               {"down", layout_.down, layout_.matrix_bytes},
               {"gate_scale", layout_.gate_scale, layout_.scale_bytes},
               {"up_scale", layout_.up_scale, layout_.scale_bytes},
               {"down_scale", layout_.down_scale, layout_.scale_bytes}};
  std::vector<ExternalRegion> regions;
  for (size_t i = 0; i < layers_.size(); ++i) {
    for (const auto& part : parts) {
      ExternalRegion region;
      region.name = absl::StrCat("weights.layer", i, ".", part.name);
      region.base = layers_[i].device.ptr() + part.offset;
      region.bytes = part.bytes;
      region.access = Access::kRead;
      regions.push_back(std::move(region));
    }
  }
  return regions;
}

absl::Status ModelWeights::Release() {
  absl::Status status;
  for (Layer& layer : layers_) status.Update(layer.device.Destroy());
  return status;
}

}  // namespace permafrost::bench
