// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "map_scene.h"
#include "permafrost/arena/plan_json.h"
#include "tests/support/status_matchers.h"

namespace permafrost::tool {
namespace {

using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

BufferSize Size(const std::string& name, int64_t bytes) {
  return {.name = name,
          .bytes = bytes,
          .gate_reason = bytes == 0 ? "not wanted" : "",
          .lifetime = Lifetime::kPerLayer,
          .tag = "step",
          .meaning = absl::StrCat("what ", name, " holds")};
}

ArenaPlan Plan(std::vector<BufferSize> sizes) {
  absl::StatusOr<ArenaPlan> plan = PlanArena(std::move(sizes), {});
  EXPECT_OK(plan.status());
  return *std::move(plan);
}

StepOp Op(const std::string& name, const std::string& reads,
          const std::string& writes) {
  StepOp op = {.name = name};
  if (!reads.empty()) op.accesses.push_back({reads, Access::kRead});
  op.accesses.push_back({writes, Access::kWrite});
  return op;
}

/// a -> b -> c, issued against the order in which they are listed.
StepDag Chain() {
  return {.name = "chain",
          .ops = {Op("third", "b", "c"), Op("second", "a", "b"),
                  Op("first", "", "a")},
          .edges = {{2, 1}, {1, 0}}};
}

MapScene Scene(const ArenaPlan& plan, absl::Span<const StepDag> steps = {},
               absl::Span<const KeptApart> kept_apart = {}) {
  absl::StatusOr<MapScene> scene =
      MakeMapScene("title", "made by", plan, steps, kept_apart);
  EXPECT_OK(scene.status());
  return *std::move(scene);
}

/// Whether tags nest, attributes are quoted and no '<' or '&' stands where it
/// may not: enough to know that no name ended an element or an attribute.
::testing::AssertionResult IsWellFormed(absl::string_view text) {
  std::vector<std::string> open;
  size_t at = 0;
  while (at < text.size()) {
    if (text[at] != '<') {
      if (text[at] == '&') {
        const size_t end = text.find(';', at);
        if (end == absl::string_view::npos || end - at > 6) {
          return ::testing::AssertionFailure()
                 << "bare & before " << text.substr(at, 40);
        }
      }
      ++at;
      continue;
    }
    size_t end = at + 1;
    bool is_quoted = false;
    for (; end < text.size() && (is_quoted || text[end] != '>'); ++end) {
      if (text[end] == '"') is_quoted = !is_quoted;
      if (text[end] == '<') {
        return ::testing::AssertionFailure()
               << "< inside a tag: " << text.substr(at, 80);
      }
    }
    const absl::string_view tag = text.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag.front() == '!' || tag.back() == '/') continue;
    if (tag.front() == '/') {
      if (open.empty() || open.back() != tag.substr(1)) {
        return ::testing::AssertionFailure() << "stray </" << tag << ">";
      }
      open.pop_back();
      continue;
    }
    const std::string name(tag.substr(0, tag.find(' ')));
    if (name != "meta") open.push_back(name);
  }
  if (open.empty()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << open.back() << " stays open";
}

TEST(MapTest, WithoutOverlayEveryBufferLivesAllTheTime) {
  const MapScene scene =
      Scene(Plan({Size("a", 1000), Size("gone", 0), Size("b", 5000000)}));
  EXPECT_EQ(scene.axis, TimeAxis::kWholeStep);
  ASSERT_EQ(scene.buffers.size(), 2u);
  EXPECT_THAT(scene.buffers[0].spans, IsEmpty());
  EXPECT_THAT(scene.buffers[1].spans, IsEmpty());
}

TEST(MapTest, TinyBuffersAreReadableAndOrderIsKept) {
  std::vector<BufferSize> sizes;
  for (int i = 0; i < 40; ++i) {
    sizes.push_back(Size(absl::StrCat("tiny", i), 1 + i));
    sizes.push_back(Size(absl::StrCat("huge", i), int64_t{1} << 30));
  }
  const MapScene scene = Scene(Plan(std::move(sizes)));
  double last_bottom = 0;
  for (const MapBuffer& buffer : scene.buffers) {
    const double top = scene.YOf(buffer.buffer.offset_bytes, false);
    const double bottom =
        scene.YOf(buffer.buffer.offset_bytes + buffer.buffer.bytes, true);
    EXPECT_GE(bottom - top, kLeastBufferHeight - 1e-6) << buffer.buffer.name;
    EXPECT_GE(top, last_bottom - 1e-6) << buffer.buffer.name;
    last_bottom = bottom;
  }
  EXPECT_LE(last_bottom, scene.height);
}

TEST(MapTest, WithStepsBuffersLiveFromFirstUseToLastInTheOrderOfEdges) {
  const std::vector<StepDag> steps = {Chain()};
  ASSERT_OK_AND_ASSIGN(
      const OverlaidPlan overlaid,
      PlanArenaWithOverlay({Size("a", 4096), Size("b", 4096), Size("c", 4096),
                            Size("unused", 4096)},
                           {}, steps));
  const MapScene scene = Scene(overlaid.plan, steps, overlaid.kept_apart);
  EXPECT_EQ(scene.axis, TimeAxis::kOperations);
  ASSERT_EQ(scene.panels.size(), 1u);
  EXPECT_THAT(scene.panels[0].columns, ElementsAre("first", "second", "third"));
  for (const MapBuffer& buffer : scene.buffers) {
    const std::string& name = buffer.buffer.name;
    if (name == "a") {
      EXPECT_THAT(buffer.spans, ElementsAre(MapSpan{0, 0, 1}));
    } else if (name == "c") {
      EXPECT_THAT(buffer.spans, ElementsAre(MapSpan{0, 2, 2}));
    } else {
      // It shares with nothing, so its bytes are its own all the time.
      EXPECT_THAT(buffer.spans, IsEmpty()) << name;
    }
    if (name == "unused") {
      EXPECT_THAT(buffer.kept_because, HasSubstr("no step"));
    }
  }
}

TEST(MapTest, BuffersOfAnOverlaidFileStandSideBySide) {
  const std::vector<StepDag> steps = {Chain()};
  ASSERT_OK_AND_ASSIGN(
      const OverlaidPlan overlaid,
      PlanArenaWithOverlay({Size("a", 4096), Size("b", 4096), Size("c", 4096)},
                           {}, steps));
  const MapScene scene = Scene(overlaid.plan);
  EXPECT_EQ(scene.axis, TimeAxis::kSideBySide);
  std::vector<size_t> columns;
  for (const MapBuffer& buffer : scene.buffers) {
    if (!buffer.spans.empty()) columns.push_back(buffer.spans[0].first);
  }
  EXPECT_THAT(columns, ElementsAre(0, 1));
  EXPECT_THAT(MapSvg(scene), HasSubstr("does not say when"));
}

TEST(MapTest, HoverHasNameBytesAndOffset) {
  const std::string svg = MapSvg(Scene(Plan({Size("a", 1000), Size("b", 7)})));
  EXPECT_THAT(svg, AllOf(HasSubstr("<title>a\n1000 bytes (1000 B) at 0x0\n"),
                         HasSubstr("<title>b\n7 bytes (7 B) at 0x400\n"),
                         HasSubstr("what a holds"), HasSubstr("all the time")));
  EXPECT_TRUE(IsWellFormed(svg));
}

TEST(MapTest, PageStandsAlone) {
  const std::string html =
      MapHtml(Scene(Plan({Size("a", 1000), Size("gone", 0)})));
  EXPECT_THAT(html,
              AllOf(HasSubstr("default-src 'none'"), HasSubstr("<svg "),
                    HasSubstr("<td class=\"c\">gone</td><td>not wanted</td>"),
                    HasSubstr("1000"), Not(HasSubstr("<script")),
                    Not(HasSubstr("src=")), Not(HasSubstr("@import")),
                    Not(HasSubstr("url("))));
  EXPECT_TRUE(IsWellFormed(html));
}

TEST(MapTest, HostileNamesStayText) {
  const std::string names[] = {"<script>alert(1)</script>",
                               "\"><img src=x onerror=alert(1)>",
                               "' onload='alert(1)",
                               "]]></title></svg><b>",
                               "&lt;b&gt;&#60;i&#62;",
                               "--><!--",
                               "</style><p>",
                               "a\x1B[2J\n\xE2\x80\xAE\xFF",
                               std::string(5000, 'x')};
  std::vector<BufferSize> sizes;
  for (const std::string& name : names) {
    BufferSize size = Size(name, 1000);
    size.meaning = name;
    size.tag = name;
    sizes.push_back(size);
    BufferSize gone = Size(absl::StrCat("gone ", name), 0);
    gone.gate_reason = name;
    sizes.push_back(gone);
  }
  const ArenaPlan plan = Plan(std::move(sizes));
  const std::vector<KeptApart> kept = {{names[0], names[1]}};
  absl::StatusOr<MapScene> scene =
      MakeMapScene(names[0], names[1], plan, {}, kept);
  ASSERT_OK(scene.status());
  for (const std::string& text : {MapSvg(*scene), MapHtml(*scene)}) {
    EXPECT_TRUE(IsWellFormed(text));
    EXPECT_THAT(text,
                AllOf(Not(HasSubstr("<script")), Not(HasSubstr("<img")),
                      Not(HasSubstr("' onload")), Not(HasSubstr("<b>")),
                      Not(HasSubstr("<p>")), Not(HasSubstr("\x1B")),
                      Not(HasSubstr("\xFF")), Not(HasSubstr("\xE2\x80\xAE")),
                      Not(HasSubstr("<i>")), HasSubstr("&lt;script&gt;"),
                      HasSubstr("&amp;lt;b&amp;gt;")));
  }
}

TEST(MapTest, HostileOperationNamesStayText) {
  StepDag step = Chain();
  step.name = "<b>";
  step.ops[1].name = "</title><script>";
  const std::vector<StepDag> steps = {step};
  ASSERT_OK_AND_ASSIGN(
      const OverlaidPlan overlaid,
      PlanArenaWithOverlay({Size("a", 4096), Size("b", 4096), Size("c", 4096)},
                           {}, steps));
  const std::string svg = MapSvg(Scene(overlaid.plan, steps));
  EXPECT_TRUE(IsWellFormed(svg));
  EXPECT_THAT(svg, AllOf(Not(HasSubstr("<script")), Not(HasSubstr("<b>"))));
}

// The check above can fail.
TEST(MapTest, WellFormednessIsChecked) {
  EXPECT_TRUE(IsWellFormed("<a b=\"c>\"><d/>&amp;</a>"));
  EXPECT_FALSE(IsWellFormed("<a></b>"));
  EXPECT_FALSE(IsWellFormed("<a>"));
  EXPECT_FALSE(IsWellFormed("<a>x & y</a>"));
  EXPECT_FALSE(IsWellFormed("<a b=\"<\"></a>"));
}

TEST(MapTest, PlanWithoutAnyBufferIsDrawn) {
  const ArenaPlan plan = ArenaPlan::FromParts({}, {}, 0, {});
  EXPECT_TRUE(IsWellFormed(MapSvg(Scene(plan))));
}

TEST(MapTest, TooManyBuffersAreRefused) {
  std::vector<BufferSize> sizes;
  for (size_t i = 0; i <= kMostMapBuffers; ++i) {
    sizes.push_back(Size(absl::StrCat("b", i), 1));
  }
  EXPECT_THAT(MakeMapScene("", "", Plan(std::move(sizes)), {}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("2001"), HasSubstr("2000"))));
}

TEST(MapTest, BytesAreReadable) {
  EXPECT_EQ(ReadableBytes(0), "0 B");
  EXPECT_EQ(ReadableBytes(1023), "1023 B");
  EXPECT_EQ(ReadableBytes(1536), "1.5 KiB");
  EXPECT_EQ(ReadableBytes(int64_t{12} << 20), "12.0 MiB");
  EXPECT_EQ(ReadableBytes(int64_t{1792} << 20), "1.75 GiB");
  EXPECT_EQ(ReadableBytes(INT64_MAX), "8.00 EiB");
}

}  // namespace
}  // namespace permafrost::tool
