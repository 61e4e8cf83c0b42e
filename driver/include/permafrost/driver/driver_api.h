// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_DRIVER_DRIVER_API_H_
#define PERMAFROST_DRIVER_DRIVER_API_H_

#include <cuda.h>
#include <cudaTypedefs.h>

namespace permafrost {

/// The driver as a table: one typed function pointer for every entry point in
/// entry_points.inc, under its name without the leading "cu".
///
/// A table is plain data. `Driver` hands out a complete one, in which no
/// pointer is null; `FaultingDriver` and `Driver::WithApi` put another in its
/// place, which is how a test stands between the library and the driver.
///
/// Example: `CUresult result = driver->api().MemRelease(handle);`
///
/// Threads: as the driver's own functions; the table itself never changes.
struct DriverApi {
#define PERMAFROST_ENTRY_POINT(name, version) \
  PFN_cu##name##_v##version name = nullptr;
#include "permafrost/driver/entry_points.inc"
#undef PERMAFROST_ENTRY_POINT
};

/// Indices of the entry points, in the order of entry_points.inc.
enum class EntryPoint : int {
#define PERMAFROST_ENTRY_POINT(name, version) k##name,
#include "permafrost/driver/entry_points.inc"
#undef PERMAFROST_ENTRY_POINT
  kCount,
};

/// Number of entry points in a `DriverApi`.
inline constexpr int kEntryPointCount = static_cast<int>(EntryPoint::kCount);

/// The name of an entry point with its "cu", as cuda.h spells it: "cuMemMap".
const char* EntryPointName(EntryPoint entry);

}  // namespace permafrost

#endif  // PERMAFROST_DRIVER_DRIVER_API_H_
