// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/arena/memory/sleep_fixture.h"

namespace permafrost {
namespace {

using ::permafrost::testing::kKvBytes;
using ::permafrost::testing::kRestoredByte;
using ::permafrost::testing::kSleepPlanBytes;
using ::permafrost::testing::Sized;
using ::permafrost::testing::Sleeping;
using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kPrecondition = absl::StatusCode::kFailedPrecondition;

class ArenaSleepTest : public ::permafrost::testing::SleepTest {};
PERMAFROST_ON_MAPPED_MEMORY(ArenaSleepTest);

TEST_P(ArenaSleepTest, SleepGivesThePagesBackAndWakeFillsEachByItsPolicy) {
  ASSERT_OK_AND_ASSIGN(FrozenArena arena, CreateSleeper());
  const DevicePtr base = arena.view().base();
  const uint64_t fingerprint = arena.fingerprint();
  ASSERT_OK_AND_ASSIGN(const ArenaEvidence before, arena.ReadBack());
  ASSERT_OK(arena.Sleep());
  ExpectAsleep(arena);
  EXPECT_EQ(arena.view().base(), base);
  EXPECT_OK(arena.VerifyStable());
  EXPECT_EQ(arena.epoch(), 1u);

  ASSERT_OK(arena.Wake());
  ExpectWokenByPolicy(arena);
  EXPECT_EQ(arena.host_bytes(), 0);
  EXPECT_EQ(arena.view().base(), base);
  EXPECT_EQ(arena.fingerprint(), fingerprint);
  EXPECT_EQ(arena.epoch(), 2u);
  ASSERT_OK_AND_ASSIGN(const ArenaEvidence after, arena.ReadBack());
  EXPECT_EQ(after.fingerprint, fingerprint);
  for (size_t i = 0; i < before.buffers.size(); ++i) {
    EXPECT_EQ(after.buffers[i].base, before.buffers[i].base);
    EXPECT_NE(after.buffers[i].block_id, before.buffers[i].block_id);
  }
}

TEST_P(ArenaSleepTest, PartsSleepApartByTag) {
  ASSERT_OK_AND_ASSIGN(FrozenArena arena, CreateSleeper());
  ASSERT_OK(arena.Sleep({.tags = {"kv"}}));
  EXPECT_EQ(arena.live_bytes(), kSleepPlanBytes - kKvBytes);
  const ArenaView view = arena.view();
  EXPECT_TRUE(view.IsAsleep("state"));
  EXPECT_FALSE(view.IsAsleep("tables"));
  EXPECT_FALSE(view.IsAsleep("nothing of that name"));
  EXPECT_THAT(
      view.Find("state"),
      StatusIs(kPrecondition, AllOf(HasSubstr("'state' is asleep"),
                                    HasSubstr("'kv'"), HasSubstr("Wake()"))));
  EXPECT_THAT(view.CheckFits("state", 1), StatusIs(kPrecondition));
  ExpectPattern(arena, "scratch");
  ExpectPattern(arena, "tables");
  EXPECT_OK(arena.VerifyStable());

  std::vector<int> asleep;
  for (const SegmentStatus& segment : arena.segments()) {
    asleep.push_back(segment.is_asleep ? 1 : 0);
    EXPECT_EQ(segment.live_bytes, segment.is_asleep ? 0 : segment.bytes);
  }
  EXPECT_THAT(asleep, ElementsAre(0, 0, 0, 1, 1));

  // The rest joins it; then the parts wake one after the other.
  ASSERT_OK(arena.Sleep());
  ExpectAsleep(arena);
  ASSERT_OK(arena.Wake({.tags = {"step"}}));
  EXPECT_EQ(arena.epoch(), 2u);
  ExpectPattern(arena, "tables");
  EXPECT_TRUE(view.IsAsleep("slab"));
  ASSERT_OK(arena.Wake());
  EXPECT_EQ(arena.epoch(), 3u);
  ExpectWokenByPolicy(arena);
  for (const SegmentStatus& segment : arena.segments()) {
    EXPECT_EQ(segment.epoch, 2u) << segment.tag;
  }
}

TEST_P(ArenaSleepTest, SleepingTwiceAndWakingAwakeAreErrorsThatSaySo) {
  ASSERT_OK_AND_ASSIGN(FrozenArena arena, CreateSleeper());
  EXPECT_THAT(arena.Wake(),
              StatusIs(kPrecondition, HasSubstr("every part is awake")));
  ASSERT_OK(arena.Sleep({.tags = {"kv"}}));
  EXPECT_THAT(arena.Sleep({.tags = {"kv"}}),
              StatusIs(kPrecondition,
                       HasSubstr("every part tagged 'kv' is asleep already")));
  EXPECT_THAT(arena.Wake({.tags = {"step"}}), StatusIs(kPrecondition));
  ASSERT_OK(arena.Sleep({.tags = {"kv", "step"}}));
  EXPECT_THAT(arena.Sleep(), StatusIs(kPrecondition));
  ExpectAsleep(arena);
  ASSERT_OK(arena.Wake());
  EXPECT_EQ(arena.epoch(), 2u);
}

TEST_P(ArenaSleepTest, AnUnknownTagIsNamedBesideTheKnownOnes) {
  ASSERT_OK_AND_ASSIGN(FrozenArena arena, CreateSleeper());
  for (const absl::Status& status : {arena.Sleep({.tags = {"kv", "weights"}}),
                                     arena.Wake({.tags = {"weights"}})}) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound,
                                 AllOf(HasSubstr("tag 'weights'"),
                                       HasSubstr("'kv', 'step'"))));
  }
  ExpectAwakeAsBefore(arena);
}

TEST_P(ArenaSleepTest, AReleasedArenaNeitherSleepsNorWakes) {
  ASSERT_OK_AND_ASSIGN(FrozenArena arena, CreateSleeper());
  ASSERT_OK(arena.Release());
  EXPECT_THAT(arena.Sleep(), StatusIs(kPrecondition, HasSubstr("released")));
  EXPECT_THAT(arena.Wake(), StatusIs(kPrecondition, HasSubstr("released")));
  EXPECT_EQ(arena.segments()[0].live_bytes, 0);
}

TEST_P(ArenaSleepTest, ASleepingArenaIsReleased) {
  ASSERT_OK_AND_ASSIGN(FrozenArena arena, CreateSleeper());
  ASSERT_OK(arena.Sleep());
  ASSERT_OK(arena.Release());
  EXPECT_EQ(arena.host_bytes(), 0);
  ExpectNothingLeft();
}

TEST_P(ArenaSleepTest, WithoutMappingSleepIsUnimplementedAndSaysWhy) {
  ASSERT_OK_AND_ASSIGN(FrozenArena arena, CreateSleeper({.use_vmm = false}));
  for (const absl::Status& status : {arena.Sleep(), arena.Wake()}) {
    EXPECT_THAT(status,
                StatusIs(absl::StatusCode::kUnimplemented,
                         AllOf(HasSubstr("cuMemAlloc"), HasSubstr("use_vmm"))));
  }
  ExpectPattern(arena, "state");
}

TEST_P(ArenaSleepTest, ContentsThatWouldBeLostAreRefusedAndNamed) {
  const struct {
    Lifetime lifetime;
    SleepPolicy sleep;
    bool is_refused;
  } cases[] = {{Lifetime::kConstant, SleepPolicy::kDiscard, true},
               {Lifetime::kConstant, SleepPolicy::kZero, false},
               {Lifetime::kConstant, SleepPolicy::kKeep, false},
               {Lifetime::kPersistentSlab, SleepPolicy::kDiscard, true},
               {Lifetime::kPersistentSlab, SleepPolicy::kKeep, false},
               {Lifetime::kInitOnce, SleepPolicy::kDiscard, true},
               {Lifetime::kInitOnce, SleepPolicy::kZero, false},
               {Lifetime::kState, SleepPolicy::kDiscard, true},
               {Lifetime::kState, SleepPolicy::kZero, false},
               {Lifetime::kHostWritten, SleepPolicy::kDiscard, false},
               {Lifetime::kPerStep, SleepPolicy::kDiscard, false},
               {Lifetime::kPerLayer, SleepPolicy::kDiscard, false}};
  for (const auto& one : cases) {
    SCOPED_TRACE(absl::StrCat(LifetimeName(one.lifetime), ", ",
                              SleepPolicyName(one.sleep)));
    ASSERT_OK_AND_ASSIGN(
        ArenaPlan plan,
        PlanArena({Sleeping("other", 100, Lifetime::kPerLayer, "step",
                            SleepPolicy::kDiscard),
                   Sleeping("precious", 100, one.lifetime, "kv", one.sleep)},
                  {}));
    ASSERT_OK_AND_ASSIGN(Arena created,
                         Arena::Create(context(), std::move(plan)));
    ASSERT_OK_AND_ASSIGN(FrozenArena arena, std::move(created).Freeze());
    if (one.is_refused) {
      EXPECT_THAT(
          arena.Sleep(),
          StatusIs(kPrecondition,
                   AllOf(HasSubstr("'precious'"),
                         HasSubstr(std::string(LifetimeName(one.lifetime))),
                         HasSubstr(std::string(SleepPolicyName(one.sleep))))));
      EXPECT_FALSE(arena.view().IsAsleep("other"));
      // The part without it sleeps.
      EXPECT_OK(arena.Sleep({.tags = {"step"}}));
    } else {
      EXPECT_OK(arena.Sleep());
    }
  }
}

// What the rows of the table say lets a whole arena sleep.
TEST_P(ArenaSleepTest, TheTableOfAModelSleepsAndWakes) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config,
                       LoadModelConfig("qwen3-30b-a3b"));
  ASSERT_OK_AND_ASSIGN(
      std::vector<BufferSize> sizes,
      ComputeBufferSizes(config, {.max_batch_tokens = 8, .max_batch_size = 8}));
  ASSERT_OK_AND_ASSIGN(ArenaPlan plan, PlanArena(std::move(sizes), {}));
  const int64_t total_bytes = plan.total_bytes();
  ASSERT_OK_AND_ASSIGN(Arena created,
                       Arena::Create(context(), std::move(plan)));
  ASSERT_OK_AND_ASSIGN(FrozenArena arena, std::move(created).Freeze());
  ASSERT_OK(arena.Sleep());
  EXPECT_EQ(arena.live_bytes(), 0);
  EXPECT_LT(arena.host_bytes(), int64_t{64} << 20);
  ASSERT_OK(arena.Wake());
  EXPECT_EQ(arena.live_bytes(), total_bytes);
  EXPECT_OK(arena.VerifyStable());
}

TEST_P(ArenaSleepTest, ARestoreBufferNeedsItsHook) {
  ASSERT_OK_AND_ASSIGN(ArenaPlan plan,
                       PlanArena(::permafrost::testing::SleepSizes(), {}));
  ASSERT_OK_AND_ASSIGN(Arena created,
                       Arena::Create(context(), std::move(plan)));
  ASSERT_OK_AND_ASSIGN(FrozenArena arena, std::move(created).Freeze());
  EXPECT_THAT(arena.Sleep(),
              StatusIs(kPrecondition, AllOf(HasSubstr("'slab'"),
                                            HasSubstr("SetRestoreHook"))));
  const auto hook = [](const BufferRef&, CUstream) { return absl::OkStatus(); };
  EXPECT_THAT(arena.SetRestoreHook("state", hook),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("policy is keep")));
  EXPECT_THAT(arena.SetRestoreHook("slab", nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(arena.SetRestoreHook("slap", hook),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("'slap'")));
  EXPECT_OK(arena.SetRestoreHook("slab", hook));
  EXPECT_OK(arena.Sleep());
}

TEST_P(ArenaSleepTest, AFailingOrThrowingRestoreHookLeavesTheArenaAsleep) {
  ASSERT_OK_AND_ASSIGN(FrozenArena arena, CreateSleeper());
  ASSERT_OK(arena.Sleep());
  ASSERT_OK(arena.SetRestoreHook("slab", [](const BufferRef&, CUstream) {
    return absl::UnavailableError("the weights file is gone");
  }));
  EXPECT_THAT(arena.Wake(), StatusIs(absl::StatusCode::kUnavailable,
                                     AllOf(HasSubstr("buffer 'slab'"),
                                           HasSubstr("file is gone"))));
  ExpectAsleep(arena);
  ASSERT_OK(arena.SetRestoreHook(
      "slab", [](const BufferRef&, CUstream) -> absl::Status {
        throw std::runtime_error("thrown");
      }));
  EXPECT_THAT(arena.Wake(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("thrown")));
  ExpectAsleep(arena);
  ASSERT_OK(
      arena.SetRestoreHook("slab", [this](const BufferRef& buffer, CUstream) {
        const std::vector<unsigned char> bytes(
            static_cast<size_t>(buffer.bytes), kRestoredByte);
        Write(buffer.base, bytes);
        return absl::OkStatus();
      }));
  ASSERT_OK(arena.Wake());
  ExpectWokenByPolicy(arena);
}

TEST_P(ArenaSleepTest, AHostCopyThatChangedIsFoundByItsChecksumAndNamed) {
  // Writes back what is kept, but for one byte of 'more_state'.
  static PFN_cuMemcpyHtoDAsync_v3020 honest = nullptr;
  static bool lies = false;
  DriverApi api = driver()->api();
  honest = api.MemcpyHtoDAsync;
  api.MemcpyHtoDAsync = [](CUdeviceptr to, const void* from, size_t bytes,
                           CUstream stream) -> CUresult {
    if (!lies || bytes != 300) return honest(to, from, bytes, stream);
    static std::vector<unsigned char> copy;
    const auto* begin = static_cast<const unsigned char*>(from);
    copy.assign(begin, begin + bytes);
    copy[299] ^= 1;
    return honest(to, copy.data(), bytes, stream);
  };
  ASSERT_OK_AND_ASSIGN(const ContextRef lying,
                       Context::RetainPrimary(Driver::WithApi(driver(), api)));
  ASSERT_OK_AND_ASSIGN(ArenaPlan plan,
                       PlanArena(::permafrost::testing::SleepSizes(), {}));
  ASSERT_OK_AND_ASSIGN(Arena created, Arena::Create(lying, std::move(plan)));
  ASSERT_OK_AND_ASSIGN(FrozenArena other, std::move(created).Freeze());
  Fill(other);
  ASSERT_OK(other.SetRestoreHook(
      "slab", [](const BufferRef&, CUstream) { return absl::OkStatus(); }));
  ASSERT_OK(other.Sleep());
  lies = true;
  EXPECT_THAT(other.Wake(), StatusIs(absl::StatusCode::kDataLoss,
                                     AllOf(HasSubstr("'more_state'"),
                                           HasSubstr("checksum"))));
  lies = false;
  ExpectAsleep(other);
  ASSERT_OK(other.Wake());
  ExpectPattern(other, "more_state");
}

TEST_P(ArenaSleepTest, ForeignMemoryIsFoundBeforeItSleepsAsOurs) {
  ASSERT_OK_AND_ASSIGN(FrozenArena arena, CreateSleeper());
  ASSERT_OK(arena.Sleep());
  ASSERT_OK(arena.Wake());
  // Other code unmaps a segment and maps memory of its own there.
  const PlannedSegment& kv = arena.view().plan().segments()[3];
  const CUdeviceptr base = (arena.view().base() + kv.offset_bytes).value();
  const auto bytes = static_cast<size_t>(kv.bytes);
  {
    const Context::Scope scope = context()->MakeCurrent();
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = context()->device();
    CUmemAccessDesc access{};
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CUmemGenericAllocationHandle handle = 0;
    ASSERT_EQ(api().MemCreate(&handle, bytes, &prop, 0), CUDA_SUCCESS);
    ASSERT_EQ(api().MemUnmap(base, bytes), CUDA_SUCCESS);
    ASSERT_EQ(api().MemMap(base, bytes, 0, handle, 0), CUDA_SUCCESS);
    ASSERT_EQ(api().MemSetAccess(base, bytes, &access, 1), CUDA_SUCCESS);
    ASSERT_EQ(api().MemRelease(handle), CUDA_SUCCESS);
  }
  EXPECT_THAT(arena.VerifyStable(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("'state'")));
  EXPECT_THAT(arena.Sleep({.tags = {"kv"}}),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("'state'"), HasSubstr("block id"))));
  EXPECT_FALSE(arena.view().IsAsleep("state"));
  // The part that is ours still sleeps.
  EXPECT_OK(arena.Sleep({.tags = {"step"}}));
}

TEST_P(ArenaSleepTest, MemoryMappedBehindASleepingArenaIsFound) {
  ASSERT_OK_AND_ASSIGN(FrozenArena arena, CreateSleeper());
  ASSERT_OK(arena.Sleep());
  const PlannedSegment& kv = arena.view().plan().segments()[3];
  const CUdeviceptr base = (arena.view().base() + kv.offset_bytes).value();
  const auto bytes = static_cast<size_t>(kv.bytes);
  const Context::Scope scope = context()->MakeCurrent();
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = context()->device();
  CUmemGenericAllocationHandle handle = 0;
  ASSERT_EQ(api().MemCreate(&handle, bytes, &prop, 0), CUDA_SUCCESS);
  ASSERT_EQ(api().MemMap(base, bytes, 0, handle, 0), CUDA_SUCCESS);
  ASSERT_EQ(api().MemRelease(handle), CUDA_SUCCESS);
  EXPECT_THAT(arena.VerifyStable(),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("'state'"), HasSubstr("was not"))));
  EXPECT_EQ(CuCallOf(arena.Wake()), "cuMemMap");
  EXPECT_TRUE(IsAllAsleep(arena));
  ASSERT_EQ(api().MemUnmap(base, bytes), CUDA_SUCCESS);
  ExpectAsleep(arena);
  ASSERT_OK(arena.Wake());
  ExpectWokenByPolicy(arena);
}

TEST_P(ArenaSleepTest, ADeviceTooFullToWakeIsRefusedWithBothNumbers) {
  PERMAFROST_NEEDS_SOFTCUDA();
  ASSERT_OK_AND_ASSIGN(FrozenArena arena, CreateSleeper());
  ASSERT_OK(arena.Sleep());
  ASSERT_OK_AND_ASSIGN(const int64_t total, context()->TotalMemoryBytes());
  soft()->SetDeviceMemoryBytes(bytes_before() + kSleepPlanBytes - 1);
  faulting().ResetCounts();
  const absl::Status status = arena.Wake();
  const absl::Status part = arena.Wake({.tags = {"kv"}});
  soft()->SetDeviceMemoryBytes(total);
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("need 12582912 bytes, 12582911 are free")));
  EXPECT_OK(part);
  EXPECT_OK(arena.Wake());
  ExpectWokenByPolicy(arena);
}

TEST_P(ArenaSleepTest, OutsideBuffersGetTheirHooksAndUnregisteredOnesNone) {
  ASSERT_OK_AND_ASSIGN(FrozenArena arena, CreateSleeper());
  std::vector<std::string> log;
  absl::Status on_sleep;
  absl::Status on_wake;
  const auto outside = [&](std::string name) {
    OutsideBuffer buffer;
    buffer.name = name;
    buffer.tag = "weights";
    buffer.on_sleep = [&log, &on_sleep, name] {
      log.push_back(name + " sleeps");
      return name == "b" ? on_sleep : absl::OkStatus();
    };
    buffer.on_wake = [&log, &on_wake, name] {
      log.push_back(name + " wakes");
      return name == "b" ? on_wake : absl::OkStatus();
    };
    return buffer;
  };
  ASSERT_OK(arena.RegisterOutside(outside("a")));
  ASSERT_OK(arena.RegisterOutside(outside("b")));
  EXPECT_THAT(arena.RegisterOutside(outside("a")),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("'a'")));
  OutsideBuffer mapped = outside("c");
  mapped.on_wake = nullptr;
  EXPECT_THAT(arena.RegisterOutside(mapped),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'c'")));

  ASSERT_OK(arena.Sleep({.tags = {"kv"}}));
  EXPECT_THAT(log, IsEmpty());
  ASSERT_OK(arena.Sleep({.tags = {"weights"}}));
  EXPECT_THAT(log, ElementsAre("a sleeps", "b sleeps"));
  EXPECT_EQ(arena.epoch(), 1u);
  log.clear();
  ASSERT_OK(arena.Wake());
  EXPECT_THAT(log, ElementsAre("a wakes", "b wakes"));

  // Hooks that fail: those that ran are undone, and so is the memory.
  log.clear();
  on_sleep = absl::UnavailableError("cannot sleep");
  EXPECT_THAT(arena.Sleep(),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("on_sleep"), HasSubstr("'b'"))));
  EXPECT_THAT(log, ElementsAre("a sleeps", "b sleeps", "a wakes"));
  EXPECT_FALSE(arena.view().IsAsleep("state"));
  on_sleep = absl::OkStatus();
  ASSERT_OK(arena.Sleep());
  log.clear();
  on_wake = absl::UnavailableError("cannot wake");
  EXPECT_THAT(arena.Wake(),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("on_wake"), HasSubstr("'b'"))));
  EXPECT_THAT(log, ElementsAre("a wakes", "b wakes", "a sleeps"));
  ExpectAsleep(arena);
  on_wake = absl::OkStatus();
  ASSERT_OK(arena.Wake());
  for (const char* name : {"tables", "state"}) ExpectPattern(arena, name);
}

TEST_P(ArenaSleepTest, MemoryRegisteredOutsideStaysMapped) {
  constexpr int64_t kBytes = 4096;
  std::vector<BufferSize> sizes = {
      Sized("scratch", kBytes, Lifetime::kPerStep, "step"),
      Sized("window", kBytes, Lifetime::kPerStep, "step"),
      Sized("port", kBytes, Lifetime::kState, "links")};
  sizes[1].sleep = SleepPolicy::kStay;
  sizes[2].sleep = SleepPolicy::kStay;
  ASSERT_OK_AND_ASSIGN(ArenaPlan plan, PlanArena(std::move(sizes), {}));
  ASSERT_OK_AND_ASSIGN(Arena open,
                       Arena::Create(context(), std::move(plan), Options()));
  ASSERT_OK_AND_ASSIGN(FrozenArena arena, std::move(open).Freeze());
  const ArenaView view = arena.view();
  ASSERT_OK_AND_ASSIGN(const BufferRef window, view.Find("window"));
  const Context::Scope scope = context()->MakeCurrent();
  ASSERT_EQ(api().MemsetD8(window.base.value(), 0x5a, kBytes), CUDA_SUCCESS);

  ASSERT_OK(arena.Sleep());
  EXPECT_TRUE(view.IsAsleep("scratch"));
  EXPECT_FALSE(view.IsAsleep("window"));
  EXPECT_FALSE(view.IsAsleep("port"));
  EXPECT_OK(view.Find("window"));
  std::vector<uint8_t> bytes(kBytes);
  ASSERT_EQ(api().MemcpyDtoH(bytes.data(), window.base.value(), kBytes),
            CUDA_SUCCESS);
  EXPECT_THAT(bytes, ::testing::Each(0x5a));
  EXPECT_THAT(arena.Sleep({.tags = {"links"}}),
              StatusIs(kPrecondition,
                       AllOf(HasSubstr("'links'"), HasSubstr("stays mapped"))));

  ASSERT_OK(arena.Wake());
  for (const SegmentStatus& segment : arena.segments()) {
    EXPECT_EQ(segment.epoch, segment.sleep == SleepPolicy::kStay ? 1u : 2u);
  }
  EXPECT_OK(arena.VerifyStable());
}

TEST_P(ArenaSleepTest, MemoryIsMadeAgainWithTheOptionsItWasMadeWith) {
  static std::vector<CUmemAllocationProp> made;
  static PFN_cuMemCreate_v10020 create = nullptr;
  static PFN_cuDeviceGetAttribute_v2000 attribute = nullptr;
  DriverApi api = driver()->api();
  create = api.MemCreate;
  attribute = api.DeviceGetAttribute;
  made.clear();
  api.MemCreate = [](CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* prop,
                     unsigned long long flags) -> CUresult {
    made.push_back(*prop);
    return create(handle, bytes, prop, flags);
  };
  api.DeviceGetAttribute = [](int* value, CUdevice_attribute what,
                              CUdevice device) -> CUresult {
    const CUresult result = attribute(value, what, device);
    if (what ==
        CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) {
      *value = 1;
    }
    return result;
  };
  ASSERT_OK_AND_ASSIGN(const ContextRef recording,
                       Context::RetainPrimary(Driver::WithApi(driver(), api)));
  ASSERT_OK_AND_ASSIGN(
      ArenaPlan plan, PlanArena({Sleeping("x", 100, Lifetime::kPerLayer, "step",
                                          SleepPolicy::kDiscard)},
                                {}));
  ArenaOptions options;
  options.rdma_capable = true;
  options.shareable_handle_types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  ASSERT_OK_AND_ASSIGN(Arena created,
                       Arena::Create(recording, std::move(plan), options));
  ASSERT_OK_AND_ASSIGN(FrozenArena arena, std::move(created).Freeze());
  ASSERT_OK(arena.Sleep());
  ASSERT_OK(arena.Wake());
  ASSERT_EQ(made.size(), 2u);
  for (const CUmemAllocationProp& prop : made) {
    EXPECT_EQ(prop.requestedHandleTypes,
              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    EXPECT_EQ(prop.allocFlags.gpuDirectRDMACapable, 1);
    EXPECT_EQ(prop.location.id, context()->device());
  }
}

}  // namespace
}  // namespace permafrost
