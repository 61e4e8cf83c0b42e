// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "permafrost/driver/driver.h"

namespace permafrost {

const char* DriverKindName(DriverKind kind) {
  return kind == DriverKind::kCuda ? "cuda" : "softcuda";
}

absl::StatusOr<DriverChoice> DriverChoice::Parse(absl::string_view text) {
  if (text.empty() || text == "auto") return DriverChoice{Select::kAuto, ""};
  if (text == "cuda") return DriverChoice{Select::kCuda, ""};
  if (text == "soft") return DriverChoice{Select::kSoft, ""};
  // A bare word is more likely a misspelt choice than a file in this folder.
  if (absl::StrContains(text, '/') || absl::StrContains(text, ".so")) {
    return DriverChoice{Select::kPath, std::string(text)};
  }
  return absl::InvalidArgumentError(
      absl::StrCat("driver choice: got '", text,
                   "'; accepted are auto, cuda, soft, or the path of a shared "
                   "library, written with a '/'"));
}

absl::StatusOr<DriverChoice> DriverChoice::FromEnvironment() {
  const char* text = std::getenv("PERMAFROST_DRIVER");
  absl::StatusOr<DriverChoice> choice = Parse(text == nullptr ? "" : text);
  if (!choice.ok()) {
    return absl::Status(
        choice.status().code(),
        absl::StrCat("PERMAFROST_DRIVER: ", choice.status().message()));
  }
  return choice;
}

}  // namespace permafrost
