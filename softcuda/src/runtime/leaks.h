// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_RUNTIME_LEAKS_H_
#define SOFTCUDA_RUNTIME_LEAKS_H_

#include "runtime/state.h"

namespace softcuda::runtime {

/// Reports what is still there when the device's primary context ends, one
/// object a report: its memory, streams, events, modules and executable graphs,
/// and, as no context owns them, graphs and reservations. Does nothing while
/// the leakcheck is off. The lock is held.
void ReportLeaks(Runtime& runtime, const Device& device);

}  // namespace softcuda::runtime

#endif  // SOFTCUDA_RUNTIME_LEAKS_H_
