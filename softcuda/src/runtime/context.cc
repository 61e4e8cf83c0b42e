// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/context.h"

#include <bit>
#include <vector>

#include "memory/address_space.h"
#include "runtime/capture.h"
#include "runtime/code.h"
#include "runtime/context_reset.h"
#include "runtime/state.h"

namespace softcuda::runtime {

CUcontext PrimaryContextHandle() {
  return std::bit_cast<CUcontext>(HandleBits(HandleKind::kContext, 1));
}

bool PrimaryContextActive() {
  Runtime& runtime = TheRuntime();
  const Lock lock(runtime.mutex);
  return runtime.retain_count > 0;
}

int64_t LiveObjects() {
  Runtime& runtime = TheRuntime();
  const Lock lock(runtime.mutex);
  size_t count = runtime.streams.size() + runtime.events.size() +
                 runtime.libraries.size() + runtime.execs.size() +
                 runtime.user_objects.size();
  for (const auto& [bits, module] : runtime.modules.objects()) {
    if (module->library == nullptr) ++count;
  }
  for (const auto& [bits, graph] : runtime.graphs.objects()) {
    if (graph->owner == GraphOwner::kUser) ++count;
  }
  return static_cast<int64_t>(count);
}

void ResetContext(Runtime& runtime, Lock& lock) {
  runtime.executor.WaitAll(lock);
  for (Stream* stream : AllStreams(runtime)) AbandonCapture(runtime, *stream);
  runtime.streams.Clear();
  runtime.events.Clear();
  runtime.execs.Clear();
  std::vector<std::shared_ptr<LoadedModule>> modules;
  for (const auto& [bits, module] : runtime.modules.objects()) {
    if (module->library == nullptr) modules.push_back(module);
  }
  for (const auto& module : modules) ForgetModule(runtime, *module);
  modules.clear();
  lock.unlock();
  memory::AddressSpace::Get().FreeContextMemory();
  lock.lock();
}

}  // namespace softcuda::runtime
