// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Files of drivers' answers: what is asked comes back, other answers change
// what softcuda does, and no file does harm.
#include "runtime/answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <utility>

namespace softcuda::runtime {
namespace {

using ::testing::HasSubstr;
using Answers = std::map<std::string, int>;

std::string TempFile(const std::string& name) {
  return ::testing::TempDir() + "softcuda_answers_" +
         std::to_string(::testing::UnitTest::GetInstance()->random_seed()) +
         "_" + std::to_string(getpid()) + "_" + name;
}

struct ProbeRun {
  int status = -1;
  Answers answers;
  std::string log;
};

// Runs the probes on softcuda with these environment variables.
ProbeRun RunProbesWith(const std::string& environment) {
  const std::string out = TempFile("out.json");
  const std::string log = TempFile("log.txt");
  std::string command =
      "PERMAFROST_DRIVER=" SOFTCUDA_TEST_LIBRARY " " + environment;
  command += " " SOFTCUDA_TEST_PROBES " --out " + out + " 2>" + log;
  ProbeRun run;
  const int status = std::system(command.c_str());
  run.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  const auto json = nlohmann::json::parse(std::ifstream(out), nullptr, false);
  if (json.is_object() && json.contains("answers")) {
    run.answers = json["answers"].get<Answers>();
  }
  std::ostringstream text;
  text << std::ifstream(log).rdbuf();
  run.log = text.str();
  std::remove(out.c_str());
  std::remove(log.c_str());
  return run;
}

// With a file of answers, or without one; on a machine of two devices, so that
// each question can be answered.
ProbeRun RunProbes(const std::string& policy, int devices = 2) {
  std::string environment =
      "PERMAFROST_SOFTCUDA_DEVICES=" + std::to_string(devices);
  if (!policy.empty()) environment += " PERMAFROST_SOFTCUDA_POLICY=" + policy;
  return RunProbesWith(environment);
}

std::string WritePolicy(const std::string& name, const std::string& text) {
  const std::string path = TempFile(name);
  std::ofstream(path) << text;
  return path;
}

std::string WriteAnswers(const std::string& name, const Answers& answers) {
  return WritePolicy(
      name, nlohmann::json{{"schema", "x"}, {"answers", answers}}.dump(1));
}

TEST(AnswersTest, EveryProbeIsAskedAndHasARow) {
  const ProbeRun run = RunProbes("");
  ASSERT_EQ(run.status, 0) << run.log;
  for (int probe = 1; probe <= 28; ++probe) {
    char prefix[8];
    std::snprintf(prefix, sizeof prefix, "P%02d.", probe);
    const auto first = run.answers.lower_bound(prefix);
    EXPECT_TRUE(first != run.answers.end() &&
                first->first.compare(0, 4, prefix) == 0)
        << prefix;
  }
  AnswerList list(run.answers.begin(), run.answers.end());
  EXPECT_THAT(ApplyAnswers(list), ::testing::IsEmpty());
}

TEST(AnswersTest, AnswersComeBackAsTheyWereGiven) {
  const ProbeRun first = RunProbes("");
  ASSERT_EQ(first.status, 0) << first.log;
  const std::string policy = WriteAnswers("same.json", first.answers);
  const ProbeRun second = RunProbes(policy);
  EXPECT_EQ(second.status, 0) << second.log;
  EXPECT_EQ(second.answers, first.answers);
  EXPECT_THAT(second.log, ::testing::Not(HasSubstr("file of answers")));
  std::remove(policy.c_str());
}

// A machine with one device cannot tell how two get on.
TEST(AnswersTest, WhatNobodyCouldTellLeavesTheDefault) {
  const ProbeRun one_device = RunProbes("", 1);
  ASSERT_EQ(one_device.status, 0) << one_device.log;
  ASSERT_EQ(one_device.answers.at("P27.conflicts"), -1);
  const std::string policy = WriteAnswers("one.json", one_device.answers);
  const ProbeRun two_devices = RunProbes(policy);
  EXPECT_EQ(two_devices.answers.at("P27.conflicts"), 1);
  EXPECT_THAT(two_devices.log, ::testing::Not(HasSubstr("file of answers")));
  std::remove(policy.c_str());
}

// A device without room for a mapping stands for a driver that fails a group.
TEST(AnswersTest, AGroupThatEndsEarlyCostsNoOther) {
  const ProbeRun defaults = RunProbes("");
  const ProbeRun run = RunProbesWith(
      "PERMAFROST_SOFTCUDA_DEVICES=2 SOFTCUDA_DEVICE_MEMORY=1048576");
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.log,
              HasSubstr("probes: 'unsafe-calls' ended with status 1 after "
                        "P08.cuMemCreate"));
  EXPECT_EQ(run.answers.count("P08.cuMemMap"), 0u);
  for (const auto& [key, value] : run.answers) {
    EXPECT_EQ(value, defaults.answers.at(key)) << key;
  }
  for (const char* key : {"P01.invalidates", "P28.code"}) {
    EXPECT_EQ(run.answers.count(key), 1u) << key;
  }
}

TEST(AnswersTest, ProbesWithoutADeviceSaySo) {
  const ProbeRun run = RunProbes("", 0);
  EXPECT_EQ(run.status, 3);
  EXPECT_THAT(run.log, HasSubstr("no driver or no device"));
  EXPECT_THAT(run.answers, ::testing::IsEmpty());
}

// Another answer to each question that softcuda can answer otherwise.
TEST(AnswersTest, OtherAnswersChangeWhatIsDone) {
  const ProbeRun defaults = RunProbes("");
  ASSERT_EQ(defaults.status, 0) << defaults.log;
  Answers changed;
  for (const auto& [key, value] : defaults.answers) {
    const auto is = [&](const char* text) {
      return key.find(text) != std::string::npos;
    };
    if (is("P08.relaxed") || is("P11.member") || is("P11.origin") ||
        is("P23.") || is("P24.") || is("P25.") ||
        is("P26.") || is("P28.")) {
      continue;
    }
    int other = value == 0 ? 1 : 0;
    if (is("P08.") || is("P09.") || is("P10.") || is("P11.") || is("P12.") ||
        is("P07.") || (is("P17."))) {
      other = value == 0 ? 900 : 0;
    } else if (is("P03.")) {
      other = 901;
    } else if (is("P05.query")) {
      other = 0;
    } else if (is("P05.")) {
      other = 1;
    } else if (is("P06.code")) {
      other = 400;
    } else if (is("P13.code")) {
      other = 801;
    } else if (is("P16.code")) {
      other = 400;
    } else if (is("P18.")) {
      other = 1;
    } else if (is("P19.")) {
      other = 6;
    } else if (is("P20.")) {
      other = 701;
    }
    ASSERT_NE(other, value) << key;
    changed[key] = other;
  }
  const std::string policy = WriteAnswers("changed.json", changed);
  const ProbeRun run = RunProbes(policy);
  EXPECT_EQ(run.status, 0) << run.log;
  for (const auto& [key, value] : changed) {
    const auto found = run.answers.find(key);
    ASSERT_NE(found, run.answers.end()) << key;
    EXPECT_EQ(found->second, value) << key;
  }
  std::remove(policy.c_str());
}

TEST(AnswersTest, WhatCannotBeDoneIsToldAndChangesNothing) {
  const ProbeRun defaults = RunProbes("");
  const std::string policy = WriteAnswers(
      "odd.json", {{"P03.code", 700}, {"P24.same_handle", 0}, {"P99.x", 1}});
  const ProbeRun run = RunProbes(policy);
  EXPECT_EQ(run.answers, defaults.answers);
  EXPECT_THAT(run.log,
              HasSubstr("P03.code: got 700, softcuda can do 401, 901"));
  EXPECT_THAT(run.log, HasSubstr("P24.same_handle: got 0, softcuda does 1"));
  EXPECT_THAT(run.log, HasSubstr("P99.x: unknown"));
  std::remove(policy.c_str());
}

TEST(AnswersTest, UnreadableFilesLeaveTheDefaults) {
  const ProbeRun defaults = RunProbes("");
  const std::string broken = WritePolicy("broken.json", "{\"answers\": {\"P03");
  const std::string large =
      WritePolicy("large.json", std::string((size_t{1} << 20) + 1, ' '));
  const std::string pipe = TempFile("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::pair<std::string, std::string> files[] = {
      {"/nonexistent/answers.json", "is no file"},
      {::testing::TempDir(), "is no file"},
      {pipe, "is no file"},
      {large, "has more than 1 MiB"},
      {broken, "at byte 17: want a string of plain characters"}};
  for (const auto& [policy, why] : files) {
    const ProbeRun run = RunProbes(policy);
    EXPECT_EQ(run.answers, defaults.answers) << policy;
    EXPECT_THAT(run.log, HasSubstr("file of answers '" + policy + "': "));
    EXPECT_THAT(run.log, HasSubstr(why));
    EXPECT_THAT(run.log, HasSubstr("the defaults hold"));
  }
  for (const std::string& path : {broken, large, pipe}) {
    std::remove(path.c_str());
  }
}

TEST(AnswersParserTest, ReadsWhatTheProbesWrite) {
  AnswerList answers;
  std::string error;
  ASSERT_TRUE(
      ParseAnswers(" { \"schema\" : \"s\", \"driver_version\": 13000,\n"
                   "\"answers\": { \"a.b\": 401, \"c\" : -1 } }\n",
                   &answers, &error))
      << error;
  EXPECT_EQ(answers, (AnswerList{{"a.b", 401}, {"c", -1}}));
}

TEST(AnswersParserTest, RefusesEverythingElse) {
  for (const char* text :
       {"", "{", "[]", "{}", "{\"answers\": 1}", "{\"answers\": {\"a\": 1}} x",
        "{\"answers\": {\"a\": \"1\"}}", "{\"answers\": {\"a\": 1.5}}",
        "{\"answers\": {\"a\": 1,}}", "{\"answers\": {\"a\" 1}}",
        "{\"answers\": {\"a\": 99999999999999999999}}",
        "{\"answers\": {\"a\": {}}}", "{\"answers\": {\"\\u0041\": 1}}",
        "{\"answers\": {\"a\": 1}, \"x\": null}"}) {
    AnswerList answers = {{"kept", 1}};
    std::string error;
    EXPECT_FALSE(ParseAnswers(text, &answers, &error)) << text;
    EXPECT_THAT(error, HasSubstr("at byte")) << text;
    EXPECT_EQ(answers, (AnswerList{{"kept", 1}}));
  }
}

TEST(AnswersParserTest, NeitherCutsNorFlippedBytesCrashIt) {
  const std::string good =
      "{\"schema\": \"s\", \"answers\": {\"P01.x\": 1, \"P02.y\": -401}}";
  AnswerList answers;
  std::string error;
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(ParseAnswers(good.substr(0, length), &answers, &error));
  }
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string text = good;
    for (int i = 0; i < 3; ++i) {
      text[random() % text.size()] = static_cast<char>(random() % 256);
    }
    (void)ParseAnswers(text, &answers, &error);
  }
}

}  // namespace
}  // namespace softcuda::runtime
