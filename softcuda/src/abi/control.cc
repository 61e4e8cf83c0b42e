// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "softcuda/control.h"

#include <cstdio>
#include <string>

#include "check/report.h"
#include "check/settings.h"
#include "memory/address_space.h"
#include "runtime/context.h"
#include "runtime/executor.h"
#include "runtime/observe.h"

using softcuda::check::Reporter;
using softcuda::memory::AddressSpace;

extern "C" {

int softcuda_control_version(void) { return SOFTCUDA_CONTROL_VERSION; }

int64_t softcuda_report_count(void) { return Reporter::Get().count(); }

size_t softcuda_take_reports(char* buffer, size_t capacity) {
  return Reporter::Get().TakeInto(buffer, capacity);
}

void softcuda_enable_initcheck(int enabled) {
  Reporter::Get().set_initcheck(enabled != 0);
}

void softcuda_enable_racecheck(int enabled) {
  Reporter::Get().set_racecheck(enabled != 0);
}

int softcuda_set_option(const char* name, const char* value) {
  if (name == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::string why;
  if (softcuda::check::Settings::Get().Set(name, value, &why)) {
    return CUDA_SUCCESS;
  }
  if (!Reporter::Get().quiet()) {
    std::fprintf(stderr, "softcuda: %s\n", why.c_str());
  }
  return CUDA_ERROR_INVALID_VALUE;
}

void softcuda_enable_access_log(int enabled) {
  Reporter::Get().set_access_log(enabled != 0);
}

size_t softcuda_take_accesses(char* buffer, size_t capacity) {
  return softcuda::runtime::AccessLines::Get().TakeInto(buffer, capacity);
}

int softcuda_mark_undefined(CUdeviceptr address, size_t bytes) {
  return AddressSpace::Get().MarkUndefined(address, bytes);
}

int64_t softcuda_live_bytes(void) {
  return static_cast<int64_t>(AddressSpace::Get().live_bytes());
}

int64_t softcuda_live_handles(void) {
  return AddressSpace::Get().live_objects() + softcuda::runtime::LiveObjects();
}

void softcuda_set_schedule_seed(uint64_t seed) {
  softcuda::runtime::SetScheduleSeed(seed);
}

void softcuda_set_execution(int enabled) {
  softcuda::runtime::SetExecution(enabled != 0);
}

int64_t softcuda_kernels_executed(void) {
  return softcuda::runtime::KernelsExecuted();
}

void softcuda_set_quiet(int quiet) { Reporter::Get().set_quiet(quiet != 0); }

void softcuda_set_device_memory(size_t bytes) {
  for (int device = 0; device < softcuda::memory::kMaxDevices; ++device) {
    AddressSpace::Get().set_device_bytes(device, bytes);
  }
}

int softcuda_set_memory_of_device(int device, size_t bytes) {
  if (device < 0 || device >= AddressSpace::Get().device_count()) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  AddressSpace::Get().set_device_bytes(device, bytes);
  return CUDA_SUCCESS;
}

void softcuda_set_memory_budget(size_t bytes) {
  softcuda::memory::CommitBudget::Get().set_limit(bytes);
}

int64_t softcuda_committed_bytes(void) {
  return static_cast<int64_t>(softcuda::memory::CommitBudget::Get().used());
}

int softcuda_set_device_count(int count) {
  if (count < 0 || count > softcuda::memory::kMaxDevices) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return softcuda::runtime::SetDeviceCount(count) ? CUDA_SUCCESS
                                                  : CUDA_ERROR_ILLEGAL_STATE;
}

}  // extern "C"
