// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_BENCH_RUN_H_
#define PERMAFROST_BENCH_RUN_H_

#include <cstdio>

#include "options.h"
#include "report.h"

namespace permafrost::bench {

/// Plans, maps, warms up, freezes, captures, verifies, times, checks again and
/// releases; prints each part to `out` as soon as it is known.
///
/// Never fails: whatever goes wrong is in the report, with the exit code that
/// it means. The verdict is not printed, so that a caller can add to it.
RunReport RunReplayLatency(const Options& options, std::FILE* out);

}  // namespace permafrost::bench

#endif  // PERMAFROST_BENCH_RUN_H_
