// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "permafrost/arena/line_packing.h"

namespace permafrost {

absl::StatusOr<std::vector<LineBuffer>> ParseLineBuffers(
    absl::string_view csv, absl::string_view source) {
  const auto refuse = [source](size_t line, absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ", line ", line, ": ", what));
  };
  std::map<absl::string_view, size_t> column_of;
  std::vector<LineBuffer> buffers;
  size_t line_number = 0;
  for (absl::string_view line : absl::StrSplit(csv, '\n')) {
    ++line_number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    const std::vector<absl::string_view> cells = absl::StrSplit(line, ',');
    if (line_number == 1) {
      for (size_t i = 0; i < cells.size(); ++i) {
        if (!column_of.emplace(cells[i], i).second) {
          return refuse(
              1, absl::StrCat("got column '", cells[i], "' twice, limit once"));
        }
      }
      for (const char* column : {"id", "lower", "upper", "size"}) {
        if (column_of.count(column) == 0) {
          return refuse(
              1, absl::StrCat("got '", line, "' without a column '", column,
                              "', limit id, lower, upper, size"));
        }
      }
      continue;
    }
    if (line.empty()) continue;
    if (cells.size() != column_of.size()) {
      return refuse(line_number,
                    absl::StrCat("got ", cells.size(), " cells, limit ",
                                 column_of.size()));
    }
    LineBuffer buffer = {.name = std::string(cells[column_of["id"]])};
    const std::pair<const char*, int64_t*> numbers[] = {
        {"lower", &buffer.lower},
        {"upper", &buffer.upper},
        {"size", &buffer.bytes}};
    for (const auto& [column, value] : numbers) {
      const absl::string_view cell = cells[column_of[column]];
      if (!absl::SimpleAtoi(cell, value)) {
        return refuse(line_number, absl::StrCat(column, ": got '", cell,
                                                "', limit a whole number"));
      }
    }
    buffers.push_back(std::move(buffer));
  }
  if (buffers.empty()) {
    return refuse(line_number, "got no buffers, limit at least one");
  }
  return buffers;
}

}  // namespace permafrost
