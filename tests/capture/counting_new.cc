// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/capture/counting_new.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {
thread_local int64_t allocations = 0;
}  // namespace

void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace permafrost::testing {

int64_t ThreadAllocations() { return allocations; }

}  // namespace permafrost::testing
