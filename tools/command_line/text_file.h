// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_TOOLS_COMMAND_LINE_TEXT_FILE_H_
#define PERMAFROST_TOOLS_COMMAND_LINE_TEXT_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace permafrost {

/// The file's bytes, at most `most_bytes` and one more, so that a reader that
/// has the same limit sees that it is passed.
/// Errors: kInvalidArgument naming the path, for what is no file that can be
///   read.
absl::StatusOr<std::string> ReadTextFile(const std::string& path,
                                         size_t most_bytes);

/// Writes the file as a whole: it is written beside its place and then put
/// there, so that after an error, or a crash, the old file stands as it was and
/// no half of a new one does. What is no regular file (a pipe, a device) is
/// written directly.
/// Errors: kInvalidArgument naming the path.
absl::Status WriteTextFile(const std::string& path, absl::string_view text);

}  // namespace permafrost

#endif  // PERMAFROST_TOOLS_COMMAND_LINE_TEXT_FILE_H_
