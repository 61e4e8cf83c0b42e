// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "permafrost/kernels/oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "permafrost/kernels/worklist_entry.h"

namespace permafrost::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The byte of the nearest finite e4m3 value, the even one of two; by search.
uint8_t NearestE4m3(float value) {
  uint8_t best = 0;
  double best_distance = std::numeric_limits<double>::infinity();
  for (unsigned code = 0; code < 0x7f; ++code) {
    const auto byte =
        static_cast<uint8_t>(code | (std::signbit(value) ? 0x80U : 0U));
    const double distance =
        std::fabs(static_cast<double>(E4m3ToFloat(byte)) - value);
    if (distance < best_distance ||
        (distance == best_distance && (code & 1U) == 0)) {
      best = byte;
      best_distance = distance;
    }
  }
  return best;
}

TEST(E4m3Test, KnownValues) {
  EXPECT_EQ(E4m3ToFloat(0x00), 0.0F);
  EXPECT_EQ(E4m3ToFloat(0x01), 0x1p-9F);
  EXPECT_EQ(E4m3ToFloat(0x08), 0x1p-6F);
  EXPECT_EQ(E4m3ToFloat(0x38), 1.0F);
  EXPECT_EQ(E4m3ToFloat(0x7e), 448.0F);
  EXPECT_EQ(E4m3ToFloat(0xfe), -448.0F);
  EXPECT_TRUE(std::isnan(E4m3ToFloat(0x7f)));
  EXPECT_TRUE(std::isnan(E4m3ToFloat(0xff)));
}

TEST(E4m3Test, EveryFiniteByteComesBack) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    if ((byte & 0x7fU) == 0x7fU) continue;
    EXPECT_EQ(FloatToE4m3(E4m3ToFloat(static_cast<uint8_t>(byte))), byte);
  }
}

TEST(E4m3Test, RoundsToNearestEvenAtAndAroundEveryMidpoint) {
  for (unsigned code = 0; code < 0x7e; ++code) {
    const float low = E4m3ToFloat(static_cast<uint8_t>(code));
    const float high = E4m3ToFloat(static_cast<uint8_t>(code + 1));
    const float middle = (low + high) / 2;
    for (float value : {middle, std::nextafter(middle, 0.0F),
                        std::nextafter(middle, 1000.0F)}) {
      EXPECT_EQ(FloatToE4m3(value), NearestE4m3(value)) << value;
      EXPECT_EQ(FloatToE4m3(-value), NearestE4m3(-value)) << -value;
    }
  }
}

TEST(E4m3Test, SaturatesAndKeepsNan) {
  for (float value : {449.0F, 464.0F, 1e30F, kInfinity}) {
    EXPECT_EQ(FloatToE4m3(value), 0x7e) << value;
    EXPECT_EQ(FloatToE4m3(-value), 0xfe) << value;
  }
  EXPECT_EQ(FloatToE4m3(kNan), 0x7f);
}

TEST(Bf16Test, RoundsToNearestEven) {
  EXPECT_EQ(FloatToBf16(1.0F), 0x3f80);
  EXPECT_EQ(FloatToBf16(1.0F + 0x1p-8F), 0x3f80);  // tie, even below
  EXPECT_EQ(FloatToBf16(1.0F + 0x3p-8F), 0x3f82);  // tie, even above
  EXPECT_EQ(FloatToBf16(1.0F + 0x1.1p-8F), 0x3f81);
  EXPECT_EQ(FloatToBf16(kInfinity), 0x7f80);
  EXPECT_EQ(FloatToBf16(kNan), 0x7fff);
  EXPECT_EQ(FloatToBf16(-0.0F), 0x8000);
}

TEST(QuantizeOracleTest, ZeroGroupHasZeroBytesAndTheDocumentedScale) {
  const QuantizedRows rows = QuantizeOracle(std::vector<float>(144, 0.0F), 144);
  EXPECT_EQ(rows.bytes, std::vector<uint8_t>(144, 0));
  EXPECT_EQ(rows.scales, std::vector<float>(2, 1e-10F / 448.0F));
}

TEST(QuantizeOracleTest, LargestOfEachGroupBecomes448) {
  std::vector<float> input(256, 0.5F);
  input[3] = -3.0F;
  input[200] = 7.0F;
  const QuantizedRows rows = QuantizeOracle(input, 256);
  EXPECT_EQ(rows.bytes[3], 0xfe);
  EXPECT_EQ(rows.bytes[200], 0x7e);
  EXPECT_FLOAT_EQ(rows.scales[0], 3.0F / 448.0F);
  EXPECT_FLOAT_EQ(rows.scales[1], 7.0F / 448.0F);
}

TEST(QuantizeOracleTest, InfinitySaturatesAndNanStaysAlone) {
  std::vector<float> input(32, 1.0F);
  input[0] = kInfinity;
  input[16] = kNan;
  const QuantizedRows rows = QuantizeOracle(input, 16);
  EXPECT_EQ(rows.bytes[0], 0x7e);
  EXPECT_EQ(rows.bytes[1], 0x00);
  EXPECT_EQ(rows.scales[0], std::numeric_limits<float>::max() / 448.0F);
  EXPECT_EQ(rows.bytes[16], 0x7f);
  EXPECT_EQ(rows.bytes[17], 0x7e);
  EXPECT_FLOAT_EQ(rows.scales[1], 1.0F / 448.0F);
}

TEST(TopKOracleTest, TiesGoToTheLowestExpert) {
  const TopKResult result =
      TopKOracle({1.0F, 5.0F, 5.0F, 0.0F, 5.0F}, 1, 5, 3, true);
  EXPECT_EQ(result.ids, (std::vector<int32_t>{1, 2, 4}));
  for (double weight : result.weights) EXPECT_DOUBLE_EQ(weight, 1.0 / 3.0);
}

TEST(TopKOracleTest, ARowOfMinusInfinityIsInertAndARowOfNanIsNot) {
  const TopKResult result =
      TopKOracle({-kInfinity, -kInfinity, kNan, kNan}, 2, 2, 1, false);
  EXPECT_EQ(result.ids, (std::vector<int32_t>{-1, 0}));
  EXPECT_EQ(result.weights[0], 0.0);
  EXPECT_DOUBLE_EQ(result.weights[1], 0.5);
}

TEST(BuildWorklistOracleTest, TilesCoverEveryLiveRowOnce) {
  // 130 rows for expert 1, 3 for expert 0, two dropped ids.
  std::vector<int32_t> ids(130, 1);
  ids.insert(ids.end(), {0, -1, 0, 7, 0});
  const WorklistResult result =
      BuildWorklistOracle(ids, /*experts=*/3, /*width=*/130, /*small_rows=*/4);
  EXPECT_EQ(result.offsets, (std::vector<int32_t>{0, 3, 133, 133}));
  EXPECT_EQ(result.sorted[0], 130);
  EXPECT_EQ(result.sorted[1], 132);
  EXPECT_EQ(result.sorted[2], 134);
  EXPECT_EQ(result.sorted[3], 0);
  EXPECT_EQ(result.inverse[131], -1);
  EXPECT_EQ(result.inverse[133], -1);
  EXPECT_EQ(result.inverse[134], 2);
  EXPECT_EQ(result.small_worklist,
            (std::vector<uint64_t>{PackTileEntry(3, 0, 0, 0),
                                   PackTileEntry(3, 0, 0, 1),
                                   PackTileEntry(3, 0, 0, 2)}));
  EXPECT_EQ(result.worklist,
            (std::vector<uint64_t>{
                PackTileEntry(128, 3, 1, 0), PackTileEntry(2, 131, 1, 0),
                PackTileEntry(128, 3, 1, 1), PackTileEntry(2, 131, 1, 1),
                PackTileEntry(128, 3, 1, 2), PackTileEntry(2, 131, 1, 2)}));
}

TEST(GroupedGemmOracleTest, AppliesBothScalesOfEachBlock) {
  // depth 144: the second block has 16 elements and scales of its own.
  QuantizedRows activation;
  activation.bytes.assign(144, 0x38);  // 1.0
  activation.scales = {2.0F, 3.0F};
  const std::vector<uint8_t> weights(144, 0x40);  // 2.0
  const std::vector<float> weight_scales = {0.5F, 10.0F};
  const GemmResult result = GroupedGemmOracle(activation, {GemmRow{0, 0}},
                                              weights, weight_scales, 1, 144);
  EXPECT_DOUBLE_EQ(result.values[0], 128 * 2.0 * 2 * 0.5 + 16 * 2.0 * 3 * 10);
  EXPECT_GT(result.bounds[0], 0);
  EXPECT_LT(result.bounds[0], 1e-5 * result.values[0]);
}

// The layer's arithmetic in float32, as plain as it can be said, must lie
// within the oracle's own bounds, and the bounds must be narrow.
TEST(LayerOracleTest, PlainFloatArithmeticLiesWithinNarrowBounds) {
  const MoeLayerShape shape = {.hidden = 144,
                               .expert_width = 80,
                               .experts = 4,
                               .topk = 2,
                               .distinct_experts = 3,
                               .normalize_topk = true};
  constexpr int64_t kRows = 6;
  uint32_t state = 12345;
  const auto next = [&state] {
    state = state * 1664525U + 1013904223U;
    return static_cast<float>(static_cast<int32_t>(state >> 8U) - (1 << 23)) /
           static_cast<float>(1 << 23);
  };
  const auto e4m3s = [&](int64_t count) {
    std::vector<uint8_t> bytes;
    for (int64_t i = 0; i < count; ++i) {
      bytes.push_back(FloatToE4m3(next() * 8));
    }
    return bytes;
  };
  MoeLayerHostWeights weights;
  weights.gate = e4m3s(3 * 80 * 144);
  weights.up = e4m3s(3 * 80 * 144);
  weights.down = e4m3s(3 * 144 * 80);
  weights.gate_scale.assign(3 * 1 * 2, 0.01F);
  weights.up_scale.assign(3 * 1 * 2, 0.02F);
  weights.down_scale.assign(3 * 2 * 1, 0.015F);
  std::vector<float> logits;
  for (int i = 0; i < kRows * 4; ++i) logits.push_back(next());
  for (size_t i = 4; i < 8; ++i) logits[i] = -kInfinity;  // row 1 is padding
  std::vector<uint16_t> layer_in;
  for (int i = 0; i < kRows * 144; ++i) layer_in.push_back(FloatToBf16(next()));

  const MoeLayerResult result =
      RunMoeLayerOracle(shape, weights, logits, layer_in, kRows);

  const TopKResult routing = TopKOracle(logits, kRows, 4, 2, true);
  int exact = 0;
  for (int64_t row = 0; row < kRows; ++row) {
    std::vector<float> input;
    for (int64_t k = 0; k < 144; ++k) {
      input.push_back(
          Bf16ToFloat(layer_in[static_cast<size_t>(row * 144 + k)]));
    }
    const QuantizedRows a = QuantizeOracle(input, 144);
    std::vector<float> out = input;
    for (int64_t j = 0; j < 2; ++j) {
      const int32_t id = routing.ids[static_cast<size_t>(row * 2 + j)];
      if (id < 0) continue;
      const int64_t matrix = id % 3;
      const auto dot = [](const QuantizedRows& x, const uint8_t* w, float scale,
                          size_t depth) {
        float sum = 0;
        for (size_t k = 0; k < depth; ++k) {
          sum += E4m3ToFloat(x.bytes[k]) * x.scales[k / 128] *
                 (E4m3ToFloat(w[k]) * scale);
        }
        return sum;
      };
      std::vector<float> gated;
      for (int64_t n = 0; n < 80; ++n) {
        const size_t at = static_cast<size_t>((matrix * 80 + n) * 144);
        const float g = dot(a, &weights.gate[at], 0.01F, 144);
        const float u = dot(a, &weights.up[at], 0.02F, 144);
        gated.push_back(g / (1 + std::exp(-g)) * u);
      }
      const QuantizedRows h = QuantizeOracle(gated, 80);
      for (int64_t n = 0; n < 144; ++n) {
        const size_t at = static_cast<size_t>((matrix * 144 + n) * 80);
        const float down =
            Bf16ToFloat(FloatToBf16(dot(h, &weights.down[at], 0.015F, 80)));
        out[static_cast<size_t>(n)] +=
            static_cast<float>(
                routing.weights[static_cast<size_t>(row * 2 + j)]) *
            down;
      }
    }
    for (int64_t n = 0; n < 144; ++n) {
      const size_t at = static_cast<size_t>(row * 144 + n);
      const float got = Bf16ToFloat(FloatToBf16(out[static_cast<size_t>(n)]));
      EXPECT_LE(std::fabs(got - result.out[at]), result.tolerance[at])
          << "row " << row << " column " << n;
      if (row == 1) {
        EXPECT_EQ(result.out[at], input[static_cast<size_t>(n)]);
      }
      if (result.tolerance[at] == 0) ++exact;
      EXPECT_LE(result.tolerance[at],
                0x1p-5F * std::max(1.0F, std::fabs(result.out[at])));
    }
  }
  // Three in four elements have no room for rounding at all.
  EXPECT_GT(exact, kRows * 144 * 3 / 4);
}

}  // namespace
}  // namespace permafrost::kernels
