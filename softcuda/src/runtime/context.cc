// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/context.h"

#include <bit>
#include <vector>

#include "memory/address_space.h"
#include "runtime/capture.h"
#include "runtime/code.h"
#include "runtime/context_reset.h"
#include "runtime/leaks.h"
#include "runtime/state.h"

namespace softcuda::runtime {

CUcontext PrimaryContextHandle(int device) {
  return std::bit_cast<CUcontext>(
      HandleBits(HandleKind::kContext, static_cast<uint64_t>(device) + 1));
}

Device* DeviceOfContext(Runtime& runtime, CUcontext context) {
  for (const auto& device : runtime.devices) {
    if (device->context == context) return device.get();
  }
  return nullptr;
}

int CurrentDevice() {
  const ThreadState& thread = ThisThread();
  if (thread.contexts.empty()) return 0;
  const Device* const device =
      DeviceOfContext(TheRuntime(), thread.contexts.back());
  return device == nullptr ? 0 : device->ordinal;
}

bool SetDeviceCount(int count) {
  Runtime& runtime = TheRuntime();
  const Lock lock(runtime.mutex);
  if (runtime.initialized || count < 0 || count > memory::kMaxDevices) {
    return false;
  }
  MakeDevices(runtime, count);
  return true;
}

int64_t LiveObjects() {
  Runtime& runtime = TheRuntime();
  const Lock lock(runtime.mutex);
  size_t count = runtime.streams.size() + runtime.events.size() +
                 runtime.libraries.size() + runtime.execs.size() +
                 runtime.user_objects.size();
  for (const auto& [bits, pool] : runtime.pools.objects()) {
    if (!IsDefaultPool(runtime, *pool)) ++count;
  }
  for (const auto& [bits, module] : runtime.modules.objects()) {
    if (module->library == nullptr) ++count;
  }
  for (const auto& [bits, graph] : runtime.graphs.objects()) {
    if (graph->owner == GraphOwner::kUser) ++count;
  }
  return static_cast<int64_t>(count);
}

bool IsDefaultPool(const Runtime& runtime, const memory::Pool& pool) {
  const auto& device = runtime.devices[static_cast<size_t>(pool.device)];
  return device->default_pool.get() == &pool;
}

void ResetContext(Runtime& runtime, Lock& lock, Device& device) {
  WaitForDevice(runtime, lock, device);
  ReportLeaks(runtime, device);
  for (Stream* stream : AllStreams(runtime, device)) {
    AbandonCapture(runtime, *stream);
  }
  const auto is_here = [&](const auto& object) {
    return object->device == device.ordinal;
  };
  runtime.streams.EraseIf(is_here);
  runtime.events.EraseIf(is_here);
  runtime.execs.EraseIf(is_here);
  std::vector<std::shared_ptr<LoadedModule>> modules;
  for (const auto& [bits, module] : runtime.modules.objects()) {
    if (module->library == nullptr && is_here(module)) {
      modules.push_back(module);
    }
  }
  for (const auto& module : modules) ForgetModule(runtime, *module);
  modules.clear();
  lock.unlock();
  memory::AddressSpace::Get().FreeContextMemory(device.ordinal);
  lock.lock();
}

}  // namespace softcuda::runtime
