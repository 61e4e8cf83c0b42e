// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// The texts of the built-in presets, and how tests change a config.

#ifndef PERMAFROST_TESTS_ARENA_MODEL_PRESETS_H_
#define PERMAFROST_TESTS_ARENA_MODEL_PRESETS_H_

#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "arena/embedded_json.h"
#include "permafrost/arena/model_config.h"

#define PERMAFROST_MODEL_PRESET(name, symbol) PERMAFROST_EMBEDDED(symbol)
#include "test_model_presets.inc"
#undef PERMAFROST_MODEL_PRESET

namespace permafrost::testing {

/// Every preset as the build embedded it, by name.
inline std::map<std::string, nlohmann::json> PresetTexts() {
  return {
#define PERMAFROST_MODEL_PRESET(name, symbol) \
  {name, PERMAFROST_EMBEDDED_JSON(symbol)},
#include "test_model_presets.inc"
#undef PERMAFROST_MODEL_PRESET
  };
}

/// The part of a config that holds the figures: itself, or its `text_config`.
inline nlohmann::json& FiguresOf(nlohmann::json& config) {
  return config.contains("text_config") ? config["text_config"] : config;
}

/// The figures of a preset, without what may be around them.
inline nlohmann::json PresetFigures(const std::string& name) {
  nlohmann::json preset = PresetTexts().at(name);
  return FiguresOf(preset);
}

inline nlohmann::json With(nlohmann::json config, const std::string& key,
                           nlohmann::json value) {
  FiguresOf(config)[key] = std::move(value);
  return config;
}

inline nlohmann::json Without(nlohmann::json config, const std::string& key) {
  FiguresOf(config).erase(key);
  return config;
}

inline absl::StatusOr<ModelConfig> Parse(const nlohmann::json& config) {
  return ParseModelConfig(config.dump(), "test.json");
}

}  // namespace permafrost::testing

#endif  // PERMAFROST_TESTS_ARENA_MODEL_PRESETS_H_
