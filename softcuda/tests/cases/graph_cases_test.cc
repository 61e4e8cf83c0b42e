// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Reports about what replays read, own and outlive.
#include <cstring>
#include <memory>

#include "case_fixture.h"

namespace softcuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using GraphCases = DriverCases;

TEST_F(GraphCases, B03_AReplayIntoFreedMemoryNamesIt) {
  CUdeviceptr workspace = 0;
  ASSERT_OK(cuMemAlloc(&workspace, 256));
  const CUgraphExec exec = Instantiate(Capture(
      [&] { EXPECT_OK(Launch(stream_, "c_fill", 1, 64, workspace, 64, 3)); }));
  Replay(exec);
  ASSERT_OK(cuMemFree(workspace));
  EXPECT_ENDS_CONTEXT(CUDA_ERROR_ILLEGAL_ADDRESS,
                      (void)cuGraphLaunch(exec, stream_),
                      "memcheck: .*freed device allocation [0-9]+ \\(256 "
                      "bytes\\), freed by cuMemFree.*kernel c_fill .*graph "
                      "node 0");
}

// A setter that reallocates seems to work where the address comes back.
TEST_F(GraphCases, B11_RebindingByReallocationDependsOnTheAllocator) {
  const auto rebind = [&](const char* reuse) {
    EXPECT_OK(softcuda_set_option("address_reuse", reuse));
    CUdeviceptr input = 0;
    const CUdeviceptr out = NewInts(64, 0);
    EXPECT_OK(cuMemAlloc(&input, 256));
    EXPECT_OK(cuMemsetD32(input, 1, 64));
    const CUgraphExec exec = Instantiate(Capture([&] {
      EXPECT_OK(Launch(stream_, "c_add", 1, 64, input, out, 64, 10));
    }));
    EXPECT_OK(cuMemFree(input));
    EXPECT_OK(cuMemAlloc(&input, 256));
    EXPECT_OK(cuMemsetD32(input, 2, 64));
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_OK(cuGraphLaunch(exec, stream_));
    (void)cuStreamSynchronize(stream_);
    memory_.push_back(input);
    return out;
  };
  EXPECT_EQ(Read(rebind("always"), 64), std::vector<int>(64, 12));
  EXPECT_ENDS_CONTEXT(CUDA_ERROR_ILLEGAL_ADDRESS, rebind("never"),
                      "memcheck: read .*freed device allocation");
}

TEST_F(GraphCases, B11_RebindingByCopyDoesNot) {
  for (const char* reuse : {"always", "never"}) {
    ASSERT_OK(softcuda_set_option("address_reuse", reuse));
    const CUdeviceptr input = NewInts(64, 1);
    const CUdeviceptr out = NewInts(64, 0);
    const CUgraphExec exec = Instantiate(Capture([&] {
      EXPECT_OK(Launch(stream_, "c_add", 1, 64, input, out, 64, 10));
    }));
    CUdeviceptr fresh = 0;
    ASSERT_OK(cuMemAlloc(&fresh, 256));
    EXPECT_OK(cuMemsetD32Async(fresh, 2, 64, stream_));
    EXPECT_OK(cuMemcpyDtoDAsync(input, fresh, 256, stream_));
    Replay(exec);
    EXPECT_OK(cuMemFree(fresh));
    EXPECT_EQ(Read(out, 64), std::vector<int>(64, 12)) << reuse;
  }
}

TEST_F(GraphCases, B15_ACopyFromTheStackIsNotTheGraphsOwn) {
  ASSERT_OK(softcuda_set_option("hostcheck", "1"));
  const CUdeviceptr dims = NewInts(4, 0);
  int on_stack[4] = {1, 2, 3, 4};
  (void)Capture([&] {
    EXPECT_OK(cuMemcpyHtoDAsync(dims, on_stack, sizeof on_stack, stream_));
  });
  EXPECT_THAT(TakeReports(),
              HasSubstr("hostcheck: cuMemcpyHtoDAsync: the node keeps an "
                        "address on the stack"));
}

TEST_F(GraphCases, B15_APinnedSourceIsReadAtEachReplay) {
  ASSERT_OK(softcuda_set_option("hostcheck", "1"));
  const CUdeviceptr dims = NewInts(4, 0);
  void* pinned = nullptr;
  ASSERT_OK(cuMemAllocHost(&pinned, 16));
  auto* const values = static_cast<int*>(pinned);
  const CUgraphExec exec = Instantiate(Capture(
      [&] { EXPECT_OK(cuMemcpyHtoDAsync(dims, pinned, 16, stream_)); }));
  for (int replay = 0; replay < 3; ++replay) {
    for (int i = 0; i < 4; ++i) values[i] = replay * 10 + i;
    Replay(exec);
    EXPECT_EQ(Read(dims, 4)[3], replay * 10 + 3);
  }
  EXPECT_EQ(TakeReports(), "");
  EXPECT_OK(cuMemFreeHost(pinned));
}

TEST_F(GraphCases, B74_AGraphWithAnUnfreedAllocationRunsOnce) {
  CUdeviceptr memory = 0;
  const auto record = [&] {
    EXPECT_OK(cuMemAllocAsync(&memory, 256, stream_));
    EXPECT_OK(Launch(stream_, "c_fill", 1, 64, memory, 64, 3));
  };
  const CUgraphExec plain = Instantiate(Capture(record));
  const CUdeviceptr of_plain = memory;
  EXPECT_OK(cuGraphLaunch(plain, stream_));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(plain, stream_));
  EXPECT_OK(cuMemFreeAsync(of_plain, stream_));
  const CUgraphExec freeing = Instantiate(
      Capture(record), CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
  for (int launch = 0; launch < 3; ++launch) {
    EXPECT_OK(cuGraphLaunch(freeing, stream_));
  }
  EXPECT_OK(cuMemFreeAsync(memory, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_OK(cuDeviceGraphMemTrim(0));
}

// A copy from pageable memory returns when the source is taken. The legacy
// stream may still have it to do, and a non-blocking stream does not wait.
TEST_F(GraphCases, B88_ASynchronousCopyIsNotDoneForOtherStreams) {
  constexpr int kCount = 256 << 10;
  const CUdeviceptr weights = NewInts(kCount, 1);
  const CUdeviceptr out = NewInts(64, 0);
  const std::vector<int> fresh(kCount, 2);
  ASSERT_OK(softcuda_set_option("late_work", "1"));
  softcuda_enable_racecheck(1);
  EXPECT_OK(cuMemcpyHtoD(weights, fresh.data(), kCount * 4));
  EXPECT_OK(Launch(stream_, "c_add", 1, 64, weights, out, 64, 10));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(Read(out, 1)[0], 11) << "the copy is late";
  EXPECT_THAT(TakeReports(),
              AllOf(HasSubstr("racecheck: "), HasSubstr("cuMemcpyHtoD")));
}

TEST_F(GraphCases, B88_ACopyInTheStreamThatNeedsItIsInTime) {
  constexpr int kCount = 256 << 10;
  const CUdeviceptr weights = NewInts(kCount, 1);
  const CUdeviceptr out = NewInts(64, 0);
  const std::vector<int> fresh(kCount, 2);
  ASSERT_OK(softcuda_set_option("late_work", "1"));
  softcuda_enable_racecheck(1);
  EXPECT_OK(cuMemcpyHtoDAsync(weights, fresh.data(), kCount * 4, other_));
  Order(other_, stream_);
  EXPECT_OK(Launch(stream_, "c_add", 1, 64, weights, out, 64, 10));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(Read(out, 1)[0], 12);
  EXPECT_EQ(TakeReports(), "");
}

class StagingCases : public DriverCases {
 protected:
  void SetUp() override {
    DriverCases::SetUp();
    void* pinned = nullptr;
    ASSERT_OK(cuMemAllocHost(&pinned, 256));
    slot_ = static_cast<int*>(pinned);
    *slot_ = 1;
    input_ = NewInts(64, 0);
    exec_ = Instantiate(Capture(
        [&] { EXPECT_OK(cuMemcpyHtoDAsync(input_, slot_, 256, stream_)); }));
    ASSERT_OK(softcuda_set_option("late_work", "1"));
    ASSERT_OK(softcuda_set_option("hostcheck", "1"));
  }
  void TearDown() override {
    EXPECT_OK(cuStreamSynchronize(stream_));
    EXPECT_OK(cuMemFreeHost(slot_));
    DriverCases::TearDown();
  }
  int* slot_ = nullptr;
  CUdeviceptr input_ = 0;
  CUgraphExec exec_ = nullptr;
};

TEST_F(StagingCases, B89_ASlotRefilledBeforeItsEventIsReported) {
  EXPECT_OK(cuGraphLaunch(exec_, stream_));
  *slot_ = 2;
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_THAT(TakeReports(),
              HasSubstr("hostcheck: the host changed the source"));
  EXPECT_EQ(Read(input_, 1)[0], 2) << "the copy read the later value";
}

TEST_F(StagingCases, B89_ASlotRefilledAfterItsEventIsSilent) {
  CUevent event = nullptr;
  ASSERT_OK(cuEventCreate(&event, 0));
  for (int step = 1; step < 4; ++step) {
    *slot_ = step;
    EXPECT_OK(cuGraphLaunch(exec_, stream_));
    EXPECT_OK(cuEventRecord(event, stream_));
    EXPECT_OK(cuEventSynchronize(event));
    EXPECT_EQ(Read(input_, 1)[0], step);
  }
  EXPECT_EQ(TakeReports(), "");
  EXPECT_OK(cuEventDestroy(event));
}

class UpdateCases : public DriverCases {
 protected:
  void SetUp() override {
    DriverCases::SetUp();
    a_ = NewInts(64, 0);
    b_ = NewInts(64, 0);
    exec_ = Instantiate(Fills(1, 3));
  }
  CUgraph Fills(int count, int value) {
    return Capture([&] {
      for (int k = 0; k < count; ++k) {
        EXPECT_OK(Launch(stream_, "c_fill", 1, 64, a_, 64, value));
      }
    });
  }
  CUgraphExecUpdateResult RefusedUpdate(CUgraph graph) {
    CUgraphExecUpdateResultInfo info = {};
    EXPECT_CU(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
              cuGraphExecUpdate(exec_, graph, &info));
    return info.result;
  }
  CUdeviceptr a_ = 0;
  CUdeviceptr b_ = 0;
  CUgraphExec exec_ = nullptr;
};

TEST_F(UpdateCases, B96_ChangedTopologyHasItsReasonAndLeavesNoError) {
  EXPECT_EQ(RefusedUpdate(Fills(2, 5)),
            CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  EXPECT_OK(cuCtxSynchronize());
  Replay(exec_);
  EXPECT_EQ(Read(a_, 64), std::vector<int>(64, 3))
      << "the old graph still runs";
  // Instantiating anew is what is left to do, once.
  Replay(Instantiate(Fills(2, 5)));
  EXPECT_EQ(Read(a_, 64), std::vector<int>(64, 5));
}

TEST_F(UpdateCases, B96_AChangedKindHasItsReason) {
  const CUgraph memset =
      Capture([&] { EXPECT_OK(cuMemsetD32Async(a_, 1, 64, stream_)); });
  EXPECT_EQ(RefusedUpdate(memset),
            CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
}

TEST_F(UpdateCases, B96_ChangedParametersAndFunctionsAreTaken) {
  CUgraphExecUpdateResultInfo info = {};
  EXPECT_OK(cuGraphExecUpdate(exec_, Fills(1, 6), &info));
  Replay(exec_);
  EXPECT_EQ(Read(a_, 64), std::vector<int>(64, 6));
  const CUgraph add = Capture(
      [&] { EXPECT_OK(Launch(stream_, "c_add", 1, 64, a_, b_, 64, 1)); });
  EXPECT_OK(cuGraphExecUpdate(exec_, add, &info));
  Replay(exec_);
  EXPECT_EQ(Read(b_, 64), std::vector<int>(64, 7));
}

// The header allows it: what is in flight is freed when it is done.
TEST_F(GraphCases, B98_DestroyingALaunchedGraphLetsItFinish) {
  const CUdeviceptr a = NewInts(64, 0);
  ASSERT_OK(softcuda_set_option("late_work", "1"));
  const CUgraph graph = Capture([&] {
    EXPECT_OK(Launch(stream_, "c_fill", 1, 64, a, 64, 3));
    EXPECT_OK(Launch(stream_, "c_add", 1, 64, a, a, 64, 4));
  });
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuGraphInstantiate(&exec, graph, 0));
  EXPECT_OK(cuGraphLaunch(exec, stream_));
  EXPECT_OK(cuGraphExecDestroy(exec));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, stream_));
  EXPECT_THAT(TakeReports(), HasSubstr("misuse: cuGraphLaunch"));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(Read(a, 64), std::vector<int>(64, 7));
}

}  // namespace
}  // namespace softcuda
