// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Reports about versions, entry points and the loading of code.
#include <dlfcn.h>

#include <cstdlib>
#include <fstream>

#include "case_fixture.h"

namespace softcuda {
namespace {

using DriverVersionCases = DriverCases;

TEST_F(DriverVersionCases, B72_DriversOfBothMajorVersionsRunTheSameGraph) {
  for (const char* version : {"12000", "12080", "13000"}) {
    ASSERT_OK(softcuda_set_option("driver_version", version));
    int reported = 0;
    EXPECT_OK(cuDriverGetVersion(&reported));
    EXPECT_EQ(std::to_string(reported), version);
    void* function = nullptr;
    EXPECT_OK(
        cuGetProcAddress_v2("cuGraphLaunch", &function, reported, 0, nullptr));
    EXPECT_NE(function, nullptr);
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
              cuGetProcAddress_v2("cuGraphLaunch", &function, reported + 10, 0,
                                  nullptr))
        << "an entry point of a later driver";
    const CUdeviceptr a = NewInts(64, 0);
    Replay(Instantiate(Capture(
        [&] { EXPECT_OK(Launch(stream_, "c_fill", 1, 64, a, 64, 3)); })));
    EXPECT_EQ(Read(a, 64), std::vector<int>(64, 3));
  }
}

// A driver that loads functions at their first launch, and not in a capture,
// is one that P17 of the probes may find.

// In a process whose first call comes behind setenv.
int LaunchInACapture(const char* answers, bool load_first) {
  setenv("PERMAFROST_SOFTCUDA_POLICY", answers, 1);
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUstream stream = nullptr;
  CUdeviceptr memory = 0;
  CUgraph graph = nullptr;
  CUfunctionLoadingState state = CU_FUNCTION_LOADING_STATE_LOADED;
  cuInit(0);
  cuDevicePrimaryCtxRetain(&context, 0);
  cuCtxSetCurrent(context);
  cuModuleLoadData(&module, softcuda_case_kernels_image);
  cuModuleGetFunction(&function, module, "c_fill");
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  cuMemAlloc(&memory, 256);
  cuFuncIsLoaded(&state, function);
  if (state != CU_FUNCTION_LOADING_STATE_UNLOADED) return 1;
  if (load_first && cuFuncLoad(function) != CUDA_SUCCESS) return 1;
  cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  int count = 64;
  int value = 1;
  void* params[] = {&memory, &count, &value};
  const CUresult launch =
      cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, stream, params, nullptr);
  const CUresult end = cuStreamEndCapture(stream, &graph);
  if (load_first) return launch == CUDA_SUCCESS && end == CUDA_SUCCESS ? 0 : 1;
  return launch == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
                 end == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
             ? 0
             : 1;
}

TEST(LazyLoadingDeathTest, B76_AFirstLaunchInACaptureCanBeForbidden) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string path = ::testing::TempDir() + "softcuda_lazy_loading.json";
  std::ofstream(path) << "{\"answers\": {\"P17.first_launch\": 900}}";
  for (const bool load_first : {false, true}) {
    EXPECT_EXIT(std::_Exit(LaunchInACapture(path.c_str(), load_first)),
                ::testing::ExitedWithCode(0), "")
        << load_first;
  }
  (void)std::remove(path.c_str());
}

TEST_F(DriverVersionCases, B76_CodeIsNotLoadedOrUnloadedInACapture) {
  CUmodule module = nullptr;
  CUmodule extra = nullptr;
  ASSERT_OK(cuModuleLoadData(&extra, softcuda_case_kernels_image));
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
            cuModuleLoadData(&module, softcuda_case_kernels_image));
  EndBroken(stream_);
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuModuleUnload(extra));
  EndBroken(stream_);
  EXPECT_OK(cuModuleUnload(extra));
}

// Plain names give the ABI of their first version; cuda.h means later ones.
TEST_F(DriverVersionCases, B127_VersionedNamesAreTheOnesThatAreExported) {
  for (const char* name :
       {"cuMemAlloc", "cuMemFree", "cuMemcpyHtoD", "cuMemcpyDtoH",
        "cuMemGetInfo", "cuStreamDestroy", "cuEventDestroy",
        "cuModuleGetGlobal", "cuDeviceTotalMem", "cuMemHostRegister"}) {
    void* const versioned =
        dlsym(RTLD_DEFAULT, (std::string(name) + "_v2").c_str());
    ASSERT_NE(versioned, nullptr) << name;
    void* by_query = nullptr;
    EXPECT_OK(cuGetProcAddress_v2(name, &by_query, 13000, 0, nullptr));
    EXPECT_EQ(by_query, versioned) << name;
    void* of_first_version = nullptr;
    EXPECT_OK(cuGetProcAddress_v2(name, &of_first_version, 2000, 0, nullptr));
    EXPECT_NE(of_first_version, versioned) << name;
  }
  // Two that changed after their second version.
  for (const auto& [name, symbol] :
       {std::pair{"cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo_v3"},
        {"cuGraphAddNode", "cuGraphAddNode_v2"}}) {
    void* by_query = nullptr;
    EXPECT_OK(cuGetProcAddress_v2(name, &by_query, 13000, 0, nullptr));
    EXPECT_EQ(by_query, dlsym(RTLD_DEFAULT, symbol)) << name;
  }
}

TEST_F(DriverVersionCases, B128_PtxNewerThanTheDriverIsRefusedByVersion) {
  const auto load = [&](const char* version, std::string* log) {
    const std::string ptx = std::string(".version ") + version +
                            "\n.target sm_80\n.address_size 64\n"
                            ".visible .entry k() { ret; }\n";
    char text[256] = {};
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER,
                              CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {text, reinterpret_cast<void*>(sizeof text)};
    CUmodule module = nullptr;
    const CUresult result =
        cuModuleLoadDataEx(&module, ptx.c_str(), 2, options, values);
    *log = text;
    if (result == CUDA_SUCCESS) {
      EXPECT_OK(cuModuleUnload(module));
    }
    return result;
  };
  std::string log;
  EXPECT_CU(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, load("99.1", &log));
  EXPECT_THAT(log, ::testing::HasSubstr(
                       "PTX version 99.1: softcuda knows versions up to 9"));
  EXPECT_OK(load("7.0", &log)) << "the lowest version that compiles loads";
}

}  // namespace
}  // namespace softcuda
