// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "check/options.h"

#include <cerrno>
#include <cstdlib>
#include <string>
#include <utility>

#include "check/report.h"

namespace softcuda::check {

uint64_t NumberOption(const char* variable, uint64_t fallback, uint64_t least,
                      uint64_t most) {
  const char* const text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return fallback;
  char* end = nullptr;
  errno = 0;
  const unsigned long long value = std::strtoull(text, &end, 10);
  if (*text >= '0' && *text <= '9' && *end == '\0' && errno == 0 &&
      value >= least && value <= most) {
    return value;
  }
  Report report;
  report.check = "misuse";
  report.what = "environment variable " + std::string(variable) + ": got '" +
                text + "', want a decimal number";
  if (most != UINT64_MAX) {
    report.what +=
        " from " + std::to_string(least) + " to " + std::to_string(most);
  }
  report.what += "; using " + std::to_string(fallback);
  Reporter::Get().Add(std::move(report));
  return fallback;
}

}  // namespace softcuda::check
