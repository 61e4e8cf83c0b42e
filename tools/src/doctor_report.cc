// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "doctor_report.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "permafrost/arena/arena_plan.h"
#include "permafrost/driver/context.h"
#include "permafrost/driver/softcuda_control.h"
#include "permafrost/driver/status.h"
#include "permafrost/driver/version.h"
#include "permafrost/kernels/moe_kernels.h"

namespace permafrost::tool {
namespace {

using Severity = DoctorProblem::Severity;

/// What is known to help where the driver's own text says only what happened.
struct KnownRemedy {
  CUresult result;
  const char* remedy;
};
constexpr KnownRemedy kKnownRemedies[] = {
    {CUDA_ERROR_OUT_OF_MEMORY,
     "free device memory: nvidia-smi lists the processes that hold it"},
    {CUDA_ERROR_DEVICE_UNAVAILABLE,
     "another process holds the device exclusively, or its compute mode "
     "prohibits use: nvidia-smi -q -d COMPUTE shows it, nvidia-smi -c DEFAULT "
     "opens it"},
    {CUDA_ERROR_SYSTEM_NOT_READY,
     "start NVIDIA's fabric manager of the driver's version (systemctl start "
     "nvidia-fabricmanager)"},
    {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
     "libcuda and the kernel module are of different versions: reload the "
     "module, or reboot; in a container, start it anew"},
    {CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE,
     "this device takes no forward-compatible libcuda: remove cuda-compat from "
     "the loader's path, or update the driver"},
    {CUDA_ERROR_NOT_PERMITTED,
     "the driver forbids it to this user or container: check the permissions "
     "of /dev/nvidia* and the container's settings"},
    {CUDA_ERROR_ECC_UNCORRECTABLE,
     "the device's memory is damaged: drain it, reset it, and look at "
     "nvidia-smi -q -d ECC"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU,
     "build the kernels for this architecture, or use another device"},
    {CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
     "update the driver, or build with a toolkit that is not newer than it"},
};

DoctorProblem About(DoctorProblem problem, absl::string_view what) {
  problem.what = absl::StrCat(what, ": ", problem.what);
  return problem;
}

DoctorProblem Note(std::string what, std::string remedy) {
  return {Severity::kNote, std::move(what), std::move(remedy)};
}

/// Takes the value, or puts the problem on record.
template <typename Value, typename Target>
void Take(const absl::StatusOr<Value>& value, absl::string_view what,
          Target& target, DoctorReport& report) {
  if (value.ok()) {
    target = *value;
  } else {
    report.problems.push_back(About(ProblemOf(value.status()), what));
  }
}

void ExamineVirtualMemory(const Context& context, const std::string& label,
                          DoctorDevice& device, DoctorReport& report) {
  int has_virtual_memory = 0;
  Take(context.DeviceAttribute(
           CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED),
       label, has_virtual_memory, report);
  device.has_virtual_memory = has_virtual_memory != 0;
  if (!device.has_virtual_memory) {
    report.problems.push_back(
        Note(absl::StrCat(label, ": no virtual memory management"),
             "arenas take cuMemAlloc instead and cannot sleep; another device "
             "or a newer driver may have it"));
    return;
  }
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = context.device();
  size_t granularity_bytes = 0;
  const absl::Status asked = CuStatus(
      context.api().MemGetAllocationGranularity(
          &granularity_bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
      "cuMemGetAllocationGranularity", label);
  if (!asked.ok()) {
    report.problems.push_back(ProblemOf(asked));
    return;
  }
  device.granularity_bytes = static_cast<int64_t>(granularity_bytes);
  const int64_t planned_bytes = PlanOptions{}.granularity_bytes;
  if (planned_bytes % device.granularity_bytes != 0) {
    report.problems.push_back(Note(
        absl::StrCat(label, ": maps memory in granules of ", granularity_bytes,
                     " bytes, which do not divide a plan's default of ",
                     planned_bytes),
        absl::StrCat("plan with granularity_bytes ", granularity_bytes)));
  }
}

DoctorDevice ExamineDevice(const DriverRef& driver, int ordinal,
                           DoctorReport& report) {
  DoctorDevice device = {.ordinal = ordinal};
  const std::string label = absl::StrCat("device ", ordinal);
  const absl::StatusOr<ContextRef> context =
      Context::RetainPrimary(driver, ordinal);
  if (!context.ok()) {
    report.problems.push_back(About(ProblemOf(context.status()), label));
    return device;
  }
  const Context::Scope scope = (*context)->MakeCurrent();
  if (!scope.status().ok()) {
    report.problems.push_back(About(ProblemOf(scope.status()), label));
    return device;
  }
  device.compute_capability = (*context)->compute_capability();
  Take((*context)->DeviceName(), label, device.name, report);
  Take((*context)->DeviceAttribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
       label, device.multiprocessors, report);
  Take((*context)->TotalMemoryBytes(), label, device.total_bytes, report);
  Take((*context)->FreeMemoryBytes(), label, device.free_bytes, report);
  ExamineVirtualMemory(**context, label, device, report);
  const absl::StatusOr<kernels::MoeKernels> loaded =
      kernels::MoeKernels::Load(*context);
  if (loaded.ok()) {
    device.kernels = loaded->signatures().size();
  } else {
    report.problems.push_back(
        About(ProblemOf(loaded.status()), absl::StrCat(label, ": kernels")));
  }
  return device;
}

void ExamineVersions(const Driver& driver, DoctorReport& report) {
  if (driver.kind() == DriverKind::kCuda && driver.version() < CUDA_VERSION) {
    report.problems.push_back(Note(
        "the driver is older than the toolkit the kernels were compiled with, "
        "so it runs their cubins and cannot compile their PTX",
        "update the driver where a device has no cubin"));
  }
  if (driver.kind() == DriverKind::kSoftcuda &&
      !SoftcudaControl::Of(driver).has_value()) {
    report.problems.push_back(
        {Severity::kFault,
         absl::StrCat("softcuda at ", driver.path(),
                      " has another control version than this program"),
         "build both from the same sources"});
  }
}

void ExamineDriver(const DriverRef& driver, DoctorReport& report) {
  report.driver_kind = DriverKindName(driver->kind());
  report.driver_path = driver->path();
  report.driver_version = driver->version();
  report.selection_note = driver->selection_note();
  // A driver that lacks one is not loaded.
  report.entry_points_found = kEntryPointCount;
  if (!report.selection_note.empty()) {
    DoctorProblem note = ProblemOf(absl::UnavailableError(
        absl::StrCat("no GPU is used: ", report.selection_note)));
    note.severity = Severity::kNote;
    report.problems.push_back(std::move(note));
    for (DoctorProblem& sign : ProblemsOf(report.host)) {
      report.problems.push_back(std::move(sign));
    }
  }
  ExamineVersions(*driver, report);
  int count = 0;
  const absl::Status counted =
      CuStatus(driver->api().DeviceGetCount(&count), "cuDeviceGetCount");
  if (!counted.ok()) report.problems.push_back(ProblemOf(counted));
  if (counted.ok() && count == 0) {
    report.problems.push_back(
        {Severity::kFault, "the driver has no device",
         "check CUDA_VISIBLE_DEVICES and nvidia-smi, or set "
         "PERMAFROST_DRIVER=soft"});
  }
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    report.devices.push_back(ExamineDevice(driver, ordinal, report));
  }
  if (count == 0) report.code = ExitCode::kNoDevice;
}

/// Both of the drivers that auto tries, each with its own reason.
std::vector<absl::Status> ReasonsOf(const DriverChoice& choice,
                                    const absl::Status& status) {
  if (choice.select != DriverChoice::Select::kAuto) return {status};
  return {Driver::Load({DriverChoice::Select::kCuda, ""}).status(),
          Driver::Load({DriverChoice::Select::kSoft, ""}).status()};
}

}  // namespace

DoctorProblem ProblemOf(const absl::Status& status) {
  DoctorProblem problem = {.what = std::string(status.message())};
  const std::optional<CUresult> result = CuResultOf(status);
  for (const KnownRemedy& known : kKnownRemedies) {
    if (result == known.result) {
      problem.remedy = known.remedy;
      return problem;
    }
  }
  // Errors of the library end in "; remedy".
  if (const size_t end = problem.what.rfind("; "); end != std::string::npos) {
    problem.remedy = problem.what.substr(end + 2);
    problem.what.resize(end);
  } else {
    problem.remedy =
        "not known; the CUDA driver's documentation explains the error";
  }
  return problem;
}

std::vector<DoctorProblem> ProblemsOf(const HostSigns& host) {
  std::vector<DoctorProblem> problems;
  if (!host.kernel_module.empty()) {
    problems.push_back(
        {Severity::kFault,
         absl::StrCat("a kernel module runs (", host.kernel_module,
                      "), and yet its driver cannot be used"),
         "in a container: start it with the GPU (--gpus all) and "
         "NVIDIA_DRIVER_CAPABILITIES with compute; otherwise: install libcuda "
         "of the module's version"});
  }
  if (host.has_control_node && !host.may_open_control_node) {
    problems.push_back(
        {Severity::kFault,
         "/dev/nvidiactl is there and may not be opened by this user",
         "let the user read and write /dev/nvidia* (group video or render, or "
         "the container's device rules)"});
  }
  return problems;
}

DoctorReport Examine(const DriverChoice& choice, std::string choice_text,
                     HostSigns host) {
  DoctorReport report;
  report.library_version = LibraryVersion();
  report.header_version = PERMAFROST_VERSION;
  report.toolkit_version = CUDA_VERSION;
  report.choice = std::move(choice_text);
  report.entry_points_needed = kEntryPointCount;
  report.host = std::move(host);
  if (report.library_version != report.header_version) {
    report.problems.push_back(
        {Severity::kFault,
         absl::StrCat("the program was compiled for permafrost ",
                      report.header_version, " and runs with ",
                      report.library_version),
         "install both from one build"});
  }
  const absl::StatusOr<DriverRef> driver = Driver::Load(choice);
  if (driver.ok()) {
    ExamineDriver(*driver, report);
  } else {
    report.code = CodeOfDriverError(choice, driver.status());
    for (const absl::Status& reason : ReasonsOf(choice, driver.status())) {
      if (!reason.ok()) report.problems.push_back(ProblemOf(reason));
    }
    if (choice.select == DriverChoice::Select::kAuto ||
        choice.select == DriverChoice::Select::kCuda) {
      for (DoctorProblem& sign : ProblemsOf(report.host)) {
        report.problems.push_back(std::move(sign));
      }
    }
  }
  const bool has_fault =
      std::any_of(report.problems.begin(), report.problems.end(),
                  [](const DoctorProblem& problem) {
                    return problem.severity == Severity::kFault;
                  });
  if (has_fault && report.code == ExitCode::kAllProven) {
    report.code = ExitCode::kSomethingFound;
  }
  return report;
}

}  // namespace permafrost::tool
