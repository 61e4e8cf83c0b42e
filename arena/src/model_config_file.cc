// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "permafrost/arena/model_config.h"
#include "permafrost/driver/status.h"

// The bytes of models/*.json, and one row for each of them.
#define PERMAFROST_MODEL_PRESET(name, symbol) \
  extern "C" const char symbol[];             \
  extern "C" const char symbol##_end[];
#include "model_presets.inc"
#undef PERMAFROST_MODEL_PRESET

namespace permafrost {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{4} << 20;

struct Preset {
  const char* name;
  const char* begin;
  const char* end;
};

constexpr Preset kPresets[] = {
#define PERMAFROST_MODEL_PRESET(name, symbol) {name, symbol, symbol##_end},
#include "model_presets.inc"
#undef PERMAFROST_MODEL_PRESET
};

absl::Status Refuse(absl::string_view path, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("model config '", path, "': ", what));
}

absl::StatusOr<std::string> ReadFile(absl::string_view path) {
  const std::string name(path);
  std::error_code error;
  const std::filesystem::file_status status =
      std::filesystem::status(name, error);
  if (!std::filesystem::exists(status)) {
    return Refuse(
        path,
        absl::StrCat("got no preset of that name and no such file",
                     error && error != std::errc::no_such_file_or_directory
                         ? absl::StrCat(" (", error.message(), ")")
                         : "",
                     "; accepted: a path to a config.json, or one of ",
                     absl::StrJoin(ModelPresets(), ", ")));
  }
  if (std::filesystem::is_directory(status)) {
    return Refuse(path,
                  "got a folder; accepted: a file, such as the config.json "
                  "inside it");
  }
  std::ifstream file(name, std::ios::binary);
  if (!file) {
    return Refuse(path, absl::StrCat("cannot be opened: ", std::strerror(errno),
                                     "; accepted: a file that can be read"));
  }
  // Read rather than ask for the size: a pipe has none, and a device lies.
  std::string text(static_cast<size_t>(kMaxFileBytes) + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return Refuse(path, "reading it failed");
  text.resize(static_cast<size_t>(file.gcount()));
  if (static_cast<int64_t>(text.size()) > kMaxFileBytes) {
    return Refuse(path, absl::StrCat("size: got more than ", kMaxFileBytes,
                                     " bytes, limit ", kMaxFileBytes,
                                     "; is this a config.json?"));
  }
  return text;
}

}  // namespace

std::vector<std::string> ModelPresets() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<ModelConfig> LoadModelConfig(absl::string_view preset_or_path) {
  const bool is_path = absl::StrContains(preset_or_path, '/') ||
                       absl::EndsWith(preset_or_path, ".json");
  for (const Preset& preset : kPresets) {
    if (!is_path && preset_or_path == preset.name) {
      const absl::string_view text(
          preset.begin, static_cast<size_t>(preset.end - preset.begin));
      return ParseModelConfig(text, preset.name);
    }
  }
  PERMAFROST_ASSIGN_OR_RETURN(const std::string text, ReadFile(preset_or_path));
  return ParseModelConfig(text, preset_or_path);
}

}  // namespace permafrost
