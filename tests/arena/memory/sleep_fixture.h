// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

// An arena with a buffer of every sleep policy, and what each must hold.

#ifndef PERMAFROST_TESTS_ARENA_MEMORY_SLEEP_FIXTURE_H_
#define PERMAFROST_TESTS_ARENA_MEMORY_SLEEP_FIXTURE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "permafrost/driver/status.h"
#include "tests/arena/memory/arena_fixture.h"

namespace permafrost::testing {

inline BufferSize Sleeping(std::string name, int64_t bytes, Lifetime lifetime,
                           std::string tag, SleepPolicy sleep) {
  BufferSize size = Sized(std::move(name), bytes, lifetime, std::move(tag));
  size.sleep = sleep;
  return size;
}

// Five segments: of tag "step" discard (4 MiB), keep and zero, of tag "kv" keep
// and restore (2 MiB each).
inline std::vector<BufferSize> SleepSizes() {
  return {
      Sleeping("scratch", (int64_t{2} << 20) + 100, Lifetime::kPerLayer, "step",
               SleepPolicy::kDiscard),
      Sleeping("tables", 5000, Lifetime::kConstant, "step", SleepPolicy::kKeep),
      Sleeping("counters", 1000, Lifetime::kInitOnce, "step",
               SleepPolicy::kZero),
      Sleeping("state", 70001, Lifetime::kState, "kv", SleepPolicy::kKeep),
      Sleeping("more_state", 300, Lifetime::kState, "kv", SleepPolicy::kKeep),
      Sleeping("slab", 4096, Lifetime::kPersistentSlab, "kv",
               SleepPolicy::kRestore)};
}
inline constexpr int64_t kSleepPlanBytes = int64_t{12} << 20;
inline constexpr int64_t kKvBytes = int64_t{4} << 20;
inline constexpr int64_t kKeptBytes = 5000 + 70001 + 300;
inline constexpr unsigned char kRestoredByte = 0x5a;

// Memory is mapped: memory of cuMemAlloc cannot sleep.
class SleepTest : public ArenaTest {
 protected:
  absl::StatusOr<FrozenArena> CreateSleeper(ArenaOptions options = {}) {
    PERMAFROST_ASSIGN_OR_RETURN(ArenaPlan plan, PlanArena(SleepSizes(), {}));
    PERMAFROST_ASSIGN_OR_RETURN(
        Arena arena, Arena::Create(context(), std::move(plan), options));
    PERMAFROST_ASSIGN_OR_RETURN(FrozenArena frozen, std::move(arena).Freeze());
    PERMAFROST_RETURN_IF_ERROR(frozen.SetRestoreHook(
        "slab", [this](const BufferRef& buffer, CUstream stream) {
          return CuStatus(context()->api().MemsetD8Async(
                              buffer.base.value(), kRestoredByte,
                              static_cast<size_t>(buffer.bytes), stream),
                          "cuMemsetD8Async", "restoring");
        }));
    Fill(frozen);
    return frozen;
  }

  // A pattern of its own for each buffer.
  static std::vector<unsigned char> Pattern(const PlannedBuffer& buffer) {
    std::vector<unsigned char> bytes(static_cast<size_t>(buffer.bytes));
    uint32_t word = static_cast<uint32_t>(buffer.offset_bytes) | 1u;
    for (unsigned char& byte : bytes) {
      word = word * 1664525u + 1013904223u;
      byte = static_cast<unsigned char>(word >> 24);
    }
    return bytes;
  }

  void Write(DevicePtr base, const std::vector<unsigned char>& bytes) const {
    const Context::Scope scope = DriverTest::context()->MakeCurrent();
    ASSERT_OK(scope.status());
    ASSERT_EQ(api().MemcpyHtoD(base.value(), bytes.data(), bytes.size()),
              CUDA_SUCCESS);
    ASSERT_EQ(api().CtxSynchronize(), CUDA_SUCCESS);
  }

  void Fill(const FrozenArena& arena) const {
    const ArenaView view = arena.view();
    for (const PlannedBuffer& buffer : view.plan().buffers()) {
      Write(view.base() + buffer.offset_bytes, Pattern(buffer));
    }
  }

  // The buffer holds what was written to it.
  void ExpectPattern(const FrozenArena& arena, absl::string_view name) const {
    const ArenaView view = arena.view();
    ASSERT_OK_AND_ASSIGN(const BufferRef buffer, view.Find(name));
    EXPECT_EQ(ReadDevice(buffer.base, buffer.bytes),
              Pattern(*view.plan().Find(name)))
        << name;
  }

  void ExpectAll(const FrozenArena& arena, absl::string_view name,
                 unsigned char value) const {
    ASSERT_OK_AND_ASSIGN(const BufferRef buffer, arena.view().Find(name));
    EXPECT_EQ(
        ReadDevice(buffer.base, buffer.bytes),
        std::vector<unsigned char>(static_cast<size_t>(buffer.bytes), value))
        << name;
  }

  // No part slept: every byte is as written, scratch too.
  void ExpectAwakeAsBefore(const FrozenArena& arena) const {
    for (const SegmentStatus& segment : arena.segments()) {
      EXPECT_FALSE(segment.is_asleep) << segment.tag;
      EXPECT_EQ(segment.live_bytes, segment.bytes) << segment.tag;
    }
    for (const PlannedBuffer& buffer : arena.view().plan().buffers()) {
      ExpectPattern(arena, buffer.name);
    }
    EXPECT_OK(arena.VerifyStable());
    EXPECT_EQ(arena.live_bytes(), kSleepPlanBytes);
    EXPECT_EQ(arena.host_bytes(), 0);
  }

  // Every part slept and woke: each buffer as its policy says.
  void ExpectWokenByPolicy(const FrozenArena& arena) const {
    for (const SegmentStatus& segment : arena.segments()) {
      EXPECT_FALSE(segment.is_asleep) << segment.tag;
    }
    for (const char* name : {"tables", "state", "more_state"}) {
      ExpectPattern(arena, name);
    }
    ExpectAll(arena, "counters", 0);
    ExpectAll(arena, "slab", kRestoredByte);
    EXPECT_OK(arena.VerifyStable());
    EXPECT_EQ(arena.live_bytes(), kSleepPlanBytes);
  }

  bool IsAllAsleep(const FrozenArena& arena) const {
    for (const SegmentStatus& segment : arena.segments()) {
      if (!segment.is_asleep) return false;
    }
    return true;
  }

  // Nothing is held but addresses and what is kept.
  void ExpectAsleep(const FrozenArena& arena) const {
    EXPECT_TRUE(IsAllAsleep(arena));
    EXPECT_EQ(arena.live_bytes(), 0);
    EXPECT_EQ(arena.host_bytes(), kKeptBytes);
    EXPECT_EQ(LiveBytes(), bytes_before());
  }
};

// Mapped memory only.
#define PERMAFROST_ON_MAPPED_MEMORY(suite)                         \
  INSTANTIATE_TEST_SUITE_P(Memory, suite, ::testing::Values(true), \
                           ::permafrost::testing::MemoryName)

}  // namespace permafrost::testing

#endif  // PERMAFROST_TESTS_ARENA_MEMORY_SLEEP_FIXTURE_H_
