// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

// The JSON that files of answers are written in. The library has no other use
// for JSON, and links nothing.

#include <string>
#include <utility>

#include "runtime/answers.h"

namespace softcuda::runtime {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  bool ParseFile(AnswerList* answers) {
    bool found = false;
    const bool good = ParseObject([&](const std::string& key) {
      if (key == "answers") {
        found = true;
        return ParseObject([&](const std::string& name) {
          int64_t value = 0;
          if (!ParseInteger(&value)) return false;
          answers->emplace_back(name, value);
          return true;
        });
      }
      SkipSpace();
      std::string ignored;
      int64_t number = 0;
      return Peek() == '"' ? ParseString(&ignored) : ParseInteger(&number);
    });
    if (!good) return false;
    SkipSpace();
    if (at_ != text_.size()) return Fail("the end of the file");
    return found || Fail("a member \"answers\"");
  }

  const std::string& error() const { return error_; }

 private:
  bool Fail(const std::string& wanted) {
    if (error_.empty()) {
      error_ = "at byte " + std::to_string(at_) + ": want " + wanted;
    }
    return false;
  }

  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void SkipSpace() {
    while (Peek() == ' ' || Peek() == '\n' || Peek() == '\t' ||
           Peek() == '\r') {
      ++at_;
    }
  }
  bool Expect(char wanted) {
    SkipSpace();
    if (Peek() != wanted) return Fail(std::string("'") + wanted + "'");
    ++at_;
    return true;
  }

  // Calls `member` behind each key and colon.
  template <typename Member>
  bool ParseObject(const Member& member) {
    if (!Expect('{')) return false;
    SkipSpace();
    if (Peek() == '}') return Expect('}');
    while (true) {
      std::string key;
      if (!ParseString(&key) || !Expect(':') || !member(key)) return false;
      SkipSpace();
      if (Peek() == '}') return Expect('}');
      if (!Expect(',')) return false;
    }
  }

  // Plain characters only: keys and names need no escapes.
  bool ParseString(std::string* out) {
    if (!Expect('"')) return false;
    while (Peek() >= ' ' && Peek() <= '~' && Peek() != '"' && Peek() != '\\') {
      out->push_back(text_[at_++]);
    }
    if (Peek() != '"') return Fail("a string of plain characters");
    ++at_;
    return true;
  }

  bool ParseInteger(int64_t* out) {
    SkipSpace();
    const bool negative = Peek() == '-';
    if (negative) ++at_;
    constexpr int64_t kMost = int64_t{1} << 53;
    int64_t value = 0;
    if (Peek() < '0' || Peek() > '9') return Fail("an integer");
    while (Peek() >= '0' && Peek() <= '9') {
      value = value * 10 + (text_[at_++] - '0');
      if (value > kMost) return Fail("an integer below 2^53");
    }
    *out = negative ? -value : value;
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string error_;
};

}  // namespace

bool ParseAnswers(std::string_view text, AnswerList* answers,
                  std::string* error) {
  Parser parser(text);
  AnswerList found;
  if (!parser.ParseFile(&found)) {
    *error = parser.error();
    return false;
  }
  *answers = std::move(found);
  return true;
}

}  // namespace softcuda::runtime
