// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "exec_test_support.h"

namespace softcuda::testing {
namespace {

// Runs `body` on one full warp: %t is the lane, %v its value (in[lane]); the
// result is %r.
std::vector<uint32_t> RunWarp(const std::string& body,
                              const std::vector<uint32_t>& in) {
  Loaded loaded(
      Ptx(".visible .entry k(.param .u64 in, .param .u64 out) {\n"
          ".reg .pred %p<8>; .reg .b32 %r, %t, %v, %x<16>;\n"
          ".reg .b64 %i, %o, %w, %l<4>;\n"
          "ld.param.u64 %i, [in]; ld.param.u64 %o, [out];\n"
          "mov.u32 %t, %laneid; mul.wide.u32 %w, %t, 4;\n"
          "add.u64 %i, %i, %w; add.u64 %o, %o, %w; ld.global.u32 %v, [%i];\n" +
          body + "\nst.global.u32 [%o], %r;\nret;\n}\n"));
  EXPECT_TRUE(loaded) << loaded.error().message;
  DeviceMemory from(in);
  DeviceMemory to(std::vector<uint32_t>(32, 0xdead));
  EXPECT_EQ(loaded.Run("k", {}, from.address(), to.address()), CUDA_SUCCESS)
      << loaded.TakeReports();
  return to.Read<uint32_t>();
}

std::vector<uint32_t> Values(const std::function<uint32_t(uint32_t)>& f) {
  std::vector<uint32_t> values(32);
  for (uint32_t l = 0; l < 32; ++l) values[l] = f(l);
  return values;
}

const std::vector<uint32_t> kHundreds =
    Values([](uint32_t l) { return 100 + l; });

// The PTX manual's description of shfl, lane by lane.
uint32_t Shuffled(const std::string& mode, uint32_t lane, uint32_t b,
                  uint32_t c, bool* in_range) {
  const uint32_t mask = c >> 8 & 31;
  const int max_lane = static_cast<int>((lane & mask) | ((c & 31) & ~mask));
  const int min_lane = static_cast<int>(lane & mask);
  int j = 0;
  if (mode == "up") {
    j = static_cast<int>(lane) - static_cast<int>(b);
    *in_range = j >= max_lane;
  } else if (mode == "down") {
    j = static_cast<int>(lane + b);
    *in_range = j <= max_lane;
  } else if (mode == "bfly") {
    j = static_cast<int>(lane ^ b);
    *in_range = j <= max_lane;
  } else {
    j = min_lane | static_cast<int>(b & ~mask);
    *in_range = j <= max_lane;
  }
  return *in_range ? static_cast<uint32_t>(j) : lane;
}

TEST(WarpOpsTest, ShufflesOfAllModesAndWidths) {
  for (const std::string mode : {"up", "down", "bfly", "idx"}) {
    for (const uint32_t width : {32u, 16u, 8u, 4u, 2u, 1u}) {
      const uint32_t c = (32 - width) << 8 | (mode == "up" ? 0 : 31);
      for (const uint32_t b : {0u, 1u, 2u, 3u, 7u, 16u, 31u}) {
        SCOPED_TRACE(mode + " width " + std::to_string(width) + " by " +
                     std::to_string(b));
        const auto result = RunWarp(
            "shfl.sync." + mode + ".b32 %x1|%p1, %v, " + std::to_string(b) +
                ", " + std::to_string(c) + ", -1;\n" +
                "selp.u32 %x2, 1000, 0, %p1; add.u32 %r, %x1, %x2;",
            kHundreds);
        for (uint32_t l = 0; l < 32; ++l) {
          bool in_range = false;
          const uint32_t from = Shuffled(mode, l, b, c, &in_range);
          EXPECT_EQ(result[l], 100 + from + (in_range ? 1000 : 0)) << l;
        }
      }
    }
  }
}

TEST(WarpOpsTest, ShuffleByARegisterThatDiffers) {
  const auto result = RunWarp(
      "xor.b32 %x1, %t, 13; shfl.sync.idx.b32 %r, %v, %x1, 31, -1;", kHundreds);
  for (uint32_t l = 0; l < 32; ++l) EXPECT_EQ(result[l], 100 + (l ^ 13));
}

TEST(WarpOpsTest, VotesAndActiveMask) {
  const auto result = RunWarp(R"(
    and.b32 %x1, %t, 3; setp.eq.u32 %p1, %x1, 1;
    vote.sync.ballot.b32 %x2, %p1, -1;
    vote.sync.any.pred %p2, %p1, -1;
    vote.sync.all.pred %p3, %p1, -1;
    setp.ge.u32 %p4, %t, 0;
    vote.sync.uni.pred %p5, %p4, -1;
    vote.sync.all.pred %p6, !%p1, 0x11111111;
    popc.b32 %r, %x2;
    selp.u32 %x3, 100, 0, %p2; add.u32 %r, %r, %x3;
    selp.u32 %x3, 1000, 0, %p3; add.u32 %r, %r, %x3;
    selp.u32 %x3, 10000, 0, %p5; add.u32 %r, %r, %x3;)",
                              kHundreds);
  for (const uint32_t r : result) EXPECT_EQ(r, 8u + 100 + 10000);
}

TEST(WarpOpsTest, OnlyLanesThatAreHereVote) {
  const auto result = RunWarp(R"(
    mov.u32 %r, 0;
    setp.ge.u32 %p1, %t, 10;
    @%p1 bra DONE;
    setp.ge.u32 %p2, %t, 4;
    vote.sync.ballot.b32 %r, %p2, 0x3ff;
    DONE:)",
                              kHundreds);
  for (uint32_t l = 0; l < 32; ++l) EXPECT_EQ(result[l], l < 10 ? 0x3f0u : 0);
}

TEST(WarpOpsTest, MatchFindsEqualLanes) {
  const auto values = Values([](uint32_t l) { return l * l % 7; });
  const auto any = RunWarp("match.any.sync.b32 %r, %v, -1;", values);
  const auto wide = RunWarp(
      "cvt.u64.u32 %l1, %v; shl.b64 %l1, %l1, 33; "
      "match.any.sync.b64 %r, %l1, -1;",
      values);
  const auto part = RunWarp(R"(
    mov.u32 %r, 0;
    setp.lt.u32 %p1, %t, 16;
    @%p1 match.any.sync.b32 %r, %v, 0xffff;)",
                            values);
  for (uint32_t l = 0; l < 32; ++l) {
    uint32_t mask = 0;
    for (uint32_t k = 0; k < 32; ++k)
      mask |= uint32_t{values[k] == values[l]} << k;
    EXPECT_EQ(any[l], mask);
    EXPECT_EQ(wide[l], mask);
    EXPECT_EQ(part[l], l < 16 ? mask & 0xffff : 0);
  }
  const auto all_differ = RunWarp(
      "match.all.sync.b32 %x1|%p1, %v, -1; selp.u32 %r, 1, 0, %p1;"
      "add.u32 %r, %r, %x1;",
      values);
  const auto all_same = RunWarp(
      "match.all.sync.b32 %x1|%p1, 5, -1; selp.u32 %r, 1, 0, %p1;"
      "add.u32 %r, %r, %x1;",
      values);
  for (const uint32_t r : all_differ) EXPECT_EQ(r, 0u);
  for (const uint32_t r : all_same) EXPECT_EQ(r, 0u) << "1 + 0xffffffff";
}

TEST(WarpOpsTest, ReduceInsideMasks) {
  const auto values = Values([](uint32_t l) { return 0x80000000u + l * 37; });
  // Two halves reduce apart from each other, in one instruction.
  const std::string masks =
      "setp.lt.u32 %p1, %t, 16; selp.b32 %x1, 0xffff, 0xffff0000, %p1;\n";
  const auto sum = RunWarp(masks + "redux.sync.add.u32 %r, %v, %x1;", values);
  const auto umax = RunWarp(masks + "redux.sync.max.u32 %r, %v, %x1;", values);
  const auto smin = RunWarp(masks + "redux.sync.min.s32 %r, %v, %x1;", values);
  const auto bits = RunWarp(masks + "redux.sync.xor.b32 %r, %v, %x1;", values);
  for (uint32_t l = 0; l < 32; ++l) {
    uint32_t total = 0;
    uint32_t folded = 0;
    const uint32_t first = l < 16 ? 0 : 16;
    for (uint32_t k = first; k < first + 16; ++k) {
      total += values[k];
      folded ^= values[k];
    }
    EXPECT_EQ(sum[l], total);
    EXPECT_EQ(umax[l], values[first + 15]);
    EXPECT_EQ(smin[l], values[first]);
    EXPECT_EQ(bits[l], folded);
  }
}

TEST(WarpOpsTest, ElectTakesTheLowestLane) {
  const auto result = RunWarp(R"(
    mov.u32 %r, 0;
    setp.lt.u32 %p1, %t, 3;
    @%p1 bra DONE;
    elect.sync %x1|%p2, 0xfffffff8;
    selp.u32 %r, 100, 0, %p2; add.u32 %r, %r, %x1;
    DONE:)",
                              kHundreds);
  for (uint32_t l = 0; l < 32; ++l) {
    EXPECT_EQ(result[l], l < 3 ? 0u : l == 3 ? 103u : 3u);
  }
}

}  // namespace
}  // namespace softcuda::testing
