// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_TESTS_CHECK_MARKED_LINES_H_
#define SOFTCUDA_TESTS_CHECK_MARKED_LINES_H_

#include <fstream>
#include <string>

namespace softcuda::testing {

/// "check_kernels.cu:12", the line of the program's kernels that ends in
/// `// FAULT name`; empty when there is none.
inline std::string MarkedLine(const std::string& name) {
  const std::string path = SOFTCUDA_CHECK_KERNELS;
  std::ifstream source(path);
  const std::string mark = "// FAULT " + name;
  std::string line;
  for (int number = 1; std::getline(source, line); ++number) {
    if (line.size() >= mark.size() &&
        line.compare(line.size() - mark.size(), mark.size(), mark) == 0) {
      return path.substr(path.rfind('/') + 1) + ":" + std::to_string(number);
    }
  }
  return "";
}

}  // namespace softcuda::testing

#endif  // SOFTCUDA_TESTS_CHECK_MARKED_LINES_H_
