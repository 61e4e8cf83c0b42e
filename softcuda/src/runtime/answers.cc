// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/answers.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <optional>
#include <system_error>

#include "check/report.h"
#include "runtime/state.h"

namespace softcuda::runtime {
namespace {

struct AnswerRow {
  const char* key;
  int fallback;
  std::vector<int> accepted;
};

const std::vector<AnswerRow>& Rows() {
  static const auto* const rows = new std::vector<AnswerRow>{
#define SOFTCUDA_ANSWER(name, key, fallback, ...) \
  {key, fallback, {__VA_ARGS__}},
#define SOFTCUDA_CLASS_ANSWER(api, key)
#define SOFTCUDA_FIXED_ANSWER(key, value)
#include "runtime/answers.inc"
#undef SOFTCUDA_ANSWER
#undef SOFTCUDA_CLASS_ANSWER
#undef SOFTCUDA_FIXED_ANSWER
  };
  return *rows;
}

struct ClassRow {
  const char* key;
  Api api;
};

constexpr ClassRow kClassRows[] = {
#define SOFTCUDA_ANSWER(name, key, ...)
#define SOFTCUDA_CLASS_ANSWER(api, key) {key, Api::k##api},
#define SOFTCUDA_FIXED_ANSWER(key, value)
#include "runtime/answers.inc"
#undef SOFTCUDA_ANSWER
#undef SOFTCUDA_CLASS_ANSWER
#undef SOFTCUDA_FIXED_ANSWER
};

struct FixedRow {
  const char* key;
  int64_t value;
};

constexpr FixedRow kFixedRows[] = {
#define SOFTCUDA_ANSWER(name, key, ...)
#define SOFTCUDA_CLASS_ANSWER(api, key)
#define SOFTCUDA_FIXED_ANSWER(key, value) {key, value},
#include "runtime/answers.inc"
#undef SOFTCUDA_ANSWER
#undef SOFTCUDA_CLASS_ANSWER
#undef SOFTCUDA_FIXED_ANSWER
};

// Written before the driver's first call, read by all threads after.
struct Decisions {
  std::vector<int> values;
  std::vector<std::optional<CaptureClass>> classes;
};

Decisions& TheDecisions() {
  static auto* const decisions = [] {
    auto* const made = new Decisions;
    for (const AnswerRow& row : Rows()) made->values.push_back(row.fallback);
    made->classes.resize(static_cast<size_t>(ApiCount()));
    return made;
  }();
  return *decisions;
}

std::string Listed(const std::vector<int>& values) {
  std::string text;
  for (const int value : values) {
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  }
  return text;
}

// What the probes say where the machine could not tell.
constexpr int64_t kUnanswered = -1;

bool IsKnown(const std::string& key) {
  const auto is_it = [&](const auto& row) { return key == row.key; };
  return std::any_of(Rows().begin(), Rows().end(), is_it) ||
         std::any_of(std::begin(kClassRows), std::end(kClassRows), is_it) ||
         std::any_of(std::begin(kFixedRows), std::end(kFixedRows), is_it);
}

// What keeps the answer from being used; empty when it is.
std::string Apply(const std::string& key, int64_t value) {
  if (!IsKnown(key)) return "answer " + key + ": unknown";
  if (value == kUnanswered) return "";
  const auto is_it = [&](const auto& row) { return key == row.key; };
  const auto got = [&](const std::string& want) {
    return "answer " + key + ": got " + std::to_string(value) + ", softcuda " +
           want;
  };
  const auto& rows = Rows();
  const auto row = std::find_if(rows.begin(), rows.end(), is_it);
  if (row != rows.end()) {
    if (std::find(row->accepted.begin(), row->accepted.end(), value) ==
        row->accepted.end()) {
      return got("can do " + Listed(row->accepted));
    }
    TheDecisions().values[static_cast<size_t>(row - rows.begin())] =
        static_cast<int>(value);
    return "";
  }
  const auto* const class_row =
      std::find_if(std::begin(kClassRows), std::end(kClassRows), is_it);
  if (class_row != std::end(kClassRows)) {
    if (value != 0 && value != CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) {
      return got("can do 0, 900");
    }
    TheDecisions().classes[static_cast<size_t>(class_row->api)] =
        value == 0 ? CaptureClass::kSafe : CaptureClass::kUnsafe;
    return "";
  }
  const auto* const fixed =
      std::find_if(std::begin(kFixedRows), std::end(kFixedRows), is_it);
  return fixed->value == value
             ? ""
             : got("does " + std::to_string(fixed->value) + " always");
}

void ReportFile(const std::string& path, const std::string& what) {
  check::Report report;
  report.check = "misuse";
  report.what = "file of answers '" + path + "': " + what;
  check::Reporter::Get().Add(std::move(report));
}

// False for a file that cannot be read, or is far larger than any with answers.
// Anything but a file is not opened: a pipe could keep the process for ever.
bool ReadFile(const std::string& path, std::string* text) {
  constexpr size_t kMostBytes = size_t{1} << 20;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return false;
  text->resize(kMostBytes + 1);
  text->resize(std::fread(text->data(), 1, text->size(), file));
  const bool whole = std::ferror(file) == 0 && text->size() <= kMostBytes;
  std::fclose(file);
  return whole;
}

}  // namespace

int AnswerTo(Answer answer) {
  return TheDecisions().values[static_cast<size_t>(answer)];
}

CaptureClass AnsweredClass(Api api, CaptureClass fallback) {
  return TheDecisions().classes[static_cast<size_t>(api)].value_or(fallback);
}

std::vector<std::string> ApplyAnswers(const AnswerList& answers) {
  std::vector<std::string> unused;
  for (const auto& [key, value] : answers) {
    std::string why = Apply(key, value);
    if (!why.empty()) unused.push_back(std::move(why));
  }
  return unused;
}

void LoadAnswersFromEnvironment() {
  const char* const path = std::getenv("PERMAFROST_SOFTCUDA_POLICY");
  if (path == nullptr || *path == '\0') return;
  std::string text;
  if (!ReadFile(path, &text)) {
    ReportFile(path,
               "is no file, cannot be read, or has more than 1 MiB; the "
               "defaults hold");
    return;
  }
  AnswerList answers;
  std::string error;
  if (!ParseAnswers(text, &answers, &error)) {
    ReportFile(path, error + "; the defaults hold");
    return;
  }
  for (const std::string& line : ApplyAnswers(answers)) ReportFile(path, line);
}

}  // namespace softcuda::runtime
