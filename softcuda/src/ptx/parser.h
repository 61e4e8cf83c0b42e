// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_PTX_PARSER_H_
#define SOFTCUDA_PTX_PARSER_H_

#include <string>
#include <string_view>

#include "ptx/syntax.h"

namespace softcuda::ptx {

/// Parses a PTX text into functions and variables, names resolved by scope.
/// `syntax` points into `text`. Opcodes are not looked at: that is Decode's.
/// Returns false with the function, the line and the cause in `error`.
bool Parse(std::string_view text, Syntax* syntax, std::string* error);

}  // namespace softcuda::ptx

#endif  // SOFTCUDA_PTX_PARSER_H_
