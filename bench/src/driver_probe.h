// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_BENCH_DRIVER_PROBE_H_
#define PERMAFROST_BENCH_DRIVER_PROBE_H_

#include <cstdint>

#include "permafrost/driver/driver.h"

namespace permafrost::bench {

/// The same driver with the calls that allocate device memory counted. No other
/// entry point is touched, so what is timed costs what it costs without.
///
/// One probe may be in use in a process, because entry points carry no data.
DriverRef CountDeviceAllocations(DriverRef base);

/// Calls that asked for device memory since the process began, failed ones
/// included. Threads: any.
int64_t DeviceAllocationCalls();

}  // namespace permafrost::bench

#endif  // PERMAFROST_BENCH_DRIVER_PROBE_H_
