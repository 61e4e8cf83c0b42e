// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_DRIVER_CHECK_H_
#define PERMAFROST_DRIVER_CHECK_H_

namespace permafrost::internal {

/// Writes "file:line: check failed: condition: message" to stderr and aborts.
[[noreturn]] void CheckFailed(const char* condition, const char* message,
                              const char* file, int line);

}  // namespace permafrost::internal

/// Aborts with `message`, a C string, when `condition` is false.
///
/// For misuse by the calling program that no caller could handle at run time;
/// whatever can come from outside (files, devices, the driver) is an
/// `absl::Status` instead. Active in every build type.
#define PERMAFROST_CHECK(condition, message)                             \
  do {                                                                   \
    if (!(condition)) [[unlikely]] {                                     \
      ::permafrost::internal::CheckFailed(#condition, message, __FILE__, \
                                          __LINE__);                     \
    }                                                                    \
  } while (false)

#endif  // PERMAFROST_DRIVER_CHECK_H_
