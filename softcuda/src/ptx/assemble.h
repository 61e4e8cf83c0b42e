// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_PTX_ASSEMBLE_H_
#define SOFTCUDA_PTX_ASSEMBLE_H_

#include <memory>
#include <string>

#include "exec/program.h"
#include "ptx/draft.h"

namespace softcuda::ptx {

/// Lays a draft out as a program: control flow, slots, joins where diverged
/// paths meet, and pointers between instructions. Null, with `error`, when the
/// kernel is too large or its control flow makes no sense.
std::unique_ptr<exec::Program> Assemble(Draft draft, std::string* error);

}  // namespace softcuda::ptx

#endif  // SOFTCUDA_PTX_ASSEMBLE_H_
