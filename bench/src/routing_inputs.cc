// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "routing_inputs.h"

#include <bit>
#include <cstddef>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "permafrost/driver/checked_math.h"
#include "permafrost/driver/status.h"
#include "random.h"

namespace permafrost::bench {
namespace {

// The first expert that a row chooses; it takes the `experts_per_token` from
// there on. Negative: the row is not routed.
int64_t FirstExpert(Routing routing, const InputDimensions& dimensions,
                    int64_t layer, int64_t row, int64_t rows) {
  const int64_t spread = row * dimensions.experts_per_token + layer;
  switch (routing) {
    case Routing::kBalanced:
      return spread % dimensions.experts;
    case Routing::kSkewed:
      return row % 10 == 9 ? spread % dimensions.experts : layer;
    case Routing::kShrinking:
      return row < rows / 2 ? layer : -1;
    case Routing::kEmpty:
      return -1;
  }
  return -1;
}

void FillLogits(Routing routing, const InputDimensions& dimensions,
                int64_t layer, int64_t row, int64_t rows, uint64_t seed,
                float* logits) {
  const int64_t experts = dimensions.experts;
  const int64_t first = FirstExpert(routing, dimensions, layer, row, rows);
  for (int64_t e = 0; e < experts; ++e) {
    logits[e] =
        first < 0 ? -std::numeric_limits<float>::infinity()
                  : RandomUnit(seed, static_cast<uint64_t>(row * experts + e));
  }
  if (first < 0) return;
  for (int64_t choice = 0; choice < dimensions.experts_per_token; ++choice) {
    logits[(first + choice) % experts] += 4.0F;
  }
}

// A bf16 number of magnitude up to 1, its low bits cut off.
uint16_t RandomBf16(uint64_t seed, uint64_t index) {
  return static_cast<uint16_t>(
      std::bit_cast<uint32_t>(RandomUnit(seed, index)) >> 16U);
}

}  // namespace

const char* RoutingName(Routing routing) {
  switch (routing) {
    case Routing::kBalanced:
      return "balanced";
    case Routing::kSkewed:
      return "skewed";
    case Routing::kShrinking:
      return "shrinking";
    case Routing::kEmpty:
      return "empty";
  }
  return "";
}

absl::StatusOr<int64_t> InputDimensions::TotalBytes() const {
  const auto product = [](int64_t a, int64_t b,
                          int64_t c) -> std::optional<int64_t> {
    const std::optional<int64_t> ab = CheckedMul(a, b);
    return ab.has_value() ? CheckedMul(*ab, c) : std::nullopt;
  };
  const std::optional<int64_t> hidden_bytes = product(max_rows, hidden, 2);
  const std::optional<int64_t> layer_bytes = product(max_rows, experts, 4);
  const std::optional<int64_t> logit_bytes =
      layer_bytes.has_value() ? CheckedMul(*layer_bytes, layers) : std::nullopt;
  const std::optional<int64_t> total =
      hidden_bytes.has_value() && logit_bytes.has_value()
          ? CheckedAdd(*hidden_bytes, *logit_bytes)
          : std::nullopt;
  if (!total.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("inputs of ", max_rows, " rows and ", layers,
                     " layers: more than 2^63-1 bytes; use fewer --layers or "
                     "smaller --buckets"));
  }
  return *total;
}

HostInput MakeInput(const InputDimensions& dimensions, Routing routing,
                    int64_t rows, uint64_t seed) {
  const uint64_t input_seed =
      DeriveSeed(seed, 1000 + static_cast<uint64_t>(routing));
  HostInput input;
  input.hidden.resize(static_cast<size_t>(rows * dimensions.hidden));
  for (size_t i = 0; i < input.hidden.size(); ++i) {
    input.hidden[i] = RandomBf16(input_seed, i);
  }
  for (int64_t layer = 0; layer < dimensions.layers; ++layer) {
    const uint64_t layer_seed =
        DeriveSeed(input_seed, static_cast<uint64_t>(layer));
    std::vector<float>& logits = input.logits.emplace_back(
        static_cast<size_t>(rows * dimensions.experts));
    for (int64_t row = 0; row < rows; ++row) {
      FillLogits(routing, dimensions, layer, row, rows, layer_seed,
                 logits.data() + row * dimensions.experts);
    }
  }
  return input;
}

absl::StatusOr<RoutingInputs> RoutingInputs::Create(
    const ContextRef& context, const InputDimensions& dimensions,
    uint64_t seed) {
  PERMAFROST_RETURN_IF_ERROR(dimensions.TotalBytes());
  RoutingInputs inputs(dimensions, seed);
  PERMAFROST_ASSIGN_OR_RETURN(
      inputs.hidden_,
      DeviceBuffer::Allocate(context,
                             dimensions.max_rows * dimensions.hidden * 2));
  PERMAFROST_ASSIGN_OR_RETURN(
      inputs.logits_,
      DeviceBuffer::Allocate(context, dimensions.layers * dimensions.max_rows *
                                          dimensions.experts * 4));
  return inputs;
}

DevicePtr RoutingInputs::logits(int64_t layer) const {
  return logits_.ptr() + layer * dimensions_.max_rows * dimensions_.experts * 4;
}

absl::Status RoutingInputs::Write(Routing routing, int64_t rows,
                                  CUstream stream) const {
  const HostInput input = OnHost(routing, rows);
  const Context& context = *hidden_.context();
  const DriverApi& api = context.api();
  const Context::Scope scope = context.MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  absl::Status status = CuStatus(
      api.MemcpyHtoDAsync(hidden_.get(), input.hidden.data(),
                          input.hidden.size() * sizeof(uint16_t), stream),
      "cuMemcpyHtoDAsync", "writing the hidden rows");
  for (int64_t layer = 0; status.ok() && layer < dimensions_.layers; ++layer) {
    const std::vector<float>& values = input.logits[static_cast<size_t>(layer)];
    status.Update(
        CuStatus(api.MemcpyHtoDAsync(logits(layer).value(), values.data(),
                                     values.size() * sizeof(float), stream),
                 "cuMemcpyHtoDAsync", "writing the router logits"));
  }
  // Also after a failure: the copies before it may still read `input`.
  status.Update(CuStatus(api.StreamSynchronize(stream), "cuStreamSynchronize",
                         "writing an input"));
  return status;
}

std::vector<ExternalRegion> RoutingInputs::regions() const {
  ExternalRegion hidden;
  hidden.name = "inputs.hidden_rows";
  hidden.base = hidden_.ptr();
  hidden.bytes = hidden_.bytes();
  hidden.access = Access::kRead;
  ExternalRegion router_logits = hidden;
  router_logits.name = "inputs.router_logits";
  router_logits.base = logits_.ptr();
  router_logits.bytes = logits_.bytes();
  return {hidden, router_logits};
}

absl::Status RoutingInputs::Release() {
  absl::Status status = hidden_.Destroy();
  status.Update(logits_.Destroy());
  return status;
}

}  // namespace permafrost::bench
