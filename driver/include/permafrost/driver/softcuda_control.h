// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_DRIVER_SOFTCUDA_CONTROL_H_
#define PERMAFROST_DRIVER_SOFTCUDA_CONTROL_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "permafrost/driver/device_ptr.h"
#include "permafrost/driver/driver.h"

namespace permafrost {

/// softcuda's control functions, found by name in the loaded library.
///
/// They reach what no driver entry point does: the checkers' reports, the
/// schedule seed, and counters. NVIDIA's driver has none of them. They act on
/// the whole process, not on one context.
///
/// Threads: safe from any thread. Capture: none of them is a driver call.
class SoftcudaControl {
 public:
  /// nullopt unless the driver is a softcuda with all of these functions and
  /// the control version this class was written for.
  static std::optional<SoftcudaControl> Of(const Driver& driver);

  /// Reports of the checkers since the process began.
  int64_t report_count() const { return report_count_(); }

  /// The reports kept since the last call, one text each; they are handed out
  /// once. `report_count()` goes on counting.
  std::vector<std::string> TakeReports() const;

  /// Reads of bytes that nothing wrote become reports. Off by default.
  void EnableInitcheck(bool enable) const;

  /// Accesses that nothing orders become reports: between the warps and blocks
  /// of a kernel, and between operations without a path between them. Off by
  /// default; work enqueued before counts as ordered.
  void EnableRacecheck(bool enable) const;

  /// The bytes that operations access are kept for `TakeAccesses`.
  void EnableAccessLog(bool enable) const;

  /// What operations accessed since the last call, one JSON object for each
  /// operation and buffer; softcuda_take_accesses in softcuda/control.h says
  /// what is in them.
  std::vector<std::string> TakeAccesses() const;

  /// Sets one of the options that softcuda_set_option in softcuda/control.h
  /// lists. Returns whether softcuda has the option and takes the value.
  bool SetOption(const char* name, const char* value) const;

  /// Declares bytes undefined, as if they had never been written. Returns
  /// whether the range is device memory.
  bool MarkUndefined(DevicePtr base, int64_t bytes) const;

  /// Bytes of device and pinned memory that were allocated and not freed.
  int64_t live_bytes() const { return live_bytes_(); }

  /// Driver objects that were made and not destroyed.
  int64_t live_handles() const { return live_handles_(); }

  /// Chooses among the legal orders of blocks and graph nodes.
  void SetScheduleSeed(uint64_t seed) const { set_schedule_seed_(seed); }

  /// Off: launches are accepted and ordered, but no kernel runs. For measuring
  /// what the host side of a call costs.
  void SetExecution(bool execute) const;

  /// Kernel launches that ran since the process began.
  int64_t kernels_executed() const { return kernels_executed_(); }

  /// Quiet: reports are kept, and not also written to stderr.
  void SetQuiet(bool quiet) const;

  /// The size of the device's memory from now on, in bytes. Tests of a device
  /// that is too small use it.
  void SetDeviceMemoryBytes(int64_t bytes) const;

 private:
  SoftcudaControl() = default;

  int64_t (*report_count_)() = nullptr;
  size_t (*take_reports_)(char* buffer, size_t capacity) = nullptr;
  void (*enable_initcheck_)(int enable) = nullptr;
  void (*enable_racecheck_)(int enable) = nullptr;
  void (*enable_access_log_)(int enable) = nullptr;
  size_t (*take_accesses_)(char* buffer, size_t capacity) = nullptr;
  int (*set_option_)(const char* name, const char* value) = nullptr;
  int (*mark_undefined_)(CUdeviceptr base, size_t bytes) = nullptr;
  int64_t (*live_bytes_)() = nullptr;
  int64_t (*live_handles_)() = nullptr;
  void (*set_schedule_seed_)(uint64_t seed) = nullptr;
  void (*set_execution_)(int execute) = nullptr;
  int64_t (*kernels_executed_)() = nullptr;
  void (*set_quiet_)(int quiet) = nullptr;
  void (*set_device_memory_)(size_t bytes) = nullptr;
};

}  // namespace permafrost

#endif  // PERMAFROST_DRIVER_SOFTCUDA_CONTROL_H_
