// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "doctor_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "host_signs.h"
#include "permafrost/driver/status.h"
#include "tests/support/program.h"

namespace permafrost::tool {
namespace {

using ::permafrost::testing::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(DoctorReportTest, RemedyOfALibraryErrorIsItsEnd) {
  const DoctorProblem problem = ProblemOf(absl::UnavailableError(
      "driver x is too old: got 12.0; need 13.0; update the driver"));
  EXPECT_EQ(problem.what, "driver x is too old: got 12.0; need 13.0");
  EXPECT_EQ(problem.remedy, "update the driver");
  EXPECT_EQ(problem.severity, DoctorProblem::Severity::kFault);
}

TEST(DoctorReportTest, DriversResultsHaveTheirOwnRemedies) {
  const auto remedy = [](CUresult result) {
    return ProblemOf(CuStatus(result, "cuInit", "libcuda.so.1")).remedy;
  };
  EXPECT_THAT(remedy(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH),
              HasSubstr("different versions"));
  EXPECT_THAT(remedy(CUDA_ERROR_SYSTEM_NOT_READY), HasSubstr("fabric"));
  EXPECT_THAT(remedy(CUDA_ERROR_DEVICE_UNAVAILABLE), HasSubstr("exclusively"));
  EXPECT_THAT(remedy(CUDA_ERROR_NOT_PERMITTED), HasSubstr("permissions"));
  EXPECT_THAT(remedy(CUDA_ERROR_UNKNOWN), HasSubstr("documentation"));
  EXPECT_THAT(ProblemOf(CuStatus(CUDA_ERROR_OUT_OF_MEMORY, "cuMemCreate")).what,
              HasSubstr("CUDA_ERROR_OUT_OF_MEMORY"));
}

TEST(DoctorReportTest, MachineWithoutADriverShowsNothing) {
  const TemporaryFolder root;
  const HostSigns signs = ReadHostSigns(root.path());
  EXPECT_EQ(signs.kernel_module, "");
  EXPECT_FALSE(signs.has_control_node);
  EXPECT_THAT(ProblemsOf(signs), IsEmpty());
}

TEST(DoctorReportTest, KernelModuleWithoutItsLibraryIsToldApart) {
  const TemporaryFolder root;
  std::filesystem::create_directories(root.path() + "/proc/driver/nvidia");
  std::filesystem::create_directories(root.path() + "/dev");
  root.Write("proc/driver/nvidia/version",
             "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.1\nGCC\n");
  root.Write("dev/nvidiactl", "");
  const HostSigns signs = ReadHostSigns(root.path());
  EXPECT_EQ(signs.kernel_module,
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.1");
  EXPECT_TRUE(signs.has_control_node);
  EXPECT_TRUE(signs.may_open_control_node);
  const std::vector<DoctorProblem> problems = ProblemsOf(signs);
  ASSERT_THAT(problems, SizeIs(1));
  EXPECT_THAT(problems[0].what, HasSubstr("580.1"));
  EXPECT_THAT(problems[0].remedy,
              AllOf(HasSubstr("--gpus all"), HasSubstr("libcuda")));
}

TEST(DoctorReportTest, NodeThatMayNotBeOpenedIsAPermission) {
  const std::vector<DoctorProblem> problems =
      ProblemsOf({.has_control_node = true, .may_open_control_node = false});
  ASSERT_THAT(problems, SizeIs(1));
  EXPECT_THAT(problems[0].remedy, HasSubstr("group"));
}

TEST(DoctorReportTest, DeviceThatCannotBeUsedHasNoFigures) {
  DoctorReport report = {
      .toolkit_version = 13000, .driver_kind = "cuda", .driver_version = 13010};
  report.devices.push_back({.ordinal = 3});
  report.devices.push_back({.ordinal = 4,
                            .name = "GPU\x1B[2J",
                            .compute_capability = 90,
                            .total_bytes = int64_t{8} << 30,
                            .has_virtual_memory = false});
  const std::string text = DoctorText(report);
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("device 3      cannot be used"), HasSubstr("cuda 13.1"),
            HasSubstr("sm_90"), HasSubstr("no virtual memory"),
            HasSubstr("do not load"), HasSubstr("unknown of 8.0 GiB")));
  EXPECT_EQ(text.find('\x1B'), std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(DoctorJson(report));
  EXPECT_TRUE(json["devices"][0]["total_bytes"].is_null());
  EXPECT_EQ(json["devices"][1]["total_bytes"], int64_t{8} << 30);
}

}  // namespace
}  // namespace permafrost::tool
