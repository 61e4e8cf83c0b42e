// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Errors that end a context: assertions 57 and 149 to 153. Each runs in a
// process of its own.
#include <cstdlib>
#include <functional>

#include "contract_api.h"

namespace permafrost::contract {
namespace {

// A context with the kernels loaded, in a process that will not use it again.
struct Doomed {
  const Api& cu = Driver();
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction store = nullptr;
  CUfunction trap = nullptr;
  CUstream stream = nullptr;
  CUdeviceptr memory = 0;

  bool SetUp() {
    return cu.Init(0) == CUDA_SUCCESS &&
           cu.DevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
           cu.CtxSetCurrent(context) == CUDA_SUCCESS &&
           cu.ModuleLoadData(&module, KernelImage()) == CUDA_SUCCESS &&
           cu.ModuleGetFunction(&store, module, "k_store") == CUDA_SUCCESS &&
           cu.ModuleGetFunction(&trap, module, "k_trap") == CUDA_SUCCESS &&
           cu.StreamCreate(&stream, kNonBlocking) == CUDA_SUCCESS &&
           cu.MemAlloc(&memory, 256) == CUDA_SUCCESS;
  }
  CUresult Store(CUdeviceptr address) {
    void* params[] = {&address};
    return cu.LaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr);
  }
  CUresult Trap() {
    return cu.LaunchKernel(trap, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
  }
  bool AllCallsReturn(CUresult code) {
    CUdeviceptr more = 0;
    return cu.StreamSynchronize(stream) == code &&
           cu.MemAlloc(&more, 256) == code && Store(memory) == code &&
           cu.MemFree(memory) == code;
  }
};

// The codes of the checks, as exit codes that say which one failed.
constexpr int kGood = 0;
constexpr int kSetUp = 1;
constexpr int kFirst = 2;
constexpr int kLater = 3;

class StickyContract : public ::testing::Test {
 protected:
  void SetUp() override {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  }
};

#define EXPECT_GOOD_CHILD(body) \
  EXPECT_EXIT(std::_Exit((body)()), ::testing::ExitedWithCode(kGood), "")

int FaultAndAsk(const std::function<CUresult(Doomed&)>& fault,
                const std::vector<int>& accepted) {
  Doomed doomed;
  if (!doomed.SetUp() || fault(doomed) != CUDA_SUCCESS) return kSetUp;
  const CUresult code = doomed.cu.StreamSynchronize(doomed.stream);
  if (!IsOneOf(code, accepted)) return kFirst;
  return doomed.AllCallsReturn(code) ? kGood : kLater;
}

TEST_F(StickyContract, A057_StoreToUnmappedReservation) {
  EXPECT_GOOD_CHILD([] {
    return FaultAndAsk(
        [](Doomed& doomed) {
          CUdeviceptr reserved = 0;
          const CUresult result =
              doomed.cu.MemAddressReserve(&reserved, size_t{2} << 20, 0, 0, 0);
          return result != CUDA_SUCCESS ? result : doomed.Store(reserved);
        },
        {CUDA_ERROR_ILLEGAL_ADDRESS});
  });
}

TEST_F(StickyContract, A149_IllegalAddressIsForEver) {
  EXPECT_GOOD_CHILD([] {
    return FaultAndAsk([](Doomed& doomed) { return doomed.Store(0x10); },
                       {CUDA_ERROR_ILLEGAL_ADDRESS});
  });
}

TEST_F(StickyContract, A150_MisalignedAddressIsForEver) {
  EXPECT_GOOD_CHILD([] {
    return FaultAndAsk(
        [](Doomed& doomed) { return doomed.Store(doomed.memory + 2); },
        {CUDA_ERROR_MISALIGNED_ADDRESS});
  });
}

TEST_F(StickyContract, A151_TrapIsForEver) {
  EXPECT_GOOD_CHILD([] {
    return FaultAndAsk(
        [](Doomed& doomed) { return doomed.Trap(); },
        {CUDA_ERROR_ILLEGAL_INSTRUCTION, CUDA_ERROR_LAUNCH_FAILED});
  });
}

TEST_F(StickyContract, A152_FaultInAReplay) {
  EXPECT_GOOD_CHILD([] {
    return FaultAndAsk(
        [](Doomed& doomed) {
          CUgraph graph = nullptr;
          CUgraphExec exec = nullptr;
          const Api& cu = doomed.cu;
          CUdeviceptr address = 0x10;
          void* params[] = {&address};
          CUresult result = cu.StreamBeginCapture(doomed.stream, kGlobal);
          if (result != CUDA_SUCCESS) return result;
          result = cu.LaunchKernel(doomed.store, 1, 1, 1, 1, 1, 1, 0,
                                   doomed.stream, params, nullptr);
          if (result != CUDA_SUCCESS) return result;
          result = cu.StreamEndCapture(doomed.stream, &graph);
          if (result != CUDA_SUCCESS) return result;
          result = cu.GraphInstantiateWithFlags(&exec, graph, 0);
          if (result != CUDA_SUCCESS) return result;
          return cu.GraphLaunch(exec, doomed.stream);
        },
        {CUDA_ERROR_ILLEGAL_ADDRESS});
  });
}

void SetFlag(void* flag) { *static_cast<bool*>(flag) = true; }

TEST_F(StickyContract, A153_HostFunctionBehindAFaultIsNotCalled) {
  EXPECT_GOOD_CHILD([] {
    static bool called = false;
    Doomed doomed;
    if (!doomed.SetUp() || doomed.Store(0x10) != CUDA_SUCCESS) return kSetUp;
    const CUresult queued =
        doomed.cu.LaunchHostFunc(doomed.stream, SetFlag, &called);
    // The fault may be known already.
    if (queued != CUDA_SUCCESS && queued != CUDA_ERROR_ILLEGAL_ADDRESS) {
      return kSetUp;
    }
    if (doomed.cu.StreamSynchronize(doomed.stream) !=
        CUDA_ERROR_ILLEGAL_ADDRESS) {
      return kFirst;
    }
    return called ? kLater : kGood;
  });
}

}  // namespace
}  // namespace permafrost::contract
