// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_SRC_MODEL_CONFIG_LAYERS_H_
#define PERMAFROST_ARENA_SRC_MODEL_CONFIG_LAYERS_H_

#include "absl/status/status.h"
#include "model_config_family.h"
#include "model_config_reader.h"
#include "permafrost/arena/model_config.h"

namespace permafrost {

/// Reads `num_layers` and `layers`, under every spelling of a layer list.
/// Errors: kInvalidArgument for no count, a word that the family has no layer
///   for, and a list that disagrees with the count or with another list.
absl::Status ReadLayers(const ConfigReader& reader, const Family& family,
                        ModelConfig& config);

/// Reads `num_moe_layers` of a config whose layers and experts are read.
/// Errors: kInvalidArgument for a rule that names layers which are not there or
///   that leaves a model with experts without a layer for them.
absl::Status ReadMoePlacement(const ConfigReader& reader, const Family& family,
                              ModelConfig& config);

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_SRC_MODEL_CONFIG_LAYERS_H_
