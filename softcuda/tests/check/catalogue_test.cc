// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Every planted fault of the catalogue is reported by the right checker at the
// right line, and all checkers pass what is sound in silence.
#include "catalogue.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <sstream>
#include <string>

#include "case_runs.h"
#include "marked_lines.h"

namespace softcuda::testing {
namespace {

constexpr uint64_t kSeeds = 6;
constexpr int kFaultsWanted = 40;
constexpr int kSoundWanted = 30;

std::string NameOfCase(const KernelCase& c) {
  return c.name != nullptr ? c.name : c.kernel;
}
std::string NameOfCase(const OperationsCase& c) { return c.name; }

template <typename Case>
std::string NameOf(const ::testing::TestParamInfo<Case>& info) {
  return NameOfCase(info.param);
}

std::string ReportsOf(const KernelCase& c, uint64_t seed) {
  return RunCase(c, seed).reports;
}
std::string ReportsOf(const OperationsCase& c, uint64_t seed) {
  return RunCase(c, seed);
}

// What a report must hold besides its checker and `also`.
std::string WantedKernel(const KernelCase& c) {
  return "kernel " + std::string(c.kernel) + " (";
}
std::string WantedKernel(const OperationsCase& /*c*/) { return ""; }

// Whether one report has the case's checker, kernel, line and text.
template <typename Case>
::testing::AssertionResult IsFound(const Case& c, const std::string& reports) {
  std::string line;
  if (c.line != nullptr) {
    line = MarkedLine(c.line);
    if (line.empty()) return ::testing::AssertionFailure() << "no mark";
    line += ")";
  }
  std::istringstream lines(reports);
  for (std::string report; std::getline(lines, report);) {
    if (report.rfind(std::string(c.checker) + ": ", 0) == 0 &&
        report.find(WantedKernel(c)) != std::string::npos &&
        report.find(line) != std::string::npos &&
        report.find(c.also) != std::string::npos) {
      return ::testing::AssertionSuccess();
    }
  }
  return ::testing::AssertionFailure() << "want " << c.checker << " at " << line
                                       << " with '" << c.also << "', got:\n"
                                       << reports;
}

// The checkers that had something to say.
std::map<std::string, int> CheckersIn(const std::string& reports) {
  std::map<std::string, int> checkers;
  std::istringstream lines(reports);
  for (std::string report; std::getline(lines, report);) {
    ++checkers[report.substr(0, report.find(':'))];
  }
  return checkers;
}

class FaultyKernelTest : public ::testing::TestWithParam<KernelCase> {};

TEST_P(FaultyKernelTest, IsReportedAtItsLine) {
  EXPECT_TRUE(IsFound(GetParam(), ReportsOf(GetParam(), 0)));
}

INSTANTIATE_TEST_SUITE_P(Catalogue, FaultyKernelTest,
                         ::testing::ValuesIn(kFaultyKernels),
                         NameOf<KernelCase>);

class SoundKernelTest : public ::testing::TestWithParam<KernelCase> {};

// Whatever the order of blocks and warps.
TEST_P(SoundKernelTest, IsSilent) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const KernelRun run = RunCase(GetParam(), seed);
    EXPECT_EQ(run.result, CUDA_SUCCESS) << "seed " << seed;
    EXPECT_EQ(run.reports, "") << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, SoundKernelTest,
                         ::testing::ValuesIn(kSoundKernels),
                         NameOf<KernelCase>);

class FaultyOperationsTest : public ::testing::TestWithParam<OperationsCase> {};

TEST_P(FaultyOperationsTest, AreReportedAtTheirLine) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::string reports = ReportsOf(GetParam(), seed);
    EXPECT_TRUE(IsFound(GetParam(), reports)) << "seed " << seed;
    EXPECT_EQ(CheckersIn(reports).size(), 1u) << reports;
  }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, FaultyOperationsTest,
                         ::testing::ValuesIn(kFaultyOperations),
                         NameOf<OperationsCase>);

class SoundOperationsTest : public ::testing::TestWithParam<OperationsCase> {};

// Whatever the order of what runs side by side.
TEST_P(SoundOperationsTest, AreSilent) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    EXPECT_EQ(ReportsOf(GetParam(), seed), "") << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, SoundOperationsTest,
                         ::testing::ValuesIn(kSoundOperations),
                         NameOf<OperationsCase>);

// Runs both tables whole and counts what was found, so that a row that is lost
// shows.
class CatalogueTest : public ::testing::Test {
 protected:
  template <typename Table>
  void CountFaults(const Table& table) {
    for (const auto& c : table) {
      const ::testing::AssertionResult found = IsFound(c, ReportsOf(c, 0));
      EXPECT_TRUE(found) << NameOfCase(c);
      if (!found) continue;
      ++found_by_[c.checker];
      if (c.line != nullptr) ++found_at_a_line_;
    }
  }
  template <typename Table>
  void CountSound(const Table& table) {
    for (const auto& c : table) {
      const std::string reports = ReportsOf(c, 0);
      EXPECT_EQ(reports, "") << NameOfCase(c);
      if (reports.empty()) ++silent_;
    }
  }

  std::map<std::string, int> found_by_;
  int found_at_a_line_ = 0;
  int silent_ = 0;
};

TEST_F(CatalogueTest, HoldsEnoughOfEachChecker) {
  CountFaults(kFaultyKernels);
  CountFaults(kFaultyOperations);
  CountSound(kSoundKernels);
  CountSound(kSoundOperations);
  std::printf("found at their line: %d; silent: %d; found by", found_at_a_line_,
              silent_);
  for (const auto& [checker, count] : found_by_) {
    std::printf(" %s %d", checker.c_str(), count);
  }
  std::printf("\n");
  EXPECT_GE(found_at_a_line_, kFaultsWanted);
  EXPECT_GE(silent_, kSoundWanted);
  for (const char* checker : {"memcheck", "initcheck", "racecheck", "synccheck",
                              "hostcheck", "leakcheck", "misuse"}) {
    EXPECT_GE(found_by_[checker], 3) << checker;
  }
}

}  // namespace
}  // namespace softcuda::testing
