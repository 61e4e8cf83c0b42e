// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Warps, blocks and the host wait for each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "exec_test_support.h"

namespace softcuda::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

TEST(SchedulingTest, AKernelSpinsUntilTheHostSetsAFlag) {
  for (const char* load : {"ld.volatile.global.u32",
                           "ld.acquire.sys.global.u32", "ld.global.u32"}) {
    SCOPED_TRACE(load);
    Loaded loaded(Ptx(std::string(R"(
      .visible .entry k(.param .u64 flag, .param .u64 out) {
        .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %f, %o;
        ld.param.u64 %f, [flag]; ld.param.u64 %o, [out];
        st.global.u32 [%o], 1;
        SPIN:
        )") + load + R"( %r1, [%f];
        setp.eq.u32 %p, %r1, 0;
        @%p bra SPIN;
        st.global.u32 [%o+4], %r1;
        ret; })"));
    ASSERT_TRUE(loaded) << loaded.error().message;
    DeviceMemory flag(std::vector<uint32_t>{0});
    DeviceMemory out(std::vector<uint32_t>{0, 0});
    std::thread host([&] {
      const auto* started =
          reinterpret_cast<std::atomic<uint32_t>*>(out.data());
      while (started->load() == 0) std::this_thread::yield();
      reinterpret_cast<std::atomic<uint32_t>*>(flag.data())->store(77);
    });
    EXPECT_EQ(loaded.Run("k", {.grid = {3, 1, 1}, .block = {64, 1, 1}},
                         flag.address(), out.address()),
              CUDA_SUCCESS)
        << loaded.TakeReports();
    host.join();
    EXPECT_EQ(out.as<uint32_t>()[1], 77u);
  }
}

TEST(SchedulingTest, SleepingThreadsLetTheHostGoOn) {
  Loaded loaded(Ptx(R"(
    .visible .entry k(.param .u64 flag) {
      .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %f;
      ld.param.u64 %f, [flag];
      SPIN:
      nanosleep.u32 100;
      ld.relaxed.sys.global.u32 %r1, [%f];
      setp.eq.u32 %p, %r1, 0;
      @%p bra SPIN;
      ret; })"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  DeviceMemory flag(std::vector<uint32_t>{0});
  std::thread host([&] {
    for (int k = 0; k < 100; ++k) std::this_thread::yield();
    reinterpret_cast<std::atomic<uint32_t>*>(flag.data())->store(1);
  });
  EXPECT_EQ(loaded.Run("k", {.grid = {8, 1, 1}}, flag.address()), CUDA_SUCCESS);
  host.join();
}

// Each block waits for the one behind it in the order, so all must be resident.
constexpr const char* kChain = R"(
    .visible .entry k(.param .u64 flags) {
      .reg .pred %p<3>; .reg .b32 %r<8>; .reg .b64 %f, %w;
      ld.param.u64 %f, [flags];
      mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x;
      add.u32 %r3, %r1, 1; mul.wide.u32 %w, %r3, 4; add.u64 %f, %f, %w;
      setp.eq.u32 %p1, %r3, %r2;
      @%p1 bra GO;
      SPIN:
      ld.acquire.gpu.global.u32 %r4, [%f];
      setp.eq.u32 %p2, %r4, 0;
      @%p2 bra SPIN;
      GO:
      st.release.gpu.global.u32 [%f+-4], 1;
      ret; })";

TEST(SchedulingTest, BlocksWaitForBlocksThatHaveNotStarted) {
  Loaded loaded(Ptx(kChain));
  ASSERT_TRUE(loaded) << loaded.error().message;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    DeviceMemory flags(std::vector<uint32_t>(65, 0));
    ASSERT_EQ(
        loaded.Run("k", {.grid = {64, 1, 1}, .block = {1, 1, 1}, .seed = seed},
                   flags.address()),
        CUDA_SUCCESS)
        << loaded.TakeReports();
    auto result = flags.Read<uint32_t>();
    result.pop_back();
    EXPECT_THAT(result, Each(1u));
  }
}

TEST(SchedulingTest, WarpsOfABlockWaitForEachOther) {
  Loaded loaded(Ptx(R"(
    .visible .entry k(.param .u64 out) {
      .reg .pred %p<3>; .reg .b32 %r<8>; .reg .b64 %o;
      .shared .align 4 .b8 flag[4];
      ld.param.u64 %o, [out];
      mov.u32 %r1, %tid.x;
      setp.eq.u32 %p1, %r1, 0;
      @%p1 st.shared.u32 [flag], 0;
      bar.sync 0;
      setp.ge.u32 %p1, %r1, 32;
      @%p1 bra SET;
      SPIN:
      ld.volatile.shared.u32 %r2, [flag];
      setp.eq.u32 %p2, %r2, 0;
      @%p2 bra SPIN;
      st.global.u32 [%o], %r2;
      bra DONE;
      SET: st.volatile.shared.u32 [flag], 9;
      DONE: ret; })"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  DeviceMemory out(std::vector<uint32_t>{0});
  EXPECT_EQ(loaded.Run("k", {.block = {64, 1, 1}}, out.address()),
            CUDA_SUCCESS);
  EXPECT_EQ(*out.as<uint32_t>(), 9u);
}

TEST(SchedulingTest, AKernelThatNeverEndsIsGivenUpWithItsLine) {
  Loaded loaded(Ptx(R"(
    .visible .entry k() {
      .loc 1 7 1
      FOREVER:
      .loc 1 8 1
      bra FOREVER;
      ret; }
    .file 1 "/src/spin.cu")"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded.Run("k", {.grid = {4, 1, 1}, .step_limit = 1000000}),
            CUDA_ERROR_LAUNCH_TIMEOUT);
  EXPECT_THAT(loaded.TakeReports(),
              AllOf(HasSubstr("timeout"), HasSubstr("/src/spin.cu:8")));
}

TEST(SchedulingTest, ASpinOnASiblingLaneIsGivenUpToo) {
  Loaded loaded(Ptx(R"(
    .visible .entry k(.param .u64 lock) {
      .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %l;
      ld.param.u64 %l, [lock];
      AGAIN:
      atom.global.cas.b32 %r1, [%l], 0, 1;
      setp.ne.u32 %p, %r1, 0;
      @%p bra AGAIN;
      atom.global.exch.b32 %r2, [%l], 0;
      ret; })"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  DeviceMemory lock(std::vector<uint32_t>{0});
  EXPECT_EQ(loaded.Run("k", {.step_limit = 1000000}, lock.address()),
            CUDA_ERROR_LAUNCH_TIMEOUT);
}

// Float atomics depend on the order of blocks: one seed, one result.
TEST(SchedulingTest, OneSeedGivesOneResult) {
  Loaded loaded(Ptx(R"(
    .visible .entry k(.param .u64 sum, .param .u64 ticket, .param .u64 order) {
      .reg .b32 %r<8>; .reg .f32 %f<4>; .reg .b64 %s, %t, %o, %w; .reg .pred %p;
      ld.param.u64 %s, [sum]; ld.param.u64 %t, [ticket];
      ld.param.u64 %o, [order];
      mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x;
      mad.lo.u32 %r3, %r1, 977, %r2; cvt.rn.f32.u32 %f1, %r3;
      rcp.rn.f32 %f1, %f1;
      setp.eq.u32 %p, %r3, 0; @%p mov.f32 %f1, 0f3F800000;
      red.global.add.f32 [%s], %f1;
      setp.ne.u32 %p, %r2, 0;
      @%p ret;
      atom.global.add.u32 %r4, [%t], 1;
      mul.wide.u32 %w, %r4, 4; add.u64 %o, %o, %w; st.global.u32 [%o], %r1;
      ret; })"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  const auto run = [&](uint64_t seed) {
    DeviceMemory sum(std::vector<float>{0});
    DeviceMemory ticket(std::vector<uint32_t>{0});
    DeviceMemory order(100 * 4);
    EXPECT_EQ(loaded.Run(
                  "k", {.grid = {100, 1, 1}, .block = {64, 1, 1}, .seed = seed},
                  sum.address(), ticket.address(), order.address()),
              CUDA_SUCCESS);
    auto result = order.Read<uint32_t>();
    result.push_back(sum.Read<uint32_t>()[0]);
    return result;
  };
  const auto natural = run(0);
  for (uint32_t k = 0; k < 100; ++k) EXPECT_EQ(natural[k], k);
  for (const uint64_t seed : {1u, 2u, 3u}) {
    const auto first = run(seed);
    EXPECT_EQ(run(seed), first);
    EXPECT_NE(first, natural);
    auto sorted = first;
    sorted.pop_back();
    std::sort(sorted.begin(), sorted.end());
    for (uint32_t k = 0; k < 100; ++k) EXPECT_EQ(sorted[k], k);
  }
}

TEST(SchedulingTest, SeveralLaunchesAtOnce) {
  Loaded loaded(Ptx(R"(
    .visible .entry k(.param .u64 out) {
      .reg .b32 %r<4>; .reg .b64 %o, %w;
      ld.param.u64 %o, [out];
      mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
      mad.lo.u32 %r1, %r1, %r2, %r3;
      mul.wide.u32 %w, %r1, 4; add.u64 %o, %o, %w; st.global.u32 [%o], %r1;
      ret; })"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  std::vector<std::thread> hosts;
  for (int host = 0; host < 4; ++host) {
    hosts.emplace_back([&loaded] {
      for (int repeat = 0; repeat < 10; ++repeat) {
        DeviceMemory out(256 * 50 * 4);
        EXPECT_EQ(loaded.Run("k", {.grid = {50, 1, 1}, .block = {256, 1, 1}},
                             out.address()),
                  CUDA_SUCCESS);
        const auto result = out.Read<uint32_t>();
        for (uint32_t k = 0; k < result.size(); ++k) ASSERT_EQ(result[k], k);
      }
    });
  }
  for (std::thread& host : hosts) host.join();
}

}  // namespace
}  // namespace softcuda::testing
