// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_BENCH_EXIT_CODE_H_
#define PERMAFROST_BENCH_EXIT_CODE_H_

namespace permafrost::bench {

/// What a program's exit status says. A shell script may rely on the numbers.
enum class ExitCode : int {
  kAllProven = 0,       ///< Every check ran and none found anything.
  kSomethingFound = 1,  ///< A check found something, or could not finish.
  kBadInput = 2,        ///< A flag, a file or a model that cannot be run.
  kNoDevice = 3,        ///< No driver, no device, or one too small.
};

}  // namespace permafrost::bench

#endif  // PERMAFROST_BENCH_EXIT_CODE_H_
