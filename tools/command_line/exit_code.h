// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_TOOLS_COMMAND_LINE_EXIT_CODE_H_
#define PERMAFROST_TOOLS_COMMAND_LINE_EXIT_CODE_H_

#include <string>

#include "absl/status/status.h"
#include "permafrost/driver/driver.h"

namespace permafrost {

/// What a program's exit status says. A shell script may rely on the numbers.
enum class ExitCode : int {
  kAllProven = 0,       ///< Every check ran and none found anything.
  kSomethingFound = 1,  ///< A check found something, or could not finish.
  kBadInput = 2,        ///< A flag, a file or a model that cannot be run.
  kNoDevice = 3,        ///< No driver, no device, or one too small.
};

/// What it means to the caller of a program that `Driver::Load` failed: bad
/// input where the path was theirs and holds no driver, no device otherwise.
ExitCode CodeOfDriverError(const DriverChoice& choice,
                           const absl::Status& status);

/// The last line of a program: "result: PASS", or "result: FAIL (reason)" with
/// the first line of the reason. Ends in a newline.
std::string VerdictLine(ExitCode code, const std::string& reason);

}  // namespace permafrost

#endif  // PERMAFROST_TOOLS_COMMAND_LINE_EXIT_CODE_H_
