// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_SRC_REGION_ALIGNMENT_H_
#define PERMAFROST_ARENA_SRC_REGION_ALIGNMENT_H_

#include <cstdint>

namespace permafrost {

/// Where the regions inside a slab of the arena begin: what cudaMalloc would
/// have given each of them.
inline constexpr int64_t kRegionAlignmentBytes = 256;

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_SRC_REGION_ALIGNMENT_H_
