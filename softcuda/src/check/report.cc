// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "check/report.h"

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace softcuda::check {
namespace {

bool IsSetInEnvironment(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && std::strcmp(value, "1") == 0;
}

std::string Triple(const uint32_t (&v)[3]) {
  return "(" + std::to_string(v[0]) + "," + std::to_string(v[1]) + "," +
         std::to_string(v[2]) + ")";
}

std::string SiteOf(const Report& report) {
  return report.check + '|' + report.kernel + '|' + report.file + '|' +
         std::to_string(report.line);
}

// One write a line, so that lines of several processes stay whole.
void PrintLine(const std::string& text) {
  const std::string line = "softcuda: " + text + "\n";
  size_t done = 0;
  while (done < line.size()) {
    const ssize_t n =
        write(STDERR_FILENO, line.data() + done, line.size() - done);
    if (n <= 0) return;
    done += static_cast<size_t>(n);
  }
}

}  // namespace

std::string ToText(const Report& report) {
  std::string text = report.check + ": " + report.what;
  if (report.address != 0 || !report.where.empty()) {
    char address[32];
    std::snprintf(address, sizeof address, " at 0x%" PRIx64, report.address);
    text += address;
  }
  if (!report.where.empty()) text += ": " + report.where;
  if (!report.kernel.empty()) {
    text += " | kernel " + report.kernel;
    if (!report.file.empty()) {
      text += " (" + report.file + ":" + std::to_string(report.line) + ")";
    }
    text +=
        " block " + Triple(report.block) + " thread " + Triple(report.thread);
  }
  if (!report.origin.empty()) text += " | " + report.origin;
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

Reporter& Reporter::Get() {
  static Reporter* const reporter = new Reporter;
  return *reporter;
}

Reporter::Reporter()
    : quiet_(IsSetInEnvironment("SOFTCUDA_QUIET")),
      initcheck_(IsSetInEnvironment("SOFTCUDA_INITCHECK")) {}

void Reporter::Add(Report report) {
  count_.fetch_add(1, std::memory_order_relaxed);
  std::string text;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    // Without a kernel there is no site: each misuse is its own.
    if (!report.kernel.empty() &&
        ++reports_per_site_[SiteOf(report)] > kKeptPerSite) {
      ++dropped_;
      return;
    }
    if (texts_.size() >= kKeptTexts) {
      ++dropped_;
      return;
    }
    text = ToText(report);
    texts_.push_back(text);
  }
  if (!quiet()) PrintLine(text);
}

std::vector<std::string> Reporter::TextsLocked() const {
  std::vector<std::string> texts = texts_;
  if (dropped_ != 0) {
    texts.push_back("note: " + std::to_string(dropped_) +
                    " more reports were counted but not kept");
  }
  return texts;
}

void Reporter::ForgetLocked() {
  texts_.clear();
  reports_per_site_.clear();
  dropped_ = 0;
}

std::vector<std::string> Reporter::TakeTexts() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> texts = TextsLocked();
  ForgetLocked();
  return texts;
}

size_t Reporter::TakeInto(char* buffer, size_t capacity) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string lines;
  for (const std::string& text : TextsLocked()) {
    if (!lines.empty()) lines += '\n';
    lines += text;
  }
  if (buffer == nullptr || capacity < lines.size()) return lines.size();
  std::memcpy(buffer, lines.data(), lines.size());
  if (capacity > lines.size()) buffer[lines.size()] = '\0';
  ForgetLocked();
  return lines.size();
}

}  // namespace softcuda::check
