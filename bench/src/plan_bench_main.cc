// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <vector>

#include "plan_bench.h"

int main(int argc, char** argv) {
  return static_cast<int>(permafrost::bench::RunPlanBench(
      std::vector<const char*>(argv + (argc > 0 ? 1 : 0), argv + argc),
      std::cout, std::cerr));
}
