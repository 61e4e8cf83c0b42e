// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// What counts as a path between operations, beyond the catalogue's cases.
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

TEST_F(OperationRacesTest, CopiesThatReadOneSourceAreSilent) {
  EXPECT_OK(cuMemcpyDtoDAsync(b_, a_, kBytes, stream_));
  EXPECT_OK(cuMemcpyDtoDAsync(c_, a_, kBytes, other_));
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(TakeReports(), "");
}

TEST_F(OperationRacesTest, CopiesIntoOneHostBufferAreReported) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the planted race is one of the host's threads too";
#endif
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
