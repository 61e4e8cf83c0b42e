// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "text_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <string>

#include "tests/support/program.h"
#include "tests/support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::ReadFile;
using ::permafrost::testing::StatusIs;
using ::permafrost::testing::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

size_t FilesIn(const TemporaryFolder& folder) {
  return static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator(folder.path()), {}));
}

TEST(TextFileTest, WhatIsWrittenIsReadBack) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/plan.json";
  const std::string text("a\0\n\xFF", 4);
  ASSERT_OK(WriteTextFile(path, text));
  EXPECT_EQ(*ReadTextFile(path, 100), text);
  EXPECT_EQ(FilesIn(folder), 1u);
}

TEST(TextFileTest, ReadingEndsOneByteAfterTheLimit) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("long", "123456");
  EXPECT_EQ(*ReadTextFile(path, 3), "1234");
}

TEST(TextFileTest, WhatCannotBeReadIsNamed) {
  const TemporaryFolder folder;
  EXPECT_THAT(ReadTextFile(folder.path(), 10),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(folder.path()), HasSubstr("folder"))));
  EXPECT_THAT(ReadTextFile("/nonexistent/plan.json", 10),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("/nonexistent/plan.json")));
}

TEST(TextFileTest, FailedWriteLeavesTheOldFileAndNothingElse) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("plan.json", "old");
  // Where the name beside it is taken by a folder, nothing can be written.
  std::filesystem::create_directory(path + "." + std::to_string(getpid()) +
                                    ".partial");
  EXPECT_THAT(WriteTextFile(path, "new"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(path)));
  EXPECT_EQ(ReadFile(path), "old");
}

TEST(TextFileTest, FolderThatIsNotThereIsNamed) {
  EXPECT_THAT(WriteTextFile("/nonexistent/plan.json", "x"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("/nonexistent/plan.json"),
                             HasSubstr("existing folder"))));
}

TEST(TextFileTest, FullDeviceIsAnError) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  EXPECT_THAT(
      WriteTextFile("/dev/full", "x"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("/dev/full")));
}

TEST(TextFileTest, LinkStaysALink) {
  const TemporaryFolder folder;
  const std::string target = folder.Write("target", "old");
  const std::string link = folder.path() + "/link";
  std::filesystem::create_symlink(target, link);
  ASSERT_OK(WriteTextFile(link, "new"));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(ReadFile(target), "new");
}

}  // namespace
}  // namespace permafrost
