// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Operations that touch the same bytes without a path between them, each with
// its ordered twin.
#include "check_fixture.h"

namespace softcuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class OperationRacesTest : public CheckTest {};

TEST_F(OperationRacesTest, ForkedBranchesOverlappingAreReported) {
  CaptureAndRun([&] {
    Order(stream_, other_);
    Fill(stream_, a_);
    Add(other_, a_, b_);
    Order(other_, stream_);
  });
  const std::string reports = TakeReports();
  EXPECT_THAT(reports, HasSubstr("racecheck: "));
  EXPECT_THAT(reports, HasSubstr("no path orders"));
  EXPECT_THAT(reports, HasSubstr("k_fill"));
  EXPECT_THAT(reports, HasSubstr("k_add"));
  EXPECT_THAT(reports, HasSubstr(LineOf("fill")));
  EXPECT_THAT(reports, HasSubstr(LineOf("add_read")));
  EXPECT_THAT(reports, HasSubstr("graph node"));
  EXPECT_THAT(reports, HasSubstr("device allocation"));
}

TEST_F(OperationRacesTest, ForkedBranchesApartAreSilent) {
  CaptureAndRun(
      [&] {
        Fill(stream_, a_);
        Order(stream_, other_);
        Add(stream_, a_, b_);
        Add(other_, a_, c_);
        Order(other_, stream_);
        Fill(stream_, a_);
      },
      3);
  EXPECT_EQ(TakeReports(), "");
}

TEST_F(OperationRacesTest, ForkedBranchesOnHalvesOfOneBufferAreSilent) {
  CaptureAndRun([&] {
    Order(stream_, other_);
    Fill(stream_, a_, 128);
    Fill(other_, a_ + 512, 128);
    Order(other_, stream_);
  });
  EXPECT_EQ(TakeReports(), "");
}

TEST_F(OperationRacesTest, OneSharedNumberIsReported) {
  CaptureAndRun([&] {
    Order(stream_, other_);
    Fill(stream_, a_, 129);
    Fill(other_, a_ + 512, 128);
    Order(other_, stream_);
  });
  EXPECT_THAT(TakeReports(),
              AllOf(HasSubstr("write of 4 bytes"), HasSubstr("+0x200 (")));
}

TEST_F(OperationRacesTest, StreamsWithoutAnEventAreReported) {
  Fill(stream_, a_);
  Add(other_, a_, b_);
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_THAT(TakeReports(),
              AllOf(HasSubstr("racecheck: "), HasSubstr(LineOf("fill")),
                    HasSubstr(LineOf("add_read"))));
}

TEST_F(OperationRacesTest, StreamsWithAnEventAreSilent) {
  Fill(stream_, a_);
  Order(stream_, other_);
  Add(other_, a_, b_);
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(TakeReports(), "");
}

// That the first kernel happened to be done is no order.
TEST_F(OperationRacesTest, WorkThatIsDoneOrdersNothing) {
  Fill(stream_, a_);
  while (cuStreamQuery(other_) != CUDA_SUCCESS) {
  }
  for (int k = 0; k < 100; ++k) {
    Fill(other_, b_);
    EXPECT_OK(cuStreamSynchronize(other_));
  }
  Add(other_, a_, b_);
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_THAT(TakeReports(), HasSubstr(LineOf("add_read")));
}

TEST_F(OperationRacesTest, AnEventThatIsDoneStillOrders) {
  CUevent event = nullptr;
  ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  Fill(stream_, a_);
  ASSERT_OK(cuEventRecord(event, stream_));
  Fill(other_, b_);
  EXPECT_OK(cuStreamSynchronize(other_));
  ASSERT_OK(cuStreamWaitEvent(other_, event, 0));
  Add(other_, a_, b_);
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(TakeReports(), "");
  EXPECT_OK(cuEventDestroy(event));
}

TEST_F(OperationRacesTest, AnEventRecordedTooEarlyIsReported) {
  Order(stream_, other_);
  Fill(stream_, a_);
  Add(other_, a_, b_);
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_THAT(TakeReports(), HasSubstr("no path orders"));
}

TEST_F(OperationRacesTest, AWaitOfTheHostOrders) {
  Fill(stream_, a_);
  EXPECT_OK(cuStreamSynchronize(stream_));
  Add(other_, a_, b_);
  EXPECT_OK(cuStreamSynchronize(other_));
  Fill(stream_, a_);
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(TakeReports(), "");
}

TEST_F(OperationRacesTest, AWaitForTheOtherStreamDoesNot) {
  Fill(stream_, a_);
  EXPECT_OK(cuStreamSynchronize(other_));
  Add(other_, a_, b_);
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_THAT(TakeReports(), HasSubstr("no path orders"));
}

TEST_F(OperationRacesTest, AnEventQueryThatSucceedsOrders) {
  CUevent event = nullptr;
  ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  Fill(stream_, a_);
  ASSERT_OK(cuEventRecord(event, stream_));
  while (cuEventQuery(event) != CUDA_SUCCESS) {
  }
  Add(other_, a_, b_);
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(TakeReports(), "");
  EXPECT_OK(cuEventDestroy(event));
}

TEST_F(OperationRacesTest, MemsetAgainstKernelIsReported) {
  EXPECT_OK(cuMemsetD32Async(a_, 1, kInts, stream_));
  Add(other_, a_, b_);
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_THAT(TakeReports(), AllOf(HasSubstr("memset"), HasSubstr("k_add"),
                                   HasSubstr("cuMemsetD32Async")));
}

TEST_F(OperationRacesTest, CopyAgainstKernelIsReported) {
  EXPECT_OK(cuMemcpyDtoDAsync(b_, a_, kBytes, stream_));
  Fill(other_, b_);
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_THAT(TakeReports(),
              AllOf(HasSubstr("write by copy"), HasSubstr(LineOf("fill"))));
}

TEST_F(OperationRacesTest, CopiesThatReadOneSourceAreSilent) {
  EXPECT_OK(cuMemcpyDtoDAsync(b_, a_, kBytes, stream_));
  EXPECT_OK(cuMemcpyDtoDAsync(c_, a_, kBytes, other_));
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(TakeReports(), "");
}

TEST_F(OperationRacesTest, CopiesIntoOneHostBufferAreReported) {
  void* host = nullptr;
  ASSERT_OK(cuMemAllocHost(&host, kBytes));
  EXPECT_OK(cuMemcpyDtoHAsync(host, a_, kBytes, stream_));
  EXPECT_OK(cuMemcpyDtoHAsync(host, b_, kBytes, other_));
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_THAT(TakeReports(), HasSubstr("pinned host memory"));
  EXPECT_OK(cuMemcpyDtoHAsync(host, a_, kBytes, stream_));
  Order(stream_, other_);
  EXPECT_OK(cuMemcpyDtoHAsync(host, b_, kBytes, other_));
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(TakeReports(), "");
  EXPECT_OK(cuMemFreeHost(host));
}

TEST_F(OperationRacesTest, AtomicUpdatesFromTwoStreamsAreSilent) {
  CUdeviceptr in = a_;
  CUdeviceptr bins = b_;
  int n = kInts;
  void* params[] = {&in, &bins, &n};
  Launch(stream_, "k_atomic_histogram", n, params);
  Launch(other_, "k_atomic_histogram", n, params);
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(TakeReports(), "");
}

TEST_F(OperationRacesTest, AnAtomicUpdateAgainstAReadIsReported) {
  CUdeviceptr in = a_;
  CUdeviceptr bins = b_;
  int n = kInts;
  void* params[] = {&in, &bins, &n};
  Launch(stream_, "k_atomic_histogram", n, params);
  Add(other_, b_, c_);
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_THAT(TakeReports(), HasSubstr("atomic update"));
}

TEST_F(OperationRacesTest, TheLegacyStreamOrdersBlockingStreams) {
  CUstream first = nullptr;
  CUstream second = nullptr;
  ASSERT_OK(cuStreamCreate(&first, CU_STREAM_DEFAULT));
  ASSERT_OK(cuStreamCreate(&second, CU_STREAM_DEFAULT));
  Fill(first, a_);
  // Its own stream is gone, its work is still before the legacy stream's.
  EXPECT_OK(cuStreamDestroy(first));
  Add(CU_STREAM_LEGACY, a_, b_);
  Fill(second, a_);
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(TakeReports(), "");
  Fill(second, a_);
  Fill(stream_, a_);
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_THAT(TakeReports(), HasSubstr(LineOf("fill")));
  EXPECT_OK(cuStreamDestroy(second));
}

TEST_F(OperationRacesTest, AliasesOfOnePhysicalPageAreReported) {
  constexpr size_t kGranule = size_t{2} << 20;
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr base = 0;
  ASSERT_OK(cuMemCreate(&handle, kGranule, &prop, 0));
  ASSERT_OK(cuMemAddressReserve(&base, 2 * kGranule, 0, 0, 0));
  ASSERT_OK(cuMemMap(base, kGranule, 0, handle, 0));
  ASSERT_OK(cuMemMap(base + kGranule, kGranule, 0, handle, 0));
  ASSERT_OK(cuMemSetAccess(base, 2 * kGranule, &access, 1));
  Fill(stream_, base);
  Add(other_, base + kGranule, a_);
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_THAT(TakeReports(), HasSubstr("no path orders"));
  Fill(stream_, base);
  Add(other_, base + kGranule + kBytes, a_);
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(TakeReports(), "");
  EXPECT_OK(cuMemUnmap(base, 2 * kGranule));
  EXPECT_OK(cuMemAddressFree(base, 2 * kGranule));
  EXPECT_OK(cuMemRelease(handle));
}

// Two launches of graphs in different streams share their scratch.
TEST_F(OperationRacesTest, GraphsInTwoStreamsSharingScratchAreReported) {
  CUgraphExec execs[2] = {};
  for (CUgraphExec& exec : execs) {
    ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
    Fill(stream_, a_);
    Add(stream_, a_, &exec == &execs[0] ? b_ : c_);
    CUgraph graph = nullptr;
    ASSERT_OK(cuStreamEndCapture(stream_, &graph));
    ASSERT_OK(cuGraphInstantiate(&exec, graph, 0));
    ASSERT_OK(cuGraphDestroy(graph));
  }
  EXPECT_OK(cuGraphLaunch(execs[0], stream_));
  EXPECT_OK(cuGraphLaunch(execs[1], other_));
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_THAT(TakeReports(), HasSubstr("cuGraphLaunch, graph node"));
  EXPECT_OK(cuGraphLaunch(execs[0], stream_));
  Order(stream_, other_);
  EXPECT_OK(cuGraphLaunch(execs[1], other_));
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(TakeReports(), "");
  for (CUgraphExec exec : execs) EXPECT_OK(cuGraphExecDestroy(exec));
}

// Captures a fill and, behind a programmatic edge, a kernel that reads.
class ProgrammaticEdgeTest : public OperationRacesTest {
 protected:
  void LaunchEarly(CUstream stream, const char* kernel) {
    CUlaunchAttribute attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
    CUlaunchConfig config = {};
    config.gridDimX = 2;
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = 128;
    config.blockDimY = config.blockDimZ = 1;
    config.hStream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    int n = kInts;
    void* params[] = {&a_, &b_, &n};
    EXPECT_OK(cuLaunchKernelEx(&config, Function(kernel), params, nullptr));
  }
};

TEST_F(ProgrammaticEdgeTest, WithoutAWaitItOrdersNothing) {
  CaptureAndRun([&] {
    Fill(stream_, a_);
    LaunchEarly(stream_, "k_add");
  });
  EXPECT_THAT(TakeReports(),
              AllOf(HasSubstr(LineOf("fill")), HasSubstr(LineOf("add_read"))));
  Fill(stream_, a_);
  LaunchEarly(stream_, "k_add");
  Add(stream_, b_, c_);
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_THAT(TakeReports(), HasSubstr(LineOf("add_read")));
}

TEST_F(ProgrammaticEdgeTest, WithAWaitItOrders) {
  CaptureAndRun([&] {
    Fill(stream_, a_);
    LaunchEarly(stream_, "k_grid_wait_then_add");
    Fill(stream_, a_);
  });
  Fill(stream_, a_);
  LaunchEarly(stream_, "k_grid_wait_then_add");
  Fill(stream_, a_);
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(TakeReports(), "");
}

// Whatever order the seed lets them run in, the race is found.
TEST_F(OperationRacesTest, ItIsFoundUnderEverySeed) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    softcuda_set_schedule_seed(seed);
    CaptureAndRun([&] {
      Order(stream_, other_);
      Fill(stream_, a_);
      Add(other_, a_, b_);
      Order(other_, stream_);
    });
    EXPECT_THAT(TakeReports(), HasSubstr("no path orders")) << seed;
  }
}

TEST_F(OperationRacesTest, SwitchedOffItSaysNothing) {
  softcuda_enable_racecheck(0);
  Fill(stream_, a_);
  Add(other_, a_, b_);
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(TakeReports(), "");
}

}  // namespace
}  // namespace softcuda
