// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Names come from files that anyone may have written. Here they become text
// that a terminal prints and a browser shows, and nothing else.
#ifndef PERMAFROST_TOOLS_FOREIGN_TEXT_H_
#define PERMAFROST_TOOLS_FOREIGN_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace permafrost::tool {

/// The text as UTF-8 without anything that acts instead of being shown: U+FFFD
/// in the place of each malformed byte, of control characters other than line
/// feed and tab, of those that turn the direction of writing, and of code
/// points that XML forbids. Threads: any.
std::string PrintableText(absl::string_view text);

/// `PrintableText` on one line: line feeds and tabs become spaces.
std::string PrintableLine(absl::string_view text);

/// `PrintableText` for element content and quoted attributes of XML and HTML.
std::string EscapeMarkup(absl::string_view text);

/// The printable line cut to so many characters, the last one "…" where
/// something was left out. `most_characters` is at least 1.
std::string ShortenedText(absl::string_view text, size_t most_characters);

/// How many characters (code points) a printable text has.
size_t CharacterCount(absl::string_view printable);

}  // namespace permafrost::tool

#endif  // PERMAFROST_TOOLS_FOREIGN_TEXT_H_
