// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_RUNTIME_CONDITIONAL_H_
#define SOFTCUDA_RUNTIME_CONDITIONAL_H_

#include <cuda.h>

#include <cstdint>
#include <memory>

namespace softcuda::runtime {

struct Graph;
struct Runtime;

/// A condition that kernels set and conditional nodes read. The handle is the
/// device address of its word, so that setting it is a store, checked like any
/// other.
///
/// Threads: the runtime's lock guards it; the word is the device's.
struct Condition {
  ~Condition();

  CUgraphConditionalHandle handle = 0;
  int device = 0;
  uint32_t default_value = 0;
  bool assigned_at_launch = false;
  bool has_node = false;
};

/// Makes a condition on a device and lists it with the graph. Null when the
/// device is full.
std::shared_ptr<Condition> NewCondition(Runtime& runtime, Graph& graph,
                                        int device, uint32_t default_value,
                                        bool assigned_at_launch);

/// Null for what is no handle.
std::shared_ptr<Condition> FindCondition(Runtime& runtime,
                                         CUgraphConditionalHandle handle);

uint32_t ReadCondition(const Condition& condition);
void WriteCondition(const Condition& condition, uint32_t value);

}  // namespace softcuda::runtime

#endif  // SOFTCUDA_RUNTIME_CONDITIONAL_H_
