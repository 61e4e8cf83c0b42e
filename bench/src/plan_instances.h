// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_BENCH_PLAN_INSTANCES_H_
#define PERMAFROST_BENCH_PLAN_INSTANCES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace permafrost::bench {

/// How the exact search did on one instance.
struct InstanceRow {
  std::string name = {};  ///< the file's name without the capacity
  int64_t buffers = 0;
  int64_t capacity_bytes = 0;
  int64_t bound_bytes = 0;
  int64_t height_bytes = 0;  ///< 0 where it found no packing
  std::string verdict = {};  ///< packed, impossible or gave up
  int64_t nodes = 0;
  int64_t wall_ns = 0;
  bool is_solved = false;  ///< packed, checked, and within ten seconds
};

/// Packs every `NAME.CAPACITY.csv` of a folder, in the order of their names.
///
/// Errors: kInvalidArgument for a folder that cannot be read or has no such
///   file, and for a file that is no instance.
absl::StatusOr<std::vector<InstanceRow>> SolveInstances(
    const std::string& folder, int64_t max_nodes);

/// What is wrong with the rows: more than one in eleven unsolved, or a packing
/// that its own check refutes. Empty: nothing.
std::vector<std::string> FaultsOf(absl::Span<const InstanceRow> rows);

}  // namespace permafrost::bench

#endif  // PERMAFROST_BENCH_PLAN_INSTANCES_H_
