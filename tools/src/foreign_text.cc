// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "foreign_text.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace permafrost::tool {
namespace {

constexpr char kReplacement[] = "\xEF\xBF\xBD";

struct CodePoint {
  uint32_t value = 0;
  size_t bytes = 0;  ///< 0: malformed
};

bool IsContinuation(char byte) { return (byte & 0xC0) == 0x80; }

/// The code point that `text`, which is not empty, starts with.
CodePoint FirstCodePoint(absl::string_view text) {
  // The shortest form of each length starts here; a longer one than needed is
  // how forbidden characters slip past those who look for their bytes.
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
  uint32_t value = lead & (0x7Fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if (!IsContinuation(text[i])) return {};
    value = value << 6 | (static_cast<unsigned char>(text[i]) & 0x3F);
  }
  if (value < kLeast[bytes] || value > 0x10FFFF) return {};
  return {value, bytes};
}

bool IsShown(uint32_t code) {
  if (code == '\n' || code == '\t') return true;
  const bool is_control = code < 0x20 || (code >= 0x7F && code < 0xA0);
  const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
  const bool turns_direction =
      code == 0x061C || code == 0x200E || code == 0x200F ||
      (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
  const bool breaks_lines = code == 0x2028 || code == 0x2029;
  const bool is_no_character = (code & 0xFFFE) == 0xFFFE;
  return !is_control && !is_surrogate && !turns_direction && !breaks_lines &&
         !is_no_character;
}

}  // namespace

std::string PrintableText(absl::string_view text) {
  std::string printable;
  while (!text.empty()) {
    const CodePoint first = FirstCodePoint(text);
    if (first.bytes == 0 || !IsShown(first.value)) {
      printable += kReplacement;
    } else {
      printable.append(text.data(), first.bytes);
    }
    text.remove_prefix(std::max<size_t>(first.bytes, 1));
  }
  return printable;
}

std::string PrintableLine(absl::string_view text) {
  return absl::StrReplaceAll(PrintableText(text), {{"\n", " "}, {"\t", " "}});
}

std::string EscapeMarkup(absl::string_view text) {
  return absl::StrReplaceAll(PrintableText(text), {{"&", "&amp;"},
                                                   {"<", "&lt;"},
                                                   {">", "&gt;"},
                                                   {"\"", "&quot;"},
                                                   {"'", "&#39;"}});
}

std::string ShortenedText(absl::string_view text, size_t most_characters) {
  std::string line = PrintableLine(text);
  if (CharacterCount(line) <= most_characters) return line;
  size_t end = 0;
  for (size_t kept = 0; kept + 1 < most_characters; ++kept) {
    end += FirstCodePoint(absl::string_view(line).substr(end)).bytes;
  }
  return line.substr(0, end) + "\xE2\x80\xA6";
}

size_t CharacterCount(absl::string_view printable) {
  return static_cast<size_t>(
      std::count_if(printable.begin(), printable.end(),
                    [](char byte) { return !IsContinuation(byte); }));
}

}  // namespace permafrost::tool
