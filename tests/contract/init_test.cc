// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Initialisation, errors, contexts: assertions 1 to 10.
#include <cstdlib>
#include <cstring>
#include <string>

#include "contract_api.h"

namespace permafrost::contract {
namespace {

using InitContract = ContractTest;

// Runs a check in a process of its own, which has made no other call.
#define EXPECT_IN_CHILD(check) \
  EXPECT_EXIT(std::exit((check) ? 0 : 1), ::testing::ExitedWithCode(0), "")

class FreshProcessContract : public ::testing::Test {
 protected:
  void SetUp() override {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  }
};

TEST_F(FreshProcessContract, A001_CallsBeforeInitAreRefused) {
  EXPECT_IN_CHILD([] {
    int count = 0;
    return Driver().DeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED;
  }());
}

TEST_F(FreshProcessContract, A002_InitTakesNoFlags) {
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, Driver().Init(1));
}

TEST_F(FreshProcessContract, A005_ReleaseWithoutRetainIsRefused) {
  EXPECT_IN_CHILD([] {
    return Driver().Init(0) == CUDA_SUCCESS &&
           Driver().DevicePrimaryCtxRelease(0) == CUDA_ERROR_INVALID_CONTEXT;
  }());
}

TEST_F(InitContract, A003_VersionNeedsAPointerAndIsNewEnough) {
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.DriverGetVersion(nullptr));
  int version = 0;
  EXPECT_CU_OK(cu.DriverGetVersion(&version));
  EXPECT_GE(version, 12030);
}

TEST_F(InitContract, A004_OrdinalPastTheLastDevice) {
  int count = 0;
  ASSERT_CU_OK(cu.DeviceGetCount(&count));
  CUdevice past = 0;
  EXPECT_CU(CUDA_ERROR_INVALID_DEVICE, cu.DeviceGet(&past, count));
}

TEST_F(InitContract, A006_RetainDoesNotMakeCurrent) {
  ASSERT_CU_OK(cu.CtxSetCurrent(nullptr));
  CUcontext retained = nullptr;
  ASSERT_CU_OK(cu.DevicePrimaryCtxRetain(&retained, device));
  CUcontext current = retained;
  EXPECT_CU_OK(cu.CtxGetCurrent(&current));
  EXPECT_EQ(current, nullptr);
  EXPECT_EQ(retained, context);
  EXPECT_CU_OK(cu.DevicePrimaryCtxRelease(device));
  ASSERT_CU_OK(cu.CtxSetCurrent(context));
}

TEST_F(InitContract, A007_WithoutACurrentContext) {
  ASSERT_CU_OK(cu.CtxSetCurrent(nullptr));
  CUcontext current = context;
  EXPECT_CU_OK(cu.CtxGetCurrent(&current));
  EXPECT_EQ(current, nullptr);
  CUdeviceptr memory = 0;
  EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cu.MemAlloc(&memory, 16));
  ASSERT_CU_OK(cu.CtxSetCurrent(context));
}

TEST_F(InitContract, A008_PushAndPopNest) {
  ASSERT_CU_OK(cu.CtxSetCurrent(nullptr));
  ASSERT_CU_OK(cu.CtxPushCurrent(context));
  ASSERT_CU_OK(cu.CtxPushCurrent(context));
  CUcontext popped = nullptr;
  EXPECT_CU_OK(cu.CtxPopCurrent(&popped));
  EXPECT_EQ(popped, context);
  CUcontext current = nullptr;
  EXPECT_CU_OK(cu.CtxGetCurrent(&current));
  EXPECT_EQ(current, context);
  EXPECT_CU_OK(cu.CtxPopCurrent(&popped));
  EXPECT_CU_OK(cu.CtxGetCurrent(&current));
  EXPECT_EQ(current, nullptr);
  ASSERT_CU_OK(cu.CtxSetCurrent(context));
}

TEST_F(InitContract, A009_ErrorNames) {
  const char* name = nullptr;
  EXPECT_CU_OK(cu.GetErrorName(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, &name));
  EXPECT_EQ(std::string(name), "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED");
  const int unknown = 12345;
  CUresult error = CUDA_SUCCESS;
  std::memcpy(&error, &unknown, sizeof(error));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.GetErrorName(error, &name));
}

TEST_F(InitContract, A010_ArgumentErrorsLeaveNoTrace) {
  CUdeviceptr memory = 0;
  ASSERT_CU(CUDA_ERROR_INVALID_VALUE, cu.MemAlloc(&memory, 0));
  EXPECT_CU_OK(cu.CtxSynchronize());
}

}  // namespace
}  // namespace permafrost::contract
