// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "driver_probe.h"

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "permafrost/driver/driver_api.h"

namespace permafrost::bench {
namespace {

std::atomic<int64_t> allocation_calls = 0;
std::atomic<decltype(DriverApi::MemAlloc)> real_mem_alloc = nullptr;
std::atomic<decltype(DriverApi::MemCreate)> real_mem_create = nullptr;

CUresult CountedMemAlloc(CUdeviceptr* address, size_t bytes) {
  allocation_calls.fetch_add(1, std::memory_order_relaxed);
  return real_mem_alloc.load(std::memory_order_relaxed)(address, bytes);
}

CUresult CountedMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                          const CUmemAllocationProp* prop,
                          unsigned long long flags) {
  allocation_calls.fetch_add(1, std::memory_order_relaxed);
  return real_mem_create.load(std::memory_order_relaxed)(handle, bytes, prop,
                                                         flags);
}

}  // namespace

DriverRef CountDeviceAllocations(DriverRef base) {
  DriverApi api = base->api();
  real_mem_alloc = std::exchange(api.MemAlloc, &CountedMemAlloc);
  real_mem_create = std::exchange(api.MemCreate, &CountedMemCreate);
  return Driver::WithApi(std::move(base), api);
}

int64_t DeviceAllocationCalls() {
  return allocation_calls.load(std::memory_order_relaxed);
}

}  // namespace permafrost::bench
