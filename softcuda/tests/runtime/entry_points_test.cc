// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime_fixture.h"

namespace softcuda {
namespace {

void* Find(const char* name, int version, cuuint64_t flags = 0) {
  void* function = nullptr;
  EXPECT_OK(cuGetProcAddress(name, &function, version, flags, nullptr));
  return function;
}

TEST(EntryPointsTest, VersionPicksTheNewestAbiNotNewer) {
  EXPECT_EQ(Find("cuMemAlloc", 3020), reinterpret_cast<void*>(&cuMemAlloc_v2));
  EXPECT_EQ(Find("cuMemAlloc", 13000), reinterpret_cast<void*>(&cuMemAlloc_v2));
  EXPECT_EQ(Find("cuStreamBeginCapture", 13000),
            reinterpret_cast<void*>(&cuStreamBeginCapture_v2));
  EXPECT_NE(Find("cuStreamBeginCapture", 10000),
            Find("cuStreamBeginCapture", 10010));
  EXPECT_NE(Find("cuGraphKernelNodeGetParams", 11080),
            Find("cuGraphKernelNodeGetParams", 12000));
}

TEST(EntryPointsTest, PerThreadFlagPicksThePerThreadForm) {
  const cuuint64_t flag = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  EXPECT_NE(Find("cuMemcpyAsync", 13000, flag), Find("cuMemcpyAsync", 13000));
  // Where there is none, the flag changes nothing.
  EXPECT_EQ(Find("cuMemAlloc", 13000, flag), Find("cuMemAlloc", 13000));
  // Per-thread forms came in 7.0.
  EXPECT_EQ(Find("cuMemcpyAsync", 6000, flag), Find("cuMemcpyAsync", 6000));
}

TEST(EntryPointsTest, BadQueriesAreRefused) {
  void* function = nullptr;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuGetProcAddress(nullptr, &function, 12000, 0, nullptr));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuGetProcAddress("cuInit", nullptr, 12000, 0, nullptr));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuGetProcAddress("cuInit", &function, 12000, 7, nullptr));
}

TEST(EntryPointsTest, WhatIsNotThereIsNotFound) {
  void* function = &function;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  EXPECT_OK(cuGetProcAddress("cuMemAlloc", &function, 2000, 0, &status));
  EXPECT_EQ(function, nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

using PerThreadTest = RuntimeTest;

TEST_F(PerThreadTest, NullStreamOfPerThreadFormsIsThePerThreadStream) {
  using BeginCapture = CUresult (*)(CUstream, CUstreamCaptureMode);
  using EndCapture = CUresult (*)(CUstream, CUgraph*);
  const cuuint64_t flag = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  const auto begin =
      reinterpret_cast<BeginCapture>(Find("cuStreamBeginCapture", 13000, flag));
  const auto end =
      reinterpret_cast<EndCapture>(Find("cuStreamEndCapture", 13000, flag));
  EXPECT_OK(begin(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  EXPECT_OK(cuStreamIsCapturing(CU_STREAM_PER_THREAD, &status));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CUgraph graph = nullptr;
  EXPECT_OK(end(nullptr, &graph));
  EXPECT_OK(cuGraphDestroy(graph));
}

}  // namespace
}  // namespace softcuda
