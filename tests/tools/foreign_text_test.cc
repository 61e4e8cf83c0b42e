// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "foreign_text.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/string_view.h"

namespace permafrost::tool {
namespace {

constexpr char kShown[] = "\xEF\xBF\xBD";

TEST(ForeignTextTest, PlainTextStaysAsItIs) {
  const std::string text =
      "moe_output \xC3\xA9\xE2\x82\xAC\xF0\x9D\x84\x9E\n\t";
  EXPECT_EQ(PrintableText(text), text);
  EXPECT_EQ(PrintableText(""), "");
}

TEST(ForeignTextTest, WhatATerminalObeysIsShownInstead) {
  EXPECT_EQ(PrintableText("a\x1B[2Jb"), std::string("a") + kShown + "[2Jb");
  EXPECT_EQ(PrintableText(absl::string_view("a\0b", 3)),
            std::string("a") + kShown + "b");
  EXPECT_EQ(PrintableText("a\x7F"), std::string("a") + kShown);
  // C1 controls: two bytes in UTF-8.
  EXPECT_EQ(PrintableText("a\xC2\x9B"), std::string("a") + kShown);
}

TEST(ForeignTextTest, WhatTurnsTheDirectionOfWritingIsShownInstead) {
  EXPECT_EQ(PrintableText("a\xE2\x80\xAE"
                          "b"),
            std::string("a") + kShown + "b");
  EXPECT_EQ(PrintableText("\xE2\x81\xA6"), kShown);
  EXPECT_EQ(PrintableText("\xE2\x80\xA8"), kShown);
}

TEST(ForeignTextTest, MalformedBytesAreShownOneByOne) {
  EXPECT_EQ(PrintableText("\x80"), kShown);
  EXPECT_EQ(PrintableText("\xC3"), kShown);
  EXPECT_EQ(PrintableText("\xE2\x82z"), std::string(kShown) + kShown + "z");
  // '<' in more bytes than it needs, a surrogate, a number past the last.
  EXPECT_EQ(PrintableText("\xC0\xBC"), std::string(kShown) + kShown);
  EXPECT_EQ(PrintableText("\xE0\x80\xBC"),
            std::string(kShown) + kShown + kShown);
  EXPECT_EQ(PrintableText("\xED\xA0\x80"), kShown);
  EXPECT_EQ(PrintableText("\xF5\x80\x80\x80"),
            std::string(kShown) + kShown + kShown + kShown);
  EXPECT_EQ(PrintableText("\xEF\xBF\xBF"), kShown);
}

TEST(ForeignTextTest, LineHasNoLineFeed) {
  EXPECT_EQ(PrintableLine("a\nb\tc"), "a b c");
}

TEST(ForeignTextTest, MarkupIsEscapedOnce) {
  EXPECT_EQ(EscapeMarkup("<a href=\"x\" id='y'>&amp;</a>"),
            "&lt;a href=&quot;x&quot; id=&#39;y&#39;&gt;&amp;amp;&lt;/a&gt;");
  EXPECT_EQ(EscapeMarkup("]]>\x1B"), std::string("]]&gt;") + kShown);
  EXPECT_EQ(EscapeMarkup("moe_output"), "moe_output");
}

TEST(ForeignTextTest, LongTextIsCutBetweenCharacters) {
  EXPECT_EQ(ShortenedText("abcd", 4), "abcd");
  EXPECT_EQ(ShortenedText("abcde", 4), "abc\xE2\x80\xA6");
  EXPECT_EQ(ShortenedText("\xC3\xA9\xC3\xA9\xC3\xA9", 2),
            "\xC3\xA9\xE2\x80\xA6");
  EXPECT_EQ(ShortenedText("abc", 1), "\xE2\x80\xA6");
  EXPECT_EQ(ShortenedText(std::string(3, '\xFF'), 2),
            std::string(kShown) + "\xE2\x80\xA6");
}

TEST(ForeignTextTest, CharactersAreCountedAndNotBytes) {
  EXPECT_EQ(CharacterCount("a\xC3\xA9\xE2\x82\xAC"), 3u);
}

}  // namespace
}  // namespace permafrost::tool
