// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "permafrost/driver/driver.h"
#include "permafrost/driver/nvtx.h"
#include "tests/support/status_matchers.h"

namespace permafrost {
namespace {

using ::testing::Eq;

TEST(NvtxTest, TheLoadedDriverHearsHeapRegionsNamesAndTheEndInOrder) {
  ASSERT_OK_AND_ASSIGN(
      const DriverRef driver,
      Driver::Load({DriverChoice::Select::kPath, FAKE_DRIVER_LISTENS_PATH}));
  const auto log = reinterpret_cast<const char* (*)()>(
      driver->FindSymbol("NvtxRecorderLog"));
  ASSERT_NE(log, nullptr);
  {
    NvtxHeap heap = NvtxHeap::Register(*driver, "arena", DevicePtr(4096), 1024);
    ASSERT_TRUE(heap.active());
    heap.AddRegions({{"a", DevicePtr(4096), 256},
                     {"gated", DevicePtr(4352), 0},
                     {"b", DevicePtr(4608), 512}});
    NvtxHeap moved = std::move(heap);
    EXPECT_TRUE(moved.active());
  }
  EXPECT_THAT(std::string(log()), Eq("heap arena usage 1 4096+1024;"
                                     "regions 4096+256 4608+512;"
                                     "names a b;"
                                     "2 regions gone;"
                                     "heap gone;"));
}

}  // namespace
}  // namespace permafrost
