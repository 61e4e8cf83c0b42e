// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// softcuda/docs/coverage.md says what the tables say. With
// SOFTCUDA_UPDATE_DOCS=1 the test writes the page.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "catalogue.h"
#include "check/settings.h"
#include "exec/form_table.h"
#include "runtime/answers.h"
#include "runtime/policy.h"

namespace softcuda::testing {
namespace {

using runtime::ApiPolicy;
using runtime::CaptureClass;
using runtime::Certainty;

struct AbiVersion {
  const char* name;
  int version;
  bool is_there;
};

constexpr AbiVersion kAbiVersions[] = {
#define SOFTCUDA_ENTRY(name, version, symbol) {#name, version, true},
#define SOFTCUDA_ENTRY_PER_THREAD(name, version, ...) {#name, version, true},
#define SOFTCUDA_ABSENT(name, version) {#name, version, false},
#include "abi/entry_table.inc"
#undef SOFTCUDA_ENTRY
#undef SOFTCUDA_ENTRY_PER_THREAD
#undef SOFTCUDA_ABSENT
};

// 11040 is 11.4.
std::string VersionText(int version) {
  return std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10);
}

const char* Text(CaptureClass capture_class) {
  switch (capture_class) {
    case CaptureClass::kSafe:
      return "safe";
    case CaptureClass::kRecorded:
      return "becomes a node";
    case CaptureClass::kControl:
      return "manages captures";
    case CaptureClass::kConflictsContext:
      return "prohibited in the context";
    case CaptureClass::kConflictsStream:
      return "prohibited on the stream";
    case CaptureClass::kSynchronous:
      return "waits on the legacy stream";
    case CaptureClass::kSyncStream:
      return "waits for its stream";
    case CaptureClass::kSyncEvent:
      return "waits for its event";
    case CaptureClass::kUnsafe:
      return "unsafe";
    case CaptureClass::kUnknown:
      break;
  }
  return "unsafe";
}

// Where a rule comes from.
const char* SourceOf(const ApiPolicy& policy) {
  if (policy.capture_class == CaptureClass::kUnknown)
    return "the strict reading";
  return policy.certainty == Certainty::kStated ? "documented" : "inferred";
}

void PrintEntryPoints(std::ostream& out) {
  std::map<std::string, std::vector<AbiVersion>> versions;
  for (const AbiVersion& one : kAbiVersions) versions[one.name].push_back(one);
  std::map<std::string, int> sources;
  std::ostringstream rows;
  for (int k = 0; k < runtime::ApiCount(); ++k) {
    const ApiPolicy& policy = runtime::PolicyOf(static_cast<runtime::Api>(k));
    ++sources[SourceOf(policy)];
    std::string there;
    std::string absent;
    for (const AbiVersion& one : versions[policy.name]) {
      std::string& list = one.is_there ? there : absent;
      list += (list.empty() ? "" : ", ") + VersionText(one.version);
    }
    if (there.empty()) there = "not there";
    rows << "| " << policy.name << " | " << there << " | " << absent << " | "
         << Text(policy.capture_class) << " | " << SourceOf(policy) << " |\n";
    versions.erase(policy.name);
  }
  for (const auto& [name, abis] : versions) {
    rows << "| " << name << " | " << VersionText(abis.front().version)
         << " | | as the call it is another name of | |\n";
  }
  out << "## Entry points\n\n"
      << runtime::ApiCount()
      << " calls. The versions are those of `cuGetProcAddress`; an ABI that is "
         "absent is not found there.\nWhat a call does to a capture is";
  const char* separator = " ";
  for (const auto& [source, count] : sources) {
    out << separator << source << " for " << count;
    separator = ", ";
  }
  out << ".\n\n| call | ABI of | absent | in a capture | says who |\n"
         "|---|---|---|---|---|\n"
      << rows.str() << "\n";
}

struct Decision {
  std::string key;
  std::string text;  // what softcuda does
};

const std::vector<Decision>& Decisions() {
  static const auto* const decisions = new std::vector<Decision>{
#define SOFTCUDA_ANSWER(name, key, value, ...) {key, #value},
#define SOFTCUDA_CLASS_ANSWER(api, key) {key, "as the first table says"},
#define SOFTCUDA_FIXED_ANSWER(key, value) {key, #value ", always"},
#include "runtime/answers.inc"
#undef SOFTCUDA_ANSWER
#undef SOFTCUDA_CLASS_ANSWER
#undef SOFTCUDA_FIXED_ANSWER
  };
  return *decisions;
}

// What the drivers that were asked said, by key: "580.95: 900".
std::map<std::string, std::string> AnswersOfDrivers() {
  std::vector<std::filesystem::path> files;
  std::error_code none;
  for (const auto& entry :
       std::filesystem::directory_iterator(SOFTCUDA_ANSWERS_FOLDER, none)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::map<std::string, std::string> said;
  for (const std::filesystem::path& path : files) {
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    runtime::AnswerList answers;
    std::string error;
    EXPECT_TRUE(runtime::ParseAnswers(text, &answers, &error))
        << path << ": " << error;
    for (const auto& [key, value] : answers) {
      if (value < 0) continue;  // nobody could tell
      std::string& all = said[key];
      all += (all.empty() ? "" : ", ") + path.stem().string() + ": " +
             std::to_string(value);
    }
  }
  return said;
}

void PrintDecisions(std::ostream& out) {
  std::map<std::string, std::string> said = AnswersOfDrivers();
  int verified = 0;
  for (const Decision& one : Decisions()) verified += said.count(one.key) != 0;
  out << "## Decisions\n\nWhat no documentation says, by the keys of "
         "`contract_probes`. GPUs' drivers have answered "
      << verified << " of " << Decisions().size()
      << "; their answers\nare the files of `softcuda/docs/answers`, named "
         "after the driver.\n\n| key | softcuda | verified on |\n"
         "|---|---|---|\n";
  for (const Decision& one : Decisions()) {
    const auto found = said.find(one.key);
    out << "| " << one.key << " | " << one.text << " | "
        << (found != said.end() ? found->second : "unverified") << " |\n";
  }
  out << "\n";
}

// The word that a form begins with: "ld" of "ld.global.u32".
std::string OpcodeOf(const std::string& form) {
  const size_t begin = form.find_first_of("abcdefghijklmnopqrstuvwxyz");
  return form.substr(begin, form.find_first_of(".|/ ", begin) - begin);
}

void PrintInstructions(std::ostream& out) {
  std::map<std::string, int> opcodes;
  const std::vector<std::string> forms = exec::FormTable::Get().Names();
  for (const std::string& form : forms) ++opcodes[OpcodeOf(form)];
  out << "## PTX\n\n"
      << forms.size() << " forms of " << opcodes.size()
      << " opcodes; a module with any other form does not load, and the log "
         "names the form.\n\n";
  const char* separator = "";
  int column = 0;
  for (const auto& [opcode, count] : opcodes) {
    out << separator << "`" << opcode << "` " << count;
    separator = ++column % 10 == 0 ? ",\n" : ", ";
  }
  out << "\n\n";
}

struct Found {
  int faults = 0;
  int at_a_line = 0;
};

template <typename Table>
void CountFaults(const Table& table, std::map<std::string, Found>* found) {
  for (const auto& c : table) {
    ++(*found)[c.checker].faults;
    if (c.line != nullptr) ++(*found)[c.checker].at_a_line;
  }
}

void PrintCheckers(std::ostream& out) {
  std::map<std::string, Found> found;
  CountFaults(kFaultyKernels, &found);
  CountFaults(kFaultyOperations, &found);
  out << "## Checkers\n\nPlanted faults that tests find, and how many of them "
         "at their source line. "
      << std::size(kSoundKernels) << " sound kernels, and "
      << std::size(kSoundOperations)
      << " sound graphs and\nsequences of calls, pass all checkers in silence."
         "\n\n| checker | planted faults | at their line |\n|---|---|---|\n";
  for (const auto& [checker, count] : found) {
    out << "| " << checker << " | " << count.faults << " | " << count.at_a_line
        << " |\n";
  }
  out << "\n";
}

void PrintOptions(std::ostream& out) {
  out << "## Options\n\n";
  const char* separator = "";
  for (const std::string& name : check::Settings::Names()) {
    out << separator << "`" << name << "`";
    separator = ", ";
  }
  out << "\n";
}

std::string Page() {
  std::ostringstream out;
  out << "# What softcuda covers\n\n"
         "Generated from its tables: `SOFTCUDA_UPDATE_DOCS=1 "
         "build/dev/softcuda/tests/check/softcuda_exec_coverage_test`.\n\n"
         "What the documentation does not say is inferred from a general rule, "
         "or decided the strict way. All of it is **unverified**\nhowever well "
         "documented, unless this page says on which driver it was "
         "verified.\n\n";
  PrintEntryPoints(out);
  PrintDecisions(out);
  PrintInstructions(out);
  PrintCheckers(out);
  PrintOptions(out);
  return out.str();
}

TEST(CoverageTest, ThePageSaysWhatTheTablesSay) {
  const std::string page = Page();
  if (std::getenv("SOFTCUDA_UPDATE_DOCS") != nullptr) {
    std::ofstream(SOFTCUDA_COVERAGE_PAGE) << page;
  }
  std::ifstream file(SOFTCUDA_COVERAGE_PAGE);
  const std::string written{std::istreambuf_iterator<char>(file), {}};
  std::istringstream expected(page);
  std::istringstream got(written);
  std::string expected_line;
  std::string got_line;
  for (int number = 1; std::getline(expected, expected_line); ++number) {
    ASSERT_TRUE(std::getline(got, got_line)) << "ends before line " << number;
    ASSERT_EQ(got_line, expected_line)
        << SOFTCUDA_COVERAGE_PAGE << ":" << number
        << "; run this with SOFTCUDA_UPDATE_DOCS=1";
  }
  EXPECT_EQ(written, page);
}

}  // namespace
}  // namespace softcuda::testing
