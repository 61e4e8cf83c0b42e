// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// The capture classes of entry points, asked from outside: each call is made
// with arguments that would be an error anyway, during a fresh capture.
#include <functional>

#include "runtime_fixture.h"

namespace softcuda {
namespace {

struct NamedCall {
  const char* name;
  std::function<CUresult()> call;
};

class PolicyTest : public RuntimeTest {
 protected:
  // The call's result during a capture, and how the capture ended.
  std::pair<CUresult, CUresult> During(CUstreamCaptureMode mode,
                                       const NamedCall& named) {
    EXPECT_OK(cuStreamBeginCapture(stream_, mode));
    const CUresult result = named.call();
    CUgraph graph = nullptr;
    const CUresult end = cuStreamEndCapture(stream_, &graph);
    if (graph != nullptr) {
      EXPECT_OK(cuGraphDestroy(graph));
    }
    return {result, end};
  }
};

std::vector<NamedCall> UnsafeCalls(CUstream idle, CUevent event) {
  return {
      {"cuMemAlloc", [] { return cuMemAlloc(nullptr, 0); }},
      {"cuMemFree", [] { return cuMemFree(1); }},
      {"cuMemAllocHost", [] { return cuMemAllocHost(nullptr, 0); }},
      {"cuMemFreeHost", [] { return cuMemFreeHost(nullptr); }},
      {"cuMemHostAlloc", [] { return cuMemHostAlloc(nullptr, 0, 0); }},
      {"cuMemHostRegister", [] { return cuMemHostRegister(nullptr, 0, 0); }},
      {"cuMemHostUnregister", [] { return cuMemHostUnregister(nullptr); }},
      {"cuMemGetInfo", [] { return cuMemGetInfo(nullptr, nullptr); }},
      {"cuMemAddressReserve",
       [] { return cuMemAddressReserve(nullptr, 0, 0, 0, 0); }},
      {"cuMemAddressFree", [] { return cuMemAddressFree(0, 0); }},
      {"cuMemCreate", [] { return cuMemCreate(nullptr, 0, nullptr, 0); }},
      {"cuMemRelease", [] { return cuMemRelease(0); }},
      {"cuMemMap", [] { return cuMemMap(0, 0, 0, 0, 0); }},
      {"cuMemUnmap", [] { return cuMemUnmap(0, 0); }},
      {"cuMemSetAccess", [] { return cuMemSetAccess(0, 0, nullptr, 0); }},
      {"cuModuleLoadData", [] { return cuModuleLoadData(nullptr, nullptr); }},
      {"cuModuleUnload", [] { return cuModuleUnload(nullptr); }},
      {"cuLibraryUnload", [] { return cuLibraryUnload(nullptr); }},
      {"cuFuncLoad", [] { return cuFuncLoad(nullptr); }},
      {"cuStreamCreate", [] { return cuStreamCreate(nullptr, 0); }},
      {"cuStreamCreateWithPriority",
       [] { return cuStreamCreateWithPriority(nullptr, 0, 0); }},
      {"cuStreamDestroy", [=] { return cuStreamDestroy(idle); }},
      {"cuStreamQuery", [=] { return cuStreamQuery(idle); }},
      {"cuStreamSynchronize", [=] { return cuStreamSynchronize(idle); }},
      {"cuEventQuery", [=] { return cuEventQuery(event); }},
      {"cuEventSynchronize", [=] { return cuEventSynchronize(event); }},
      {"cuEventElapsedTime",
       [] { return cuEventElapsedTime(nullptr, nullptr, nullptr); }},
      {"cuDevicePrimaryCtxReset", [] { return cuDevicePrimaryCtxReset(7); }},
      {"cuMemcpyHtoD", [] { return cuMemcpyHtoD(0, nullptr, 1); }},
      {"cuMemsetD8", [] { return cuMemsetD8(0, 0, 1); }},
      {"cuGraphInstantiate",
       [] { return cuGraphInstantiate(nullptr, nullptr, 0); }},
      {"cuGraphExecDestroy", [] { return cuGraphExecDestroy(nullptr); }},
      {"cuGraphUpload", [=] { return cuGraphUpload(nullptr, idle); }},
      {"cuGraphNodeSetEnabled",
       [] { return cuGraphNodeSetEnabled(nullptr, nullptr, 0); }},
  };
}

std::vector<NamedCall> SafeCalls(CUstream idle) {
  static int value = 0;
  static CUcontext context = nullptr;
  static unsigned int flags = 0;
  return {
      {"cuDeviceGetAttribute",
       [] {
         return cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0);
       }},
      {"cuCtxGetCurrent", [] { return cuCtxGetCurrent(&context); }},
      {"cuCtxGetDevice", [] { return cuCtxGetDevice(&value); }},
      {"cuStreamGetFlags", [=] { return cuStreamGetFlags(idle, &flags); }},
      {"cuEventCreate",
       [] {
         CUevent event = nullptr;
         const CUresult result = cuEventCreate(&event, 0);
         return result != CUDA_SUCCESS ? result : cuEventDestroy(event);
       }},
      {"cuGraphCreate",
       [] {
         CUgraph graph = nullptr;
         const CUresult result = cuGraphCreate(&graph, 0);
         return result != CUDA_SUCCESS ? result : cuGraphDestroy(graph);
       }},
  };
}

TEST_F(PolicyTest, UnsafeCallsBreakGlobalAndThreadLocalCaptures) {
  CUstream idle = nullptr;
  CUevent event = nullptr;
  ASSERT_OK(cuStreamCreate(&idle, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuEventCreate(&event, 0));
  for (const NamedCall& named : UnsafeCalls(idle, event)) {
    for (const CUstreamCaptureMode mode :
         {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL}) {
      const auto [result, end] = During(mode, named);
      EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, result) << named.name;
      EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, end) << named.name;
    }
  }
  EXPECT_OK(cuStreamDestroy(idle));
  EXPECT_OK(cuEventDestroy(event));
}

TEST_F(PolicyTest, UnsafeCallsDoNotHarmRelaxedCaptures) {
  CUstream idle = nullptr;
  CUevent event = nullptr;
  ASSERT_OK(cuStreamCreate(&idle, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuEventCreate(&event, 0));
  for (const NamedCall& named : UnsafeCalls(idle, event)) {
    if (named.name == std::string("cuStreamDestroy")) continue;
    const auto [result, end] = During(CU_STREAM_CAPTURE_MODE_RELAXED, named);
    EXPECT_NE(static_cast<int>(result),
              static_cast<int>(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED))
        << named.name;
    EXPECT_OK(end) << named.name;
  }
  EXPECT_OK(cuStreamDestroy(idle));
  EXPECT_OK(cuEventDestroy(event));
  TakeReports();
}

TEST_F(PolicyTest, SafeCallsDoNotTouchACapture) {
  CUstream idle = nullptr;
  ASSERT_OK(cuStreamCreate(&idle, CU_STREAM_NON_BLOCKING));
  for (const NamedCall& named : SafeCalls(idle)) {
    const auto [result, end] = During(CU_STREAM_CAPTURE_MODE_GLOBAL, named);
    EXPECT_OK(result) << named.name;
    EXPECT_OK(end) << named.name;
  }
  EXPECT_OK(cuStreamDestroy(idle));
}

// An argument error of a call that would have become a node: whether it breaks
// the capture is not specified, and softcuda takes the strict side, because the
// graph would silently lack that node.
TEST_F(PolicyTest, ArgumentErrorOfARecordedCallBreaksTheCapture) {
  const auto [result, end] = During(
      CU_STREAM_CAPTURE_MODE_RELAXED,
      {"cuMemsetD32Async", [&] { return cuMemsetD32Async(2, 0, 1, stream_); }});
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, result);
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, end);
}

TEST_F(PolicyTest, EventOfAnEndedCapture) {
  CUevent event = nullptr;
  CUstream other = nullptr;
  CUgraph graph = nullptr;
  ASSERT_OK(cuEventCreate(&event, 0));
  ASSERT_OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ASSERT_OK(cuEventRecord(event, stream_));
  ASSERT_OK(cuStreamEndCapture(stream_, &graph));
  EXPECT_CU(CUDA_ERROR_CAPTURED_EVENT, cuStreamWaitEvent(other, event, 0));
  EXPECT_CU(CUDA_ERROR_CAPTURED_EVENT, cuEventQuery(event));
  EXPECT_OK(cuEventRecord(event, other));
  EXPECT_OK(cuEventSynchronize(event));
  EXPECT_OK(cuGraphDestroy(graph));
  EXPECT_OK(cuStreamDestroy(other));
  EXPECT_OK(cuEventDestroy(event));
}

TEST_F(PolicyTest, CopyOfNothingInACaptureIsReported) {
  CUgraph graph = nullptr;
  CUdeviceptr memory = 0;
  ASSERT_OK(cuMemAlloc(&memory, 16));
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_OK(cuMemcpyDtoDAsync(memory, memory, 0, stream_));
  ASSERT_OK(cuStreamEndCapture(stream_, &graph));
  size_t nodes = 9;
  EXPECT_OK(cuGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_EQ(nodes, 0u);
  EXPECT_NE(TakeReports().find("cuMemcpyDtoDAsync"), std::string::npos);
  EXPECT_OK(cuGraphDestroy(graph));
  EXPECT_OK(cuMemFree(memory));
}

}  // namespace
}  // namespace softcuda
