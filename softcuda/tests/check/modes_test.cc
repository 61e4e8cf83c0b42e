// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// The options that change how things run.
#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <set>
#include <vector>

#include "check_fixture.h"

namespace softcuda {
namespace {

using ::testing::HasSubstr;

// Programs look at pinned memory while a copy writes it, which no lock guards:
// to ThreadSanitizer that is a race, so it is kept from looking.
__attribute__((no_sanitize("thread"))) void SpinWhileZero(
    const volatile int* flag) {
  while (*flag == 0) {
  }
}

class ModesTest : public CheckTest {
 protected:
  void SetUp() override {
    CheckTest::SetUp();
    softcuda_enable_racecheck(0);
  }
  void TearDown() override {
    EXPECT_OK(softcuda_set_option("poison", "off"));
    EXPECT_OK(softcuda_set_option("address_reuse", "round"));
    EXPECT_OK(softcuda_set_option("late_work", "0"));
    EXPECT_OK(softcuda_set_option("step_limit", "0"));
    EXPECT_OK(softcuda_set_option("compute_capability", "9.0"));
    EXPECT_OK(softcuda_set_option("driver_version", "13000"));
    CheckTest::TearDown();
  }
  std::vector<int> Read(CUdeviceptr from) {
    std::vector<int> values(kInts);
    EXPECT_OK(cuMemcpyDtoH(values.data(), from, kBytes));
    return values;
  }
};

TEST_F(ModesTest, UnknownOptionsAndValuesAreRefused) {
  for (const auto& [name, value] :
       std::vector<std::pair<const char*, const char*>>{
           {"", "1"},
           {"racechek", "1"},
           {"racecheck", "yes"},
           {"poison", "256"},
           {"poison", "0x"},
           {"step_limit", "-1"},
           {"driver_version", "1"},
           {"exit_code", "256"},
           {"report_file", "/nowhere/x"}}) {
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, softcuda_set_option(name, value))
        << name << "=" << value;
  }
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, softcuda_set_option(nullptr, "1"));
}

TEST_F(ModesTest, FreshMemoryIsPoisonedWhenAsked) {
  CUdeviceptr address = 0;
  ASSERT_OK(softcuda_set_option("poison", "0xa5"));
  ASSERT_OK(cuMemAlloc(&address, kBytes));
  EXPECT_EQ(Read(address),
            std::vector<int>(kInts, static_cast<int>(0xa5a5a5a5)));
  EXPECT_OK(cuMemFree(address));
  ASSERT_OK(softcuda_set_option("poison", "off"));
  ASSERT_OK(cuMemAlloc(&address, kBytes));
  EXPECT_EQ(Read(address), std::vector<int>(kInts, 0));
  EXPECT_OK(cuMemFree(address));
}

TEST_F(ModesTest, AddressesComeBackAsAsked) {
  const auto addresses = [] {
    std::set<CUdeviceptr> seen;
    for (int k = 0; k < 50; ++k) {
      CUdeviceptr address = 0;
      EXPECT_OK(cuMemAlloc(&address, 4096));
      seen.insert(address);
      EXPECT_OK(cuMemFree(address));
    }
    return seen.size();
  };
  ASSERT_OK(softcuda_set_option("address_reuse", "always"));
  EXPECT_EQ(addresses(), 1u);
  ASSERT_OK(softcuda_set_option("address_reuse", "never"));
  EXPECT_EQ(addresses(), 50u);
}

// A host that forgets to wait reads what was there before.
TEST_F(ModesTest, LateWorkIsNotDoneBeforeSomebodyWaits) {
  void* memory = nullptr;
  ASSERT_OK(cuMemAllocHost(&memory, kBytes));
  auto* const host = static_cast<volatile int*>(memory);
  host[0] = 0;
  ASSERT_OK(softcuda_set_option("late_work", "1"));
  Fill(stream_, a_);
  EXPECT_OK(cuMemcpyDtoHAsync(memory, a_, kBytes, stream_));
  // A wait for another stream does not bring it about.
  Fill(other_, b_);
  EXPECT_OK(cuStreamSynchronize(other_));
  EXPECT_EQ(host[0], 0);
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(host[0], 7);
  // Asking is enough, in the end.
  host[0] = 0;
  EXPECT_OK(cuMemcpyDtoHAsync(memory, a_, kBytes, stream_));
  while (cuStreamQuery(stream_) == CUDA_ERROR_NOT_READY) {
  }
  EXPECT_EQ(host[0], 7);
  // So is looking at the memory, though it takes a moment.
  host[0] = 0;
  EXPECT_OK(cuMemcpyDtoHAsync(memory, a_, kBytes, stream_));
  SpinWhileZero(host);
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_OK(cuMemFreeHost(memory));
}

TEST_F(ModesTest, LateWorkKeepsEventsAndGraphsInOrder) {
  ASSERT_OK(softcuda_set_option("late_work", "1"));
  for (int k = 0; k < 5; ++k) {
    CaptureAndRun([&] {
      Fill(stream_, a_, kInts, k);
      Order(stream_, other_);
      Add(other_, a_, b_);
      Order(other_, stream_);
      Add(stream_, b_, c_);
    });
    EXPECT_EQ(Read(c_), std::vector<int>(kInts, k + 2));
    Fill(other_, a_, kInts, 10 + k);
    Order(other_, stream_);
    Add(stream_, a_, b_);
    EXPECT_OK(cuStreamSynchronize(stream_));
    EXPECT_EQ(Read(b_), std::vector<int>(kInts, 11 + k));
  }
}

TEST_F(ModesTest, TheDeviceIsWhatIsAskedFor) {
  ASSERT_OK(softcuda_set_option("compute_capability", "8.0"));
  int major = 0;
  int minor = -1;
  int version = 0;
  EXPECT_OK(cuDeviceGetAttribute(
      &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  EXPECT_OK(cuDeviceGetAttribute(
      &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0));
  EXPECT_EQ(major, 8);
  EXPECT_EQ(minor, 0);
  // The image holds PTX for 9.0 alone.
  CUmodule module = nullptr;
  EXPECT_CU(CUDA_ERROR_NO_BINARY_FOR_GPU,
            cuModuleLoadData(&module, softcuda_check_kernels_image));
  ASSERT_OK(softcuda_set_option("driver_version", "12080"));
  EXPECT_OK(cuDriverGetVersion(&version));
  EXPECT_EQ(version, 12080);
}

// Two branches without a conflict: whatever the seed, the same bits.
TEST_F(ModesTest, ReplaysOfATwoStreamGraphAreEqualUnderEverySeed) {
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  int n = kInts;
  Fill(stream_, a_, kInts, 3);
  EXPECT_OK(cuMemsetD32Async(c_, 0, kInts, stream_));
  Order(stream_, other_);
  Add(stream_, a_, b_);
  void* histogram[] = {&a_, &c_, &n};
  Launch(other_, "k_atomic_histogram", n, histogram);
  Order(other_, stream_);
  Add(stream_, b_, a_);
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuStreamEndCapture(stream_, &graph));
  ASSERT_OK(cuGraphInstantiate(&exec, graph, 0));
  softcuda_enable_racecheck(1);
  std::set<std::vector<int>> results;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    softcuda_set_schedule_seed(seed);
    for (int replay = 0; replay < 20; ++replay) {
      EXPECT_OK(cuGraphLaunch(exec, stream_));
      EXPECT_OK(cuStreamSynchronize(stream_));
      std::vector<int> all = Read(a_);
      for (CUdeviceptr buffer : {b_, c_}) {
        const std::vector<int> more = Read(buffer);
        all.insert(all.end(), more.begin(), more.end());
      }
      results.insert(all);
    }
  }
  EXPECT_EQ(results.size(), 1u);
  EXPECT_EQ(TakeReports(), "");
  softcuda_enable_racecheck(0);
  EXPECT_OK(cuGraphExecDestroy(exec));
  EXPECT_OK(cuGraphDestroy(graph));
}

// A kernel whose blocks race: seeds show it in the bits, and a report says why.
TEST_F(ModesTest, AnOrderBugDiffersBetweenSeedsAndIsReported) {
  const auto run = [&](uint64_t seed) {
    softcuda_set_schedule_seed(seed);
    EXPECT_OK(cuMemsetD32Async(a_, 0, kInts, stream_));
    void* params[] = {&a_};
    EXPECT_OK(cuLaunchKernel(Function("f_order_bug"), 4, 1, 1, 32, 1, 1, 0,
                             stream_, params, nullptr));
    EXPECT_OK(cuStreamSynchronize(stream_));
    return Read(a_)[0];
  };
  std::set<int> results;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const int first = run(seed);
    EXPECT_EQ(run(seed), first) << "seed " << seed;
    results.insert(first);
  }
  EXPECT_GT(results.size(), 1u);
  EXPECT_EQ(TakeReports(), "");
  softcuda_enable_racecheck(1);
  run(1);
  softcuda_enable_racecheck(0);
  const std::string reports = TakeReports();
  EXPECT_THAT(reports, HasSubstr("racecheck: "));
  EXPECT_THAT(reports, HasSubstr(LineOf("order_bug")));
}

// These end their process: each in one of its own.

TEST(ModesDeathTest, TheStepLimitEndsASpinAtItsLine) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        softcuda_set_option("step_limit", "100000");
        CUcontext context = nullptr;
        CUmodule module = nullptr;
        CUfunction function = nullptr;
        CUdeviceptr flag = 0;
        cuInit(0);
        cuDevicePrimaryCtxRetain(&context, 0);
        cuCtxSetCurrent(context);
        cuModuleLoadData(&module, softcuda_check_kernels_image);
        cuModuleGetFunction(&function, module, "f_spin");
        cuMemAlloc(&flag, 4);
        void* params[] = {&flag};
        cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, params,
                       nullptr);
        std::exit(cuCtxSynchronize() == CUDA_ERROR_LAUNCH_TIMEOUT ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "timeout: .*check_kernels.cu:[0-9]+");
}

TEST(ModesDeathTest, TheExitCodeTellsOfReports) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        softcuda_set_option("exit_code", "42");
        cuInit(0);
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        softcuda_set_option("exit_code", "42");
        cuInit(0);
        CUcontext context = nullptr;
        cuDevicePrimaryCtxRetain(&context, 0);
        cuCtxSetCurrent(context);
        CUstream stream = nullptr;
        cuStreamCreate(&stream, 0);
        cuStreamDestroy(stream);
        cuStreamSynchronize(stream);
        std::exit(0);
      },
      ::testing::ExitedWithCode(42), "misuse: cuStreamSynchronize");
}

TEST(ModesDeathTest, TheEnvironmentIsReadAndChecked) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("SOFTCUDA_DRIVER_VERSION", "12060", 1);
        setenv("SOFTCUDA_POISON", "999", 1);
        setenv("SOFTCUDA_REPORT_FORMAT", "json", 1);
        cuInit(0);
        int version = 0;
        cuDriverGetVersion(&version);
        std::exit(version == 12060 ? 0 : 1);
      },
      ::testing::ExitedWithCode(0),
      "\"what\":\"environment variable SOFTCUDA_POISON: got '999', accepted: "
      "off or a byte; ignored\"");
}

}  // namespace
}  // namespace softcuda
