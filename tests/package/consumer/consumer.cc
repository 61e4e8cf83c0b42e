// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Sizes and plans an arena, and records on it what it can where a driver is.
#include <cstdio>

#include "permafrost/arena/arena.h"
#include "permafrost/arena/arena_plan.h"
#include "permafrost/arena/buffer_table.h"
#include "permafrost/arena/model_config.h"
#include "permafrost/capture/lane.h"
#include "permafrost/driver/driver.h"
#include "permafrost/driver/log.h"
#include "permafrost/driver/status.h"
#include "permafrost/driver/version.h"
#include "permafrost/kernels/moe_kernels.h"

namespace {

absl::Status Run() {
  PERMAFROST_ASSIGN_OR_RETURN(const permafrost::ModelConfig config,
                              permafrost::LoadModelConfig("qwen3-30b-a3b"));
  PERMAFROST_ASSIGN_OR_RETURN(
      std::vector<permafrost::BufferSize> sizes,
      permafrost::ComputeBufferSizes(config, {.max_batch_tokens = 8}));
  PERMAFROST_ASSIGN_OR_RETURN(permafrost::ArenaPlan plan,
                              permafrost::PlanArena(std::move(sizes), {}));
  std::printf("permafrost %s: %lld bytes planned\n",
              permafrost::LibraryVersion(),
              static_cast<long long>(plan.total_bytes()));

  PERMAFROST_ASSIGN_OR_RETURN(const permafrost::DriverChoice choice,
                              permafrost::DriverChoice::FromEnvironment());
  PERMAFROST_ASSIGN_OR_RETURN(const permafrost::DriverRef driver,
                              permafrost::Driver::Load(choice));
  PERMAFROST_ASSIGN_OR_RETURN(const permafrost::ContextRef context,
                              permafrost::Context::RetainPrimary(driver));
  PERMAFROST_ASSIGN_OR_RETURN(
      permafrost::Arena arena,
      permafrost::Arena::Create(context, std::move(plan)));
  PERMAFROST_ASSIGN_OR_RETURN(permafrost::FrozenArena frozen,
                              std::move(arena).Freeze());
  PERMAFROST_ASSIGN_OR_RETURN(const permafrost::Lane lane,
                              permafrost::Lane::Create(context, "decode"));
  PERMAFROST_RETURN_IF_ERROR(
      permafrost::kernels::MoeKernels::Load(context).status());
  PERMAFROST_RETURN_IF_ERROR(lane.Drain());
  PERMAFROST_RETURN_IF_ERROR(frozen.VerifyStable());
  return frozen.Release();
}

}  // namespace

int main() {
  const absl::Status status = Run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}
