// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_TESTS_CAPTURE_COUNTING_NEW_H_
#define PERMAFROST_TESTS_CAPTURE_COUNTING_NEW_H_

#include <cstdint>

namespace permafrost::testing {

/// Calls of the global operator new by the calling thread: a driver's own
/// threads may do as they like.
int64_t ThreadAllocations();

}  // namespace permafrost::testing

#endif  // PERMAFROST_TESTS_CAPTURE_COUNTING_NEW_H_
