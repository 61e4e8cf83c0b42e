// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "kernel_fixture.h"
#include "permafrost/kernels/oracle.h"

namespace permafrost::kernels::testing {
namespace {

class TopKTest : public KernelModeTest {
 protected:
  void ExpectEqualsOracle(const std::vector<float>& logits, int64_t rows,
                          int64_t experts, int64_t topk, bool normalize) {
    SCOPED_TRACE(::testing::Message()
                 << rows << " rows, " << experts << " experts, top-" << topk);
    ASSERT_OK_AND_ASSIGN(const auto logits_array,
                         DeviceArray<float>::Create(context(), rows * experts));
    ASSERT_OK_AND_ASSIGN(const auto ids,
                         DeviceArray<int32_t>::Create(context(), rows * topk));
    ASSERT_OK_AND_ASSIGN(const auto weights,
                         DeviceArray<float>::Create(context(), rows * topk));
    ASSERT_OK(logits_array.Upload(logits));
    const TopKResult want = TopKOracle(logits, rows, experts, topk, normalize);
    ASSERT_OK(Run(
        GetParam(),
        [&](CUstream s) {
          return kernels().TopK(s, {.logits = logits_array.ptr(),
                                    .topk_ids = ids.ptr(),
                                    .topk_weights = weights.ptr(),
                                    .rows = rows,
                                    .experts = experts,
                                    .topk = topk,
                                    .normalize = normalize});
        },
        [&] {
          PERMAFROST_RETURN_IF_ERROR(Poison(ids));
          return Poison(weights);
        },
        [&] {
          ASSERT_OK_AND_ASSIGN(const std::vector<int32_t> got_ids,
                               ids.Download());
          ASSERT_OK_AND_ASSIGN(const std::vector<float> got_weights,
                               weights.Download());
          EXPECT_EQ(got_ids, want.ids);
          for (size_t i = 0; i < got_weights.size(); ++i) {
            EXPECT_NEAR(got_weights[i], want.weights[i],
                        2e-6 * want.weights[i] + 1e-30)
                << "pair " << i;
          }
        }));
  }
};

TEST_P(TopKTest, RandomLogitsOfEveryRouterSize) {
  TestData data(1);
  for (int64_t experts : {1, 2, 31, 32, 33, 128, 257, 1024}) {
    for (int64_t rows : {1, 5}) {
      const int64_t topk = std::min<int64_t>(experts, 8);
      ExpectEqualsOracle(data.Floats(rows * experts, 10.0F), rows, experts,
                         topk, experts % 2 == 0);
    }
  }
  ExpectEqualsOracle(data.Floats(3 * 10, 4.0F), 3, 10, 10, false);
}

TEST_P(TopKTest, TiesGoToTheLowestExpert) {
  ExpectEqualsOracle(std::vector<float>(64, 0.25F), 1, 64, 10, true);
  std::vector<float> signed_zeros(40, -0.0F);
  signed_zeros[33] = 0.0F;
  ExpectEqualsOracle(signed_zeros, 1, 40, 3, true);
}

TEST_P(TopKTest, NanAndInfinityStillGiveValidExperts) {
  std::vector<float> logits = {
      kNan,       kNan,       kNan,       kNan,        // all NaN
      kNan,       1.0F,       kNan,       2.0F,        // some NaN
      kInfinity,  0.0F,       kInfinity,  -kInfinity,  // tie of infinities
      -kInfinity, -kInfinity, -kInfinity, -1e30F,      // one expert is possible
      -kInfinity, -kInfinity, -kInfinity, kNan,        // not inert
  };
  ExpectEqualsOracle(logits, 5, 4, 3, true);
  ExpectEqualsOracle(logits, 5, 4, 3, false);
}

TEST_P(TopKTest, ARowOfMinusInfinityIsInert) {
  std::vector<float> logits(3 * 48, 1.0F);
  for (size_t i = 48; i < 96; ++i) logits[i] = -kInfinity;
  ExpectEqualsOracle(logits, 3, 48, 4, true);
}

INSTANTIATE_TEST_SUITE_P(Modes, TopKTest, AllModes(), ModeParamName);

}  // namespace
}  // namespace permafrost::kernels::testing
