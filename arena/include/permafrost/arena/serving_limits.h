// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_SERVING_LIMITS_H_
#define PERMAFROST_ARENA_SERVING_LIMITS_H_

#include <cstdint>

namespace permafrost {

/// What an engine promises never to exceed; together with the model it decides
/// the size of every buffer.
struct ServingLimits {
  /// Token rows of the largest step. Units: rows; at least 1.
  int64_t max_batch_tokens = 0;
};

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_SERVING_LIMITS_H_
