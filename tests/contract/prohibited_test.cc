// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Calls that captures forbid: assertions 93 to 113. The first failure breaks a
// capture, so each call gets a fresh one.
#include <functional>

#include "contract_api.h"

namespace permafrost::contract {
namespace {

class ProhibitedContract : public ContractTest {
 protected:
  void SetUp() override {
    ContractTest::SetUp();
    stream_ = NewStream(kNonBlocking);
    other_ = NewStream(kNonBlocking);
    blocking_ = NewStream(kBlocking);
    words_ = NewWords(64);
  }

  // Makes one call during a fresh capture, and ends the capture.
  struct Outcome {
    CUresult call;
    CUresult end;
  };
  Outcome During(CUstream stream, CUstreamCaptureMode mode,
                 const std::function<CUresult()>& call) {
    EXPECT_CU_OK(Begin(stream, mode));
    Outcome outcome;
    outcome.call = call();
    CUgraph graph = nullptr;
    outcome.end = End(stream, &graph);
    return outcome;
  }
  void ExpectBreaks(CUstream stream, CUstreamCaptureMode mode, CUresult code,
                    const std::function<CUresult()>& call) {
    const Outcome outcome = During(stream, mode, call);
    EXPECT_CU(code, outcome.call) << "mode " << mode;
    EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, outcome.end)
        << "mode " << mode;
  }
  void ExpectHarmless(CUstream stream, CUstreamCaptureMode mode,
                      const std::function<CUresult()>& call) {
    const Outcome outcome = During(stream, mode, call);
    EXPECT_CU_OK(outcome.call) << "mode " << mode;
    EXPECT_CU_OK(outcome.end) << "mode " << mode;
  }
  // The same from a thread that makes only this call.
  std::function<CUresult()> Elsewhere(std::function<CUresult()> call) {
    return [this, call = std::move(call)] {
      CUresult result = CUDA_ERROR_UNKNOWN;
      OnOtherThread(context, [&] { result = call(); });
      return result;
    };
  }

  CUresult Allocate() {
    CUdeviceptr memory = 0;
    const CUresult result = cu.MemAlloc(&memory, 256);
    if (result == CUDA_SUCCESS) allocated_.push_back(memory);
    return result;
  }
  void TearDown() override {
    for (CUdeviceptr memory : allocated_) EXPECT_CU_OK(cu.MemFree(memory));
    ContractTest::TearDown();
  }

  CUstream stream_ = nullptr;
  CUstream other_ = nullptr;
  CUstream blocking_ = nullptr;
  CUdeviceptr words_ = 0;
  std::vector<CUdeviceptr> allocated_;
};

TEST_F(ProhibitedContract, A093_WaitingForACapturingStream) {
  for (const CUstreamCaptureMode mode : kAllModes) {
    ExpectBreaks(stream_, mode, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                 [&] { return cu.StreamSynchronize(stream_); });
    ExpectBreaks(stream_, mode, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                 [&] { return cu.StreamQuery(stream_); });
  }
}

TEST_F(ProhibitedContract, A094_WaitingForTheContext) {
  for (const CUstreamCaptureMode mode : kAllModes) {
    ExpectBreaks(stream_, mode, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                 [&] { return cu.CtxSynchronize(); });
  }
}

TEST_F(ProhibitedContract, A095_WaitingForTheContextFromAnotherThread) {
  ExpectBreaks(stream_, kThreadLocal, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
               Elsewhere([&] { return cu.CtxSynchronize(); }));
}

TEST_F(ProhibitedContract, A096_WaitingForACapturedEvent) {
  for (const CUstreamCaptureMode mode : kAllModes) {
    for (const bool query : {true, false}) {
      const CUevent event = NewEvent();
      EXPECT_CU_OK(Begin(stream_, mode));
      EXPECT_CU_OK(cu.EventRecord(event, stream_));
      EXPECT_CU(CUDA_ERROR_CAPTURED_EVENT,
                query ? cu.EventQuery(event) : cu.EventSynchronize(event));
      CUgraph graph = nullptr;
      EXPECT_CU_ANY(End(stream_, &graph), 0, 901);
    }
  }
}

TEST_F(ProhibitedContract, A097_QueryOfAnEventFromBeforeTheCapture) {
  const CUevent event = NewEvent();
  ASSERT_CU_OK(cu.EventRecord(event, other_));
  ASSERT_CU_OK(cu.EventSynchronize(event));
  ExpectBreaks(stream_, kGlobal, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
               [&] { return cu.EventQuery(event); });
  CUstreamCaptureMode mode = kRelaxed;
  ASSERT_CU_OK(cu.ThreadExchangeStreamCaptureMode(&mode));
  ExpectHarmless(stream_, kRelaxed, [&] { return cu.EventQuery(event); });
  ASSERT_CU_OK(cu.ThreadExchangeStreamCaptureMode(&mode));
}

TEST_F(ProhibitedContract, A098_AllocationByTheCapturingThread) {
  for (const CUstreamCaptureMode mode : {kGlobal, kThreadLocal}) {
    ExpectBreaks(stream_, mode, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                 [&] { return Allocate(); });
  }
}

TEST_F(ProhibitedContract, A099_AllocationDuringARelaxedCapture) {
  ExpectHarmless(stream_, kRelaxed, [&] { return Allocate(); });
}

TEST_F(ProhibitedContract, A100_AllocationByARelaxedThread) {
  ExpectHarmless(stream_, kGlobal, [&] {
    CUstreamCaptureMode mode = kRelaxed;
    EXPECT_CU_OK(cu.ThreadExchangeStreamCaptureMode(&mode));
    const CUresult result = Allocate();
    EXPECT_CU_OK(cu.ThreadExchangeStreamCaptureMode(&mode));
    return result;
  });
}

TEST_F(ProhibitedContract, A101_AllocationByAnotherThread) {
  ExpectBreaks(stream_, kGlobal, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
               Elsewhere([&] { return Allocate(); }));
  ExpectHarmless(stream_, kThreadLocal, Elsewhere([&] { return Allocate(); }));
}

TEST_F(ProhibitedContract, A102_AllocationByAThreadThatLooksOnlyAtItself) {
  ExpectHarmless(stream_, kGlobal, Elsewhere([&] {
                   CUstreamCaptureMode mode = kThreadLocal;
                   EXPECT_CU_OK(cu.ThreadExchangeStreamCaptureMode(&mode));
                   return Allocate();
                 }));
}

TEST_F(ProhibitedContract, A103_ThreadModesAreOfTheThread) {
  CUstreamCaptureMode mode = kRelaxed;
  EXPECT_CU_OK(cu.ThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, kGlobal);
  OnOtherThread(context, [&] {
    CUstreamCaptureMode theirs = kThreadLocal;
    EXPECT_CU_OK(cu.ThreadExchangeStreamCaptureMode(&theirs));
    EXPECT_EQ(theirs, kGlobal);
  });
  EXPECT_CU_OK(cu.ThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, kRelaxed);
}

TEST_F(ProhibitedContract, A104_LegacyStreamDuringABlockingCapture) {
  uint32_t value = 1;
  for (const CUstreamCaptureMode mode : kAllModes) {
    ExpectBreaks(blocking_, mode, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                 [&] { return LaunchFill(nullptr, words_, 1, 64); });
    ExpectBreaks(blocking_, mode, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                 [&] { return cu.MemcpyHtoD(words_, &value, 4); });
    ExpectBreaks(blocking_, mode, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                 [&] { return cu.MemsetD8(words_, 0, 4); });
  }
}

TEST_F(ProhibitedContract, A105_AskingAboutTheLegacyStreamIsHarmless) {
  ASSERT_CU_OK(Begin(blocking_));
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
            cu.StreamIsCapturing(CU_STREAM_LEGACY, &status));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
            cu.StreamGetCaptureInfo(CU_STREAM_LEGACY, &status, nullptr, nullptr,
                                    nullptr, nullptr, nullptr));
  EXPECT_EQ(StatusOf(blocking_), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CUgraph graph = nullptr;
  EXPECT_CU_OK(End(blocking_, &graph));
}

TEST_F(ProhibitedContract, A106_LegacyStreamDuringANonBlockingCapture) {
  ExpectHarmless(stream_, kGlobal,
                 [&] { return LaunchFill(nullptr, words_, 13, 64); });
  EXPECT_EQ(Read(words_, 64), std::vector<uint32_t>(64, 13));
}

TEST_F(ProhibitedContract, A107_LoadingAModule) {
  CUmodule module = nullptr;
  ExpectBreaks(stream_, kGlobal, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
               [&] { return cu.ModuleLoadData(&module, KernelImage()); });
}

TEST_F(ProhibitedContract, A108_LaunchingAGraphIntoACapture) {
  CUgraph graph = nullptr;
  ASSERT_CU_OK(cu.GraphCreate(&graph, 0));
  Keep(graph);
  const CUgraphExec exec = Instantiate(graph);
  EXPECT_CU_FAILS(During(stream_, kGlobal, [&] {
                    return cu.GraphLaunch(exec, stream_);
                  }).call);
}

TEST_F(ProhibitedContract, A109_AskingAPoolButNotLookingItUp) {
  CUmemoryPool pool = nullptr;
  ExpectHarmless(stream_, kGlobal,
                 [&] { return cu.DeviceGetDefaultMemPool(&pool, device); });
  int value = 0;
  ExpectBreaks(stream_, kGlobal, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, [&] {
    return cu.MemPoolGetAttribute(
        pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &value);
  });
}

TEST_F(ProhibitedContract, A110_HarmlessCalls) {
  CUevent event = nullptr;
  int value = 0;
  ExpectHarmless(stream_, kGlobal, [&] { return cu.EventCreate(&event, 0); });
  ExpectHarmless(stream_, kGlobal, [&] { return cu.EventDestroy(event); });
  ExpectHarmless(stream_, kGlobal, [&] {
    return cu.FuncSetAttribute(Function("k_fill"),
                               CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                               1024);
  });
  ExpectHarmless(stream_, kGlobal, [&] {
    return cu.DeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device);
  });
}

TEST_F(ProhibitedContract, A111_UseOfABrokenCapture) {
  ASSERT_CU_OK(Begin(stream_));
  ASSERT_CU(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
            cu.StreamSynchronize(stream_));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
            LaunchFill(stream_, words_, 1, 64));
  CUgraph graph = nullptr;
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, End(stream_, &graph));
}

TEST_F(ProhibitedContract, A112_StreamWorksAfterABrokenCapture) {
  ExpectBreaks(stream_, kGlobal, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
               [&] { return cu.StreamSynchronize(stream_); });
  ASSERT_CU_OK(Begin(stream_));
  ASSERT_CU_OK(LaunchFill(stream_, words_, 31, 64));
  CUgraph graph = nullptr;
  ASSERT_CU_OK(End(stream_, &graph));
  ASSERT_CU_OK(cu.GraphLaunch(Instantiate(graph), stream_));
  EXPECT_EQ(Read(words_, 64), std::vector<uint32_t>(64, 31));
}

TEST_F(ProhibitedContract, A113_UnrelatedStreamRunsDuringACapture) {
  ASSERT_CU_OK(Begin(stream_));
  ASSERT_CU_OK(LaunchFill(other_, words_, 17, 64));
  CUgraph graph = nullptr;
  ASSERT_CU_OK(End(stream_, &graph));
  EXPECT_EQ(Nodes(graph).size(), 0u);
  EXPECT_EQ(Read(words_, 64), std::vector<uint32_t>(64, 17));
}

}  // namespace
}  // namespace permafrost::contract
