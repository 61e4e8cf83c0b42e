// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

//
// One byte written behind each buffer of a real plan, into the guard between it
// and its neighbour, is reported with both names.
//
// Such a write ends the process's context for good, so each is done by a child
// process. This process loads no driver: a copy of one would not work.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "permafrost/arena/arena.h"
#include "permafrost/driver/driver.h"
#include "permafrost/driver/handles.h"
#include "permafrost/driver/softcuda_control.h"
#include "permafrost/driver/status.h"
#include "tests/arena/memory/poke_kernel.h"
#include "tests/support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::kPokePtx;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

ArenaPlan GuardedPlan() {
  const absl::StatusOr<ModelConfig> config = LoadModelConfig("deepseek-v3");
  return *PlanArena(*ComputeBufferSizes(*config, {.max_batch_tokens = 8}),
                    {.guard_bytes = 256});
}

// Present buffers in the order of their addresses.
std::vector<PlannedBuffer> ByAddress(const ArenaPlan& plan) {
  std::vector<PlannedBuffer> buffers;
  for (const PlannedBuffer& buffer : plan.buffers()) {
    if (buffer.is_present()) buffers.push_back(buffer);
  }
  std::sort(buffers.begin(), buffers.end(),
            [](const PlannedBuffer& a, const PlannedBuffer& b) {
              return a.offset_bytes < b.offset_bytes;
            });
  return buffers;
}

// "ok: " and the checkers' reports, or "error: " and why there are none.
absl::StatusOr<std::string> Poke(int64_t offset_bytes, bool register_nvtx) {
  PERMAFROST_ASSIGN_OR_RETURN(const DriverChoice choice,
                              DriverChoice::FromEnvironment());
  PERMAFROST_ASSIGN_OR_RETURN(const DriverRef driver, Driver::Load(choice));
  const std::optional<SoftcudaControl> soft = SoftcudaControl::Of(*driver);
  if (!soft.has_value()) return absl::UnavailableError("not softcuda");
  soft->SetQuiet(true);
  PERMAFROST_ASSIGN_OR_RETURN(const ContextRef context,
                              Context::RetainPrimary(driver));
  ArenaOptions options;
  options.register_nvtx = register_nvtx;
  PERMAFROST_ASSIGN_OR_RETURN(const Arena arena,
                              Arena::Create(context, GuardedPlan(), options));
  PERMAFROST_ASSIGN_OR_RETURN(const Module module,
                              Module::Load(context, kPokePtx));
  PERMAFROST_ASSIGN_OR_RETURN(const CUfunction poke, module.Function("k_poke"));
  const Context::Scope scope = context->MakeCurrent();
  CUdeviceptr at = (arena.view().base() + offset_bytes).value();
  void* params[] = {&at};
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(driver->api().LaunchKernel(poke, 1, 1, 1, 1, 1, 1, 0, nullptr,
                                          params, nullptr),
               "cuLaunchKernel"));
  // The verdict is the report, not what the launch returns.
  static_cast<void>(driver->api().CtxSynchronize());
  return absl::StrJoin(soft->TakeReports(), "\n");
}

std::string PokeInChild(int64_t offset_bytes, bool register_nvtx) {
  int ends[2];
  if (pipe(ends) != 0) return "error: no pipe";
  const pid_t child = fork();
  if (child == 0) {
    const absl::StatusOr<std::string> reports =
        Poke(offset_bytes, register_nvtx);
    const std::string text =
        reports.ok() ? absl::StrCat("ok: ", *reports)
                     : absl::StrCat("error: ", reports.status().ToString());
    const ssize_t written = write(ends[1], text.data(), text.size());
    _exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0
             ? text
             : absl::StrCat("error: the child died: ", text);
}

TEST(ArenaGuardsTest, B129AnOverrunFromEveryBufferIsReportedWithBothNames) {
  const std::vector<PlannedBuffer> buffers = ByAddress(GuardedPlan());
  ASSERT_GT(buffers.size(), 5u);
  for (size_t i = 0; i < buffers.size(); ++i) {
    const PlannedBuffer& left = buffers[i];
    const std::string text =
        PokeInChild(left.offset_bytes + left.bytes, /*register_nvtx=*/true);
    EXPECT_THAT(text, AllOf(StartsWith("ok: "), HasSubstr("memcheck"),
                            HasSubstr("k_poke"),
                            HasSubstr(absl::StrCat("'", left.name, "'"))));
    if (i + 1 < buffers.size()) {
      EXPECT_THAT(text, HasSubstr(absl::StrCat("'", buffers[i + 1].name, "'")));
    }
  }
}

TEST(ArenaGuardsTest, B129TheLastByteOfEveryBufferIsTheCleanTwin) {
  for (const PlannedBuffer& buffer : ByAddress(GuardedPlan())) {
    EXPECT_EQ(PokeInChild(buffer.offset_bytes + buffer.bytes - 1,
                          /*register_nvtx=*/true),
              "ok: ")
        << buffer.name;
  }
}

TEST(ArenaGuardsTest, B129WithoutRegionsAnOverrunIsNotSeen) {
  const PlannedBuffer first = ByAddress(GuardedPlan()).front();
  EXPECT_EQ(PokeInChild(first.offset_bytes + first.bytes,
                        /*register_nvtx=*/false),
            "ok: ");
}

}  // namespace
}  // namespace permafrost
