// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

//
// An arena that a second device uses as well.

#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>

#include "permafrost/arena/arena.h"
#include "permafrost/driver/handles.h"
#include "permafrost/driver/status.h"
#include "tests/arena/memory/arena_fixture.h"
#include "tests/arena/memory/poke_kernel.h"

namespace permafrost {
namespace {

using ::permafrost::testing::kPokePtx;
using ::permafrost::testing::Sized;

class ArenaPeersTest : public ::permafrost::testing::DriverTest {
 protected:
  void SetUp() override {
    // softcuda reads it when the driver is loaded, which is after this.
    ASSERT_EQ(setenv("PERMAFROST_SOFTCUDA_DEVICES", "2", 1), 0);
    ASSERT_NO_FATAL_FAILURE(DriverTest::SetUp());
    int devices = 0;
    ASSERT_EQ(api().DeviceGetCount(&devices), CUDA_SUCCESS);
    if (soft().has_value()) {
      ASSERT_EQ(devices, 2);
    } else if (devices < 2) {
      GTEST_SKIP() << "needs two devices, has " << devices;
    }
    int can_access = 0;
    ASSERT_EQ(api().DeviceCanAccessPeer(&can_access, 1, 0), CUDA_SUCCESS);
    if (can_access == 0) GTEST_SKIP() << "device 1 cannot reach device 0";
    ASSERT_OK_AND_ASSIGN(second_, Context::RetainPrimary(driver(), 1));
  }

  absl::StatusOr<FrozenArena> Create(const ContextRef& on,
                                     const ArenaOptions& options) {
    PERMAFROST_ASSIGN_OR_RETURN(
        ArenaPlan plan,
        PlanArena({Sized("scratch", 4096, Lifetime::kPerLayer, "step")}, {}));
    PERMAFROST_ASSIGN_OR_RETURN(Arena arena,
                                Arena::Create(on, std::move(plan), options));
    return std::move(arena).Freeze();
  }

  // What a device may do with the arena's memory, as the driver says.
  unsigned long long AccessOf(const ContextRef& device,
                              const FrozenArena& arena) {
    const auto get_access = reinterpret_cast<PFN_cuMemGetAccess_v10020>(
        driver()->FindSymbol("cuMemGetAccess"));
    CUmemLocation location{};
    location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    location.id = device->device();
    unsigned long long flags = 99;
    const Context::Scope scope = device->MakeCurrent();
    EXPECT_EQ(get_access(&flags, &location, arena.view().base().value()),
              CUDA_SUCCESS);
    return flags;
  }

  // A kernel on `device` writes into the arena; its owner reads it.
  void ExpectReached(const ContextRef& device, const ContextRef& owner,
                     const FrozenArena& arena) {
    ASSERT_OK_AND_ASSIGN(const BufferRef scratch, arena.view().Find("scratch"));
    {
      const Context::Scope scope = owner->MakeCurrent();
      ASSERT_EQ(api().MemsetD8(scratch.base.value(), 0, 4096), CUDA_SUCCESS);
      ASSERT_EQ(api().CtxSynchronize(), CUDA_SUCCESS);
    }
    {
      const Context::Scope scope = device->MakeCurrent();
      ASSERT_OK_AND_ASSIGN(const Module module, Module::Load(device, kPokePtx));
      ASSERT_OK_AND_ASSIGN(const CUfunction poke, module.Function("k_poke"));
      CUdeviceptr at = scratch.base.value() + 7;
      void* params[] = {&at};
      ASSERT_EQ(api().LaunchKernel(poke, 1, 1, 1, 1, 1, 1, 0, nullptr, params,
                                   nullptr),
                CUDA_SUCCESS);
      ASSERT_EQ(api().CtxSynchronize(), CUDA_SUCCESS);
    }
    const Context::Scope scope = owner->MakeCurrent();
    unsigned char bytes[16] = {};
    ASSERT_EQ(api().MemcpyDtoH(bytes, scratch.base.value(), sizeof(bytes)),
              CUDA_SUCCESS);
    EXPECT_EQ(bytes[7], 1);
    EXPECT_EQ(bytes[6] + bytes[8], 0);
  }

  ContextRef second_;
};

TEST_F(ArenaPeersTest, APeerReachesTheMemoryBeforeAndAfterSleep) {
  ArenaOptions options;
  options.peers = {1};
  ASSERT_OK_AND_ASSIGN(FrozenArena arena, Create(context(), options));
  for (int round = 0; round < 3; ++round) {
    ExpectReached(second_, context(), arena);
    ExpectReached(context(), context(), arena);
    EXPECT_EQ(AccessOf(second_, arena), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    ASSERT_OK(arena.Sleep());
    ASSERT_OK(arena.Wake());
    EXPECT_OK(arena.VerifyStable());
  }
}

TEST_F(ArenaPeersTest, WithoutPeersTheMemoryIsClosedToTheOther) {
  ASSERT_OK_AND_ASSIGN(FrozenArena arena, Create(context(), {}));
  EXPECT_EQ(AccessOf(context(), arena), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT_EQ(AccessOf(second_, arena), CU_MEM_ACCESS_FLAGS_PROT_NONE);
  ASSERT_OK(arena.Sleep());
  ASSERT_OK(arena.Wake());
  EXPECT_EQ(AccessOf(second_, arena), CU_MEM_ACCESS_FLAGS_PROT_NONE);
}

TEST_F(ArenaPeersTest, AnArenaLivesOnTheSecondDeviceToo) {
  ArenaOptions options;
  options.peers = {0};
  ASSERT_OK_AND_ASSIGN(const int64_t free_first, context()->FreeMemoryBytes());
  ASSERT_OK_AND_ASSIGN(const int64_t free_second, second_->FreeMemoryBytes());
  ASSERT_OK_AND_ASSIGN(FrozenArena arena, Create(second_, options));
  if (soft().has_value()) {
    EXPECT_EQ(*context()->FreeMemoryBytes(), free_first);
    EXPECT_EQ(*second_->FreeMemoryBytes(), free_second - arena.live_bytes());
  }
  ASSERT_OK(arena.Sleep());
  ASSERT_OK(arena.Wake());
  ExpectReached(second_, second_, arena);
  ExpectReached(context(), second_, arena);
}

}  // namespace
}  // namespace permafrost
