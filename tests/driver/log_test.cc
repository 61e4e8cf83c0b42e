// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/driver/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "permafrost/driver/version.h"

namespace permafrost {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SetLogSink([this](LogLevel level, absl::string_view message) {
      lines_.push_back(std::string(LogLevelName(level)) + " " +
                       std::string(message));
    });
  }
  void TearDown() override {
    SetLogSink({});
    SetLogLevel(LogLevel::kWarning);
  }

  std::vector<std::string> lines_;
};

TEST_F(LogTest, OnlyMessagesFromTheLevelOnReachTheSink) {
  Log(LogLevel::kInfo, "below");
  Log(LogLevel::kWarning, "at");
  Log(LogLevel::kError, "above");
  EXPECT_THAT(lines_, ElementsAre("warning at", "error above"));
}

TEST_F(LogTest, TheLevelCanBeLowered) {
  SetLogLevel(LogLevel::kDebug);
  Log(LogLevel::kDebug, "seen");
  EXPECT_THAT(lines_, ElementsAre("debug seen"));
}

TEST_F(LogTest, OffDropsEverything) {
  SetLogLevel(LogLevel::kOff);
  Log(LogLevel::kError, "dropped");
  Log(LogLevel::kOff, "dropped");
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(LogTest, WithoutASinkStandardErrorGetsALine) {
  SetLogSink({});
  ::testing::internal::CaptureStderr();
  Log(LogLevel::kWarning, "a message");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "permafrost: warning: a message\n");
}

TEST_F(LogTest, ThreadsCallTheSinkOneAtATime) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 100; ++i) Log(LogLevel::kError, "x");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lines_.size(), 400u);
}

TEST(VersionTest, TheLibraryIsTheOneCompiledAgainst) {
  EXPECT_STREQ(LibraryVersion(), PERMAFROST_VERSION);
}

}  // namespace
}  // namespace permafrost
