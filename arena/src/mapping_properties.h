// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_ARENA_SRC_MAPPING_PROPERTIES_H_
#define PERMAFROST_ARENA_SRC_MAPPING_PROPERTIES_H_

#include <cuda.h>

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "permafrost/arena/arena.h"
#include "permafrost/driver/context.h"

namespace permafrost::internal {

// What memory an arena asks for and who may reach it: worked out once, so that
// waking asks for the same as creating did.
struct MappingProperties {
  CUmemAllocationProp memory = {};
  // The arena's device first, then its peers.
  std::vector<CUmemAccessDesc> access = {};
};

// Asks the device whether it has what the options want, and the peers whether
// they reach it. kUnimplemented naming what is not supported; kInvalidArgument
// for peers that are none.
absl::StatusOr<MappingProperties> MakeMappingProperties(
    const Context& context, const ArenaOptions& options);

// kUnimplemented when the options want what only mapped memory can have.
absl::Status CheckNeedsNoMapping(const ArenaOptions& options);

}  // namespace permafrost::internal

#endif  // PERMAFROST_ARENA_SRC_MAPPING_PROPERTIES_H_
