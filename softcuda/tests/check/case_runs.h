// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_TESTS_CHECK_CASE_RUNS_H_
#define SOFTCUDA_TESTS_CHECK_CASE_RUNS_H_

#include <cuda.h>

#include <cstdint>
#include <string>

#include "catalogue.h"

namespace softcuda::testing {

struct KernelRun {
  CUresult result = CUDA_SUCCESS;
  std::string reports;  ///< one a line
};

/// Runs a launch in the interpreter under all checkers, so that a fault that
/// would end a context ends nothing. What the words cannot mean is a failure of
/// the calling test.
KernelRun RunCase(const KernelCase& c, uint64_t seed);

/// Makes the calls in a primary context of their own, under all checkers, ends
/// the context, and returns the reports.
std::string RunCase(const OperationsCase& c, uint64_t seed);

}  // namespace softcuda::testing

#endif  // SOFTCUDA_TESTS_CHECK_CASE_RUNS_H_
