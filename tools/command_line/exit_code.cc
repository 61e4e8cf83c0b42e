// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "exit_code.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace permafrost {

ExitCode CodeOfDriverError(const DriverChoice& choice,
                           const absl::Status& status) {
  const bool is_no_driver =
      choice.select == DriverChoice::Select::kPath &&
      (absl::IsInvalidArgument(status) || absl::IsUnimplemented(status) ||
       access(choice.path.c_str(), F_OK) != 0);
  return is_no_driver ? ExitCode::kBadInput : ExitCode::kNoDevice;
}

std::string VerdictLine(ExitCode code, const std::string& reason) {
  if (code == ExitCode::kAllProven) return "result: PASS\n";
  return absl::StrCat("result: FAIL (", reason.substr(0, reason.find('\n')),
                      ")\n");
}

}  // namespace permafrost
