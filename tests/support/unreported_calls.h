// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_TESTS_SUPPORT_UNREPORTED_CALLS_H_
#define PERMAFROST_TESTS_SUPPORT_UNREPORTED_CALLS_H_

#include <cstdint>
#include <string>

namespace permafrost::testing {

/// Whether call `n` of a flow, from 1, may fail while the flow returns OK.
///
/// After the last statement of the flow destructors run, and what they call has
/// nobody to report to. Before it, only what ends a scope may: a context that
/// is put back, and pinned memory whose owner frees it at the second try. Every
/// other failure, a drain's above all, has to come back to the caller.
///
/// @param statement_calls  calls of the flow up to its last statement.
inline bool MayGoUnreported(int64_t n, const std::string& call,
                            int64_t statement_calls) {
  return n > statement_calls || call == "cuCtxPopCurrent" ||
         call == "cuMemFreeHost";
}

}  // namespace permafrost::testing

#endif  // PERMAFROST_TESTS_SUPPORT_UNREPORTED_CALLS_H_
