// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "ptx/lexer.h"

#include <bit>
#include <cstdlib>

namespace softcuda::ptx {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsWordStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         c == '$' || c == '%';
}

bool IsWordChar(char c) { return IsWordStart(c) || IsDigit(c); }

int HexDigit(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

class Lexer {
 public:
  Lexer(std::string_view text, std::vector<Token>* tokens, std::string* error)
      : text_(text), tokens_(tokens), error_(error) {}

  bool Run() {
    while (true) {
      if (!SkipBlanks()) return false;
      if (at_ >= text_.size()) break;
      if (!Next()) return false;
    }
    Token end;
    end.line = line_;
    tokens_->push_back(end);
    return true;
  }

 private:
  char Peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  bool Fail(const std::string& what) {
    *error_ = "line " + std::to_string(line_) + " of the PTX text: " + what;
    return false;
  }

  bool SkipBlanks() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        ++line_;
        ++at_;
      } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
        ++at_;
      } else if (c == '/' && Peek(1) == '/') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (c == '/' && Peek(1) == '*') {
        const size_t close = text_.find("*/", at_ + 2);
        if (close == std::string_view::npos) {
          return Fail("comment without an end");
        }
        for (; at_ < close; ++at_) line_ += text_[at_] == '\n';
        at_ = close + 2;
      } else if (c == '#') {
        // Line markers of the C preprocessor; nothing in them is code.
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else {
        break;
      }
    }
    return true;
  }

  void Add(TokenKind kind, size_t begin) {
    Token token;
    token.kind = kind;
    token.line = line_;
    token.text = text_.substr(begin, at_ - begin);
    tokens_->push_back(token);
  }

  // The dots of `add.s32` and the `::` of `shared::cluster` belong to the word;
  // the colon of `label:` does not. `.reg.b32` is two directives.
  void ScanWord(bool takes_dots) {
    while (at_ < text_.size()) {
      if (IsWordChar(text_[at_])) {
        ++at_;
      } else if (takes_dots && text_[at_] == '.' && IsWordChar(Peek(1))) {
        ++at_;
      } else if (text_[at_] == ':' && Peek(1) == ':' && IsWordChar(Peek(2))) {
        at_ += 2;
      } else {
        break;
      }
    }
  }

  bool Next() {
    const char c = text_[at_];
    const size_t begin = at_;
    if (IsWordStart(c)) {
      ScanWord(true);
      Add(TokenKind::kWord, begin);
      return true;
    }
    if (c == '.' && IsWordStart(Peek(1))) {
      ++at_;
      ScanWord(false);
      Add(TokenKind::kDotWord, begin);
      return true;
    }
    if (IsDigit(c) || (c == '.' && IsDigit(Peek(1)))) return Number();
    if (c == '"') return String();
    static constexpr std::string_view kPuncts = "{}[]()<>,;:+-@!|=*&~";
    if (kPuncts.find(c) == std::string_view::npos) {
      return Fail("unexpected character with code " +
                  std::to_string(static_cast<unsigned char>(c)));
    }
    ++at_;
    Add(TokenKind::kPunct, begin);
    tokens_->back().punct = c;
    return true;
  }

  bool String() {
    const size_t begin = ++at_;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\n') return Fail("string without an end");
      at_ += text_[at_] == '\\' ? 2U : 1U;
    }
    if (at_ >= text_.size()) return Fail("string without an end");
    Add(TokenKind::kString, begin);
    ++at_;
    return true;
  }

  bool HexFloat(size_t begin, int digits) {
    uint64_t bits = 0;
    for (int i = 0; i < digits; ++i) {
      const int digit = HexDigit(Peek(2 + static_cast<size_t>(i)));
      if (digit < 0) return Fail("floating literal with too few digits");
      bits = bits * 16 + static_cast<uint64_t>(digit);
    }
    at_ += 2 + static_cast<size_t>(digits);
    if (IsWordChar(Peek())) return Fail("floating literal with extra digits");
    Add(TokenKind::kFloat, begin);
    tokens_->back().bits = bits;
    tokens_->back().is_single = digits == 8;
    return true;
  }

  bool Number() {
    const size_t begin = at_;
    if (Peek() == '0' && (Peek(1) == 'f' || Peek(1) == 'F')) {
      return HexFloat(begin, 8);
    }
    if (Peek() == '0' && (Peek(1) == 'd' || Peek(1) == 'D')) {
      return HexFloat(begin, 16);
    }
    int base = 10;
    if (Peek() == '0' && (Peek(1) == 'x' || Peek(1) == 'X')) {
      base = 16;
      at_ += 2;
    } else if (Peek() == '0' && (Peek(1) == 'b' || Peek(1) == 'B')) {
      base = 2;
      at_ += 2;
    }
    const size_t digits_begin = at_;
    uint64_t value = 0;
    bool overflow = false;
    while (true) {
      const int digit = HexDigit(Peek());
      if (digit < 0 || digit >= base) break;
      overflow |= value > (~uint64_t{0} - static_cast<uint64_t>(digit)) /
                              static_cast<uint64_t>(base);
      value =
          value * static_cast<uint64_t>(base) + static_cast<uint64_t>(digit);
      ++at_;
    }
    const bool is_float =
        base == 10 && ((Peek() == '.' && !IsWordStart(Peek(1))) ||
                       Peek() == 'e' || Peek() == 'E');
    if (is_float) return DecimalFloat(begin);
    if (at_ == digits_begin) return Fail("number without digits");
    if (overflow) return Fail("integer literal above 64 bits");
    if (base == 10 && text_[begin] == '0' && at_ - begin > 1) {
      value = 0;
      for (size_t i = begin; i < at_; ++i) {
        if (text_[i] > '7') return Fail("octal literal with the digit 8 or 9");
        value = value * 8 + static_cast<uint64_t>(text_[i] - '0');
      }
    }
    if (Peek() == 'U') ++at_;
    if (IsWordChar(Peek())) return Fail("number followed by letters");
    Add(TokenKind::kInteger, begin);
    tokens_->back().bits = value;
    return true;
  }

  bool DecimalFloat(size_t begin) {
    at_ = begin;
    while (IsDigit(Peek()) || Peek() == '.') ++at_;
    if (Peek() == 'e' || Peek() == 'E') {
      ++at_;
      if (Peek() == '+' || Peek() == '-') ++at_;
      while (IsDigit(Peek())) ++at_;
    }
    if (IsWordChar(Peek())) return Fail("number followed by letters");
    const std::string digits(text_.substr(begin, at_ - begin));
    char* end = nullptr;
    const double value = std::strtod(digits.c_str(), &end);
    if (end != digits.c_str() + digits.size()) {
      return Fail("malformed floating literal");
    }
    Add(TokenKind::kFloat, begin);
    tokens_->back().bits = std::bit_cast<uint64_t>(value);
    return true;
  }

  std::string_view text_;
  std::vector<Token>* tokens_;
  std::string* error_;
  size_t at_ = 0;
  uint32_t line_ = 1;
};

}  // namespace

bool Tokenize(std::string_view text, std::vector<Token>* tokens,
              std::string* error) {
  tokens->clear();
  tokens->reserve(text.size() / 4);
  return Lexer(text, tokens, error).Run();
}

}  // namespace softcuda::ptx
