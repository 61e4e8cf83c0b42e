// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_CHECK_OPTIONS_H_
#define SOFTCUDA_CHECK_OPTIONS_H_

#include <cstdint>

namespace softcuda::check {

/// The decimal number in an environment variable, or `fallback` when it is not
/// set. What is not a number between `least` and `most` is reported as misuse,
/// so that it does not pass for the fallback, which is then used.
uint64_t NumberOption(const char* variable, uint64_t fallback, uint64_t least,
                      uint64_t most);

}  // namespace softcuda::check

#endif  // SOFTCUDA_CHECK_OPTIONS_H_
