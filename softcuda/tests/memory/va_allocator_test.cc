// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "memory/va_allocator.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>

namespace softcuda::memory {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kBase = 1 << 20;

TEST(VaAllocatorTest, AFreedStretchIsTheLastToBeGivenAgain) {
  VaAllocator va(kBase, 4 * kPage);
  const auto first = va.Take(kPage, kPage);
  ASSERT_TRUE(first);
  va.Return(*first, kPage);
  for (int i = 0; i < 3; ++i) EXPECT_NE(va.Take(kPage, kPage), first);
  EXPECT_EQ(va.Take(kPage, kPage), first);
  EXPECT_FALSE(va.Take(kPage, kPage));
}

TEST(VaAllocatorTest, AlignmentIsKeptAndTheLostPartStaysFree) {
  VaAllocator va(kBase + kPage, 64 * kPage);
  const auto aligned = va.Take(kPage, 16 * kPage);
  ASSERT_TRUE(aligned);
  EXPECT_EQ(*aligned % (16 * kPage), 0u);
  EXPECT_TRUE(va.TakeAt(kBase + kPage, 15 * kPage));
  EXPECT_FALSE(va.Take(kPage, uint64_t{1} << 63));
}

TEST(VaAllocatorTest, TakeAtRefusesWhatIsTakenOrOutside) {
  VaAllocator va(kBase, 8 * kPage);
  EXPECT_TRUE(va.TakeAt(kBase + 2 * kPage, 2 * kPage));
  EXPECT_FALSE(va.TakeAt(kBase + 3 * kPage, kPage));
  EXPECT_FALSE(va.TakeAt(kBase, 3 * kPage));
  EXPECT_FALSE(va.TakeAt(kBase - kPage, kPage));
  EXPECT_FALSE(va.TakeAt(kBase + 7 * kPage, 2 * kPage));
  EXPECT_FALSE(va.TakeAt(kBase + 4 * kPage, ~uint64_t{0}));
  EXPECT_TRUE(va.TakeAt(kBase, 2 * kPage));
}

TEST(VaAllocatorTest, NeverGivesTheSameBytesTwice) {
  std::mt19937 random(1);
  VaAllocator va(kBase, 256 * kPage);
  std::map<uint64_t, uint64_t> taken;
  uint64_t taken_bytes = 0;
  for (int i = 0; i < 5000; ++i) {
    if (random() % 2 == 0 && !taken.empty()) {
      auto it = taken.begin();
      std::advance(it, random() % taken.size());
      va.Return(it->first, it->second);
      taken_bytes -= it->second;
      taken.erase(it);
      continue;
    }
    const uint64_t bytes = kPage * (1 + random() % 16);
    const uint64_t alignment = kPage << (random() % 4);
    const auto at = va.Take(bytes, alignment);
    if (!at) continue;
    ASSERT_EQ(*at % alignment, 0u);
    ASSERT_GE(*at, kBase);
    ASSERT_LE(*at + bytes, kBase + 256 * kPage);
    const auto next = taken.lower_bound(*at);
    ASSERT_TRUE(next == taken.end() || *at + bytes <= next->first);
    if (next != taken.begin()) {
      const auto before = std::prev(next);
      ASSERT_LE(before->first + before->second, *at);
    }
    taken[*at] = bytes;
    taken_bytes += bytes;
  }
  for (const auto& [at, bytes] : taken) va.Return(at, bytes);
  EXPECT_TRUE(va.Take(256 * kPage, kPage)) << "returned stretches are joined";
}

}  // namespace
}  // namespace softcuda::memory
