// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "plan_file.h"

#include <cstddef>

#include "permafrost/arena/plan_json.h"
#include "permafrost/driver/status.h"
#include "text_file.h"

namespace permafrost::tool {

absl::StatusOr<ArenaPlan> ReadPlanFile(const std::string& path) {
  // More than the reader takes, so that it is the reader that says so.
  constexpr size_t kMostBytes = size_t{17} << 20;
  PERMAFROST_ASSIGN_OR_RETURN(const std::string text,
                              ReadTextFile(path, kMostBytes));
  return PlanFromJson(text, path);
}

}  // namespace permafrost::tool
