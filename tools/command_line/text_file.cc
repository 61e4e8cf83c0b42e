// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "text_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <ios>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace permafrost {
namespace {

absl::Status CannotWrite(const std::string& path) {
  return absl::InvalidArgumentError(absl::StrCat(
      "got '", path, "', which cannot be written (", std::strerror(errno),
      "); accepted: a file in an existing folder"));
}

absl::Status Write(const std::string& path, absl::string_view text) {
  std::ofstream file(path, std::ios::binary);
  if (!file) return CannotWrite(path);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  return file ? absl::OkStatus() : CannotWrite(path);
}

}  // namespace

absl::StatusOr<std::string> ReadTextFile(const std::string& path,
                                         size_t most_bytes) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "': got a folder; accepted: a file"));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' cannot be opened: ", std::strerror(errno),
                     "; accepted: a file that can be read"));
  }
  // Read rather than ask for the size: a pipe has none, and a device lies.
  std::string text(most_bytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "': reading it failed"));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

absl::Status WriteTextFile(const std::string& path, absl::string_view text) {
  std::error_code ignored;
  std::filesystem::path target = path;
  const std::filesystem::file_status status =
      std::filesystem::status(target, ignored);
  if (std::filesystem::exists(status)) {
    if (!std::filesystem::is_regular_file(status)) return Write(path, text);
    if (access(path.c_str(), W_OK) != 0) return CannotWrite(path);
    // Through a link to what it names: the link stays a link.
    target = std::filesystem::canonical(target, ignored);
  }
  const std::string beside =
      absl::StrCat(target.string(), ".", getpid(), ".partial");
  absl::Status written = Write(beside, text);
  if (written.ok() && std::rename(beside.c_str(), target.c_str()) != 0) {
    written = CannotWrite(path);
  }
  if (!written.ok()) std::filesystem::remove(beside, ignored);
  return written;
}

}  // namespace permafrost
