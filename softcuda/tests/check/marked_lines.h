// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_TESTS_CHECK_MARKED_LINES_H_
#define SOFTCUDA_TESTS_CHECK_MARKED_LINES_H_

#include <fstream>
#include <string>

namespace softcuda::testing {

/// "check_kernels.cu:12", the line that ends in `// FAULT name`; empty when
/// there is none.
inline std::string MarkedLine(const std::string& name) {
  std::ifstream source(SOFTCUDA_CHECK_KERNELS);
  const std::string mark = "// FAULT " + name;
  std::string line;
  for (int number = 1; std::getline(source, line); ++number) {
    if (line.size() >= mark.size() &&
        line.compare(line.size() - mark.size(), mark.size(), mark) == 0) {
      return "check_kernels.cu:" + std::to_string(number);
    }
  }
  return "";
}

}  // namespace softcuda::testing

#endif  // SOFTCUDA_TESTS_CHECK_MARKED_LINES_H_
