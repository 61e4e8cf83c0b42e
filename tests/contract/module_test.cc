// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Modules, functions and launches: assertions 11 to 24.
#include "contract_api.h"

namespace permafrost::contract {
namespace {

using ModuleContract = ContractTest;

constexpr char kSmallPtx[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry k_nothing()
{
  ret;
}
)";

struct Library {
  CUlibrary library = nullptr;
  CUkernel fill = nullptr;
};

void LoadLibrary(const Api& cu, Library* out) {
  ASSERT_CU_OK(cu.LibraryLoadData(&out->library, KernelImage(), nullptr,
                                  nullptr, 0, nullptr, nullptr, 0));
  ASSERT_CU_OK(cu.LibraryGetKernel(&out->fill, out->library, "k_fill"));
}

TEST_F(ModuleContract, A011_PtxTextLoadsAndGarbageDoesNot) {
  CUmodule module = nullptr;
  ASSERT_CU_OK(cu.ModuleLoadData(&module, kSmallPtx));
  CUfunction function = nullptr;
  EXPECT_CU_OK(cu.ModuleGetFunction(&function, module, "k_nothing"));
  EXPECT_CU_OK(cu.ModuleUnload(module));
  EXPECT_CU_ANY(cu.ModuleLoadData(&module, "garbage"), 200, 218, 300);
}

TEST_F(ModuleContract, A012_UnknownFunctionIsNotFound) {
  CUmodule module = nullptr;
  ASSERT_CU_OK(cu.ModuleLoadData(&module, KernelImage()));
  CUfunction function = nullptr;
  EXPECT_CU(CUDA_ERROR_NOT_FOUND,
            cu.ModuleGetFunction(&function, module, "k_none"));
  EXPECT_CU_OK(cu.ModuleUnload(module));
}

TEST_F(ModuleContract, A013_GlobalHasItsDeclaredSize) {
  CUmodule module = nullptr;
  ASSERT_CU_OK(cu.ModuleLoadData(&module, KernelImage()));
  CUdeviceptr address = 0;
  size_t bytes = 0;
  EXPECT_CU_OK(cu.ModuleGetGlobal(&address, &bytes, module, "g_words"));
  EXPECT_EQ(bytes, 28u);
  EXPECT_NE(address, 0u);
  CUfunction words = nullptr;
  ASSERT_CU_OK(cu.ModuleGetFunction(&words, module, "k_words"));
  uint32_t value = 77;
  void* params[] = {&value};
  ASSERT_CU_OK(
      cu.LaunchKernel(words, 1, 1, 1, 32, 1, 1, 0, nullptr, params, nullptr));
  EXPECT_EQ(Read(address, 7), std::vector<uint32_t>(7, 77));
  EXPECT_CU_OK(cu.ModuleUnload(module));
}

TEST_F(ModuleContract, A014_ParamInfoOffsetsAndSizes) {
  const size_t offsets[] = {0, 8, 12};
  const size_t sizes[] = {8, 4, 4};
  for (size_t i = 0; i < 3; ++i) {
    size_t offset = 99;
    size_t size = 99;
    EXPECT_CU_OK(cu.FuncGetParamInfo(Function("k_fill"), i, &offset, &size));
    EXPECT_EQ(offset, offsets[i]);
    EXPECT_EQ(size, sizes[i]);
  }
  size_t offset = 0;
  size_t size = 0;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cu.FuncGetParamInfo(Function("k_fill"), 3, &offset, &size));
}

TEST_F(ModuleContract, A015_ParamInfoWithoutASize) {
  size_t offset = 0;
  EXPECT_CU_OK(cu.FuncGetParamInfo(Function("k_fill"), 1, &offset, nullptr));
  EXPECT_EQ(offset, 8u);
}

TEST_F(ModuleContract, A016_KernelParamInfoAgrees) {
  Library library;
  LoadLibrary(cu, &library);
  for (size_t i = 0; i < 3; ++i) {
    size_t offset = 0;
    size_t size = 0;
    size_t kernel_offset = 1;
    size_t kernel_size = 1;
    EXPECT_CU_OK(cu.FuncGetParamInfo(Function("k_fill"), i, &offset, &size));
    EXPECT_CU_OK(
        cu.KernelGetParamInfo(library.fill, i, &kernel_offset, &kernel_size));
    EXPECT_EQ(offset, kernel_offset);
    EXPECT_EQ(size, kernel_size);
  }
  EXPECT_CU_OK(cu.LibraryUnload(library.library));
}

TEST_F(ModuleContract, A017_KernelLaunchesAsAFunction) {
  Library library;
  LoadLibrary(cu, &library);
  const CUstream stream = NewStream(kNonBlocking);
  CUdeviceptr words = NewWords(100);
  uint32_t value = 5;
  uint32_t count = 100;
  void* params[] = {&words, &value, &count};
  EXPECT_CU_OK(cu.LaunchKernel(reinterpret_cast<CUfunction>(library.fill), 2, 1,
                               1, 64, 1, 1, 0, stream, params, nullptr));
  EXPECT_EQ(Read(words, 100), std::vector<uint32_t>(100, 5));
  EXPECT_CU_OK(cu.LibraryUnload(library.library));
}

TEST_F(ModuleContract, A018_RegisterCountCannotBeSet) {
  EXPECT_CU(
      CUDA_ERROR_INVALID_VALUE,
      cu.FuncSetAttribute(Function("k_fill"), CU_FUNC_ATTRIBUTE_NUM_REGS, 16));
}

TEST_F(ModuleContract, A019_MaxThreadsPerBlockIsPlausible) {
  int threads = 0;
  EXPECT_CU_OK(cu.FuncGetAttribute(
      &threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, Function("k_fill")));
  EXPECT_GE(threads, 1);
  EXPECT_LE(threads, 1024);
}

TEST_F(ModuleContract, A020_EmptyBlockIsRefusedAndLeavesNoTrace) {
  CUdeviceptr words = NewWords(1);
  uint32_t one = 1;
  void* params[] = {&words, &one, &one};
  EXPECT_CU_FAILS(cu.LaunchKernel(Function("k_fill"), 1, 1, 1, 0, 1, 1, 0,
                                  nullptr, params, nullptr));
  EXPECT_CU_OK(cu.CtxSynchronize());
}

TEST_F(ModuleContract, A021_TooLargeABlockIsRefusedAndLeavesNoTrace) {
  CUdeviceptr words = NewWords(1);
  uint32_t one = 1;
  void* params[] = {&words, &one, &one};
  int threads = 0;
  ASSERT_CU_OK(cu.FuncGetAttribute(
      &threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, Function("k_fill")));
  EXPECT_CU_ANY(cu.LaunchKernel(Function("k_fill"), 1, 1, 1,
                                static_cast<unsigned int>(threads) + 1, 1, 1, 0,
                                nullptr, params, nullptr),
                1, 701);
  EXPECT_CU_OK(cu.CtxSynchronize());
}

// The launch's arguments as one buffer.
struct PackedFill {
  CUdeviceptr words;
  uint32_t value;
  uint32_t count;
};

TEST_F(ModuleContract, A022_ParamsAndExtraTogetherAreRefused) {
  PackedFill fill = {NewWords(1), 1, 1};
  size_t bytes = sizeof(fill);
  void* params[] = {&fill.words, &fill.value, &fill.count};
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &fill,
                   CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cu.LaunchKernel(Function("k_fill"), 1, 1, 1, 1, 1, 1, 0, nullptr,
                            params, extra));
}

TEST_F(ModuleContract, A023_ArgumentsAreCopiedDuringTheCall) {
  const CUstream stream = NewStream(kNonBlocking);
  uint32_t* const gate = NewPinnedWords(1);
  CUdeviceptr words = NewWords(32);
  ASSERT_CU_OK(LaunchGate(stream, gate));
  uint32_t value = 3;
  uint32_t count = 32;
  void* params[] = {&words, &value, &count};
  ASSERT_CU_OK(cu.LaunchKernel(Function("k_fill"), 1, 1, 1, 32, 1, 1, 0, stream,
                               params, nullptr));
  const CUdeviceptr target = words;
  words = 0;
  value = 9;
  count = 0;
  OpenGate(gate);
  EXPECT_EQ(Read(target, 32), std::vector<uint32_t>(32, 3));
}

TEST_F(ModuleContract, A024_PackedArgumentsEqualSeparateOnes) {
  PackedFill fill = {NewWords(50), 11, 50};
  size_t bytes = sizeof(fill);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &fill,
                   CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  ASSERT_CU_OK(cu.LaunchKernel(Function("k_fill"), 1, 1, 1, 64, 1, 1, 0,
                               nullptr, nullptr, extra));
  EXPECT_EQ(Read(fill.words, 50), std::vector<uint32_t>(50, 11));
}

}  // namespace
}  // namespace permafrost::contract
