// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "check/report.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "check/json.h"

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
void PrintLine(int file, const std::string& line) {
  size_t done = 0;
  while (done < line.size()) {
    const ssize_t n = write(file, line.data() + done, line.size() - done);
    if (n <= 0) return;
    done += static_cast<size_t>(n);
  }
}

}  // namespace

std::string ToText(const Report& report) {
  std::string text = report.check + ": " + report.what;
  for (const std::string& call : report.inlined_at) {
    text += ", inlined at " + call;
  }
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
    if (report.has_thread) {
      text +=
          " block " + Triple(report.block) + " thread " + Triple(report.thread);
    }
  }
  if (!report.origin.empty()) text += " | " + report.origin;
  if (!report.previous.empty()) text += " | previous: " + report.previous;
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string ToJson(const Report& report) {
  std::string text = "{\"check\":" + JsonString(report.check) +
                     ",\"what\":" + JsonString(report.what);
  const auto add = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    text += std::string(",\"") + name + "\":" + JsonString(value);
  };
  const auto add_triple = [&](const char* name, const uint32_t(&v)[3]) {
    text += std::string(",\"") + name + "\":[" + std::to_string(v[0]) + "," +
            std::to_string(v[1]) + "," + std::to_string(v[2]) + "]";
  };
  add("kernel", report.kernel);
  if (!report.file.empty()) {
    add("file", report.file);
    text += ",\"line\":" + std::to_string(report.line);
  }
  if (!report.inlined_at.empty()) {
    text += ",\"inlined_at\":[";
    for (size_t k = 0; k < report.inlined_at.size(); ++k) {
      text += (k == 0 ? "" : ",") + JsonString(report.inlined_at[k]);
    }
    text += "]";
  }
  if (!report.kernel.empty() && report.has_thread) {
    add_triple("block", report.block);
    add_triple("thread", report.thread);
  }
  if (report.address != 0 || !report.where.empty()) {
    text += ",\"address\":" + std::to_string(report.address) +
            ",\"bytes\":" + std::to_string(report.bytes);
  }
  add("where", report.where);
  add("origin", report.origin);
  add("previous", report.previous);
  return text + "}";
}

Reporter& Reporter::Get() {
  static Reporter* const reporter = new Reporter;
  return *reporter;
}

Reporter::Reporter()
    : quiet_(IsSetInEnvironment("SOFTCUDA_QUIET")),
      initcheck_(IsSetInEnvironment("SOFTCUDA_INITCHECK")),
      racecheck_(IsSetInEnvironment("SOFTCUDA_RACECHECK")) {}

Reporter::~Reporter() {
  if (file_ >= 0) close(file_);
}

bool Reporter::set_file(const std::string& path) {
  int file = -1;
  if (!path.empty()) {
    file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0) return false;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (file_ >= 0) close(file_);
  file_ = file;
  return true;
}

std::string Reporter::Line(const Report& report) const {
  return json_.load(std::memory_order_relaxed) ? ToJson(report)
                                               : ToText(report);
}

void Reporter::Add(Report report) {
  count_.fetch_add(1, std::memory_order_relaxed);
  std::string line;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    // Without a kernel there is no site: each misuse is its own.
    if (!report.kernel.empty() &&
        ++reports_per_site_[SiteOf(report)] > kKeptPerSite) {
      ++dropped_;
      return;
    }
    if (kept_.size() >= kKeptTexts) {
      ++dropped_;
      return;
    }
    line = Line(report) + "\n";
    kept_.push_back(std::move(report));
    if (file_ >= 0) PrintLine(file_, line);
  }
  if (!quiet()) {
    const bool json = json_.load(std::memory_order_relaxed);
    PrintLine(STDERR_FILENO, json ? line : "softcuda: " + line);
  }
}

std::vector<std::string> Reporter::TextsLocked() const {
  std::vector<std::string> texts;
  for (const Report& report : kept_) texts.push_back(Line(report));
  if (dropped_ != 0) {
    Report note;
    note.check = "note";
    note.what =
        std::to_string(dropped_) + " more reports were counted but not kept";
    texts.push_back(Line(note));
  }
  return texts;
}

void Reporter::ForgetLocked() {
  kept_.clear();
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
