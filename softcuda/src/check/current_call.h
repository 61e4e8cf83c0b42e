// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_CHECK_CURRENT_CALL_H_
#define SOFTCUDA_CHECK_CURRENT_CALL_H_

namespace softcuda::check {

/// The entry point that this thread called last, for what is told later of what
/// it did; empty on threads that made no call.
inline const char*& CurrentCall() {
  thread_local const char* name = "";
  return name;
}

}  // namespace softcuda::check

#endif  // SOFTCUDA_CHECK_CURRENT_CALL_H_
