// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "permafrost/driver/check.h"

#include <cstdio>
#include <cstdlib>

namespace permafrost::internal {

void CheckFailed(const char* condition, const char* message, const char* file,
                 int line) {
  std::fprintf(stderr, "%s:%d: check failed: %s: %s\n", file, line, condition,
               message);
  std::fflush(stderr);
  std::abort();
}

}  // namespace permafrost::internal
