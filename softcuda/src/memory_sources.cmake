# SPDX-FileCopyrightText: The permafrost authors
# SPDX-License-Identifier: Apache-2.0
set(SOFTCUDA_MEMORY_SOURCES
  src/abi/access_grants.cc
  src/abi/control.cc
  src/abi/exports_memory.cc
  src/abi/exports_pointer.cc
  src/abi/nvtx_injection.cc
  src/check/options.cc
  src/check/access_log.cc
  src/check/json.cc
  src/check/operation_order.cc
  src/check/report.cc
  src/check/settings.cc
  src/memory/address_space.cc
  src/memory/commit.cc
  src/memory/describe.cc
  src/memory/graph_memory.cc
  src/memory/host_memory.cc
  src/memory/init_shadow.cc
  src/memory/physical_block.cc
  src/memory/pools.cc
  src/memory/regions.cc
  src/memory/snapshot.cc
  src/memory/va_allocator.cc
  src/memory/vmm.cc)
