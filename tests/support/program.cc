// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "permafrost/driver/check.h"

namespace permafrost::testing {
namespace {

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> EnvironmentWith(
    const std::vector<std::string>& replacements) {
  std::vector<std::string> environment = replacements;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('=') + 1);
    bool is_replaced = false;
    for (const std::string& replacement : replacements) {
      is_replaced |= replacement.compare(0, name.size(), name) == 0;
    }
    if (!is_replaced) environment.push_back(text);
  }
  return environment;
}

}  // namespace

std::string ProgramResult::last_line() const {
  std::vector<std::string> lines = absl::StrSplit(out, '\n');
  if (lines.size() > 1 && lines.back().empty()) lines.pop_back();
  return lines.back();
}

bool ProgramResult::has_line(const std::string& line) const {
  for (absl::string_view other : absl::StrSplit(out, '\n')) {
    if (other == line) return true;
  }
  return false;
}

TemporaryFolder::TemporaryFolder() {
  std::string path =
      (std::filesystem::temp_directory_path() / "permafrost-XXXXXX").string();
  PERMAFROST_CHECK(mkdtemp(path.data()) != nullptr,
                   "a folder can be made in the temporary folder");
  path_ = path;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryFolder::Write(const std::string& name,
                                   const std::string& content) const {
  const std::string path = path_ + "/" + name;
  std::ofstream(path) << content;
  return path;
}

ProgramResult RunProgram(std::vector<std::string> command,
                         const std::vector<std::string>& environment) {
  const TemporaryFolder folder;
  const std::string out_path = folder.path() + "/out";
  const std::string err_path = folder.path() + "/err";
  std::vector<std::string> full_environment = EnvironmentWith(environment);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out_path.c_str(),
                                   kFlags, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err_path.c_str(),
                                   kFlags, 0600);
  pid_t child = 0;
  const int spawned =
      posix_spawn(&child, command.front().c_str(), &actions, nullptr,
                  Pointers(command).data(), Pointers(full_environment).data());
  posix_spawn_file_actions_destroy(&actions);
  PERMAFROST_CHECK(spawned == 0, "a program of the build can be started");

  int status = 0;
  PERMAFROST_CHECK(waitpid(child, &status, 0) == child,
                   "a child can be waited for");
  ProgramResult result;
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  result.out = ReadFile(out_path);
  result.err = ReadFile(err_path);
  return result;
}

std::string ReadFile(const std::string& path) {
  std::ostringstream content;
  content << std::ifstream(path).rdbuf();
  return content.str();
}

}  // namespace permafrost::testing
