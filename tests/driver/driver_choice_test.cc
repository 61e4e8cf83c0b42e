// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "permafrost/driver/driver.h"
#include "tests/support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Select = DriverChoice::Select;

TEST(DriverChoiceTest, ReadsTheThreeWords) {
  ASSERT_OK_AND_ASSIGN(const DriverChoice automatic,
                       DriverChoice::Parse("auto"));
  EXPECT_EQ(automatic.select, Select::kAuto);
  ASSERT_OK_AND_ASSIGN(const DriverChoice cuda, DriverChoice::Parse("cuda"));
  EXPECT_EQ(cuda.select, Select::kCuda);
  ASSERT_OK_AND_ASSIGN(const DriverChoice soft, DriverChoice::Parse("soft"));
  EXPECT_EQ(soft.select, Select::kSoft);
}

TEST(DriverChoiceTest, ReadsPathsWithAFolderOrALibrarySuffix) {
  for (const char* path : {"/opt/x/libcuda", "./a", "libcuda.so.1"}) {
    ASSERT_OK_AND_ASSIGN(const DriverChoice choice, DriverChoice::Parse(path));
    EXPECT_EQ(choice.select, Select::kPath);
    EXPECT_EQ(choice.path, path);
  }
}

TEST(DriverChoiceTest, RefusesAMisspeltWordAndSaysWhatIsAccepted) {
  for (const char* word : {"Auto", "real", "software", "cuda ", "0"}) {
    EXPECT_THAT(DriverChoice::Parse(word),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(word), HasSubstr("auto, cuda, soft"))))
        << word;
  }
}

TEST(DriverChoiceTest, EnvironmentDecidesAndIsNamedInTheError) {
  ASSERT_EQ(unsetenv("PERMAFROST_DRIVER"), 0);
  ASSERT_OK_AND_ASSIGN(const DriverChoice unset,
                       DriverChoice::FromEnvironment());
  EXPECT_EQ(unset.select, Select::kAuto);
  ASSERT_EQ(setenv("PERMAFROST_DRIVER", "", 1), 0);
  ASSERT_OK_AND_ASSIGN(const DriverChoice empty,
                       DriverChoice::FromEnvironment());
  EXPECT_EQ(empty.select, Select::kAuto);
  ASSERT_EQ(setenv("PERMAFROST_DRIVER", "soft", 1), 0);
  ASSERT_OK_AND_ASSIGN(const DriverChoice soft,
                       DriverChoice::FromEnvironment());
  EXPECT_EQ(soft.select, Select::kSoft);
  ASSERT_EQ(setenv("PERMAFROST_DRIVER", "gpu", 1), 0);
  EXPECT_THAT(
      DriverChoice::FromEnvironment(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("PERMAFROST_DRIVER"), HasSubstr("'gpu'"))));
  ASSERT_EQ(unsetenv("PERMAFROST_DRIVER"), 0);
}

}  // namespace
}  // namespace permafrost
