// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_PTX_SLOTS_H_
#define SOFTCUDA_PTX_SLOTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ptx/control_flow.h"
#include "ptx/draft.h"

namespace softcuda::ptx {

struct Slots {
  std::vector<uint32_t> of;  ///< byte offset by value; unused values have 0
  uint32_t bytes = 0;        ///< of one warp's register file
  uint32_t words_per_thread = 0;  ///< 32-bit registers a thread
};

/// Gives each value a place in the register file of a warp. Registers whose
/// lives do not overlap share places: lanes of diverged paths do not disturb
/// each other, since each writes its own lanes only. Slot 0 stays free: it is
/// the all-ones guard.
///
/// False, with `error`, when the kernel is too large.
bool AssignSlots(const Draft& draft, const ControlFlow& flow, Slots* slots,
                 std::string* error);

}  // namespace softcuda::ptx

#endif  // SOFTCUDA_PTX_SLOTS_H_
