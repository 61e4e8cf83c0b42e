// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernel_fixture.h"
#include "permafrost/kernels/oracle.h"

namespace permafrost::kernels::testing {
namespace {

class SwiGluTest : public KernelModeTest {
 protected:
  void ExpectEqualsOracle(const std::vector<float>& gate,
                          const std::vector<float>& up, int64_t rows,
                          int64_t topk, int64_t width, int32_t live) {
    SCOPED_TRACE(::testing::Message() << live << " live of " << rows << " x "
                                      << topk << ", width " << width);
    const int64_t count = rows * topk * width;
    ASSERT_OK_AND_ASSIGN(const auto gate_array,
                         DeviceArray<float>::Create(context(), count));
    ASSERT_OK_AND_ASSIGN(const auto up_array,
                         DeviceArray<float>::Create(context(), count));
    ASSERT_OK_AND_ASSIGN(const auto live_count,
                         DeviceArray<int32_t>::Create(context(), 1));
    ASSERT_OK(live_count.Upload({live}));
    ASSERT_OK(up_array.Upload(up));
    const int64_t live_values =
        std::clamp<int64_t>(live, 0, rows * topk) * width;
    ASSERT_OK(Run(
        GetParam(),
        [&](CUstream s) {
          return kernels().SwiGlu(s, {.gate = gate_array.ptr(),
                                      .up = up_array.ptr(),
                                      .live_rows = live_count.ptr(),
                                      .rows = rows,
                                      .topk = topk,
                                      .width = width});
        },
        [&] { return gate_array.Upload(gate); },
        [&] {
          ASSERT_OK_AND_ASSIGN(const std::vector<float> got,
                               gate_array.Download());
          for (size_t i = 0; i < got.size(); ++i) {
            if (static_cast<int64_t>(i) >= live_values) {
              ASSERT_EQ(got[i], gate[i]) << "dead element " << i;
              continue;
            }
            const double want = SwiGluOracle(gate[i], up[i]);
            if (std::isnan(want)) {
              ASSERT_TRUE(std::isnan(got[i])) << i;
            } else {
              ASSERT_NEAR(got[i], want, std::fabs(want) * 0x1p-20 + 1e-30)
                  << "gate " << gate[i] << " up " << up[i];
            }
          }
        }));
  }
};

TEST_P(SwiGluTest, OnlyLivePositionsAreComputed) {
  TestData data(10);
  for (int64_t width : {16, 80, 768}) {
    const std::vector<float> gate = data.Floats(6 * width, 8.0F);
    const std::vector<float> up = data.Floats(6 * width, 8.0F);
    for (int32_t live : {0, 1, 5, 6, 100, -3}) {
      ExpectEqualsOracle(gate, up, 3, 2, width, live);
    }
  }
}

TEST_P(SwiGluTest, LargeAndNonFiniteGates) {
  const float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> gate = {
      0.0F, -0.0F, 80.0F,  -80.0F,  200.0F, -200.0F, 1e30F, -1e30F,
      kNan, 1.0F,  1e-30F, -1e-30F, 20.0F,  -20.0F,  3.0F,  -3.0F};
  std::vector<float> up(16, 2.0F);
  up[9] = kNan;
  ExpectEqualsOracle(gate, up, 1, 1, 16, 1);
}

INSTANTIATE_TEST_SUITE_P(Modes, SwiGluTest, AllModes(), ModeParamName);

class CombineTest : public KernelModeTest {
 protected:
  void ExpectEqualsOracle(int64_t rows, int64_t topk, int64_t hidden,
                          const std::vector<int32_t>& inverse, bool in_place) {
    SCOPED_TRACE(::testing::Message()
                 << rows << " rows, top-" << topk << ", hidden " << hidden);
    TestData data(11);
    const int64_t pairs = rows * topk;
    const std::vector<uint16_t> residual = data.Bf16s(rows * hidden, 2.0F);
    const std::vector<uint16_t> down = data.Bf16s(pairs * hidden, 4.0F);
    const std::vector<float> weights = data.Scales(pairs, 0.2F);
    ASSERT_OK_AND_ASSIGN(
        const auto residual_array,
        DeviceArray<uint16_t>::Create(context(), rows * hidden));
    ASSERT_OK_AND_ASSIGN(const auto down_array, DeviceArray<uint16_t>::Create(
                                                    context(), pairs * hidden));
    ASSERT_OK_AND_ASSIGN(const auto inverse_array,
                         DeviceArray<int32_t>::Create(context(), pairs));
    ASSERT_OK_AND_ASSIGN(const auto weights_array,
                         DeviceArray<float>::Create(context(), pairs));
    ASSERT_OK_AND_ASSIGN(const auto out_array, DeviceArray<uint16_t>::Create(
                                                   context(), rows * hidden));
    ASSERT_OK(down_array.Upload(down));
    ASSERT_OK(inverse_array.Upload(inverse));
    ASSERT_OK(weights_array.Upload(weights));
    // What a dropped pair's weight is, and positions without a pair, must not
    // matter: initcheck would see them read.
    for (int64_t pair = 0; pair < pairs; ++pair) {
      if (inverse[static_cast<size_t>(pair)] < 0) {
        MarkUndefined(weights_array.ptr() + pair * 4, 4);
      }
      if (std::find(inverse.begin(), inverse.end(), pair) == inverse.end()) {
        MarkUndefined(down_array.ptr() + pair * hidden * 2, hidden * 2);
      }
    }
    const DeviceArray<uint16_t>& out = in_place ? residual_array : out_array;
    ASSERT_OK(Run(
        GetParam(),
        [&](CUstream s) {
          return kernels().Combine(s, {.residual = residual_array.ptr(),
                                       .down = down_array.ptr(),
                                       .inverse = inverse_array.ptr(),
                                       .weights = weights_array.ptr(),
                                       .out = out.ptr(),
                                       .rows = rows,
                                       .topk = topk,
                                       .hidden = hidden});
        },
        [&] {
          PERMAFROST_RETURN_IF_ERROR(Poison(out_array));
          return residual_array.Upload(residual);
        },
        [&] {
          ASSERT_OK_AND_ASSIGN(const std::vector<uint16_t> got, out.Download());
          for (int64_t row = 0; row < rows; ++row) {
            for (int64_t n = 0; n < hidden; ++n) {
              const auto at = static_cast<size_t>(row * hidden + n);
              double want = Bf16ToFloat(residual[at]);
              double magnitude = std::fabs(want);
              for (int64_t j = 0; j < topk; ++j) {
                const auto pair = static_cast<size_t>(row * topk + j);
                if (inverse[pair] < 0) continue;
                const double term =
                    static_cast<double>(weights[pair]) *
                    Bf16ToFloat(
                        down[static_cast<size_t>(inverse[pair] * hidden + n)]);
                want += term;
                magnitude += std::fabs(term);
              }
              ASSERT_NEAR(Bf16ToFloat(got[at]), want,
                          std::fabs(want) * 0x1p-8 + magnitude * 0x1p-20)
                  << "row " << row << " column " << n;
            }
          }
        }));
  }
};

TEST_P(CombineTest, SumsEveryPairInAnyOrder) {
  ExpectEqualsOracle(3, 2, 144, {5, 0, 3, 1, 4, 2}, false);
  ExpectEqualsOracle(1, 10, 2064, {9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, false);
}

TEST_P(CombineTest, DroppedPairsAreSkipped) {
  ExpectEqualsOracle(3, 2, 64, {-1, 0, -1, -1, 1, -1}, false);
  ExpectEqualsOracle(2, 2, 64, {-1, -1, -1, -1}, false);
}

TEST_P(CombineTest, TheOutputMayBeTheResidual) {
  ExpectEqualsOracle(2, 2, 4096, {3, 1, 0, 2}, true);
}

INSTANTIATE_TEST_SUITE_P(Modes, CombineTest, AllModes(), ModeParamName);

}  // namespace
}  // namespace permafrost::kernels::testing
