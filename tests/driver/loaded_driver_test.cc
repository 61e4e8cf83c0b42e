// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "permafrost/driver/driver.h"
#include "permafrost/driver/handles.h"
#include "permafrost/driver/softcuda_control.h"
#include "tests/support/soft_driver.h"
#include "tests/support/status_matchers.h"

namespace permafrost {
namespace {

using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class LoadedDriverTest : public ::permafrost::testing::DriverTest {};

TEST_F(LoadedDriverTest, TheChoiceSoftIsFoundBesideThePrograms) {
  PERMAFROST_NEEDS_SOFTCUDA();
  ASSERT_OK_AND_ASSIGN(const DriverRef soft_driver,
                       Driver::Load({DriverChoice::Select::kSoft, ""}));
  EXPECT_EQ(soft_driver->kind(), DriverKind::kSoftcuda);
  EXPECT_THAT(soft_driver->path(), HasSubstr("libpermafrost_softcuda.so"));
  EXPECT_THAT(soft_driver->selection_note(), Eq(""));
  EXPECT_GE(soft_driver->version(), CUDA_VERSION);
}

TEST_F(LoadedDriverTest, AutomaticSaysWhyItTookSoftcuda) {
  ASSERT_OK_AND_ASSIGN(const DriverRef automatic,
                       Driver::Load({DriverChoice::Select::kAuto, ""}));
  if (automatic->kind() == DriverKind::kSoftcuda) {
    EXPECT_THAT(automatic->selection_note(), HasSubstr("libcuda.so.1"));
    EXPECT_THAT(automatic->Describe(), HasSubstr(automatic->selection_note()));
  } else {
    EXPECT_THAT(automatic->selection_note(), Eq(""));
  }
}

TEST_F(LoadedDriverTest, DescribeNamesKindVersionAndLibrary) {
  const std::string line = driver()->Describe();
  EXPECT_THAT(line, HasSubstr(DriverKindName(driver()->kind())));
  EXPECT_THAT(line, HasSubstr(driver()->path()));
}

TEST_F(LoadedDriverTest, ControlsAreThereExactlyOnSoftcuda) {
  EXPECT_EQ(soft().has_value(), driver()->kind() == DriverKind::kSoftcuda);
}

TEST_F(LoadedDriverTest, ControlsCountWhatIsAlive) {
  PERMAFROST_NEEDS_SOFTCUDA();
  const int64_t bytes = soft()->live_bytes();
  const int64_t handles = soft()->live_handles();
  {
    ASSERT_OK_AND_ASSIGN(const DeviceBuffer buffer,
                         DeviceBuffer::Allocate(context(), 1 << 20));
    EXPECT_EQ(soft()->live_bytes(), bytes + (1 << 20));
    EXPECT_EQ(soft()->live_handles(), handles + 1);
    EXPECT_TRUE(soft()->MarkUndefined(buffer.ptr(), 256));
    EXPECT_FALSE(soft()->MarkUndefined(DevicePtr(16), 256));
  }
  EXPECT_EQ(soft()->live_bytes(), bytes);
  EXPECT_EQ(soft()->live_handles(), handles);
}

TEST_F(LoadedDriverTest, ReportsAreHandedOutOnce) {
  PERMAFROST_NEEDS_SOFTCUDA();
  soft()->TakeReports();
  EXPECT_THAT(soft()->TakeReports(), IsEmpty());
}

TEST_F(LoadedDriverTest, DeviceMemoryCanBeMadeSmall) {
  PERMAFROST_NEEDS_SOFTCUDA();
  ASSERT_OK_AND_ASSIGN(const int64_t total, context()->TotalMemoryBytes());
  soft()->SetDeviceMemoryBytes(int64_t{8} << 20);
  const absl::StatusOr<DeviceBuffer> buffer =
      DeviceBuffer::Allocate(context(), int64_t{16} << 20);
  soft()->SetDeviceMemoryBytes(total);
  EXPECT_THAT(buffer, Not(::permafrost::testing::IsOk()));
}

}  // namespace
}  // namespace permafrost
