// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_ARENA_EXTERNAL_REGION_H_
#define PERMAFROST_ARENA_EXTERNAL_REGION_H_

#include <cstdint>
#include <string>

#include "permafrost/arena/kernel_signature.h"
#include "permafrost/driver/device_ptr.h"

namespace permafrost {

/// Device memory that a captured graph may touch and that is not the arena's:
/// weights, a KV pool, a test's inputs.
///
/// The engine owns it, and promises that it stays where it is for as long as a
/// graph that was audited against it can be replayed.
struct ExternalRegion {
  std::string name;  ///< how findings call it
  DevicePtr base;
  int64_t bytes = 0;
  /// What kernels may do with it.
  Access access = Access::kNone;
  /// Counts how often the engine put other memory behind the same addresses.
  uint64_t epoch = 0;
};

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_EXTERNAL_REGION_H_
