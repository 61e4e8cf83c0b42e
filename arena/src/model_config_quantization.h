// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_SRC_MODEL_CONFIG_QUANTIZATION_H_
#define PERMAFROST_ARENA_SRC_MODEL_CONFIG_QUANTIZATION_H_

#include "absl/status/statusor.h"
#include "model_config_reader.h"
#include "permafrost/arena/model_config.h"

namespace permafrost {

/// How the weights are stored, from `quantization_config` in the nested text or
/// beside it.
/// Errors: kInvalidArgument for a method that is not known, the form of MLX
///   copies, a malformed block size or number format, and two that disagree.
absl::StatusOr<Quantization> ReadQuantization(const ConfigReader& reader);

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_SRC_MODEL_CONFIG_QUANTIZATION_H_
