// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_TESTS_BENCH_PROGRAM_H_
#define PERMAFROST_TESTS_BENCH_PROGRAM_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace permafrost::bench {

/// How a program ended and what it said.
struct ProgramResult {
  int exit_code = -1;  ///< -1 when it did not exit by itself.
  std::string out;
  std::string err;

  /// The last line of `out`, without its newline.
  std::string last_line() const;
  bool has_line(const std::string& line) const;
};

/// A folder that is removed with all it holds.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

  /// Writes a file into the folder and returns its path.
  std::string Write(const std::string& name, const std::string& content) const;

 private:
  std::string path_;
};

/// Runs replay_latency and waits for it.
///
/// @param environment  "NAME=value" entries that replace or add to our own.
ProgramResult RunReplayLatency(const std::vector<std::string>& arguments,
                               const std::vector<std::string>& environment = {
                                   "PERMAFROST_DRIVER=soft"});

/// A file's content; empty when it cannot be read.
std::string ReadFile(const std::string& path);

/// A config.json of the smallest model that has all the parts: 8 experts, 2 of
/// them for each row. `replace` takes the place of keys; null removes one.
std::string TinyConfig(const nlohmann::json& replace = {});

}  // namespace permafrost::bench

#endif  // PERMAFROST_TESTS_BENCH_PROGRAM_H_
