// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// `permafrost doctor` as a process: a driver that works, and one for each way
// in which it does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "permafrost/driver/driver_api.h"
#include "permafrost/driver/version.h"
#include "tests/support/program.h"

namespace permafrost::tool {
namespace {

using ::permafrost::testing::ProgramResult;
using ::permafrost::testing::RunProgram;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

ProgramResult Doctor(const std::string& driver,
                     const std::vector<std::string>& flags = {}) {
  std::vector<std::string> command = {PERMAFROST_TOOL, "doctor"};
  command.insert(command.end(), flags.begin(), flags.end());
  return RunProgram(command, {absl::StrCat("PERMAFROST_DRIVER=", driver)});
}

TEST(DoctorTest, SoftcudaHasNothingToComplainOf) {
  const ProgramResult result = Doctor(PERMAFROST_SOFTCUDA_LIBRARY, {"--json"});
  SCOPED_TRACE(result.out + result.err);
  EXPECT_EQ(result.exit_code, 0);
  const nlohmann::json json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["schema"], "permafrost.doctor/1");
  EXPECT_EQ(json["permafrost"], PERMAFROST_VERSION);
  EXPECT_EQ(json["driver"]["kind"], "softcuda");
  EXPECT_EQ(json["entry_points"]["found"], kEntryPointCount);
  ASSERT_GE(json["devices"].size(), 1u);
  const nlohmann::json& device = json["devices"][0];
  EXPECT_GT(device["total_bytes"], 0);
  EXPECT_GT(device["multiprocessors"], 0);
  EXPECT_GT(device["granularity_bytes"], 0);
  EXPECT_GT(device["kernels"], 0);
  EXPECT_EQ(json["problems"].size(), 0u);
}

TEST(DoctorTest, TextEndsInAVerdict) {
  const ProgramResult result = Doctor(PERMAFROST_SOFTCUDA_LIBRARY);
  SCOPED_TRACE(result.out + result.err);
  EXPECT_EQ(result.last_line(), "result: PASS");
  EXPECT_THAT(result.out, AllOf(HasSubstr("softcuda"), HasSubstr("no problems"),
                                HasSubstr(absl::StrCat(kEntryPointCount, " of ",
                                                       kEntryPointCount))));
}

// Whatever this machine has: a driver with a device, or softcuda and a note.
TEST(DoctorTest, AutoFindsSomethingAndSaysWhyItIsNoGpu) {
  const ProgramResult result = Doctor("auto", {"--json"});
  SCOPED_TRACE(result.out + result.err);
  const nlohmann::json json = nlohmann::json::parse(result.out);
  if (json["driver"]["kind"] == "cuda") GTEST_SKIP() << "there is a GPU here";
  ASSERT_GE(json["problems"].size(), 1u);
  EXPECT_THAT(json["problems"][0]["what"], HasSubstr("no GPU is used"));
  EXPECT_THAT(json["problems"][0]["remedy"], HasSubstr("install"));
}

struct BrokenDriver {
  const char* name;
  const char* driver;
  int exit_code;
  const char* what;
  const char* remedy;
};

const BrokenDriver kBroken[] = {
    {"TooOld", FAKE_DRIVER_TOO_OLD_PATH, 3, "got version 12.0",
     "update the driver"},
    {"LacksAnEntryPoint", FAKE_DRIVER_LACKS_ENTRY_PATH, 2, "cuMemMap (10.2)",
     "update the driver"},
    {"HasNoDevice", FAKE_DRIVER_NO_DEVICE_PATH, 3, "has no device",
     "PERMAFROST_DRIVER=soft"},
    {"IsNotThere", "/nonexistent/libcuda.so.1", 2, "/nonexistent/libcuda.so.1",
     "what to do"},
    {"HasADeviceThatFails", FAKE_DRIVER_PATH, 1, "device 0", "documentation"},
};

class BrokenDriverTest : public ::testing::TestWithParam<BrokenDriver> {};

TEST_P(BrokenDriverTest, IsNamedWithACure) {
  const BrokenDriver& broken = GetParam();
  const ProgramResult result = Doctor(broken.driver);
  SCOPED_TRACE(result.out + result.err);
  EXPECT_EQ(result.exit_code, broken.exit_code);
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("fault: "), HasSubstr(broken.what),
                    HasSubstr("what to do: "), HasSubstr(broken.remedy)));
  EXPECT_THAT(result.last_line(), MatchesRegex("result: FAIL \\(.+\\)"));
  const ProgramResult document = Doctor(broken.driver, {"--json"});
  EXPECT_EQ(document.exit_code, broken.exit_code);
  const nlohmann::json json = nlohmann::json::parse(document.out);
  ASSERT_GE(json["problems"].size(), 1u);
  EXPECT_THAT(document.err, HasSubstr("result: FAIL"));
}

INSTANTIATE_TEST_SUITE_P(
    DoctorTest, BrokenDriverTest, ::testing::ValuesIn(kBroken),
    [](const ::testing::TestParamInfo<BrokenDriver>& param) {
      return std::string(param.param.name);
    });

TEST(DoctorTest, MisspeltChoiceIsBadInput) {
  const ProgramResult result = Doctor("gpu");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("PERMAFROST_DRIVER"),
                                HasSubstr("'gpu'"), HasSubstr("soft")));
}

}  // namespace
}  // namespace permafrost::tool
