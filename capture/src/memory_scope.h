// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_CAPTURE_SRC_MEMORY_SCOPE_H_
#define PERMAFROST_CAPTURE_SRC_MEMORY_SCOPE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "permafrost/capture/address_audit.h"
#include "permafrost/driver/device_ptr.h"
#include "permafrost/driver/driver.h"

namespace permafrost {

/// What an address means to an `AuditScope`.
struct Place {
  enum class Kind {
    kBuffer,     ///< Inside a buffer of the arena.
    kExternal,   ///< Inside a declared region.
    kArenaGap,   ///< Inside the arena, between buffers.
    kElsewhere,  ///< Anywhere else.
  };
  Kind kind = Kind::kElsewhere;
  std::string name;          ///< The buffer or region, or the nearest one.
  int64_t bytes_behind = 0;  ///< From the address to the end of `name`.
  Access access = Access::kReadWrite;  ///< What kernels may do there.
  bool is_asleep = false;              ///< Its memory is given back.
  /// "'x'+0x40", "64 bytes past the end of 'x'", "far from 'x'".
  std::string description;
};

/// Looks addresses up among the buffers of an arena and external regions.
class MemoryScope {
 public:
  explicit MemoryScope(const AuditScope& scope);

  Place Locate(DevicePtr address) const;

  /// Whether the address lies in or within 1 MiB of known memory.
  bool IsNear(DevicePtr address) const;

 private:
  struct Range {
    std::string name;
    DevicePtr begin;
    DevicePtr end;
    Access access = Access::kReadWrite;
    bool external = false;
    bool is_asleep = false;
  };

  std::vector<Range> ranges_;
  DevicePtr arena_begin_;
  DevicePtr arena_end_;
};

/// Whether the driver has memory at the address now.
absl::StatusOr<bool> IsMapped(const Driver& driver, DevicePtr address);

/// Whether the driver knows the address as pinned, registered or managed
/// memory that the host can reach.
absl::StatusOr<bool> IsPinnedHost(const Driver& driver, uint64_t address);

}  // namespace permafrost

#endif  // PERMAFROST_CAPTURE_SRC_MEMORY_SCOPE_H_
