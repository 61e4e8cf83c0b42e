// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Reports about what kernels read, count and race for.
#include <cmath>
#include <limits>

#include "case_fixture.h"

namespace softcuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class KernelCases : public DriverCases {
 protected:
  CUdeviceptr NewFloats(const std::vector<float>& values) {
    const CUdeviceptr memory = NewBytes(values.size() * 4);
    EXPECT_OK(cuMemcpyHtoD(memory, values.data(), values.size() * 4));
    EXPECT_OK(cuCtxSynchronize());
    return memory;
  }
  static void MarkUndefined(CUdeviceptr memory, size_t bytes) {
    EXPECT_OK(softcuda_mark_undefined(memory, bytes));
  }
  void Finish(CUresult launched) {
    EXPECT_OK(launched);
    EXPECT_OK(cuStreamSynchronize(stream_));
  }
};

// --- counters ---

class SplitKCases : public KernelCases {
 protected:
  static constexpr unsigned int kBlocks = 4;
  void SetUp() override {
    KernelCases::SetUp();
    in_ = NewInts({1, 2, 3, 4});
    parts_ = NewInts(kBlocks, 0);
    counter_ = NewInts(1, 0);
    out_ = NewInts(1, 0);
  }
  CUresult LaunchSplitK() {
    return Launch(stream_, "c_split_k", kBlocks, 32, in_, parts_, counter_,
                  out_);
  }
  CUdeviceptr in_ = 0;
  CUdeviceptr parts_ = 0;
  CUdeviceptr counter_ = 0;
  CUdeviceptr out_ = 0;
};

TEST_F(SplitKCases, B16_AGraphThatResetsItsCounterReplays) {
  const CUgraphExec exec = Instantiate(Capture([&] {
    EXPECT_OK(cuMemsetD32Async(counter_, 0, 1, stream_));
    EXPECT_OK(LaunchSplitK());
  }));
  for (int replay = 0; replay < 5; ++replay) {
    EXPECT_OK(cuMemsetD32Async(counter_, 7, 1, stream_));
    EXPECT_OK(cuMemsetD32Async(out_, 0, 1, stream_));
    Replay(exec);
    EXPECT_EQ(Read(out_, 1)[0], 10);
  }
}

TEST_F(SplitKCases, B16_AStaleCounterSpinsIntoTheStepLimit) {
  const std::string spin = LineOf("split_k_spin");
  EXPECT_ENDS_CONTEXT(
      CUDA_ERROR_LAUNCH_TIMEOUT,
      {
        softcuda_set_option("step_limit", "100000");
        cuMemsetD32Async(counter_, 7, 1, stream_);
        LaunchSplitK();
      },
      "timeout: .*kernel c_split_k .*" + spin);
}

TEST_F(SplitKCases, B16_ACounterThatNoNodeResetsIsReported) {
  softcuda_enable_initcheck(1);
  MarkUndefined(counter_, 4);
  const CUgraphExec resetting = Instantiate(Capture([&] {
    EXPECT_OK(cuMemsetD32Async(counter_, 0, 1, stream_));
    EXPECT_OK(LaunchSplitK());
  }));
  Replay(resetting);
  EXPECT_EQ(TakeReports(), "");
  // The same without the reset, on a counter that happens to be right.
  EXPECT_OK(cuMemsetD32(counter_, 0, 1));
  EXPECT_OK(cuCtxSynchronize());
  MarkUndefined(counter_, 4);
  Replay(Instantiate(Capture([&] { EXPECT_OK(LaunchSplitK()); })));
  EXPECT_THAT(TakeReports(), AllOf(HasSubstr("initcheck: "),
                                   HasSubstr(LineOf("split_k_count"))));
}

class StealCases : public KernelCases {
 protected:
  static constexpr unsigned int kTiles = 37;
  void SetUp() override {
    KernelCases::SetUp();
    next_ = NewInts(1, 0);
    visits_ = NewInts(kTiles, 0);
  }
  // How often each tile was taken under a seed.
  std::vector<int> Visits(const char* kernel, uint64_t seed) {
    softcuda_set_schedule_seed(seed);
    EXPECT_OK(cuMemsetD32Async(next_, 0, 1, stream_));
    EXPECT_OK(cuMemsetD32Async(visits_, 0, kTiles, stream_));
    Finish(Launch(stream_, kernel, 8, 32, next_, visits_, kTiles));
    return Read(visits_, kTiles);
  }
  CUdeviceptr next_ = 0;
  CUdeviceptr visits_ = 0;
};

TEST_F(StealCases, B17_EveryTileIsTakenOnceInEveryOrder) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    EXPECT_EQ(Visits("c_steal_tiles", seed), std::vector<int>(kTiles, 1))
        << "seed " << seed;
  }
}

TEST_F(StealCases, B17_AResetInsideTheKernelShowsInSomeOrderAndIsReported) {
  int wrong = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    wrong += Visits("f_steal_tiles_reset_inside", seed) !=
                     std::vector<int>(kTiles, 1)
                 ? 1
                 : 0;
  }
  EXPECT_GT(wrong, 0);
  softcuda_enable_racecheck(1);
  Visits("f_steal_tiles_reset_inside", 1);
  EXPECT_THAT(TakeReports(), AllOf(HasSubstr("racecheck: "),
                                   HasSubstr(LineOf("reset_inside"))));
  Visits("c_steal_tiles", 1);
  EXPECT_EQ(TakeReports(), "");
}

// --- tails ---

class TailCases : public KernelCases {
 protected:
  static constexpr int kEntries = 64;
  static constexpr int kTotal = 21;
  // What the consumer makes of a map whose tail holds `tail`.
  std::vector<int> Consume(const char* kernel, int tail) {
    std::vector<int> map(kEntries, tail);
    for (int i = 0; i < kTotal; ++i) map[static_cast<size_t>(i)] = i + 1;
    const CUdeviceptr entries = NewInts(map);
    const CUdeviceptr total = NewInts(1, kTotal);
    const CUdeviceptr out = NewInts(kEntries, -1);
    MarkUndefined(entries + kTotal * 4, (kEntries - kTotal) * 4);
    Finish(Launch(stream_, kernel, 2, 32, entries, total, out));
    return Read(out, kEntries);
  }
};

TEST_F(TailCases, B18_TheTailOfATileMapIsNotRead) {
  softcuda_enable_initcheck(1);
  std::vector<int> want(kEntries, -1);
  for (int i = 0; i < kTotal; ++i) want[static_cast<size_t>(i)] = 2 * (i + 1);
  for (const int tail : {-1, 0, 0x7f7f7f7f, kEntries * 3}) {
    EXPECT_EQ(Consume("c_consume_tiles", tail), want) << tail;
  }
  EXPECT_EQ(TakeReports(), "");
}

TEST_F(TailCases, B18_AReadBeforeTheBoundIsReportedThoughResultsAreRight) {
  softcuda_enable_initcheck(1);
  EXPECT_EQ(Consume("f_consume_before_the_bound", 0)[kTotal], -1);
  EXPECT_THAT(TakeReports(), AllOf(HasSubstr("initcheck: "),
                                   HasSubstr(LineOf("before_the_bound"))));
}

TEST_F(KernelCases, B23_AnAccumulatorThatNobodySetIsReported) {
  softcuda_enable_initcheck(1);
  ASSERT_OK(softcuda_set_option("poison", "0xa5"));
  const CUdeviceptr in = NewFloats(std::vector<float>(32, 1.0f));
  const CUdeviceptr sum = NewBytes(128);
  Replay(Instantiate(Capture(
      [&] { EXPECT_OK(Launch(stream_, "c_accumulate", 1, 32, in, sum)); })));
  EXPECT_THAT(TakeReports(),
              AllOf(HasSubstr("initcheck: "), HasSubstr(LineOf("accumulate"))));
}

TEST_F(KernelCases, B23_AnAccumulatorThatTheGraphSetsDoesNotGrow) {
  softcuda_enable_initcheck(1);
  ASSERT_OK(softcuda_set_option("poison", "0xa5"));
  const CUdeviceptr in = NewFloats(std::vector<float>(32, 1.0f));
  const CUdeviceptr sum = NewBytes(128);
  const CUgraphExec exec = Instantiate(Capture([&] {
    EXPECT_OK(cuMemsetD32Async(sum, 0, 32, stream_));
    EXPECT_OK(Launch(stream_, "c_accumulate", 1, 32, in, sum));
  }));
  for (int replay = 0; replay < 3; ++replay) {
    Replay(exec);
    EXPECT_EQ(Read<float>(sum, 32), std::vector<float>(32, 1.0f));
  }
  EXPECT_EQ(TakeReports(), "");
}

class RowCases : public KernelCases {
 protected:
  static constexpr int kRows = 8;
  static constexpr int kLive = 3;
  static constexpr int kWidth = 32;
  void SetUp() override {
    KernelCases::SetUp();
    softcuda_enable_initcheck(1);
    in_ = NewFloats(std::vector<float>(kRows * kWidth, kNan));
    out_ = NewFloats(std::vector<float>(kRows * kWidth, 0.0f));
    EXPECT_OK(cuMemsetD32(in_, 0x3f800000, kLive * kWidth));
    EXPECT_OK(cuCtxSynchronize());
    MarkUndefined(in_ + kLive * kWidth * 4, (kRows - kLive) * kWidth * 4);
  }
  // Whether a row that is not live came out as a number.
  bool TailIsFinite(const char* kernel, int rows) {
    Finish(Launch(stream_, kernel, kRows, kWidth, in_, out_, rows, kWidth));
    return std::isfinite(Read<float>(out_, kRows * kWidth)[kLive * kWidth]);
  }
  CUdeviceptr in_ = 0;
  CUdeviceptr out_ = 0;
};

TEST_F(RowCases, B26_SaturationHidesDeadRowsButTheReportDoesNot) {
  EXPECT_TRUE(TailIsFinite("c_saturate_rows", kRows));
  EXPECT_THAT(TakeReports(),
              AllOf(HasSubstr("initcheck: "), HasSubstr(LineOf("saturate"))));
  EXPECT_FALSE(TailIsFinite("c_copy_rows", kRows));
  EXPECT_THAT(TakeReports(), HasSubstr(LineOf("copy_rows")));
}

TEST_F(RowCases, B26_LiveRowsAloneAreSilent) {
  EXPECT_TRUE(TailIsFinite("c_saturate_rows", kLive));
  EXPECT_EQ(TakeReports(), "");
}

TEST_F(KernelCases, B61_PaddingScalesThatNobodySetsAreReported) {
  constexpr int kScales = 64;
  constexpr int kLive = 50;
  softcuda_enable_initcheck(1);
  const CUdeviceptr scales = NewFloats(std::vector<float>(kScales, 0.5f));
  const CUdeviceptr bad = NewInts(1, 0);
  MarkUndefined(scales + kLive * 4, (kScales - kLive) * 4);
  Finish(Launch(stream_, "c_check_scales", 1, kScales, scales, kScales, bad));
  EXPECT_THAT(TakeReports(), AllOf(HasSubstr("initcheck: "),
                                   HasSubstr(LineOf("check_scales"))));
  EXPECT_OK(cuMemsetD32Async(scales + kLive * 4, 0x3f800000, kScales - kLive,
                             stream_));
  Finish(Launch(stream_, "c_check_scales", 1, kScales, scales, kScales, bad));
  EXPECT_EQ(TakeReports(), "");
  EXPECT_EQ(Read(bad, 1)[0], 0);
}

// --- shared memory ---

TEST_F(KernelCases, B38_AMissingBarrierBeforeTheSearchIsReported) {
  const CUdeviceptr counts = NewInts(128, 1);
  const CUdeviceptr owner = NewInts(128, 0);
  softcuda_enable_racecheck(1);
  Finish(Launch(stream_, "f_prefix_search_no_barrier", 1, 128, counts, owner));
  EXPECT_THAT(TakeReports(), AllOf(HasSubstr("racecheck: "),
                                   HasSubstr(LineOf("search_no_barrier"))));
}

TEST_F(KernelCases, B38_TheBarrierMakesItSilentInEveryOrder) {
  const CUdeviceptr counts = NewInts(128, 1);
  const CUdeviceptr owner = NewInts(128, 0);
  softcuda_enable_racecheck(1);
  std::vector<int> want(128);
  for (int i = 0; i < 128; ++i) want[static_cast<size_t>(i)] = i;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    softcuda_set_schedule_seed(seed);
    Finish(Launch(stream_, "c_prefix_search", 1, 128, counts, owner));
    EXPECT_EQ(Read(owner, 128), want);
  }
  EXPECT_EQ(TakeReports(), "");
}

TEST_F(KernelCases, B39_RowsOfSharedMemoryThatNobodyZeroedAreReported) {
  const CUdeviceptr bins = NewInts(128, 5);
  const CUdeviceptr out = NewInts(128, 0);
  const char* const faulty = "f_count_matrix_one_row_zeroed";
  // Shared memory never starts zero, whether it is checked or not.
  Finish(Launch(stream_, faulty, 1, 128, bins, out));
  const std::vector<int> counts = Read(out, 128);
  EXPECT_EQ(counts[5], 32);
  EXPECT_NE(counts[32 + 5], 32);
  softcuda_enable_initcheck(1);
  Finish(Launch(stream_, faulty, 1, 128, bins, out));
  EXPECT_THAT(TakeReports(), AllOf(HasSubstr("initcheck: "),
                                   HasSubstr(LineOf("one_row_zeroed"))));
  // Each block finds it as the first did: none leaves zeros for the next.
  Finish(Launch(stream_, "c_count_matrix", 3, 128, bins, out));
  EXPECT_EQ(TakeReports(), "");
  EXPECT_EQ(Read(out, 128)[32 + 5], 32);
}

// --- addresses ---

TEST_F(KernelCases, B49_ALoadWhoseValueIsUnusedIsStillALoad) {
  const CUdeviceptr data = NewInts(4, 9);
  const CUdeviceptr blocks = NewInts({0, -1, 3, -1});
  const CUdeviceptr out = NewInts(4, 7);
  EXPECT_ENDS_CONTEXT(
      CUDA_ERROR_ILLEGAL_ADDRESS,
      Launch(stream_, "f_gather_padding_too", 1, 4, blocks, data, out),
      "memcheck: read of 4 bytes .*kernel f_gather_padding_too .*block "
      "\\(0,0,0\\) thread \\(1,0,0\\)");
  Finish(Launch(stream_, "c_gather_blocks", 1, 4, blocks, data, out));
  EXPECT_EQ(Read(out, 4), (std::vector<int>{9, 0, 9, 0}));
}

}  // namespace
}  // namespace softcuda
