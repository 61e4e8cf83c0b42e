// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Shows a checker a planted fault in a named buffer of an arena, so that a
// checker that is blind to arenas does not pass for a clean run.
//
//   sanitize_probe none|memcheck|initcheck|racecheck|synccheck
//
// Exit status: 0 the kernel ran as far as the driver tells, 1 it did not, 2 bad
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

// Fails only before the kernel is launched.
absl::Status Launch(const ContextRef& context, const std::string& fault) {
  const DriverApi& cuda = context->api();
  PERMAFROST_ASSIGN_OR_RETURN(
      const Module module,
      Module::Load(context, permafrost_sanitize_probe_image));
  PERMAFROST_ASSIGN_OR_RETURN(const CUfunction function,
                              module.Function(("probe_" + fault).c_str()));
  PERMAFROST_ASSIGN_OR_RETURN(ArenaPlan plan, MakePlan());
  PERMAFROST_ASSIGN_OR_RETURN(const Arena arena,
                              Arena::Create(context, std::move(plan)));
  PERMAFROST_ASSIGN_OR_RETURN(const BufferRef buffer,
                              arena.view().Find("probe"));
  CUdeviceptr data = buffer.base.value();
  int32_t count = kCount;
  void* params[] = {&data, &count};
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(cuda.LaunchKernel(function, 1, 1, 1, kThreads, 1, 1, 0, nullptr,
                                 params, nullptr),
               "cuLaunchKernel"));
  return CuStatus(cuda.StreamSynchronize(nullptr), "cuStreamSynchronize");
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
  if (status.ok()) status = Launch(*context, fault);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace permafrost

int main(int argc, char** argv) {
  for (const char* fault :
       {"none", "memcheck", "initcheck", "racecheck", "synccheck"}) {
    if (argc == 2 && std::strcmp(argv[1], fault) == 0) {
      return permafrost::Run(fault);
    }
  }
  std::fprintf(stderr,
               "sanitize_probe: one of none, memcheck, initcheck, racecheck, "
               "synccheck\n");
  return 2;
}
