// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Devices larger than their host: memory is committed where it is touched,
// against a budget.
#include <cstdlib>
#include <vector>

#include "driver_fixture.h"

namespace softcuda {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kBudget = 64 * kMiB;
constexpr size_t kStep = 2 * kMiB;

constexpr char kStorePtx[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry k_store(.param .u64 k_store_0)
{
  .reg .b64 %rd<2>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [k_store_0];
  mov.u32 %r1, 42;
  st.global.u32 [%rd1], %r1;
  ret;
}
)";

CUresult Store(CUdeviceptr address) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  cuModuleLoadData(&module, kStorePtx);
  cuModuleGetFunction(&function, module, "k_store");
  void* params[] = {&address};
  cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr);
  const CUresult result = cuCtxSynchronize();
  cuModuleUnload(module);
  return result;
}

class BudgetTest : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    softcuda_set_memory_budget(static_cast<size_t>(softcuda_committed_bytes()) +
                               kBudget);
    committed_before_ = softcuda_committed_bytes();
  }
  void TearDown() override {
    EXPECT_EQ(softcuda_committed_bytes(), committed_before_);
    softcuda_set_memory_budget(size_t{4} << 30);
    softcuda_set_device_memory(size_t{80} << 30);
    DriverTest::TearDown();
  }
  int64_t Committed() const {
    return softcuda_committed_bytes() - committed_before_;
  }

  int64_t committed_before_ = 0;
};

TEST_F(BudgetTest, HugeDeviceOnASmallHost) {
  softcuda_set_device_memory(size_t{128} << 30);
  CUdeviceptr memory = 0;
  ASSERT_EQ(cuMemAlloc(&memory, size_t{100} << 30), CUDA_SUCCESS);
  EXPECT_EQ(Committed(), 0);
  const CUdeviceptr far = memory + (size_t{99} << 30) + 5 * kMiB;
  EXPECT_EQ(cuMemsetD8(far, 1, 4), CUDA_SUCCESS);
  EXPECT_EQ(Committed(), static_cast<int64_t>(kStep));
  EXPECT_EQ(Store(memory), CUDA_SUCCESS);
  uint32_t word = 0;
  EXPECT_EQ(cuMemcpyDtoH(&word, memory, 4), CUDA_SUCCESS);
  EXPECT_EQ(word, 42u);
  EXPECT_EQ(Committed(), static_cast<int64_t>(2 * kStep));
  EXPECT_EQ(cuMemFree(memory), CUDA_SUCCESS);
  EXPECT_EQ(Committed(), 0) << "freed memory leaves the budget";
}

TEST_F(BudgetTest, SmallAllocationsTakeTheirPagesOnly) {
  const CUdeviceptr memory = Allocate(100);
  EXPECT_EQ(cuMemsetD8(memory, 1, 100), CUDA_SUCCESS);
  EXPECT_EQ(Committed(), 4096);
  EXPECT_EQ(cuMemFree(memory), CUDA_SUCCESS);
}

TEST_F(BudgetTest, CopiesBeyondTheBudgetAreRefused) {
  const CUdeviceptr memory = Allocate(2 * kBudget);
  std::vector<char> host(kMiB);
  EXPECT_EQ(cuMemsetD8(memory, 1, kBudget), CUDA_SUCCESS);
  EXPECT_EQ(Committed(), static_cast<int64_t>(kBudget));
  EXPECT_EQ(cuMemsetD8(memory + kBudget, 1, 1), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemcpyHtoD(memory + kBudget, host.data(), kMiB),
            CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemcpyHtoDAsync(memory + kBudget, host.data(), kMiB, nullptr),
            CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemcpyDtoH(host.data(), memory + kBudget, kMiB),
            CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemcpyHtoD(memory, host.data(), kMiB), CUDA_SUCCESS)
      << "what is committed can be used, and the context lives";
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(memory), CUDA_SUCCESS);
}

// Memory behind two addresses is there once.
TEST_F(BudgetTest, AliasesAreCommittedOnce) {
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr base = 0;
  const CUmemAllocationProp properties = DeviceMemory();
  ASSERT_EQ(cuMemCreate(&handle, kGranule, &properties, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAddressReserve(&base, 2 * kGranule, 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(base, kGranule, 0, handle, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(base + kGranule, kGranule, 0, handle, 0), CUDA_SUCCESS);
  ASSERT_EQ(SetAccess(base, 2 * kGranule, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
            CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD8(base, 1, 2 * kGranule), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(Committed(), static_cast<int64_t>(kGranule));
  EXPECT_EQ(cuMemUnmap(base, 2 * kGranule), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(base, 2 * kGranule), CUDA_SUCCESS);
  EXPECT_EQ(Committed(), static_cast<int64_t>(kGranule));
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
}

// Exits with 0 when a kernel beyond a budget of 64 MiB ends the context, with
// a line that has what it needed and what there was.
void StoreBeyondTheBudget() {
  softcuda_set_quiet(1);
  softcuda_set_memory_budget(kBudget);
  CUcontext context = nullptr;
  CUdeviceptr memory = 0;
  cuInit(0);
  cuDevicePrimaryCtxRetain(&context, 0);
  cuCtxSetCurrent(context);
  cuMemAlloc(&memory, 2 * kBudget);
  cuMemsetD8(memory, 1, kBudget);
  const CUresult result = Store(memory + kBudget);
  std::string text(softcuda_take_reports(nullptr, 0), '\0');
  softcuda_take_reports(text.data(), text.size());
  const bool told =
      text.find("2097152 bytes more do not fit 67108864") != std::string::npos;
  std::_Exit(result == CUDA_ERROR_ILLEGAL_ADDRESS && told ? 0 : 1);
}

TEST_F(BudgetTest, KernelBeyondTheBudgetEndsItsContext) {
  EXPECT_EXIT(StoreBeyondTheBudget(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace softcuda
