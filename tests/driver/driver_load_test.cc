// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "permafrost/driver/driver.h"
#include "tests/support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

absl::StatusOr<DriverRef> LoadPath(const std::string& path) {
  return Driver::Load({DriverChoice::Select::kPath, path});
}

TEST(DriverLoadTest, CompleteTableAndVersionOfAGoodLibrary) {
  ASSERT_OK_AND_ASSIGN(const DriverRef driver, LoadPath(FAKE_DRIVER_PATH));
  EXPECT_EQ(driver->version(), CUDA_VERSION);
  EXPECT_EQ(driver->path(), FAKE_DRIVER_PATH);
  EXPECT_EQ(driver->kind(), DriverKind::kCuda);
  EXPECT_EQ(driver->selection_note(), "");
#define PERMAFROST_ENTRY_POINT(name, version) \
  EXPECT_NE(driver->api().name, nullptr) << "cu" #name;
#include "permafrost/driver/entry_points.inc"
#undef PERMAFROST_ENTRY_POINT
  int version = 0;
  EXPECT_EQ(driver->api().DriverGetVersion(&version), CUDA_SUCCESS);
  EXPECT_EQ(version, CUDA_VERSION);
}

TEST(DriverLoadTest, FindsSymbolsOfTheLibraryAndNoOthers) {
  ASSERT_OK_AND_ASSIGN(const DriverRef driver, LoadPath(FAKE_DRIVER_PATH));
  EXPECT_NE(driver->FindSymbol("NeverCalled"), nullptr);
  EXPECT_EQ(driver->FindSymbol("softcuda_control_version"), nullptr);
}

TEST(DriverLoadTest, OldMajorVersionIsRefusedWithBothVersionsAndTheCure) {
  EXPECT_THAT(LoadPath(FAKE_DRIVER_TOO_OLD_PATH),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr(FAKE_DRIVER_TOO_OLD_PATH),
                             HasSubstr("got version 12.0"),
                             HasSubstr(std::to_string(CUDA_VERSION / 1000) +
                                       ".0 or newer"),
                             HasSubstr("update the driver"))));
}

TEST(DriverLoadTest, MissingEntryPointIsNamedWithItsVersion) {
  EXPECT_THAT(
      LoadPath(FAKE_DRIVER_LACKS_ENTRY_PATH),
      StatusIs(absl::StatusCode::kUnimplemented,
               AllOf(HasSubstr("lacks 1 of"), HasSubstr("cuMemMap (10.2)"),
                     Not(HasSubstr("cuMemUnmap")))));
}

TEST(DriverLoadTest, DriverWithoutDeviceIsUnavailable) {
  EXPECT_THAT(LoadPath(FAKE_DRIVER_NO_DEVICE_PATH),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("no device"),
                             HasSubstr("PERMAFROST_DRIVER=soft"))));
}

TEST(DriverLoadTest, ToolkitsStandInIsNoDriver) {
  EXPECT_THAT(
      LoadPath(FAKE_DRIVER_STUB_PATH),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("not a driver")));
}

TEST(DriverLoadTest, TextFileIsRefusedByName) {
  const std::string path = ::testing::TempDir() + "/not_a_library.so";
  std::ofstream(path) << "this is no shared library\n";
  EXPECT_THAT(LoadPath(path),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(path), HasSubstr("not a shared "
                                                        "library"))));
}

TEST(DriverLoadTest, LibraryThatIsNoDriverIsRefusedByName) {
  EXPECT_THAT(
      LoadPath("libm.so.6"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("libm.so.6"), HasSubstr("not a CUDA driver"),
                     HasSubstr("cuDriverGetVersion"))));
}

TEST(DriverLoadTest, AbsentFileIsUnavailable) {
  EXPECT_THAT(LoadPath("/nonexistent/libcuda.so.1"),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("/nonexistent/libcuda.so.1")));
}

TEST(DriverLoadTest, TheChoiceCudaNeverGivesSoftcuda) {
  const absl::StatusOr<DriverRef> driver =
      Driver::Load({DriverChoice::Select::kCuda, ""});
  if (driver.ok()) {
    EXPECT_EQ((*driver)->kind(), DriverKind::kCuda);
  } else {
    EXPECT_THAT(driver.status().message(), HasSubstr("libcuda.so.1"));
  }
}

CUresult FailingRelease(CUmemGenericAllocationHandle /*handle*/) {
  return CUDA_ERROR_UNKNOWN;
}

TEST(DriverLoadTest, WithApiChangesTheTableOfTheNewDriverOnly) {
  ASSERT_OK_AND_ASSIGN(const DriverRef base, LoadPath(FAKE_DRIVER_PATH));
  DriverApi api = base->api();
  api.MemRelease = &FailingRelease;
  const DriverRef changed = Driver::WithApi(base, api);
  EXPECT_EQ(changed->api().MemRelease(1), CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(base->api().MemRelease(1), CUDA_SUCCESS);
  EXPECT_EQ(changed->version(), base->version());
  EXPECT_NE(changed->FindSymbol("NeverCalled"), nullptr);
}

}  // namespace
}  // namespace permafrost
