// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

// What the tests of arena memory share: a small plan, and a context whose
// driver calls can be counted and made to fail.

#ifndef PERMAFROST_TESTS_ARENA_MEMORY_ARENA_FIXTURE_H_
#define PERMAFROST_TESTS_ARENA_MEMORY_ARENA_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "permafrost/arena/arena.h"
#include "permafrost/arena/arena_plan.h"
#include "permafrost/driver/context.h"
#include "permafrost/driver/faulting_driver.h"
#include "tests/support/soft_driver.h"
#include "tests/support/status_matchers.h"

namespace permafrost::testing {

inline BufferSize Sized(std::string name, int64_t bytes, Lifetime lifetime,
                        std::string tag) {
  BufferSize size;
  size.name = std::move(name);
  size.bytes = bytes;
  size.lifetime = lifetime;
  size.tag = std::move(tag);
  size.element = ElementType::kMixed;
  size.toucher = Toucher::kDevice;
  if (bytes == 0) size.gate_reason = "the model has no such part";
  return size;
}

// Two segments, of 4 MiB and 2 MiB; two buffers that begin zeroed; one absent.
inline std::vector<BufferSize> SmallSizes() {
  return {
      Sized("scratch", (int64_t{2} << 20) + 100, Lifetime::kPerLayer, "step"),
      Sized("tables", 5000, Lifetime::kConstant, "step"),
      Sized("absent", 0, Lifetime::kPerLayer, "step"),
      Sized("counters", 1000, Lifetime::kInitOnce, "slab"),
      Sized("cache", 70000, Lifetime::kState, "slab")};
}
inline constexpr int64_t kSmallPlanBytes = int64_t{6} << 20;

inline ArenaPlan SmallPlan() {
  absl::StatusOr<ArenaPlan> plan = PlanArena(SmallSizes(), PlanOptions{});
  EXPECT_OK(plan);
  return *std::move(plan);
}

// The parameter: whether memory comes from VMM calls, or from cuMemAlloc.
class ArenaTest : public DriverTest,
                  public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    if (HasFatalFailure()) return;
    faulting_ = FaultingDriver::Wrap(driver());
    ASSERT_OK_AND_ASSIGN(context_, Context::RetainPrimary(faulting_->driver()));
    bytes_before_ = LiveBytes();
    handles_before_ = LiveHandles();
  }

  void TearDown() override {
    if (faulting_ != nullptr) faulting_->Disarm();
    DropStrayContexts();
    ExpectNothingLeft();
  }

  static ArenaOptions Options() {
    ArenaOptions options;
    options.use_vmm = GetParam();
    return options;
  }

  // The context through the faulting driver; hides DriverTest's.
  const ContextRef& context() const { return context_; }
  FaultingDriver& faulting() { return *faulting_; }

  absl::StatusOr<Arena> CreateSmall() {
    return Arena::Create(context_, SmallPlan(), Options());
  }
  absl::StatusOr<FrozenArena> CreateFrozen() {
    PERMAFROST_ASSIGN_OR_RETURN(Arena arena, CreateSmall());
    return std::move(arena).Freeze();
  }

  // What softcuda holds for this process; 0 on NVIDIA's driver, which does not
  // tell.
  int64_t LiveBytes() const {
    return soft().has_value() ? soft()->live_bytes() : 0;
  }
  int64_t LiveHandles() const {
    return soft().has_value() ? soft()->live_handles() : 0;
  }
  int64_t bytes_before() const { return bytes_before_; }

  void ExpectNothingLeft() const {
    EXPECT_EQ(Arena::abandoned_bytes(), 0);
    EXPECT_EQ(LiveBytes(), bytes_before_);
    EXPECT_EQ(LiveHandles(), handles_before_);
  }

  // A scope whose pop was made to fail leaves its context on the stack.
  void DropStrayContexts() const {
    CUcontext current = nullptr;
    while (api().CtxGetCurrent(&current) == CUDA_SUCCESS &&
           current != nullptr) {
      ASSERT_EQ(api().CtxPopCurrent(&current), CUDA_SUCCESS);
    }
  }

  std::vector<unsigned char> ReadDevice(DevicePtr base, int64_t bytes) const {
    std::vector<unsigned char> host(static_cast<size_t>(bytes), 0xee);
    const Context::Scope scope = DriverTest::context()->MakeCurrent();
    EXPECT_OK(scope.status());
    EXPECT_EQ(api().MemcpyDtoH(host.data(), base.value(), host.size()),
              CUDA_SUCCESS);
    return host;
  }

 private:
  std::unique_ptr<FaultingDriver> faulting_;
  ContextRef context_;
  int64_t bytes_before_ = 0;
  int64_t handles_before_ = 0;
};

inline std::string MemoryName(const ::testing::TestParamInfo<bool>& info) {
  return info.param ? "Mapped" : "Allocated";
}

}  // namespace permafrost::testing

#define PERMAFROST_ON_BOTH_MEMORIES(suite)                   \
  INSTANTIATE_TEST_SUITE_P(Memory, suite, ::testing::Bool(), \
                           ::permafrost::testing::MemoryName)

#endif  // PERMAFROST_TESTS_ARENA_MEMORY_ARENA_FIXTURE_H_
