// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_TESTS_BENCH_PROGRAM_H_
#define PERMAFROST_TESTS_BENCH_PROGRAM_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/program.h"

namespace permafrost::bench {

using testing::ProgramResult;
using testing::ReadFile;
using testing::TemporaryFolder;

/// Runs replay_latency and waits for it.
///
/// @param environment  "NAME=value" entries that replace or add to our own.
ProgramResult RunReplayLatency(const std::vector<std::string>& arguments,
                               const std::vector<std::string>& environment = {
                                   "PERMAFROST_DRIVER=soft"});

/// A config.json of the smallest model that has all the parts: 8 experts, 2 of
/// them for each row. `replace` takes the place of keys; null removes one.
std::string TinyConfig(const nlohmann::json& replace = {});

}  // namespace permafrost::bench

#endif  // PERMAFROST_TESTS_BENCH_PROGRAM_H_
