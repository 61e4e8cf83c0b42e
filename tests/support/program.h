// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_TESTS_SUPPORT_PROGRAM_H_
#define PERMAFROST_TESTS_SUPPORT_PROGRAM_H_

#include <string>
#include <vector>

namespace permafrost::testing {

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

/// Runs a program and waits for it.
///
/// @param command  the program's path and its arguments.
/// @param environment  "NAME=value" entries that replace or add to our own.
ProgramResult RunProgram(std::vector<std::string> command,
                         const std::vector<std::string>& environment);

/// A file's content; empty when it cannot be read.
std::string ReadFile(const std::string& path);

}  // namespace permafrost::testing

#endif  // PERMAFROST_TESTS_SUPPORT_PROGRAM_H_
