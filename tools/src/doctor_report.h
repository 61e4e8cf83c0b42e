// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_TOOLS_DOCTOR_REPORT_H_
#define PERMAFROST_TOOLS_DOCTOR_REPORT_H_

#include <cuda.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "exit_code.h"
#include "host_signs.h"
#include "permafrost/driver/driver.h"

namespace permafrost::tool {

/// Something that is not as it should be, and the cure.
struct DoctorProblem {
  enum class Severity {
    kNote,   ///< works, with a limit that one should know
    kFault,  ///< does not work
  };
  Severity severity = Severity::kFault;
  std::string what = {};
  std::string remedy = {};
};

/// One device; a figure that could not be read is -1, and a problem says why.
struct DoctorDevice {
  int ordinal = 0;
  std::string name = {};
  int compute_capability = -1;  ///< major * 10 + minor
  int64_t multiprocessors = -1;
  int64_t total_bytes = -1;
  int64_t free_bytes = -1;
  bool has_virtual_memory = false;
  int64_t granularity_bytes = -1;  ///< -1 also without virtual memory
  /// Functions of the shipped image that were loaded onto it.
  int64_t kernels = -1;
};

struct DoctorReport {
  std::string library_version = {};
  std::string header_version = {};
  int toolkit_version = 0;       ///< 1000 * major + 10 * minor
  std::string choice = {};       ///< PERMAFROST_DRIVER, or "auto"
  std::string driver_kind = {};  ///< empty when none could be loaded
  std::string driver_path = {};
  int driver_version = 0;
  std::string selection_note = {};
  int entry_points_needed = 0;
  int entry_points_found = 0;
  HostSigns host = {};
  std::vector<DoctorDevice> devices = {};
  std::vector<DoctorProblem> problems = {};
  ExitCode code = ExitCode::kAllProven;
};

/// Loads the driver of the choice, asks each device what an arena needs of it,
/// and loads the kernels onto it. Leaves nothing behind but the library, which
/// stays loaded.
/// Cost: up to seconds with NVIDIA's driver.
DoctorReport Examine(const DriverChoice& choice, std::string choice_text,
                     HostSigns host);

/// A failed driver call or load as a problem. The remedy is the one that is
/// known for the driver's result, else what the text says after its last "; ",
/// else that the text is all there is.
DoctorProblem ProblemOf(const absl::Status& status);

/// What the signs tell when NVIDIA's driver could not be used.
std::vector<DoctorProblem> ProblemsOf(const HostSigns& host);

std::string DoctorText(const DoctorReport& report);
std::string DoctorJson(const DoctorReport& report);

}  // namespace permafrost::tool

#endif  // PERMAFROST_TOOLS_DOCTOR_REPORT_H_
