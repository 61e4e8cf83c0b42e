// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Shows a checker a planted fault in a named buffer of an arena, so that a
// checker that is blind to arenas does not pass for a clean run.
//
//   sanitize_probe none|memcheck|initcheck|racecheck|synccheck
//   sanitize_probe hostcheck|leakcheck    what softcuda alone checks
//
// Exit status: 0 the work ran as far as the driver tells, 1 it did not, 2 bad
// usage, 3 there is no driver or no device. What the checker found is the
// checker's to tell, by an exit status of its own.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "permafrost/arena/arena.h"
#include "permafrost/arena/arena_plan.h"
#include "permafrost/driver/context.h"
#include "permafrost/driver/driver.h"
#include "permafrost/driver/handles.h"
#include "permafrost/driver/status.h"

extern "C" const unsigned char permafrost_sanitize_probe_image[];

namespace permafrost {
namespace {

constexpr int32_t kCount = 128;
constexpr unsigned kThreads = 128;
constexpr const char* kFaults[] = {"none",      "memcheck",  "initcheck",
                                   "racecheck", "synccheck", "hostcheck",
                                   "leakcheck"};

absl::StatusOr<ArenaPlan> MakePlan() {
  std::vector<BufferSize> sizes;
  for (const char* name : {"probe_before", "probe", "probe_behind"}) {
    BufferSize size;
    size.name = name;
    size.bytes = kCount * 4;
    size.lifetime = Lifetime::kPerLayer;
    size.tag = "probe";
    sizes.push_back(std::move(size));
  }
  PlanOptions options;
  options.guard_bytes = 1024;
  return PlanArena(std::move(sizes), options);
}

absl::Status LaunchKernel(const ContextRef& context, CUdeviceptr data,
                          const std::string& name) {
  const DriverApi& cuda = context->api();
  PERMAFROST_ASSIGN_OR_RETURN(
      const Module module,
      Module::Load(context, permafrost_sanitize_probe_image));
  PERMAFROST_ASSIGN_OR_RETURN(const CUfunction function,
                              module.Function(name.c_str()));
  int32_t count = kCount;
  void* params[] = {&data, &count};
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(cuda.LaunchKernel(function, 1, 1, 1, kThreads, 1, 1, 0, nullptr,
                                 params, nullptr),
               "cuLaunchKernel"));
  return CuStatus(cuda.StreamSynchronize(nullptr), "cuStreamSynchronize");
}

// The host changes what a copy into the buffer has yet to read.
absl::Status ChangeSourceOfCopy(const ContextRef& context, CUdeviceptr data) {
  const DriverApi& cuda = context->api();
  void* host = nullptr;
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(cuda.MemAllocHost(&host, kCount * 4), "cuMemAllocHost"));
  std::memset(host, 1, kCount * 4);
  absl::Status status =
      CuStatus(cuda.MemcpyHtoDAsync(data, host, kCount * 4, nullptr),
               "cuMemcpyHtoDAsync");
  std::memset(host, 2, kCount * 4);
  status.Update(
      CuStatus(cuda.StreamSynchronize(nullptr), "cuStreamSynchronize"));
  status.Update(CuStatus(cuda.MemFreeHost(host), "cuMemFreeHost"));
  return status;
}

absl::Status LeaveMemoryBehind(const ContextRef& context) {
  CUdeviceptr left = 0;
  return CuStatus(context->api().MemAlloc(&left, kCount * 4), "cuMemAlloc");
}

absl::Status PlantFault(const ContextRef& context, const std::string& fault) {
  PERMAFROST_ASSIGN_OR_RETURN(ArenaPlan plan, MakePlan());
  PERMAFROST_ASSIGN_OR_RETURN(const Arena arena,
                              Arena::Create(context, std::move(plan)));
  PERMAFROST_ASSIGN_OR_RETURN(const BufferRef buffer,
                              arena.view().Find("probe"));
  const CUdeviceptr data = buffer.base.value();
  if (fault == "hostcheck") return ChangeSourceOfCopy(context, data);
  if (fault == "leakcheck") return LeaveMemoryBehind(context);
  return LaunchKernel(context, data, "probe_" + fault);
}

int Run(const std::string& fault) {
  const absl::StatusOr<DriverChoice> choice = DriverChoice::FromEnvironment();
  if (!choice.ok()) {
    std::fprintf(stderr, "%s\n", choice.status().ToString().c_str());
    return 2;
  }
  const absl::StatusOr<DriverRef> driver = Driver::Load(*choice);
  if (!driver.ok()) {
    std::fprintf(stderr, "%s\n", driver.status().ToString().c_str());
    return 3;
  }
  std::printf("driver: %s\n", DriverKindName((*driver)->kind()));
  const absl::StatusOr<ContextRef> context = Context::RetainPrimary(*driver);
  if (!context.ok()) {
    std::fprintf(stderr, "%s\n", context.status().ToString().c_str());
    return 3;
  }
  const Context::Scope scope = (*context)->MakeCurrent();
  absl::Status status = scope.status();
  if (status.ok()) status = PlantFault(*context, fault);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace permafrost

int main(int argc, char** argv) {
  for (const char* fault : permafrost::kFaults) {
    if (argc == 2 && std::strcmp(argv[1], fault) == 0) {
      return permafrost::Run(fault);
    }
  }
  std::fprintf(stderr, "sanitize_probe: one of");
  for (const char* fault : permafrost::kFaults) {
    std::fprintf(stderr, " %s", fault);
  }
  std::fprintf(stderr, "\n");
  return 2;
}
