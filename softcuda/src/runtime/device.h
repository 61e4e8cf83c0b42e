// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_RUNTIME_DEVICE_H_
#define SOFTCUDA_RUNTIME_DEVICE_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "memory/pool.h"
#include "runtime/objects.h"

namespace softcuda::runtime {

/// One device and its one context, the primary one.
///
/// Threads: the runtime's lock guards it.
struct Device {
  int ordinal = 0;
  CUcontext context = nullptr;  // whether active or not
  uint64_t retain_count = 0;
  unsigned int context_flags = 0;
  std::shared_ptr<Stream> legacy;
  // The per-thread streams of threads that are alive.
  std::vector<std::shared_ptr<Stream>> per_thread_streams;
  // Last items of blocking streams that were destroyed with work in flight.
  std::vector<std::shared_ptr<Task>> orphans;
  // Where cuMemAllocAsync allocates. Made when first asked for.
  std::shared_ptr<memory::Pool> default_pool;
  std::shared_ptr<memory::Pool> current_pool;
};

}  // namespace softcuda::runtime

#endif  // SOFTCUDA_RUNTIME_DEVICE_H_
