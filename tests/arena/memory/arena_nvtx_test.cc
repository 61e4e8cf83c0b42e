// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/arena/memory/arena_fixture.h"

namespace permafrost {
namespace {

using ::permafrost::testing::SmallPlan;
using ::testing::EndsWith;
using ::testing::Eq;
using ::testing::HasSubstr;

// A tool that writes down what it hears, named the way a tool's launcher does.
class ArenaNvtxTest : public ::permafrost::testing::DriverTest {
 protected:
  void SetUp() override {
    ASSERT_EQ(setenv("NVTX_INJECTION64_PATH", NVTX_TOOL_PATH, 1), 0);
    DriverTest::SetUp();
    tool_ = dlopen(NVTX_TOOL_PATH, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(tool_, nullptr);
    log_ = reinterpret_cast<const char* (*)()>(dlsym(tool_, "NvtxRecorderLog"));
    ASSERT_NE(log_, nullptr);
  }

  std::string Log() const { return log_(); }

 private:
  void* tool_ = nullptr;
  const char* (*log_)() = nullptr;
};

TEST_F(ArenaNvtxTest, AToolHearsOfEveryPresentBufferAndOfTheEnd) {
  const std::string before = Log();
  {
    ArenaOptions quiet;
    quiet.register_nvtx = false;
    ASSERT_OK(Arena::Create(context(), SmallPlan(), quiet));
  }
  EXPECT_THAT(Log(), Eq(before)) << "told although it was told not to";

  ASSERT_OK_AND_ASSIGN(Arena arena, Arena::Create(context(), SmallPlan()));
  const DevicePtr base = arena.view().base();
  EXPECT_THAT(Log(), HasSubstr(absl::StrCat("heap permafrost arena usage 1 ",
                                            base.value(), "+6291456;")));
  EXPECT_THAT(Log(), HasSubstr("names scratch tables counters cache;"));
  std::string regions = "regions";
  for (const char* name : {"scratch", "tables", "counters", "cache"}) {
    ASSERT_OK_AND_ASSIGN(const BufferRef buffer, arena.view().Find(name));
    absl::StrAppend(&regions, " ", buffer.base.value(), "+", buffer.bytes);
  }
  EXPECT_THAT(Log(), HasSubstr(regions + ";"));
  EXPECT_OK(arena.Release());
  EXPECT_THAT(Log(), EndsWith("4 regions gone;heap gone;"));
}

TEST_F(ArenaNvtxTest, RegionsLeaveWithTheirPartAndReturnWithTheirNames) {
  std::vector<BufferSize> sizes = ::permafrost::testing::SmallSizes();
  for (BufferSize& size : sizes) size.sleep = DefaultSleepPolicy(size.lifetime);
  ASSERT_OK_AND_ASSIGN(ArenaPlan plan, PlanArena(std::move(sizes), {}));
  ASSERT_OK_AND_ASSIGN(Arena created,
                       Arena::Create(context(), std::move(plan)));
  ASSERT_OK_AND_ASSIGN(FrozenArena arena, std::move(created).Freeze());
  const auto region = [&arena](const char* name) {
    const PlannedBuffer* buffer = arena.view().plan().Find(name);
    return absl::StrCat(" ",
                        (arena.view().base() + buffer->offset_bytes).value(),
                        "+", buffer->bytes);
  };
  std::string before = Log();
  const auto since = [&] { return Log().substr(before.size()); };
  ASSERT_OK(arena.Sleep({.tags = {"slab"}}));
  EXPECT_EQ(since(), "2 regions gone;");
  ASSERT_OK(arena.Sleep());
  EXPECT_EQ(since(), "2 regions gone;2 regions gone;");
  before = Log();
  ASSERT_OK(arena.Wake({.tags = {"slab"}}));
  EXPECT_EQ(since(), absl::StrCat("regions", region("counters"),
                                  region("cache"), ";names counters cache;"));
  ASSERT_OK(arena.Wake());
  EXPECT_THAT(since(), EndsWith(absl::StrCat("regions", region("scratch"),
                                             region("tables"),
                                             ";names scratch tables;")));
  EXPECT_OK(arena.Release());
  EXPECT_THAT(Log(), EndsWith("4 regions gone;heap gone;"));
}

}  // namespace
}  // namespace permafrost
