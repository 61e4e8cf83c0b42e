// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_BENCH_OPTIONS_H_
#define PERMAFROST_BENCH_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "permafrost/arena/model_config.h"
#include "plant.h"

namespace permafrost::bench {

/// Rows that one step may have at most. Units: rows.
inline constexpr int64_t kMaxRows = 16384;

/// What a run of replay_latency is asked to do.
struct Options {
  std::string config;
  int64_t layers = 0;
  std::vector<int64_t> buckets;  ///< Strictly ascending.
  int64_t distinct_experts = 0;  ///< 0: every expert has its own matrices.
  std::string json_path;         ///< Empty: no JSON.
  Plant plant = Plant::kNone;
  int64_t samples = 0;  ///< 0: by the kind of driver.
  int64_t replays = 0;  ///< 0: by the kind of driver.
  uint64_t seed = 0;
  int64_t guard_bytes = 0;
};

/// Refuses options that this model cannot be run with.
///
/// Errors: InvalidArgument naming the flag or the model's source.
absl::Status CheckAgainstModel(const Options& options,
                               const ModelConfig& config);

}  // namespace permafrost::bench

#endif  // PERMAFROST_BENCH_OPTIONS_H_
