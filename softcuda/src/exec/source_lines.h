// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_EXEC_SOURCE_LINES_H_
#define SOFTCUDA_EXEC_SOURCE_LINES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "exec/program.h"

namespace softcuda::exec {

struct SourceLine {
  std::string file;  ///< empty when the image has no line info
  int line = 0;
  /// "file:line" of the calls that it is inlined in, nearest first.
  std::vector<std::string> inlined_at;
};

/// The source line of an instruction: the innermost one that is not inside a
/// header of the CUDA Toolkit, because `__ldg` at its caller says more than
/// the line of `__ldg` itself.
SourceLine FindSourceLine(const Program& program, uint32_t location);
SourceLine FindSourceLine(const std::vector<SourceLocation>& locations,
                          const std::vector<std::string>& files,
                          uint32_t location);

}  // namespace softcuda::exec

#endif  // SOFTCUDA_EXEC_SOURCE_LINES_H_
