// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "exec_test_support.h"

namespace softcuda::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

// A kernel of one block that stores %r for each thread: `body` computes %r from
// %tid in %t.
std::string PerThread(const std::string& declarations,
                      const std::string& body) {
  return Ptx(declarations +
             ".visible .entry k(.param .u64 out) {\n"
             ".reg .pred %p<8>; .reg .b32 %r, %t, %x<16>;\n"
             ".reg .b64 %o, %w, %l<8>;\n"
             "ld.param.u64 %o, [out];\nmov.u32 %t, %tid.x;\n"
             "mul.wide.u32 %w, %t, 4; add.u64 %o, %o, %w;\n" +
             body + "\nst.global.u32 [%o], %r;\nret;\n}\n");
}

std::vector<uint32_t> RunPerThread(const std::string& text, uint32_t threads,
                                   uint64_t seed = 0) {
  Loaded loaded(text);
  EXPECT_TRUE(loaded) << loaded.error().message;
  DeviceMemory out(std::vector<uint32_t>(threads, 0xdead));
  EXPECT_EQ(
      loaded.Run("k", {.block = {threads, 1, 1}, .seed = seed}, out.address()),
      CUDA_SUCCESS)
      << loaded.TakeReports();
  return out.Read<uint32_t>();
}

TEST(ControlFlowTest, SidesOfAJumpMeetAgain) {
  const auto result = RunPerThread(PerThread("", R"(
    mov.u32 %r, 0;
    and.b32 %x1, %t, 1; setp.eq.u32 %p1, %x1, 0;
    @%p1 bra EVEN;
    add.u32 %r, %r, 100;
    bra JOIN;
    EVEN: add.u32 %r, %r, 200;
    JOIN:
    // All lanes are here together, or the vote sees only one side.
    activemask.b32 %x2;
    popc.b32 %x2, %x2;
    add.u32 %r, %r, %x2;)"),
                                   64);
  for (uint32_t t = 0; t < 64; ++t) {
    EXPECT_EQ(result[t], (t % 2 == 0 ? 200u : 100u) + 32) << t;
  }
}

TEST(ControlFlowTest, NestedLoopsWithDifferentTripCounts) {
  // Sum over i <= t, j < i of i * j, with an early way out of the inner loop.
  const auto result = RunPerThread(PerThread("", R"(
    mov.u32 %r, 0; mov.u32 %x1, 0;
    OUTER:
    mov.u32 %x2, 0;
    INNER:
    setp.ge.u32 %p1, %x2, %x1;
    @%p1 bra INNER_DONE;
    setp.gt.u32 %p2, %x2, 9;
    @%p2 bra INNER_DONE;
    mad.lo.u32 %r, %x1, %x2, %r;
    add.u32 %x2, %x2, 1;
    bra INNER;
    INNER_DONE:
    add.u32 %x1, %x1, 1;
    setp.le.u32 %p3, %x1, %t;
    @%p3 bra OUTER;
    activemask.b32 %x3; popc.b32 %x3, %x3;
    add.u32 %r, %r, %x3;)"),
                                   96);
  for (uint32_t t = 0; t < 96; ++t) {
    uint32_t sum = 32;
    for (uint32_t i = 0; i <= t; ++i) {
      for (uint32_t j = 0; j < i && j <= 9; ++j) sum += i * j;
    }
    EXPECT_EQ(result[t], sum) << t;
  }
}

TEST(ControlFlowTest, LoopThatLosesALaneEachTurnDoesNotGrow) {
  const auto result = RunPerThread(PerThread("", R"(
    mov.u32 %r, 0;
    mul.lo.u32 %x1, %t, 1000;
    LOOP:
    setp.ge.u32 %p1, %r, %x1;
    @%p1 bra DONE;
    add.u32 %r, %r, 1;
    bra LOOP;
    DONE:)"),
                                   32);
  for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(result[t], t * 1000);
}

TEST(ControlFlowTest, ThreadsThatReturnEarlyDoNotHoldUpABarrier) {
  // The usual `if (i >= n) return;` before __syncthreads(), inside a warp.
  const auto result = RunPerThread(PerThread("", R"(
    mov.u32 %r, 7;
    setp.lt.u32 %p1, %t, 40;
    @%p1 bra GONE;
    bar.sync 0;
    mov.u32 %r, 8;
    bar.sync 0;
    bra TAIL;
    GONE: ret;
    TAIL:)"),
                                   96);
  for (uint32_t t = 0; t < 96; ++t) {
    EXPECT_EQ(result[t], t < 40 ? 0xdead : 8u) << t;
  }
}

TEST(ControlFlowTest, ASwitchGoesWhereItsTableSays) {
  const auto result = RunPerThread(PerThread("", R"(
    and.b32 %x1, %t, 3;
    TABLE: .branchtargets CASE0, CASE1, CASE2, CASE3;
    brx.idx %x1, TABLE;
    CASE0: mov.u32 %r, 10; bra DONE;
    CASE1: mov.u32 %r, 11; bra DONE;
    CASE2: mov.u32 %r, 12;   // falls through
    CASE3: mov.u32 %r, 13;
    DONE:
    activemask.b32 %x2; popc.b32 %x2, %x2; add.u32 %r, %r, %x2;)"),
                                   32);
  const uint32_t expected[] = {10, 11, 13, 13};
  for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(result[t], expected[t % 4] + 32);
}

TEST(ControlFlowTest, CallsAreCopiedIntoTheCaller) {
  const std::string functions = R"(
    .func (.param .b32 ret) twice_plus(.param .b32 x, .param .b32 y) {
      .reg .b32 %a<4>; .reg .pred %q;
      ld.param.b32 %a1, [x];
      ld.param.b32 %a2, [y];
      setp.eq.u32 %q, %a1, 5;
      @%q bra FIVE;
      mad.lo.u32 %a3, %a1, 2, %a2;
      st.param.b32 [ret], %a3;
      ret;
      FIVE:
      st.param.b32 [ret], 555;
      ret;
    }
    .func (.param .b32 ret) outer(.param .b32 x) {
      .reg .b32 %a<4>;
      ld.param.b32 %a1, [x];
      { .param .b32 p0; .param .b32 p1; .param .b32 r0;
        st.param.b32 [p0], %a1; st.param.b32 [p1], 1;
        call.uni (r0), twice_plus, (p0, p1);
        ld.param.b32 %a2, [r0]; }
      add.u32 %a2, %a2, 1000;
      st.param.b32 [ret], %a2;
      ret;
    })";
  const auto result = RunPerThread(PerThread(functions, R"(
    { .param .b32 p0; .param .b32 r0;
      st.param.b32 [p0], %t;
      call.uni (r0), outer, (p0);
      ld.param.b32 %r, [r0]; }
    activemask.b32 %x2; popc.b32 %x2, %x2; add.u32 %r, %r, %x2;)"),
                                   32);
  for (uint32_t t = 0; t < 32; ++t) {
    EXPECT_EQ(result[t], (t == 5 ? 555 : 2 * t + 1) + 1000 + 32);
  }
}

TEST(ControlFlowTest, CallsThatCannotBeCopiedAreRefused) {
  const std::string recursive = R"(
    .func again(.param .b32 x) {
      { .param .b32 p0; st.param.b32 [p0], 1; call.uni again, (p0); }
      ret;
    })";
  Loaded loops(PerThread(recursive, R"(
    { .param .b32 p0; st.param.b32 [p0], 1; call.uni again, (p0); })"));
  EXPECT_FALSE(loops);
  EXPECT_THAT(loops.error().message, HasSubstr("recursive"));
  Loaded prints(PerThread(
      ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);",
      R"(
    { .param .b64 p0; .param .b64 p1; .param .b32 r0;
      call.uni (r0), vprintf, (p0, p1); })"));
  EXPECT_FALSE(prints);
  EXPECT_THAT(prints.error().message, HasSubstr("printf"));
}

// Sum of all threads through shared memory, the classic tree.
constexpr const char* kTreeSum = R"(
    .shared .align 4 .b8 sums[1024];
    mov.u32 %x1, sums;
    shl.b32 %x2, %t, 2; add.u32 %x2, %x1, %x2;
    st.shared.u32 [%x2], %t;
    mov.u32 %x3, 128;
    LOOP:
    bar.sync 0;
    setp.ge.u32 %p1, %t, %x3;
    @%p1 bra SKIP;
    shl.b32 %x4, %x3, 2; add.u32 %x4, %x2, %x4;
    ld.shared.u32 %x5, [%x4]; ld.shared.u32 %x6, [%x2];
    add.u32 %x6, %x6, %x5; st.shared.u32 [%x2], %x6;
    SKIP:
    shr.u32 %x3, %x3, 1;
    setp.ne.u32 %p2, %x3, 0;
    @%p2 bra LOOP;
    bar.sync 0;
    ld.shared.u32 %r, [%x1];)";

TEST(ControlFlowTest, SharedReductionUnderManySchedules) {
  const std::string text = PerThread("", kTreeSum);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_THAT(RunPerThread(text, 256, seed), Each(255u * 256 / 2)) << seed;
  }
}

TEST(ControlFlowTest, SharedMemoryDoesNotStartZero) {
  const auto result = RunPerThread(PerThread("", R"(
    .shared .align 4 .b8 memory[128];
    mov.u32 %x1, memory; shl.b32 %x2, %t, 2; add.u32 %x1, %x1, %x2;
    ld.shared.u32 %r, [%x1];)"),
                                   32);
  for (const uint32_t word : result) EXPECT_NE(word, 0u);
}

TEST(ControlFlowTest, BarriersCountReduceAndPair) {
  const auto result = RunPerThread(PerThread("", R"(
    setp.lt.u32 %p1, %t, 70;
    bar.red.popc.u32 %x1, 0, %p1;
    barrier.cta.red.or.pred %p2, 1, %p1;
    setp.lt.u32 %p3, %t, 1000;
    bar.red.and.pred %p4, 2, !%p3;
    barrier.cta.red.and.aligned.pred %p5, 3, %p3;
    selp.u32 %x2, 1000, 0, %p2; selp.u32 %x3, 10000, 0, %p4;
    selp.u32 %x4, 100000, 0, %p5;
    add.u32 %r, %x1, %x2; add.u32 %r, %r, %x3; add.u32 %r, %r, %x4;)"),
                                   128);
  EXPECT_THAT(result, Each(70u + 1000 + 100000));
}

TEST(ControlFlowTest, NamedBarriersPairAProducerWithAConsumer) {
  const std::string text = PerThread("", R"(
    .shared .align 4 .b8 slot[4];
    mov.u32 %r, 0;
    setp.ge.u32 %p1, %t, 32;
    @%p1 bra CONSUME;
    mov.u32 %x1, 77; st.shared.u32 [slot], %x1;
    bar.arrive 5, 64;
    bra DONE;
    CONSUME:
    bar.sync 5, 64;
    ld.shared.u32 %r, [slot];
    DONE:)");
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const auto result = RunPerThread(text, 64, seed);
    for (uint32_t t = 0; t < 64; ++t) EXPECT_EQ(result[t], t < 32 ? 0u : 77u);
  }
}

TEST(ControlFlowTest, ScopesHideOuterNames) {
  const auto result = RunPerThread(PerThread("", R"(
    mov.u32 %x1, 3;
    { .reg .b32 %x1; .reg .pred q; mov.u32 %x1, 1000;
      setp.eq.u32 q, %t, 0;
      @q bra L;
      add.u32 %x1, %x1, 1;
      L: mov.u32 %r, %x1; }
    { .reg .pred q; setp.eq.u32 q, %t, 1; @!q bra L; add.u32 %r, %r, 5; L: }
    add.u32 %r, %r, %x1;)"),
                                   32);
  for (uint32_t t = 0; t < 32; ++t) {
    EXPECT_EQ(result[t], (t == 0 ? 1000u : 1001u) + (t == 1 ? 5 : 0) + 3);
  }
}

TEST(ControlFlowTest, SpecialRegisters) {
  Loaded loaded(Ptx(R"(
    .visible .entry k(.param .u64 out) {
      .reg .b32 %r<20>; .reg .b64 %o, %w;
      ld.param.u64 %o, [out];
      mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z;
      mov.u32 %r4, %ntid.x; mov.u32 %r5, %ntid.y;
      mad.lo.u32 %r6, %r3, %r5, %r2; mad.lo.u32 %r6, %r6, %r4, %r1;
      mov.u32 %r7, %ctaid.x; mov.u32 %r8, %ctaid.y; mov.u32 %r9, %ctaid.z;
      mov.u32 %r10, %nctaid.x; mov.u32 %r11, %nctaid.y;
      mad.lo.u32 %r12, %r9, %r11, %r8; mad.lo.u32 %r12, %r12, %r10, %r7;
      mov.u32 %r13, %ntid.z; mul.lo.u32 %r14, %r4, %r5;
      mul.lo.u32 %r14, %r14, %r13;
      mad.lo.u32 %r12, %r12, %r14, %r6;
      mul.wide.u32 %w, %r12, 16; add.u64 %o, %o, %w;
      mov.u32 %r15, %laneid; mov.u32 %r16, %warpid;
      mov.u32 %r17, %lanemask_lt; mov.u32 %r18, %nwarpid;
      st.global.v4.u32 [%o], {%r15, %r16, %r17, %r18};
      ret;
    })"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  constexpr uint32_t kThreads = 5 * 3 * 4;
  constexpr uint32_t kBlocks = 3 * 2 * 2;
  DeviceMemory out(kBlocks * kThreads * 16);
  ASSERT_EQ(
      loaded.Run("k", {.grid = {3, 2, 2}, .block = {5, 3, 4}}, out.address()),
      CUDA_SUCCESS)
      << loaded.TakeReports();
  const auto words = out.Read<uint32_t>();
  for (uint32_t i = 0; i < kBlocks * kThreads; ++i) {
    const uint32_t linear = i % kThreads;
    EXPECT_EQ(words[4 * i], linear % 32);
    EXPECT_EQ(words[4 * i + 1], linear / 32);
    EXPECT_EQ(words[4 * i + 2], (1u << linear % 32) - 1);
    EXPECT_EQ(words[4 * i + 3], 2u);
  }
}

TEST(ControlFlowTest, PartOfAWarpAtABarrierIsReported) {
  Loaded loaded(PerThread("", R"(
    mov.u32 %r, 0;
    setp.lt.u32 %p1, %t, 16;
    @%p1 bra FEW;
    add.u32 %r, %r, 1;
    bra DONE;
    FEW: bar.sync 0;
    DONE:)"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  DeviceMemory out(32 * 4);
  EXPECT_EQ(loaded.Run("k", {}, out.address()), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_THAT(loaded.TakeReports(), HasSubstr("16 threads of 32"));
}

TEST(ControlFlowTest, ABarrierThatNobodyElseReachesIsADeadlock) {
  Loaded loaded(PerThread("", R"(
    mov.u32 %r, 0;
    setp.lt.u32 %p1, %t, 32;
    @%p1 bra FIRST;
    bar.sync 1;
    bra DONE;
    FIRST: bar.sync 2;
    DONE:)"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  DeviceMemory out(64 * 4);
  EXPECT_EQ(loaded.Run("k", {.block = {64, 1, 1}}, out.address()),
            CUDA_ERROR_LAUNCH_TIMEOUT);
  EXPECT_THAT(loaded.TakeReports(), HasSubstr("no other thread"));
}

TEST(ControlFlowTest, TrapAndAssertEndTheLaunch) {
  Loaded traps(PerThread("", R"(
    mov.u32 %r, 1;
    setp.ne.u32 %p1, %t, 5;
    @%p1 bra OK;
    trap;
    OK:)"));
  ASSERT_TRUE(traps) << traps.error().message;
  DeviceMemory out(32 * 4);
  EXPECT_EQ(traps.Run("k", {}, out.address()), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_THAT(traps.TakeReports(), HasSubstr("thread (5,0,0)"));
  Loaded asserts(PerThread(
      ".extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l,"
      " .param .b64 n, .param .b64 s);",
      R"(
    mov.u32 %r, 1;
    setp.ne.u32 %p1, %t, 6;
    @%p1 bra OK;
    { .param .b64 p0; .param .b64 p1; .param .b32 p2; .param .b64 p3;
      .param .b64 p4;
      call.uni __assertfail, (p0, p1, p2, p3, p4); }
    OK:)"));
  ASSERT_TRUE(asserts) << asserts.error().message;
  EXPECT_EQ(asserts.Run("k", {}, out.address()), CUDA_ERROR_ASSERT);
}

// A path that ends in a trap must not keep the others from meeting again.
TEST(ControlFlowTest, TrapPathsDoNotCountForMeeting) {
  const auto result = RunPerThread(PerThread("", R"(
    and.b32 %x1, %t, 1; setp.eq.u32 %p1, %x1, 0;
    mov.u32 %r, 0;
    @%p1 bra EVEN;
    setp.gt.u32 %p2, %t, 500;
    @%p2 bra NEVER;
    mov.u32 %r, 1;
    bra JOIN;
    NEVER: trap;
    exit;
    EVEN: mov.u32 %r, 2;
    JOIN:
    activemask.b32 %x2; popc.b32 %x2, %x2; add.u32 %r, %r, %x2;)"),
                                   32);
  for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(result[t], t % 2 ? 33u : 34u);
}

TEST(ControlFlowTest, LaunchesOfWrongShapeAreRefused) {
  Loaded loaded(PerThread("", "mov.u32 %r, 1;"));
  ASSERT_TRUE(loaded);
  DeviceMemory out(4096 * 4);
  EXPECT_EQ(loaded.Run("k", {.block = {1024, 1, 1}}, out.address()),
            CUDA_SUCCESS);
  EXPECT_EQ(loaded.Run("k", {.block = {1025, 1, 1}}, out.address()),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(loaded.Run("k", {.block = {0, 1, 1}}, out.address()),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(loaded.Run("k", {.grid = {0, 1, 1}}, out.address()),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(loaded.Run("k", {.block = {512, 512, 512}}, out.address()),
            CUDA_ERROR_INVALID_VALUE);
  exec::Launch bare;
  bare.kernel = loaded.module().Find("k");
  EXPECT_EQ(exec::Run(bare, *memory::AddressSpace::Get().snapshot(),
                      loaded.reporter()),
            CUDA_ERROR_INVALID_VALUE)
      << "parameters are missing";
}

}  // namespace
}  // namespace softcuda::testing
