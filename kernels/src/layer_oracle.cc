// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>

#include "integer_math.h"
#include "launch_checks.h"
#include "permafrost/driver/check.h"
#include "permafrost/kernels/oracle.h"

namespace permafrost::kernels {
namespace {

// Half the distance between 1 and the next float32.
constexpr double kUnit = 0x1p-24;

// Roundings of float32 in silu(gate) * up beside those of its arguments: an
// exponential good to two units in the last place, three operations, with room
// for the approximations that GPUs differ in.
constexpr double kSwiGluRoundings = 16;
// The same for a routing weight: one exponential, whose argument carries the
// rounding of logit - max (up to 88 units where the weight is not 0 anyway),
// sums and a division.
constexpr double kWeightRoundings = 256;

// What quantisation can make of an error bound: for element i the largest
// change of its dequantised value when the value itself moves by its bound.
struct QuantizedWithBounds {
  QuantizedRows rows;
  std::vector<double> flips;        // [rows][columns], mostly 0
  std::vector<double> scale_error;  // [rows], relative, largest of a group
};

QuantizedWithBounds QuantizeWithBounds(absl::Span<const double> values,
                                       absl::Span<const double> bounds,
                                       int64_t columns) {
  QuantizedWithBounds result;
  const std::vector<float> floats(values.begin(), values.end());
  result.rows = QuantizeOracle(floats, columns);
  result.flips.resize(values.size());
  const int64_t rows = static_cast<int64_t>(values.size()) / columns;
  const int64_t groups = QuantGroups(columns);
  result.scale_error.resize(Index(rows));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t begin = row * columns + group * kQuantGroup;
      const int64_t end =
          row * columns + std::min<int64_t>((group + 1) * kQuantGroup, columns);
      const double scale = result.rows.scales[Index(row * groups + group)];
      double worst = 0;
      for (int64_t i = begin; i < end; ++i) {
        worst = std::max(worst, bounds[Index(i)]);
      }
      const double scale_error = worst / (scale * kE4m3Max) + 4 * kUnit;
      result.scale_error[Index(row)] =
          std::max(result.scale_error[Index(row)], scale_error);
      for (int64_t i = begin; i < end; ++i) {
        const double code = values[Index(i)] / scale;
        const double reach =
            bounds[Index(i)] / scale + std::fabs(code) * scale_error;
        const double here = E4m3ToFloat(result.rows.bytes[Index(i)]);
        const double low =
            E4m3ToFloat(FloatToE4m3(static_cast<float>(code - reach)));
        const double high =
            E4m3ToFloat(FloatToE4m3(static_cast<float>(code + reach)));
        result.flips[Index(i)] =
            scale * std::max(std::fabs(here - low), std::fabs(high - here));
      }
    }
  }
  return result;
}

// bf16 of a value, and how far bf16 of value +- bound can be from it.
struct Rounded {
  double value;
  double bound;
};

Rounded RoundToBf16(double value, double bound) {
  const auto round = [](double x) {
    return static_cast<double>(Bf16ToFloat(FloatToBf16(static_cast<float>(x))));
  };
  const double here = round(value);
  return {here, std::max(std::fabs(here - round(value - bound)),
                         std::fabs(round(value + bound) - here))};
}

}  // namespace

MoeLayerResult RunMoeLayerOracle(const MoeLayerShape& shape,
                                 const MoeLayerHostWeights& weights,
                                 absl::Span<const float> router_logits,
                                 absl::Span<const uint16_t> layer_in,
                                 int64_t rows) {
  PERMAFROST_CHECK(layer_in.size() == Index(rows * shape.hidden),
                   "layer_in is not [rows][hidden]");
  const TopKResult routing = TopKOracle(router_logits, rows, shape.experts,
                                        shape.topk, shape.normalize_topk);
  // Which list a tile is in changes nothing in its numbers.
  const WorklistResult lists = BuildWorklistOracle(
      routing.ids, shape.experts, shape.expert_width, /*small_rows=*/0);

  std::vector<float> input;
  input.reserve(layer_in.size());
  for (uint16_t bits : layer_in) input.push_back(Bf16ToFloat(bits));
  const QuantizedRows activation = QuantizeOracle(input, shape.hidden);

  std::vector<GemmRow> token_rows;
  std::vector<GemmRow> position_rows;
  for (size_t position = 0; position < lists.sorted.size(); ++position) {
    const int64_t expanded = lists.sorted[position];
    const int64_t matrix =
        routing.ids[Index(expanded)] % shape.distinct_experts;
    token_rows.push_back({expanded / shape.topk, matrix});
    position_rows.push_back({static_cast<int64_t>(position), matrix});
  }
  const GemmResult gate =
      GroupedGemmOracle(activation, token_rows, weights.gate,
                        weights.gate_scale, shape.expert_width, shape.hidden);
  const GemmResult up =
      GroupedGemmOracle(activation, token_rows, weights.up, weights.up_scale,
                        shape.expert_width, shape.hidden);

  std::vector<double> gated(gate.values.size());
  std::vector<double> gated_bounds(gate.values.size());
  for (size_t i = 0; i < gated.size(); ++i) {
    gated[i] = SwiGluOracle(gate.values[i], up.values[i]);
    // The slope of silu is at most 1.1.
    gated_bounds[i] =
        1.1 * gate.bounds[i] * (std::fabs(up.values[i]) + up.bounds[i]) +
        std::fabs(SwiGluOracle(gate.values[i], 1.0)) * up.bounds[i] +
        kSwiGluRoundings * kUnit * std::fabs(gated[i]);
  }
  const QuantizedWithBounds quantized =
      QuantizeWithBounds(gated, gated_bounds, shape.expert_width);
  GemmResult down =
      GroupedGemmOracle(quantized.rows, position_rows, weights.down,
                        weights.down_scale, shape.hidden, shape.expert_width);

  const int64_t width = shape.expert_width;
  const int64_t width_groups = QuantGroups(width);
  const int64_t hidden_groups = QuantGroups(shape.hidden);
  const double sum_unit =
      kUnit * (24.0 + static_cast<double>((width + 511) / 512));
  for (size_t position = 0; position < position_rows.size(); ++position) {
    const int64_t matrix = position_rows[position].matrix;
    for (int64_t n = 0; n < shape.hidden; ++n) {
      const size_t at = position * Index(shape.hidden) + Index(n);
      // A bound is sum_unit * |row| * |column|; a wrong scale moves the sum by
      // at most the same product.
      double bound =
          down.bounds[at] * (1 + quantized.scale_error[position] / sum_unit);
      down.bounds[at] = bound;
    }
    for (int64_t i = 0; i < width; ++i) {
      const double flip = quantized.flips[position * Index(width) + Index(i)];
      if (flip == 0) continue;
      for (int64_t n = 0; n < shape.hidden; ++n) {
        const double weight =
            E4m3ToFloat(
                weights.down[Index((matrix * shape.hidden + n) * width + i)]) *
            weights.down_scale[Index(
                (matrix * hidden_groups + n / kQuantGroup) * width_groups +
                i / kQuantGroup)];
        down.bounds[position * Index(shape.hidden) + Index(n)] +=
            flip * std::fabs(weight);
      }
    }
  }

  MoeLayerResult result;
  result.out.reserve(layer_in.size());
  result.tolerance.reserve(layer_in.size());
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t n = 0; n < shape.hidden; ++n) {
      double sum = input[Index(row * shape.hidden + n)];
      double magnitude = std::fabs(sum);
      double bound = 0;
      for (int64_t j = 0; j < shape.topk; ++j) {
        const size_t pair = Index(row * shape.topk + j);
        const int64_t position = lists.inverse[pair];
        if (position < 0) continue;
        const size_t at = Index(position * shape.hidden + n);
        const Rounded term = RoundToBf16(down.values[at], down.bounds[at]);
        const double weight = routing.weights[pair];
        sum += weight * term.value;
        magnitude += weight * std::fabs(term.value);
        bound +=
            weight * (term.bound + kWeightRoundings * kUnit *
                                       (std::fabs(term.value) + term.bound));
      }
      bound += static_cast<double>(shape.topk + 1) * kUnit * magnitude;
      const Rounded out = RoundToBf16(sum, bound);
      result.out.push_back(static_cast<float>(out.value));
      result.tolerance.push_back(static_cast<float>(out.bound));
      result.max_tolerance =
          std::max(result.max_tolerance, result.tolerance.back());
    }
  }
  return result;
}

}  // namespace permafrost::kernels
