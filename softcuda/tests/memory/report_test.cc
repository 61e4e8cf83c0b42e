// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "check/report.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace softcuda::check {
namespace {

Report KernelReport(int line) {
  Report report;
  report.check = "memcheck";
  report.what = "write of 1 byte";
  report.address = 0x7f0000000040;
  report.where = "1 byte past the end of 'a' (64 bytes)";
  report.kernel = "k_x";
  report.file = "file.cu";
  report.line = line;
  report.thread[0] = 5;
  report.origin = "graph node 4";
  return report;
}

TEST(ReportTest, IsOneLine) {
  EXPECT_EQ(ToText(KernelReport(123)),
            "memcheck: write of 1 byte at 0x7f0000000040: 1 byte past the end "
            "of 'a' (64 bytes) | kernel k_x (file.cu:123) block (0,0,0) thread "
            "(5,0,0) | graph node 4");
  Report report;
  report.check = "misuse";
  report.what = "two\nlines";
  EXPECT_EQ(ToText(report), "misuse: two lines");
}

TEST(ReportTest, JsonHoldsTheSame) {
  Report report = KernelReport(123);
  report.bytes = 1;
  report.inlined_at = {"outer.cu:4", "main.cu:9"};
  report.previous = "read by block (1,0,0)";
  EXPECT_EQ(ToJson(report),
            "{\"check\":\"memcheck\",\"what\":\"write of 1 byte\","
            "\"kernel\":\"k_x\",\"file\":\"file.cu\",\"line\":123,"
            "\"inlined_at\":[\"outer.cu:4\",\"main.cu:9\"],"
            "\"block\":[0,0,0],\"thread\":[5,0,0],"
            "\"address\":139637976727616,\"bytes\":1,"
            "\"where\":\"1 byte past the end of 'a' (64 bytes)\","
            "\"origin\":\"graph node 4\","
            "\"previous\":\"read by block (1,0,0)\"}");
  Report hostile;
  hostile.check = "misuse";
  hostile.what = "a \"quote\", a \\, a \n and a \xff";
  EXPECT_EQ(ToJson(hostile),
            "{\"check\":\"misuse\",\"what\":\"a \\\"quote\\\", a "
            "\\\\, a \\u000a and a ?\"}");
}

TEST(ReportTest, TextNamesTheCallsAndThePreviousAccess) {
  Report report = KernelReport(3);
  report.inlined_at = {"outer.cu:4", "main.cu:9"};
  report.has_thread = false;
  report.previous = "write by copy";
  EXPECT_EQ(ToText(report),
            "memcheck: write of 1 byte, inlined at outer.cu:4, inlined at "
            "main.cu:9 at 0x7f0000000040: 1 byte past the end of 'a' (64 "
            "bytes) | kernel k_x (file.cu:3) | graph node 4 | previous: write "
            "by copy");
}

TEST(ReporterTest, LinesGoToAFileInTheChosenFormat) {
  const std::string path = ::testing::TempDir() + "/softcuda_report_test.txt";
  std::remove(path.c_str());
  Reporter reporter;
  reporter.set_quiet(true);
  ASSERT_TRUE(reporter.set_file(path));
  reporter.Add(KernelReport(1));
  reporter.set_json(true);
  reporter.Add(KernelReport(2));
  EXPECT_TRUE(reporter.set_file(""));
  reporter.Add(KernelReport(3));
  std::ifstream file(path);
  std::string first;
  std::string second;
  std::string third;
  std::getline(file, first);
  std::getline(file, second);
  EXPECT_EQ(first, ToText(KernelReport(1)));
  EXPECT_EQ(second, ToJson(KernelReport(2)));
  EXPECT_FALSE(std::getline(file, third));
  EXPECT_FALSE(reporter.set_file("/nowhere/at/all"));
  std::remove(path.c_str());
}

TEST(ReporterTest, OneSiteKeepsAFewTextsAndCountsAll) {
  Reporter reporter;
  reporter.set_quiet(true);
  constexpr int64_t kMany = Reporter::kKeptPerSite + 100;
  for (int64_t i = 0; i < kMany; ++i) reporter.Add(KernelReport(1));
  reporter.Add(KernelReport(2));
  EXPECT_EQ(reporter.count(), kMany + 1);
  const std::vector<std::string> texts = reporter.TakeTexts();
  ASSERT_EQ(texts.size(), Reporter::kKeptPerSite + 2u);
  EXPECT_EQ(texts.back(), "note: 100 more reports were counted but not kept");
  EXPECT_TRUE(reporter.TakeTexts().empty());
  reporter.Add(KernelReport(1));
  EXPECT_EQ(reporter.TakeTexts().size(), 1u) << "taking starts afresh";
}

TEST(ReporterTest, TextsAreCapped) {
  Reporter reporter;
  reporter.set_quiet(true);
  for (size_t i = 0; i < Reporter::kKeptTexts + 5; ++i) {
    reporter.Add(KernelReport(static_cast<int>(i)));
  }
  EXPECT_EQ(reporter.TakeTexts().size(), Reporter::kKeptTexts + 1);
}

TEST(ReporterTest, TakeIntoForgetsOnlyWhatFitted) {
  Reporter reporter;
  reporter.set_quiet(true);
  EXPECT_EQ(reporter.TakeInto(nullptr, 0), 0u);
  reporter.Add(KernelReport(1));
  reporter.Add(KernelReport(2));
  const size_t needed = reporter.TakeInto(nullptr, 0);
  std::string text(needed + 1, 'x');
  EXPECT_EQ(reporter.TakeInto(text.data(), needed - 1), needed);
  EXPECT_EQ(text[0], 'x');
  EXPECT_EQ(reporter.TakeInto(text.data(), needed + 1), needed);
  EXPECT_EQ(text[needed], '\0');
  EXPECT_EQ(text.substr(0, needed),
            ToText(KernelReport(1)) + "\n" + ToText(KernelReport(2)));
  EXPECT_EQ(reporter.TakeInto(nullptr, 0), 0u);
}

TEST(ReporterTest, ThreadsLoseNoCount) {
  Reporter reporter;
  reporter.set_quiet(true);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&reporter, t] {
      for (int i = 0; i < 500; ++i) reporter.Add(KernelReport(t));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(reporter.count(), 2000);
}

TEST(ReporterTest, PrintsALineUnlessQuiet) {
  Reporter reporter;
  reporter.set_quiet(false);
  ::testing::internal::CaptureStderr();
  reporter.Add(KernelReport(1));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "softcuda: " + ToText(KernelReport(1)) + "\n");
  reporter.set_quiet(true);
  ::testing::internal::CaptureStderr();
  reporter.Add(KernelReport(2));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace softcuda::check
