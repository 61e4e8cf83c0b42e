// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_BENCH_PLAN_BENCH_H_
#define PERMAFROST_BENCH_PLAN_BENCH_H_

#include <ostream>

#include "absl/types/span.h"
#include "exit_code.h"

namespace permafrost::bench {

/// The program plan_bench, less the process around it.
///
/// @param arguments  without the program's name.
/// @param out  figures, then the verdict as the last line.
/// @param errors  what is wrong with the input, and the verdict where `out`
///   gets JSON.
ExitCode RunPlanBench(absl::Span<const char* const> arguments,
                      std::ostream& out, std::ostream& errors);

}  // namespace permafrost::bench

#endif  // PERMAFROST_BENCH_PLAN_BENCH_H_
