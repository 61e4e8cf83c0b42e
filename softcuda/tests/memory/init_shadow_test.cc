// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "memory/init_shadow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

namespace softcuda::memory {
namespace {

TEST(InitShadowTest, StartsAsAsked) {
  const auto undefined = InitShadow::Create(1000, true);
  const auto defined = InitShadow::Create(1000, false);
  EXPECT_EQ(undefined->AnyUndefined(0, 1000), 0u);
  EXPECT_EQ(undefined->AnyUndefined(999, 1), 999u);
  EXPECT_EQ(defined->AnyUndefined(0, 1000), InitShadow::npos);
}

TEST(InitShadowTest, RangesAreCutAtTheEndOfTheBlock) {
  const auto shadow = InitShadow::Create(100, true);
  EXPECT_EQ(shadow->AnyUndefined(100, 4), InitShadow::npos);
  EXPECT_EQ(shadow->AnyUndefined(500, 4), InitShadow::npos);
  shadow->MarkDefined(0, ~uint64_t{0});
  EXPECT_EQ(shadow->AnyUndefined(0, ~uint64_t{0}), InitShadow::npos);
  shadow->MarkUndefined(99, 50);
  EXPECT_EQ(shadow->AnyUndefined(0, 200), 99u);
  EXPECT_EQ(shadow->AnyUndefined(3, 0), InitShadow::npos);
}

TEST(InitShadowTest, AHugeBlockCostsOnlyWhatIsTouched) {
  // 8 GiB of bits if they were committed.
  const auto shadow = InitShadow::Create(uint64_t{64} << 30, true);
  ASSERT_NE(shadow, nullptr);
  const uint64_t far = uint64_t{63} << 30;
  shadow->MarkDefined(far, 4);
  EXPECT_EQ(shadow->AnyUndefined(far, 4), InitShadow::npos);
  EXPECT_EQ(shadow->AnyUndefined(far, 5), far + 4);
}

// Against one bool a byte.
class InitShadowModelTest : public ::testing::TestWithParam<bool> {};

TEST_P(InitShadowModelTest, AgreesWithAByteMap) {
  constexpr uint64_t kBytes = 517;
  std::mt19937 random(7);
  const auto shadow = InitShadow::Create(kBytes, GetParam());
  const auto other = InitShadow::Create(kBytes, !GetParam());
  std::vector<bool> model(kBytes, GetParam());
  std::vector<bool> other_model(kBytes, !GetParam());
  for (int step = 0; step < 4000; ++step) {
    const uint64_t offset = random() % kBytes;
    const uint64_t count = std::min<uint64_t>(
        random() % (step % 2 == 0 ? 9 : 300), kBytes - offset);
    const auto from = static_cast<uint64_t>(random() % (kBytes - count + 1));
    switch (random() % 5) {
      case 0:
        shadow->MarkUndefined(offset, count);
        for (uint64_t i = 0; i < count; ++i) model[offset + i] = true;
        break;
      case 1:
        shadow->MarkDefined(offset, count);
        for (uint64_t i = 0; i < count; ++i) model[offset + i] = false;
        break;
      case 2: {
        shadow->CopyFrom(shadow.get(), from, offset, count);
        const std::vector<bool> old = model;
        for (uint64_t i = 0; i < count; ++i) model[offset + i] = old[from + i];
        break;
      }
      case 3:
        other->CopyFrom(shadow.get(), from, offset, count);
        for (uint64_t i = 0; i < count; ++i) {
          other_model[offset + i] = model[from + i];
        }
        break;
      default: {
        const bool use_other = random() % 2 == 0;
        const std::vector<bool>& expected = use_other ? other_model : model;
        uint64_t first = InitShadow::npos;
        for (uint64_t i = count; i-- > 0;) {
          if (expected[offset + i]) first = offset + i;
        }
        ASSERT_EQ((use_other ? other : shadow)->AnyUndefined(offset, count),
                  first)
            << "step " << step << " offset " << offset << " count " << count;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(BothPolarities, InitShadowModelTest,
                         ::testing::Bool());

TEST(InitShadowTest, CopyFromNothingDefines) {
  const auto shadow = InitShadow::Create(300, true);
  shadow->CopyFrom(nullptr, 0, 10, 100);
  EXPECT_EQ(shadow->AnyUndefined(10, 100), InitShadow::npos);
  EXPECT_EQ(shadow->AnyUndefined(0, 10), 0u);
  EXPECT_EQ(shadow->AnyUndefined(10, 101), 110u);
}

TEST(InitShadowTest, ThreadsMayShareAWord) {
  constexpr uint64_t kThreads = 8;
  constexpr uint64_t kBytes = 64 * 200;
  const auto shadow = InitShadow::Create(kBytes, true);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&shadow, t] {
      // Thread t owns every eighth byte.
      for (uint64_t i = t; i < kBytes; i += kThreads) shadow->MarkDefined(i, 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(shadow->AnyUndefined(0, kBytes), InitShadow::npos);
}

}  // namespace
}  // namespace softcuda::memory
