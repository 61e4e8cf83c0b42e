// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "exit_code.h"
#include "tests/support/status_matchers.h"

ABSL_FLAG(int64_t, test_rows, 7, "rows of the test");
ABSL_FLAG(bool, test_switch, false, "a switch of the test");
ABSL_FLAG(std::string, test_target, "", "where the test writes");
ABSL_FLAG(int64_t, test_of_another_command, 0, "another command's");

namespace permafrost {
namespace {

using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr CommandFlag kFlags[] = {
    {"test_rows"}, {"test_switch", "true"}, {"test_target", "-"}};

absl::StatusOr<CommandArguments> Parse(std::vector<const char*> arguments,
                                       std::vector<const char*> operands = {}) {
  absl::SetFlag(&FLAGS_test_rows, 7);
  absl::SetFlag(&FLAGS_test_switch, false);
  absl::SetFlag(&FLAGS_test_target, "");
  return ParseCommandArguments(arguments, kFlags, operands);
}

TEST(CommandLineTest, FlagsAreSetInEachSpelling) {
  ASSERT_OK_AND_ASSIGN(const CommandArguments parsed,
                       Parse({"--test-rows=1", "--test_switch"}));
  EXPECT_EQ(absl::GetFlag(FLAGS_test_rows), 1);
  EXPECT_TRUE(absl::GetFlag(FLAGS_test_switch));
  EXPECT_THAT(parsed.given, ElementsAre("test_rows", "test_switch"));
  EXPECT_TRUE(parsed.has("test_rows"));
  EXPECT_FALSE(parsed.has("test_target"));
  ASSERT_OK(Parse({"--test_rows", "2", "--test-switch=false"}).status());
  EXPECT_EQ(absl::GetFlag(FLAGS_test_rows), 2);
  EXPECT_FALSE(absl::GetFlag(FLAGS_test_switch));
}

TEST(CommandLineTest, FlagThatStandsAloneTakesNoArgument) {
  ASSERT_OK_AND_ASSIGN(const CommandArguments parsed,
                       Parse({"--test-target", "model"}, {"CONFIG"}));
  EXPECT_EQ(absl::GetFlag(FLAGS_test_target), "-");
  EXPECT_THAT(parsed.operands, ElementsAre("model"));
  ASSERT_OK(Parse({"--test-target=a=b", "model"}, {"CONFIG"}).status());
  EXPECT_EQ(absl::GetFlag(FLAGS_test_target), "a=b");
}

TEST(CommandLineTest, HelpNeedsNoOperands) {
  ASSERT_OK_AND_ASSIGN(const CommandArguments parsed,
                       Parse({"--help"}, {"CONFIG"}));
  EXPECT_TRUE(parsed.wants_help);
}

TEST(CommandLineTest, MissingOperandIsNamed) {
  EXPECT_THAT(Parse({"one"}, {"BEFORE", "AFTER"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("AFTER"), HasSubstr("1 of 2"))));
}

TEST(CommandLineTest, BadArgumentsAreNamedWithWhatIsAccepted) {
  const auto refuses = [](std::vector<const char*> arguments,
                          const std::string& got, const std::string& accepted) {
    EXPECT_THAT(Parse(arguments),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(got), HasSubstr(accepted))));
  };
  refuses({"stray"}, "'stray'", "--name=value");
  refuses({"-x"}, "'-x'", "--test-rows");
  refuses({""}, "''", "--test-rows");
  refuses({"--unknown=1"}, "--unknown", "--test-switch");
  refuses({"--test-of-another-command=1"}, "--test-of-another-command",
          "--test-rows");
  refuses({"--test-rows"}, "--test-rows: got no value", "rows of the test");
  refuses({"--test-rows=x"}, "'x'", "a whole number");
  refuses({"--test-rows=9223372036854775808"}, "'9223372036854775808'",
          "a whole number");
  refuses({"--test-switch=maybe"}, "'maybe'", "true or false");
}

TEST(CommandLineTest, WordsAndRanges) {
  EXPECT_EQ(*FlagWord("test_target", "on", {"off", "on"}), 1u);
  EXPECT_THAT(FlagWord("test_target", "On", {"off", "on"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("--test-target"), HasSubstr("'On'"),
                             HasSubstr("off, on"))));
  EXPECT_OK(CheckFlagRange("test_rows", 1, 1, 2));
  EXPECT_THAT(CheckFlagRange("test_rows", 3, 1, 2),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("--test-rows"), HasSubstr("got 3"),
                             HasSubstr("1 to 2"))));
}

TEST(CommandLineTest, HelpListsOnlyTheCommandsFlags) {
  EXPECT_THAT(FlagsHelp(kFlags),
              AllOf(HasSubstr("--test-rows  rows of the test (default: '7')"),
                    HasSubstr("--test-target"), Not(HasSubstr("another"))));
}

TEST(CommandLineTest, VerdictIsOneLine) {
  EXPECT_EQ(VerdictLine(ExitCode::kAllProven, ""), "result: PASS\n");
  EXPECT_EQ(VerdictLine(ExitCode::kBadInput, "first\nsecond"),
            "result: FAIL (first)\n");
}

}  // namespace
}  // namespace permafrost
