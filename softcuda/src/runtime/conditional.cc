// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/conditional.h"

#include <atomic>
#include <bit>

#include "memory/address_space.h"
#include "runtime/state.h"

namespace softcuda::runtime {
namespace {

std::atomic_ref<uint32_t> Word(const Condition& condition) {
  return std::atomic_ref<uint32_t>(*std::bit_cast<uint32_t*>(condition.handle));
}

}  // namespace

Condition::~Condition() {
  if (handle != 0) memory::AddressSpace::Get().FreeModuleGlobal(handle);
}

std::shared_ptr<Condition> NewCondition(Runtime& runtime, Graph& graph,
                                        int device, uint32_t default_value,
                                        bool assigned_at_launch) {
  auto condition = std::make_shared<Condition>();
  condition->handle = memory::AddressSpace::Get().AllocateModuleGlobal(
      sizeof(uint32_t), alignof(uint32_t), "conditional handle", device);
  if (condition->handle == 0) return nullptr;
  condition->device = device;
  condition->default_value = default_value;
  condition->assigned_at_launch = assigned_at_launch;
  runtime.conditions[condition->handle] = condition;
  graph.conditions.push_back(condition);
  return condition;
}

std::shared_ptr<Condition> FindCondition(Runtime& runtime,
                                         CUgraphConditionalHandle handle) {
  const auto found = runtime.conditions.find(handle);
  return found == runtime.conditions.end() ? nullptr : found->second.lock();
}

uint32_t ReadCondition(const Condition& condition) {
  return Word(condition).load();
}

void WriteCondition(const Condition& condition, uint32_t value) {
  Word(condition).store(value);
}

}  // namespace softcuda::runtime
