// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_EXEC_ALIGN_H_
#define SOFTCUDA_EXEC_ALIGN_H_

#include <cstdint>

namespace softcuda {

/// The next multiple of `alignment`, which is not 0.
constexpr uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace softcuda

#endif  // SOFTCUDA_EXEC_ALIGN_H_
