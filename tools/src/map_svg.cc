// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "foreign_text.h"
#include "map_scene.h"

namespace permafrost::tool {
namespace {

// Pixels. From left to right: the names where boxes are too narrow for them,
// all bytes to scale, the lines that lead from there to the map, offsets, and
// the panels.
constexpr double kMargin = 16;
constexpr double kScaleWidth = 28;
constexpr double kFanWidth = 44;
constexpr double kOffsetWidth = 92;
constexpr double kPanelGap = 20;
constexpr double kLeastPanelsWidth = 680;
constexpr double kColumnWidth = 13;
constexpr double kSideBySideWidth = 1500;
constexpr double kWidestColumn = 150;
constexpr double kListWidth = 330;
constexpr double kListRowHeight = 15;
constexpr double kHeadHeight = 106;
constexpr double kPanelNameHeight = 18;
// A monospaced font of that many pixels takes so much for each character.
constexpr double kFontSize = 11;
constexpr double kCharacterWidth = 0.62 * kFontSize;
constexpr double kColumnCharacterWidth = 5.6;
constexpr size_t kMostColumnCharacters = 30;
constexpr size_t kMostNameCharacters = 40;

struct LifetimeColor {
  Lifetime lifetime;
  const char* light;
  const char* dark;
};
/// Two shades of each, so that neighbours can be told apart. The text on them
/// is black.
constexpr LifetimeColor kColors[] = {
    {Lifetime::kConstant, "#d3c4ec", "#bda8e0"},
    {Lifetime::kHostWritten, "#fbd49b", "#f4bf6f"},
    {Lifetime::kPerStep, "#acd7f2", "#86c1e6"},
    {Lifetime::kPerLayer, "#bfe3b4", "#9fd08f"},
    {Lifetime::kPersistentSlab, "#efe39a", "#e2d06a"},
    {Lifetime::kInitOnce, "#f0bdd7", "#e39cc1"},
    {Lifetime::kState, "#e8b3a8", "#d9917f"},
};

const char* ColorOf(Lifetime lifetime, size_t index) {
  for (const LifetimeColor& color : kColors) {
    if (color.lifetime == lifetime) {
      return index % 2 == 0 ? color.light : color.dark;
    }
  }
  return "#dddddd";
}

class Drawing {
 public:
  explicit Drawing(const MapScene& scene) : scene_(scene) {}
  std::string Draw();

 private:
  struct Panel {
    double left = 0;
    double column_width = 0;
    double width = 0;
  };

  void LayOut();
  void Head();
  void Style();
  void ScaleBar();
  void PanelFrames();
  void Gaps();
  void Segments();
  void Offsets();
  void Buffers();
  void BufferBox(size_t index, double left, double width, double top,
                 double height);
  void List();

  std::string HoverText(size_t index) const;
  std::string SpansText(const MapBuffer& buffer) const;
  double panels_right() const {
    return panels_.back().left + panels_.back().width;
  }
  bool has_list() const { return scene_.axis != TimeAxis::kWholeStep; }
  double Top(const PlannedBuffer& buffer) const {
    return map_top_ + scene_.YOf(buffer.offset_bytes, false);
  }
  double Bottom(const PlannedBuffer& buffer) const {
    return map_top_ + scene_.YOf(buffer.offset_bytes + buffer.bytes, true);
  }
  void Text(double x, double y, absl::string_view attributes,
            absl::string_view text) {
    absl::StrAppendFormat(&svg_, "<text x=\"%.1f\" y=\"%.1f\"%s>%s</text>\n", x,
                          y, attributes, EscapeMarkup(text));
  }
  void Line(double x1, double y1, double x2, double y2,
            absl::string_view color) {
    absl::StrAppendFormat(
        &svg_,
        "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
        "stroke=\"%s\"/>\n",
        x1, y1, x2, y2, color);
  }

  const MapScene& scene_;
  std::vector<Panel> panels_;
  double scale_left_ = 0;
  double panels_left_ = 0;
  double map_top_ = 0;
  double width_ = 0;
  double height_ = 0;
  std::string svg_;
};

void Drawing::LayOut() {
  size_t columns = 0;
  size_t longest = 0;
  for (const MapPanel& panel : scene_.panels) {
    columns += panel.columns.size();
    for (const std::string& column : panel.columns) {
      longest = std::max(longest, CharacterCount(ShortenedText(
                                      column, kMostColumnCharacters)));
    }
  }
  const auto count = static_cast<double>(columns);
  double column_width = kLeastPanelsWidth;
  if (scene_.axis == TimeAxis::kOperations) {
    column_width = std::max(kLeastPanelsWidth / count, kColumnWidth);
  } else if (scene_.axis == TimeAxis::kSideBySide) {
    column_width =
        std::clamp(kSideBySideWidth / count, kColumnWidth, kWidestColumn);
  }
  scale_left_ = kMargin + (has_list() ? kListWidth : 0);
  panels_left_ = scale_left_ + kScaleWidth + kFanWidth + kOffsetWidth;
  double left = panels_left_;
  for (const MapPanel& panel : scene_.panels) {
    const double width =
        column_width * static_cast<double>(panel.columns.size());
    panels_.push_back(
        {.left = left, .column_width = column_width, .width = width});
    left += width + kPanelGap;
  }
  // Whatever the steps, there is room for a heading.
  if (panels_.size() == 1) {
    panels_.back().width = std::max(panels_.back().width, kLeastPanelsWidth);
    panels_.back().column_width =
        panels_.back().width /
        static_cast<double>(scene_.panels.back().columns.size());
  }
  map_top_ = kHeadHeight + kPanelNameHeight +
             static_cast<double>(longest) * kColumnCharacterWidth + 8;
  width_ = panels_right() + kMargin;
  height_ = map_top_ + scene_.height + kMargin;
  if (has_list()) {
    height_ = std::max(
        height_,
        map_top_ + kMargin +
            kListRowHeight * static_cast<double>(scene_.buffers.size() + 1));
  }
}

void Drawing::Style() {
  svg_ +=
      "<style>\n"
      ".map text{font:11px ui-monospace,'DejaVu Sans Mono',monospace;"
      "fill:#000}\n"
      ".map .name{font:bold 16px sans-serif}\n"
      ".map .say{font:12px sans-serif;fill:#444}\n"
      ".map .part{font:bold 11px sans-serif;fill:#222}\n"
      ".map .op{font-size:9px;fill:#444}\n"
      ".map .at{font-size:9px;fill:#666;text-anchor:end}\n"
      ".map .end{text-anchor:end}\n"
      ".map .box{stroke:#fff;stroke-width:1}\n"
      ".map .box:hover{stroke:#000;stroke-width:2}\n"
      ".map .box text,.map text{pointer-events:none}\n"
      ".map .row{fill:#fff}\n"
      ".map .row:hover{fill:#eee}\n"
      ".map .row text{pointer-events:none}\n";
  // One buffer's pieces and its line in the list light up together.
  for (size_t i = 0; has_list() && i < scene_.buffers.size(); ++i) {
    absl::StrAppendFormat(
        &svg_, ".map:has(.b%d:hover) .b%d{stroke:#000;stroke-width:2}\n", i + 1,
        i + 1);
  }
  svg_ += "</style>\n";
}

void Drawing::Head() {
  const ArenaPlan& plan = scene_.plan;
  absl::StrAppendFormat(
      &svg_,
      "<svg class=\"map\" xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
      "height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n",
      width_, height_, width_, height_);
  Style();
  absl::StrAppendFormat(
      &svg_, "<rect width=\"%.0f\" height=\"%.0f\" fill=\"#fff\"/>\n", width_,
      height_);
  const double room = width_ - 2 * kMargin;
  Text(kMargin, 26, " class=\"name\"",
       ShortenedText(scene_.title, static_cast<size_t>(room / 10)));
  Text(kMargin, 45, " class=\"say\"",
       ShortenedText(scene_.made_by, static_cast<size_t>(room / 7)));
  std::string totals = absl::StrFormat(
      "%s in all: %s in %d buffers, %s of guards, %s of rounding",
      ReadableBytes(plan.total_bytes()), ReadableBytes(plan.buffer_bytes()),
      scene_.buffers.size(), ReadableBytes(plan.guard_total_bytes()),
      ReadableBytes(plan.rounding_bytes()));
  if (plan.options().overlay == Overlay::kOn) {
    absl::StrAppend(&totals, "; without overlay the buffers would take ",
                    ReadableBytes(plan.unshared_buffer_bytes()));
  }
  Text(kMargin, 63, " class=\"say\"", totals);
  double x = kMargin;
  const std::set<Lifetime> used = [this] {
    std::set<Lifetime> lifetimes;
    for (const MapBuffer& buffer : scene_.buffers) {
      lifetimes.insert(buffer.buffer.lifetime);
    }
    return lifetimes;
  }();
  for (const Lifetime lifetime : used) {
    absl::StrAppendFormat(
        &svg_,
        "<rect x=\"%.1f\" y=\"75\" width=\"14\" height=\"14\" "
        "fill=\"%s\"/>\n",
        x, ColorOf(lifetime, 1));
    Text(x + 19, 86, " class=\"say\"", LifetimeName(lifetime));
    x += 34 + 6.6 * static_cast<double>(LifetimeName(lifetime).size());
  }
}

void Drawing::PanelFrames() {
  for (size_t i = 0; i < panels_.size(); ++i) {
    const Panel& panel = panels_[i];
    const std::vector<std::string>& columns = scene_.panels[i].columns;
    const auto room = static_cast<size_t>(panel.width / 7);
    Text(panel.left, kHeadHeight + 6, " class=\"part\"",
         ShortenedText(scene_.panels[i].name, std::max<size_t>(room, 8)));
    for (size_t column = 0; column < columns.size(); ++column) {
      const double x =
          panel.left + panel.column_width * static_cast<double>(column);
      if (column % 2 == 1 && scene_.axis == TimeAxis::kOperations) {
        absl::StrAppendFormat(
            &svg_,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
            "fill=\"#f5f5f5\"/>\n",
            x, map_top_, panel.column_width, scene_.height);
      }
      if (columns[column].empty()) continue;
      const double middle = x + panel.column_width / 2 + 3;
      absl::StrAppendFormat(
          &svg_,
          "<text class=\"op\" transform=\"translate(%.1f %.1f) "
          "rotate(-90)\">%s</text>\n",
          middle, map_top_ - 4,
          EscapeMarkup(ShortenedText(columns[column], kMostColumnCharacters)));
    }
  }
}

// The same bytes to scale, and lines from there to where the map draws them.
void Drawing::ScaleBar() {
  const double per_byte =
      scene_.height / static_cast<double>(scene_.plan.total_bytes());
  const auto at = [&](int64_t address) {
    return map_top_ + per_byte * static_cast<double>(address);
  };
  Text(scale_left_, map_top_ - 4, " class=\"op\"", "to scale");
  absl::StrAppendFormat(
      &svg_,
      "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
      "fill=\"#eee\"/>\n",
      scale_left_, map_top_, kScaleWidth, scene_.height);
  double drawn_until = map_top_ - 1;
  for (size_t i = 0; i < scene_.buffers.size(); ++i) {
    const PlannedBuffer& buffer = scene_.buffers[i].buffer;
    const double top = std::max(at(buffer.offset_bytes), drawn_until);
    const double bottom = at(buffer.offset_bytes + buffer.bytes);
    if (bottom - top < 0.2) continue;
    drawn_until = bottom;
    absl::StrAppendFormat(
        &svg_,
        "<rect x=\"%.1f\" y=\"%.2f\" width=\"%.1f\" height=\"%.2f\" "
        "fill=\"%s\"/>\n",
        scale_left_, top, kScaleWidth, bottom - top,
        ColorOf(buffer.lifetime, i));
  }
  double last = -1e9;
  for (const MapBand& band : scene_.bands) {
    const double y = at(band.begin_bytes);
    if (y - last < 8 || !band.has_buffer) continue;
    last = y;
    Line(scale_left_ + kScaleWidth, y, scale_left_ + kScaleWidth + kFanWidth,
         map_top_ + band.top, "#ccc");
  }
}

void Drawing::Gaps() {
  const double width = panels_right() - panels_left_;
  for (const MapBand& band : scene_.bands) {
    if (band.has_buffer) continue;
    absl::StrAppendFormat(
        &svg_,
        "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
        "fill=\"#e4e4e4\"><title>%d bytes of no buffer at 0x%x (rounding, "
        "guards)</title></rect>\n",
        panels_left_, map_top_ + band.top, width, band.height,
        band.end_bytes - band.begin_bytes, band.begin_bytes);
  }
}

void Drawing::Segments() {
  for (const MapSegment& segment : scene_.segments) {
    const double top = map_top_ + segment.heading_top;
    absl::StrAppendFormat(
        &svg_,
        "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
        "fill=\"#fff\"/>\n",
        panels_left_, top, panels_right() - panels_left_,
        kSegmentHeadingHeight);
    Text(panels_left_ + 2, top + 14, " class=\"part\"",
         absl::StrFormat("%s, %s at 0x%x",
                         ShortenedText(SegmentLabel(segment.segment), 60),
                         ReadableBytes(segment.segment.bytes),
                         segment.segment.offset_bytes));
    Line(panels_left_ - 4, top + kSegmentHeadingHeight, panels_right(),
         top + kSegmentHeadingHeight, "#888");
  }
}

// Where a buffer starts, as far as the numbers do not touch each other.
void Drawing::Offsets() {
  double last = -1e9;
  for (const MapBuffer& buffer : scene_.buffers) {
    const double y = Top(buffer.buffer) + 8;
    if (y - last < 10) continue;
    last = y;
    Text(panels_left_ - 6, y, " class=\"at\"",
         absl::StrFormat("0x%x", buffer.buffer.offset_bytes));
  }
}

std::string Drawing::SpansText(const MapBuffer& buffer) const {
  if (buffer.spans.empty()) {
    return absl::StrCat("all the time", buffer.kept_because.empty() ? "" : ": ",
                        buffer.kept_because);
  }
  if (scene_.axis != TimeAxis::kOperations) {
    return absl::StrCat("shares bytes with ", buffer.buffer.shares_with.size(),
                        " others");
  }
  std::string text;
  for (const MapSpan& span : buffer.spans) {
    const MapPanel& panel = scene_.panels[span.panel];
    absl::StrAppend(&text, text.empty() ? "" : "\n", panel.name, ": ",
                    panel.columns[span.first]);
    if (span.last != span.first) {
      absl::StrAppend(&text, " to ", panel.columns[span.last]);
    }
  }
  return text;
}

std::string Drawing::HoverText(size_t index) const {
  const PlannedBuffer& buffer = scene_.buffers[index].buffer;
  return absl::StrFormat(
      "%s\n%d bytes (%s) at 0x%x\n%s; %s\n%s", PrintableLine(buffer.name),
      buffer.bytes, ReadableBytes(buffer.bytes), buffer.offset_bytes,
      LifetimeName(buffer.lifetime), PrintableLine(buffer.meaning),
      SpansText(scene_.buffers[index]));
}

void Drawing::BufferBox(size_t index, double left, double width, double top,
                        double height) {
  const PlannedBuffer& buffer = scene_.buffers[index].buffer;
  absl::StrAppendFormat(
      &svg_,
      "<rect class=\"box b%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
      "height=\"%.1f\" fill=\"%s\"><title>%s</title></rect>\n",
      index + 1, left, top, width, height, ColorOf(buffer.lifetime, index),
      EscapeMarkup(HoverText(index)));
  const std::string number =
      has_list() ? absl::StrCat(index + 1, " ") : std::string();
  const std::string name =
      absl::StrCat(number, ShortenedText(buffer.name, kMostNameCharacters));
  const std::string size = ReadableBytes(buffer.bytes);
  const auto fits = [width](size_t characters) {
    return static_cast<double>(characters) * kCharacterWidth + 8 <= width;
  };
  if (height < kFontSize) return;
  const double baseline = top + height / 2 + 4;
  const size_t characters = CharacterCount(name);
  if (fits(characters + size.size() + 3)) {
    Text(left + 5, baseline, "", name);
    Text(left + width - 5, baseline, " class=\"end\"", size);
  } else if (fits(characters)) {
    Text(left + 4, baseline, "", name);
  } else if (has_list() &&
             static_cast<double>(number.size() - 1) * kCharacterWidth <=
                 width) {
    Text(left + width / 2, baseline, " text-anchor=\"middle\"",
         absl::StrCat(index + 1));
  }
}

void Drawing::Buffers() {
  for (size_t i = 0; i < scene_.buffers.size(); ++i) {
    const MapBuffer& buffer = scene_.buffers[i];
    const double top = Top(buffer.buffer);
    const double height = Bottom(buffer.buffer) - top;
    if (buffer.spans.empty()) {
      BufferBox(i, panels_left_, panels_right() - panels_left_, top, height);
    }
    for (const MapSpan& span : buffer.spans) {
      const Panel& panel = panels_[span.panel];
      BufferBox(
          i, panel.left + panel.column_width * static_cast<double>(span.first),
          panel.column_width * static_cast<double>(span.last - span.first + 1),
          top, height);
    }
  }
}

void Drawing::List() {
  if (!has_list()) return;
  const double left = kMargin;
  Text(left, map_top_ - 4, " class=\"part\"", "buffers in order of address");
  for (size_t i = 0; i < scene_.buffers.size(); ++i) {
    const PlannedBuffer& buffer = scene_.buffers[i].buffer;
    const double top = map_top_ + kListRowHeight * static_cast<double>(i);
    absl::StrAppendFormat(
        &svg_,
        "<rect class=\"row b%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
        "height=\"%.1f\"><title>%s</title></rect>\n"
        "<rect x=\"%.1f\" y=\"%.1f\" width=\"10\" height=\"10\" "
        "fill=\"%s\"/>\n",
        i + 1, left, top, kListWidth - kMargin, kListRowHeight,
        EscapeMarkup(HoverText(i)), left + 30, top + 3,
        ColorOf(buffer.lifetime, i));
    Text(left + 25, top + 12, " class=\"end\"", absl::StrCat(i + 1));
    Text(left + 46, top + 12, "", ShortenedText(buffer.name, 26));
    Text(left + kListWidth - kMargin - 4, top + 12, " class=\"end\"",
         ReadableBytes(buffer.bytes));
  }
}

std::string Drawing::Draw() {
  LayOut();
  Head();
  PanelFrames();
  ScaleBar();
  Gaps();
  Segments();
  Offsets();
  Buffers();
  List();
  svg_ += "</svg>\n";
  return std::move(svg_);
}

}  // namespace

std::string MapSvg(const MapScene& scene) { return Drawing(scene).Draw(); }

}  // namespace permafrost::tool
