// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_DRIVER_GUARDED_CALL_H_
#define PERMAFROST_DRIVER_GUARDED_CALL_H_

#include <exception>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace permafrost {

/// Calls code of the embedding program. An exception becomes an Internal Status
/// that names `what`: it must not skip the end of a capture, or an undo.
template <typename Function>
absl::Status GuardedCall(absl::string_view what, Function&& function) {
  try {
    return function();
  } catch (const std::exception& error) {
    return absl::InternalError(
        absl::StrCat(what, " threw an exception: ", error.what()));
  } catch (...) {
    return absl::InternalError(
        absl::StrCat(what, " threw an exception that is no std::exception"));
  }
}

}  // namespace permafrost

#endif  // PERMAFROST_DRIVER_GUARDED_CALL_H_
