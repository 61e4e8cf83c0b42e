// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_RUNTIME_CONTEXT_RESET_H_
#define SOFTCUDA_RUNTIME_CONTEXT_RESET_H_

#include "runtime/state.h"

namespace softcuda::runtime {

/// Waits for the device's work and destroys what belongs to its context. Graphs
/// and libraries, which belong to no context, stay.
void ResetContext(Runtime& runtime, Lock& lock, Device& device);

}  // namespace softcuda::runtime

#endif  // SOFTCUDA_RUNTIME_CONTEXT_RESET_H_
