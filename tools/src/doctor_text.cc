// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "doctor_report.h"
#include "foreign_text.h"
#include "nlohmann/json.hpp"

namespace permafrost::tool {
namespace {

using Json = nlohmann::ordered_json;

std::string VersionText(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

std::string Gibibytes(int64_t bytes) {
  if (bytes < 0) return "unknown";
  return absl::StrFormat("%.1f GiB",
                         static_cast<double>(bytes) / (1024.0 * 1024 * 1024));
}

const char* SeverityName(DoctorProblem::Severity severity) {
  return severity == DoctorProblem::Severity::kNote ? "note" : "fault";
}

std::string DeviceText(const DoctorDevice& device) {
  if (device.compute_capability < 0) {
    return absl::StrCat("device ", device.ordinal, "      cannot be used\n");
  }
  return absl::StrCat(
      "device ", device.ordinal, "      ", PrintableLine(device.name), ", sm_",
      device.compute_capability, ", ", device.multiprocessors,
      " multiprocessors, ", Gibibytes(device.free_bytes), " of ",
      Gibibytes(device.total_bytes), " free\n", "  memory      ",
      device.has_virtual_memory
          ? absl::StrCat("virtual memory management, granules of ",
                         device.granularity_bytes, " bytes")
          : "no virtual memory management",
      "\n  kernels     ",
      device.kernels < 0 ? "do not load"
                         : absl::StrCat(device.kernels, " load"),
      "\n");
}

/// A figure as JSON; null for one that could not be read.
Json Figure(int64_t value) { return value < 0 ? Json() : Json(value); }

}  // namespace

std::string DoctorText(const DoctorReport& report) {
  std::string text = absl::StrCat(
      "permafrost    ", report.library_version, ", built with CUDA ",
      VersionText(report.toolkit_version), "\n",
      "choice        PERMAFROST_DRIVER=", PrintableLine(report.choice), "\n",
      "driver        ");
  if (report.driver_kind.empty()) {
    absl::StrAppend(&text, "none\n");
  } else {
    absl::StrAppend(
        &text, report.driver_kind, " ", VersionText(report.driver_version),
        " (", PrintableLine(report.driver_path), ")\n", "entry points  ",
        report.entry_points_found, " of ", report.entry_points_needed, "\n");
  }
  for (const DoctorDevice& device : report.devices) {
    absl::StrAppend(&text, DeviceText(device));
  }
  for (const DoctorProblem& problem : report.problems) {
    absl::StrAppend(&text, "\n", SeverityName(problem.severity), ": ",
                    PrintableText(problem.what),
                    "\n  what to do: ", PrintableText(problem.remedy), "\n");
  }
  if (report.problems.empty()) text += "\nno problems\n";
  return text;
}

std::string DoctorJson(const DoctorReport& report) {
  Json root = {{"schema", "permafrost.doctor/1"},
               {"permafrost", report.library_version},
               {"toolkit", VersionText(report.toolkit_version)},
               {"choice", report.choice}};
  root["driver"] = nullptr;
  if (!report.driver_kind.empty()) {
    root["driver"] = {{"kind", report.driver_kind},
                      {"version", VersionText(report.driver_version)},
                      {"path", report.driver_path},
                      {"selection_note", report.selection_note}};
  }
  root["entry_points"] = {{"found", report.entry_points_found},
                          {"needed", report.entry_points_needed}};
  root["host"] = {{"kernel_module", report.host.kernel_module},
                  {"has_control_node", report.host.has_control_node},
                  {"may_open_control_node", report.host.may_open_control_node}};
  root["devices"] = Json::array();
  for (const DoctorDevice& device : report.devices) {
    root["devices"].push_back(
        {{"ordinal", device.ordinal},
         {"name", device.name},
         {"compute_capability", Figure(device.compute_capability)},
         {"multiprocessors", Figure(device.multiprocessors)},
         {"total_bytes", Figure(device.total_bytes)},
         {"free_bytes", Figure(device.free_bytes)},
         {"has_virtual_memory", device.has_virtual_memory},
         {"granularity_bytes", Figure(device.granularity_bytes)},
         {"kernels", Figure(device.kernels)}});
  }
  root["problems"] = Json::array();
  for (const DoctorProblem& problem : report.problems) {
    root["problems"].push_back({{"severity", SeverityName(problem.severity)},
                                {"what", problem.what},
                                {"remedy", problem.remedy}});
  }
  return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace permafrost::tool
