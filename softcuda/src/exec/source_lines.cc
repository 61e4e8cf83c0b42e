// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/source_lines.h"

#include <string_view>

namespace softcuda::exec {
namespace {

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() &&
         text.substr(text.size() - end.size()) == end;
}

bool IsToolkitHeader(std::string_view path) {
  if (path.find("/targets/x86_64-linux/include/") != std::string_view::npos ||
      path.find("/targets/sbsa-linux/include/") != std::string_view::npos) {
    return true;
  }
  // Toolkits from wheels have another layout; their headers have these names.
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return path.find("/include/") != std::string_view::npos &&
         (name.substr(0, 5) == "cuda_" || EndsWith(name, "_intrinsics.hpp") ||
          EndsWith(name, "_functions.hpp") || EndsWith(name, "_rt.hpp"));
}

}  // namespace

SourceLine FindSourceLine(const std::vector<SourceLocation>& locations,
                          const std::vector<std::string>& files,
                          uint32_t location) {
  SourceLine result;
  if (location == 0 || location >= locations.size()) return result;
  const auto file = [&](uint32_t at) -> std::string {
    const uint32_t number = locations[at].file;
    return number < files.size() ? files[number] : std::string();
  };
  // A chain that is made by hand could be a circle.
  uint32_t innermost = location;
  for (int depth = 0; depth < 64; ++depth) {
    const uint32_t outer = locations[innermost].inlined_at;
    if (outer == 0 || !IsToolkitHeader(file(innermost))) break;
    innermost = outer;
  }
  result.file = file(innermost);
  result.line = static_cast<int>(locations[innermost].line);
  uint32_t outer = locations[innermost].inlined_at;
  for (int depth = 0; depth < 64 && outer != 0; ++depth) {
    result.inlined_at.push_back(file(outer) + ":" +
                                std::to_string(locations[outer].line));
    outer = locations[outer].inlined_at;
  }
  return result;
}

SourceLine FindSourceLine(const Program& program, uint32_t location) {
  return FindSourceLine(program.locations, program.files, location);
}

}  // namespace softcuda::exec
