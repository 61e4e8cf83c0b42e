// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Bad input costs no run: a message that names it, what was found and what is
// accepted, exit code 2, and 3 where it is the machine that lacks something.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "program.h"

namespace permafrost::bench {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

struct BadInputCase {
  const char* name;
  /// "{file}" stands for the path of a file that holds `content`.
  std::vector<std::string> arguments;
  std::string content;
  std::vector<std::string> messages;
};

std::string WithKeys(const nlohmann::json& replace) {
  return TinyConfig(replace);
}

const BadInputCase kBadInputs[] = {
    {"MissingConfig",
     {"--config=/nonexistent/config.json"},
     "",
     {"/nonexistent/config.json"}},
    {"UnknownPreset", {"--config=no-such-model"}, "", {"qwen3-30b-a3b"}},
    {"ConfigIsNoJson", {"--config={file}"}, "{\"model_type\": ", {"{file}"}},
    {"UnknownModelType",
     {"--config={file}"},
     WithKeys({{"model_type", "no_such_family"}}),
     {"{file}", "model_type", "no_such_family", "qwen3_moe"}},
    {"TopKAboveExperts",
     {"--config={file}"},
     WithKeys({{"num_experts_per_tok", 9}}),
     {"{file}", "num_experts_per_tok", "9", "8"}},
    {"MissingExpertWidth",
     {"--config={file}"},
     WithKeys({{"moe_intermediate_size", nullptr}}),
     {"{file}", "moe_intermediate_size"}},
    {"NullExpertWidth",
     {"--config={file}"},
     absl::StrReplaceAll(WithKeys({{"moe_intermediate_size", 777}}),
                         {{"777", "null"}}),
     {"{file}", "moe_intermediate_size", "null"}},
    {"DenseModel",
     {"--config=llama-3.1-8b"},
     "",
     {"llama-3.1-8b", "dense", "no MoE layer"}},
    {"RowsAboveTheLimit",
     {"--buckets=1,16385"},
     "",
     {"--buckets", "16385", "16384"}},
    {"ZeroRows", {"--buckets=0,4"}, "", {"--buckets", "got 0"}},
    {"BucketsOutOfOrder",
     {"--buckets=4,2"},
     "",
     {"--buckets", "got 2 after 4", "ascending"}},
    {"BucketTwice", {"--buckets=4,4"}, "", {"--buckets", "got 4 after 4"}},
    {"BucketIsNoNumber", {"--buckets=1,x"}, "", {"--buckets", "'x'"}},
    {"BucketsEmpty", {"--buckets="}, "", {"--buckets", "''"}},
    {"UnknownFlag",
     {"--no-such-flag=1"},
     "",
     {"--no-such-flag", "--config", "--distinct-experts"}},
    {"FlagOfALibrary", {"--flagfile=x"}, "", {"--flagfile"}},
    {"StrayArgument", {"qwen3"}, "", {"'qwen3'", "--name=value"}},
    {"FlagWithoutValue", {"--buckets"}, "", {"--buckets", "no value"}},
    {"FlagOfTheWrongType", {"--layers=one"}, "", {"--layers", "'one'"}},
    {"TooManyLayers",
     {"--layers=49"},
     "",
     {"--layers", "49", "48", "qwen3-30b-a3b"}},
    {"TooManyDistinctExperts",
     {"--distinct-experts=129"},
     "",
     {"--distinct-experts", "129", "128"}},
    {"GuardNotAligned",
     {"--guard-bytes=100"},
     "",
     {"--guard-bytes", "100", "256"}},
    {"NegativeSamples", {"--samples=-1"}, "", {"--samples", "-1"}},
    {"JsonCannotBeWritten",
     {"--json=/nonexistent/out.json"},
     "",
     {"--json", "/nonexistent/out.json"}},
};

class BadInputTest : public ::testing::TestWithParam<BadInputCase> {};

TEST_P(BadInputTest, IsNamedAndRefused) {
  const BadInputCase& bad = GetParam();
  const TemporaryFolder folder;
  const std::string file = folder.Write("config.json", bad.content);
  std::vector<std::string> arguments;
  for (const std::string& argument : bad.arguments) {
    arguments.push_back(absl::StrReplaceAll(argument, {{"{file}", file}}));
  }
  const ProgramResult result = RunReplayLatency(arguments);
  SCOPED_TRACE(result.out + result.err);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.last_line(), MatchesRegex("result: FAIL \\(.+\\)"));
  for (const std::string& message : bad.messages) {
    EXPECT_THAT(result.err,
                HasSubstr(absl::StrReplaceAll(message, {{"{file}", file}})));
  }
  // Refused before anything is opened.
  EXPECT_THAT(result.out, Not(HasSubstr("driver:")));
}

std::string NameOfInput(const ::testing::TestParamInfo<BadInputCase>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Inputs, BadInputTest, ::testing::ValuesIn(kBadInputs),
                         NameOfInput);

class DriverInputTest : public ::testing::Test {
 protected:
  ProgramResult Run(const std::vector<std::string>& environment) {
    return RunReplayLatency(
        {"--config=" + folder_.Write("tiny.json", TinyConfig()), "--buckets=1"},
        environment);
  }
  const TemporaryFolder folder_;
};

TEST_F(DriverInputTest, UnknownChoiceIsBadInput) {
  const ProgramResult result = Run({"PERMAFROST_DRIVER=hardware"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("PERMAFROST_DRIVER"),
                                HasSubstr("hardware"), HasSubstr("soft")));
}

TEST_F(DriverInputTest, PathOfNoLibraryIsBadInput) {
  const std::string path = folder_.Write("libno_driver.so", "not a library");
  const ProgramResult result = Run({"PERMAFROST_DRIVER=" + path});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("PERMAFROST_DRIVER"), HasSubstr(path)));
}

TEST_F(DriverInputTest, PathOfNothingIsBadInput) {
  const ProgramResult result =
      Run({"PERMAFROST_DRIVER=/nonexistent/libcuda.so.1"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("/nonexistent/libcuda.so.1"));
}

TEST_F(DriverInputTest, LibraryThatIsNoDriverIsBadInput) {
  const ProgramResult result = Run({"PERMAFROST_DRIVER=libm.so.6"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("libm.so.6"));
}

TEST_F(DriverInputTest, PathOfSoftcudaIsADriver) {
  const ProgramResult result =
      Run({absl::StrCat("PERMAFROST_DRIVER=", PERMAFROST_SOFTCUDA_LIBRARY)});
  SCOPED_TRACE(result.out + result.err);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("driver: softcuda"));
}

TEST_F(DriverInputTest, AutoSaysWhichDriverItTook) {
  const ProgramResult result = Run({"PERMAFROST_DRIVER=auto"});
  SCOPED_TRACE(result.out + result.err);
  EXPECT_EQ(result.exit_code, 0);
  if (result.out.find("driver: softcuda") != std::string::npos) {
    EXPECT_THAT(result.out, HasSubstr("driver choice: "));
  } else {
    EXPECT_THAT(result.out, HasSubstr("driver: cuda"));
  }
}

TEST_F(DriverInputTest, CudaWithoutADeviceIsNoDevice) {
  // The loader finds no other libcuda.so.1 than the one named here.
  const ProgramResult result = Run({"PERMAFROST_DRIVER=cuda"});
  if (result.out.find("driver: cuda") != std::string::npos) {
    GTEST_SKIP() << "this machine has NVIDIA's driver and a device";
  }
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.last_line(), MatchesRegex("result: FAIL \\(.+\\)"));
  EXPECT_THAT(result.err, HasSubstr("PERMAFROST_DRIVER"));
}

TEST_F(DriverInputTest, DeviceTooSmallIsRefusedWithBothByteCounts) {
  const ProgramResult result =
      Run({"PERMAFROST_DRIVER=soft", "SOFTCUDA_DEVICE_MEMORY=1048576"});
  SCOPED_TRACE(result.out + result.err);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, AllOf(HasSubstr("device memory"),
                                ContainsRegex("arena needs [0-9]+ bytes"),
                                HasSubstr("1048576 bytes free")));
}

}  // namespace
}  // namespace permafrost::bench
