// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "permafrost/driver/driver.h"
#include "permafrost/driver/nvtx.h"
#include "tests/support/status_matchers.h"

namespace permafrost {
namespace {

using ::testing::Eq;
using ::testing::HasSubstr;

TEST(NvtxTest, AToolNamedByTheEnvironmentWinsOverTheDriver) {
  // What a tool's launcher does to the program it starts.
  ASSERT_EQ(setenv("NVTX_INJECTION64_PATH", NVTX_TOOL_PATH, 1), 0);
  ASSERT_OK_AND_ASSIGN(
      const DriverRef driver,
      Driver::Load({DriverChoice::Select::kPath, FAKE_DRIVER_LISTENS_PATH}));
  const auto driver_log = reinterpret_cast<const char* (*)()>(
      driver->FindSymbol("NvtxRecorderLog"));
  ASSERT_NE(driver_log, nullptr);

  const NvtxHeap heap =
      NvtxHeap::Register(*driver, "arena", DevicePtr(4096), 1024);
  EXPECT_TRUE(heap.active());

  void* tool = dlopen(NVTX_TOOL_PATH, RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(tool, nullptr) << "NVTX did not load the tool";
  const auto tool_log =
      reinterpret_cast<const char* (*)()>(dlsym(tool, "NvtxRecorderLog"));
  ASSERT_NE(tool_log, nullptr);
  EXPECT_THAT(std::string(tool_log()), HasSubstr("heap arena"));
  EXPECT_THAT(std::string(driver_log()), Eq(""));
}

}  // namespace
}  // namespace permafrost
