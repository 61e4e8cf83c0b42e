// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "foreign_text.h"
#include "map_scene.h"

namespace permafrost::tool {
namespace {

// The policy is the second lock: names are escaped, and if one were not, the
// browser would still run nothing and fetch nothing.
constexpr char kHead[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
    "'none'; style-src 'unsafe-inline'\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n";
constexpr char kStyle[] =
    "<style>\n"
    "body{font:14px sans-serif;margin:0;color:#000;background:#fff}\n"
    ".picture{overflow-x:auto}\n"
    "section{padding:0 16px 16px}\n"
    "table{border-collapse:collapse}\n"
    "th,td{padding:2px 10px;text-align:left;vertical-align:top;"
    "border-bottom:1px solid #ddd}\n"
    "td.n{text-align:right;font-family:ui-monospace,monospace;"
    "white-space:nowrap}\n"
    "td.c{font-family:ui-monospace,monospace;overflow-wrap:anywhere}\n"
    "tr:hover{background:#f2f2f2}\n"
    "</style>\n</head>\n<body>\n";

std::string Row(const MapBuffer& buffer, size_t number) {
  const PlannedBuffer& planned = buffer.buffer;
  return absl::StrFormat(
      "<tr><td class=\"n\">%d</td><td class=\"c\">%s</td><td "
      "class=\"n\">%d</td><td class=\"n\">0x%x</td><td>%s</td><td>%s%s</td>"
      "</tr>\n",
      number, EscapeMarkup(planned.name), planned.bytes, planned.offset_bytes,
      EscapeMarkup(LifetimeName(planned.lifetime)),
      EscapeMarkup(planned.meaning),
      buffer.kept_because.empty()
          ? ""
          : EscapeMarkup(
                absl::StrCat(". Keeps its bytes: ", buffer.kept_because)));
}

}  // namespace

std::string MapHtml(const MapScene& scene) {
  std::string html = absl::StrCat(
      kHead, "<title>", EscapeMarkup(PrintableLine(scene.title)), "</title>\n",
      kStyle, "<div class=\"picture\">\n", MapSvg(scene),
      "</div>\n<section>\n<h2>Buffers in order of address</h2>\n<table>\n<tr>"
      "<th>#</th><th>buffer</th><th>bytes</th><th>offset</th><th>lifetime</th>"
      "<th>meaning</th></tr>\n");
  for (size_t i = 0; i < scene.buffers.size(); ++i) {
    html += Row(scene.buffers[i], i + 1);
  }
  html += "</table>\n";
  std::string absent;
  for (const PlannedBuffer& buffer : scene.plan.buffers()) {
    if (buffer.is_present()) continue;
    absl::StrAppend(&absent, "<tr><td class=\"c\">", EscapeMarkup(buffer.name),
                    "</td><td>", EscapeMarkup(buffer.gate_reason),
                    "</td></tr>\n");
  }
  if (!absent.empty()) {
    absl::StrAppend(&html,
                    "<h2>Absent buffers</h2>\n<table>\n<tr><th>buffer</th>"
                    "<th>why</th></tr>\n",
                    absent, "</table>\n");
  }
  html += "</section>\n</body>\n</html>\n";
  return html;
}

}  // namespace permafrost::tool
