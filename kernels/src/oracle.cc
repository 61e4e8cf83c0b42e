// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "permafrost/kernels/oracle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "integer_math.h"
#include "permafrost/driver/check.h"
#include "permafrost/kernels/worklist_entry.h"

namespace permafrost::kernels {
namespace {

std::array<float, 256> MakeE4m3Table() {
  std::array<float, 256> table;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const int exponent = static_cast<int>(byte >> 3U & 0xfU);
    const int mantissa = static_cast<int>(byte & 0x7U);
    float value = 0;
    if (exponent == 0xf && mantissa == 0x7) {
      value = std::numeric_limits<float>::quiet_NaN();
    } else if (exponent == 0) {
      value = std::ldexp(static_cast<float>(mantissa), -9);
    } else {
      value = std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
    }
    table[byte] = (byte & 0x80U) != 0 ? -value : value;
  }
  return table;
}

const std::array<float, 256>& E4m3Table() {
  static const std::array<float, 256> table = MakeE4m3Table();
  return table;
}

// A row of e4m3 values times their scales.
void Dequantize(const uint8_t* bytes, const float* scales, int64_t count,
                std::vector<double>& out) {
  const std::array<float, 256>& table = E4m3Table();
  out.resize(Index(count));
  for (int64_t base = 0; base < count; base += kQuantGroup) {
    const double scale = scales[base / kQuantGroup];
    const int64_t end = std::min<int64_t>(base + kQuantGroup, count);
    for (int64_t i = base; i < end; ++i)
      out[Index(i)] = table[bytes[i]] * scale;
  }
}

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  // Four sums, so that the additions do not wait for one another.
  double sums[4] = {};
  const size_t count = a.size();
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (size_t j = 0; j < 4; ++j) sums[j] += a[i + j] * b[i + j];
  }
  for (; i < count; ++i) sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

double Norm(const std::vector<double>& a) { return std::sqrt(Dot(a, a)); }

}  // namespace

float E4m3ToFloat(uint8_t byte) { return E4m3Table()[byte]; }

uint8_t FloatToE4m3(float value) {
  if (std::isnan(value)) return 0x7f;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint8_t sign = static_cast<uint8_t>(bits >> 24U & 0x80U);
  const float magnitude = std::fabs(value);
  uint32_t code = 0;
  if (magnitude < 0x1p-6F) {
    // Subnormal: steps of 2^-9. Eight of them are the first normal number,
    // whose code is 8 too.
    code = static_cast<uint32_t>(std::nearbyint(magnitude * 512.0F));
  } else if (magnitude >= kE4m3Max) {
    code = 0x7e;
  } else {
    const uint32_t rest = bits & 0x7fffffffU;
    const uint32_t rounded = rest + 0x7ffffU + (rest >> 20U & 1U);
    code = std::min((rounded >> 20U) - ((127U - 7U) << 3U), 0x7eU);
  }
  return static_cast<uint8_t>(sign | code);
}

float Bf16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16U);
}

uint16_t FloatToBf16(float value) {
  if (std::isnan(value)) return 0x7fff;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U);
}

TopKResult TopKOracle(absl::Span<const float> logits, int64_t rows,
                      int64_t experts, int64_t topk, bool normalize) {
  PERMAFROST_CHECK(logits.size() == Index(rows * experts),
                   "logits are not [rows][experts]");
  constexpr float kMax = std::numeric_limits<float>::max();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  TopKResult result;
  for (int64_t row = 0; row < rows; ++row) {
    const absl::Span<const float> raw =
        logits.subspan(Index(row * experts), Index(experts));
    if (std::all_of(raw.begin(), raw.end(),
                    [](float v) { return v == -kInfinity; })) {
      result.ids.insert(result.ids.end(), Index(topk), -1);
      result.weights.insert(result.weights.end(), Index(topk), 0.0);
      continue;
    }
    std::vector<float> values;
    for (float v : raw) {
      values.push_back(std::isnan(v) ? -kMax : std::clamp(v, -kMax, kMax));
    }
    std::vector<int32_t> order(values.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return values[Index(a)] > values[Index(b)];
    });
    const double best = values[Index(order[0])];
    double sum = 0;
    for (int64_t i = 0; i < (normalize ? topk : experts); ++i) {
      sum += std::exp(values[Index(order[Index(i)])] - best);
    }
    for (int64_t i = 0; i < topk; ++i) {
      const int32_t id = order[Index(i)];
      result.ids.push_back(id);
      result.weights.push_back(std::exp(values[Index(id)] - best) / sum);
    }
  }
  return result;
}

WorklistResult BuildWorklistOracle(absl::Span<const int32_t> topk_ids,
                                   int64_t experts, int64_t width,
                                   int64_t small_rows) {
  std::vector<std::vector<int32_t>> of_expert(Index(experts));
  WorklistResult result;
  result.inverse.assign(topk_ids.size(), -1);
  for (size_t i = 0; i < topk_ids.size(); ++i) {
    if (topk_ids[i] >= 0 && topk_ids[i] < experts) {
      of_expert[Index(topk_ids[i])].push_back(static_cast<int32_t>(i));
    }
  }
  const int64_t column_tiles = CeilDiv(width, kTileColumns);
  for (int64_t expert = 0; expert < experts; ++expert) {
    const std::vector<int32_t>& rows = of_expert[Index(expert)];
    const auto count = static_cast<int64_t>(rows.size());
    const auto start = static_cast<int64_t>(result.sorted.size());
    result.offsets.push_back(static_cast<int32_t>(start));
    for (int32_t i : rows) {
      result.inverse[Index(i)] = static_cast<int32_t>(result.sorted.size());
      result.sorted.push_back(i);
    }
    const bool is_small = count > 0 && count <= small_rows;
    std::vector<uint64_t>& list =
        is_small ? result.small_worklist : result.worklist;
    for (int64_t n = 0; n < column_tiles; ++n) {
      for (int64_t m = 0; m < count; m += kTileRows) {
        list.push_back(PackTileEntry(
            static_cast<uint32_t>(std::min<int64_t>(kTileRows, count - m)),
            static_cast<uint32_t>(start + m), static_cast<uint32_t>(expert),
            static_cast<uint32_t>(n)));
      }
    }
  }
  result.offsets.push_back(static_cast<int32_t>(result.sorted.size()));
  return result;
}

QuantizedRows QuantizeOracle(absl::Span<const float> input, int64_t columns) {
  PERMAFROST_CHECK(input.size() % Index(columns) == 0,
                   "input is not [rows][columns]");
  const int64_t rows = static_cast<int64_t>(input.size()) / columns;
  QuantizedRows result;
  result.bytes.reserve(input.size());
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t base = 0; base < columns; base += kQuantGroup) {
      const int64_t count = std::min<int64_t>(kQuantGroup, columns - base);
      const absl::Span<const float> group =
          input.subspan(Index(row * columns + base), Index(count));
      float amax = kQuantAmaxFloor;
      for (float x : group) {
        if (std::fabs(x) > amax) amax = std::fabs(x);  // false for NaN
      }
      amax = std::min(amax, std::numeric_limits<float>::max());
      const float inverse_scale = kE4m3Max / amax;
      result.scales.push_back(amax / kE4m3Max);
      for (float x : group) {
        result.bytes.push_back(FloatToE4m3(x * inverse_scale));
      }
    }
  }
  return result;
}

GemmResult GroupedGemmOracle(const QuantizedRows& activation,
                             absl::Span<const GemmRow> rows,
                             absl::Span<const uint8_t> weights,
                             absl::Span<const float> weight_scales,
                             int64_t columns, int64_t depth) {
  const int64_t groups = CeilDiv(depth, kQuantGroup);
  const int64_t column_groups = CeilDiv(columns, kQuantGroup);
  const double roundings = 24.0 + static_cast<double>(CeilDiv(depth, 512));
  const double unit = std::ldexp(roundings, -24);
  GemmResult result;
  result.values.resize(rows.size() * Index(columns));
  result.bounds.resize(result.values.size());

  std::vector<double> column_values;
  for (size_t first = 0; first < rows.size();) {
    // Rows of one expert follow one another, so a column is converted once.
    size_t last = first;
    std::vector<std::vector<double>> row_values;
    std::vector<double> row_norms;
    for (; last < rows.size() && rows[last].matrix == rows[first].matrix;
         ++last) {
      const int64_t row = rows[last].activation_row;
      Dequantize(&activation.bytes[Index(row * depth)],
                 &activation.scales[Index(row * groups)], depth,
                 row_values.emplace_back());
      row_norms.push_back(Norm(row_values.back()));
    }
    const int64_t matrix = rows[first].matrix;
    for (int64_t n = 0; n < columns; ++n) {
      Dequantize(&weights[Index((matrix * columns + n) * depth)],
                 &weight_scales[Index(
                     (matrix * column_groups + n / kQuantGroup) * groups)],
                 depth, column_values);
      const double column_norm = Norm(column_values);
      for (size_t r = first; r < last; ++r) {
        const size_t at = r * Index(columns) + Index(n);
        result.values[at] = Dot(row_values[r - first], column_values);
        result.bounds[at] = unit * row_norms[r - first] * column_norm;
      }
    }
    first = last;
  }
  return result;
}

double SwiGluOracle(double gate, double up) {
  return gate / (1.0 + std::exp(-gate)) * up;
}

}  // namespace permafrost::kernels
