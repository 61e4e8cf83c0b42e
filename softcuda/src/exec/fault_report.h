// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_EXEC_FAULT_REPORT_H_
#define SOFTCUDA_EXEC_FAULT_REPORT_H_

#include <cstdint>

#include "exec/race_shadow.h"
#include "exec/warp.h"

// Reports of the checkers that do not end a launch.
namespace softcuda::exec {

/// Reports a read of undefined bytes of shared memory, once an instruction.
void ReportUndefinedShared(Warp& warp, const Inst& inst, uint32_t lane,
                           uint64_t address, uint64_t bytes);

/// Reports an access that nothing orders behind `previous`.
void ReportRace(Warp& warp, const Inst& inst, const Stamp& stamp,
                bool is_shared, uint64_t address, uint64_t bytes,
                const Stamp& previous);

}  // namespace softcuda::exec

#endif  // SOFTCUDA_EXEC_FAULT_REPORT_H_
