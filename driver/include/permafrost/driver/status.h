// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_DRIVER_STATUS_H_
#define PERMAFROST_DRIVER_STATUS_H_

#include <cuda.h>

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace permafrost {

/// Turns the result of a driver call into a status.
///
/// @param call  the entry point, as "cuMemMap".
/// @param what  what was being done, for the text: "segment 'step', 4 MiB".
/// @return OK for CUDA_SUCCESS. Otherwise the text is
///   "<what>: <call> returned <name> (<number>)", and a payload carries call
///   and result, so that a caller need not parse text: see `CuResultOf`.
/// Errors: kResourceExhausted for out of memory; kInvalidArgument for bad
///   values and handles; kNotFound; kUnimplemented for what the device or the
///   driver lacks; kUnavailable where there is no usable driver or device;
///   kFailedPrecondition for a wrong state, the capture errors above all;
///   kInternal for the rest, which includes every fault of a kernel.
absl::Status CuStatus(CUresult result, absl::string_view call,
                      absl::string_view what = "");

/// The driver's result behind a status, or nullopt when no driver call failed.
std::optional<CUresult> CuResultOf(const absl::Status& status);

/// The driver call behind a status, as "cuMemMap"; empty when there is none.
std::string CuCallOf(const absl::Status& status);

/// The name of a result as cuda.h spells it, "CUDA_ERROR_OUT_OF_MEMORY", or
/// "CUDA_ERROR_UNRECOGNIZED" for a number this toolkit does not know. Needs no
/// driver.
const char* CuResultName(CUresult result);

/// The same status with `prefix` and ": " in front of its text; payloads stay.
absl::Status Annotate(const absl::Status& status, absl::string_view prefix);

namespace internal {
inline absl::Status StatusOf(absl::Status status) { return status; }
template <typename T>
absl::Status StatusOf(const absl::StatusOr<T>& status_or) {
  return status_or.status();
}
}  // namespace internal

}  // namespace permafrost

/// Returns from the enclosing function when the expression is not OK: a Status,
/// or a StatusOr whose value is not wanted.
#define PERMAFROST_RETURN_IF_ERROR(...)                    \
  do {                                                     \
    if (absl::Status permafrost_status =                   \
            ::permafrost::internal::StatusOf(__VA_ARGS__); \
        !permafrost_status.ok()) [[unlikely]] {            \
      return permafrost_status;                            \
    }                                                      \
  } while (false)

/// Evaluates an expression of type StatusOr<T>; returns its status when it is
/// not OK, else moves the value into `declaration`, which may declare a
/// variable: `PERMAFROST_ASSIGN_OR_RETURN(Stream stream, Stream::Create(c));`
#define PERMAFROST_ASSIGN_OR_RETURN(declaration, ...)                         \
  PERMAFROST_ASSIGN_OR_RETURN_IMPL(                                           \
      PERMAFROST_STATUS_CONCAT(permafrost_status_or_, __LINE__), declaration, \
      __VA_ARGS__)

#define PERMAFROST_ASSIGN_OR_RETURN_IMPL(temporary, declaration, ...) \
  auto temporary = (__VA_ARGS__);                                     \
  if (!temporary.ok()) [[unlikely]] {                                 \
    return std::move(temporary).status();                             \
  }                                                                   \
  declaration = std::move(temporary).value()

#define PERMAFROST_STATUS_CONCAT(a, b) PERMAFROST_STATUS_CONCAT_IMPL(a, b)
#define PERMAFROST_STATUS_CONCAT_IMPL(a, b) a##b

#endif  // PERMAFROST_DRIVER_STATUS_H_
