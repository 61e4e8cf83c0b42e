// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_SRC_MOE_SHAPE_H_
#define PERMAFROST_ARENA_SRC_MOE_SHAPE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "permafrost/arena/model_config.h"

namespace permafrost {

/// Checks that a config describes MoE layers whose buffers can be laid out for
/// `rows` rows; `what` begins the error. A config need not come from the
/// reader, and a width of 0 would lay out a slab that is too small without any
/// fault.
absl::Status CheckMoeShape(absl::string_view what, const ModelConfig& config,
                           int64_t rows);

/// The error of a layout whose bytes do not fit 63 bits.
absl::Status MoeShapeTooLarge(absl::string_view what, const ModelConfig& config,
                              int64_t rows);

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_SRC_MOE_SHAPE_H_
