// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "memory/address_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "check/report.h"

namespace softcuda::memory {
namespace {

using ::testing::HasSubstr;

class AddressSpaceTest : public ::testing::Test {
 protected:
  void SetUp() override { live_before_ = space_.live_bytes(); }
  void TearDown() override { EXPECT_EQ(space_.live_bytes(), live_before_); }

  uint64_t Allocate(uint64_t bytes) {
    uint64_t address = 0;
    EXPECT_EQ(space_.Allocate(bytes, &address), CUDA_SUCCESS);
    return address;
  }
  bool Resolves(const Snapshot& snapshot, uint64_t address) {
    Interval interval;
    return snapshot.Resolve(address, &interval);
  }

  AddressSpace& space_ = AddressSpace::Get();
  uint64_t live_before_ = 0;
};

TEST_F(AddressSpaceTest, SnapshotsAreSharedUntilSomethingChanges) {
  const auto first = space_.snapshot();
  EXPECT_EQ(space_.snapshot(), first);
  const uint64_t address = Allocate(64);
  const auto second = space_.snapshot();
  EXPECT_NE(second, first);
  EXPECT_FALSE(Resolves(*first, address)) << "old answers stay";
  EXPECT_TRUE(Resolves(*second, address));
  ASSERT_EQ(space_.Free(address), CUDA_SUCCESS);
  EXPECT_TRUE(Resolves(*second, address)) << "old answers stay";
  EXPECT_FALSE(Resolves(*space_.snapshot(), address));
}

TEST_F(AddressSpaceTest, FreedAddressesAreRemembered) {
  const uint64_t address = Allocate(4096);
  const uint64_t id = space_.Query(address).buffer_id;
  ASSERT_EQ(space_.Free(address), CUDA_SUCCESS);
  EXPECT_EQ(space_.snapshot()->Describe(address + 16, 4),
            "0x10 bytes into freed device allocation " + std::to_string(id) +
                " (4096 bytes)");
}

TEST_F(AddressSpaceTest, PinnedMemoryIsOutsideTheDeviceAndResolves) {
  void* host = nullptr;
  ASSERT_EQ(space_.AllocateHost(100, &host), CUDA_SUCCESS);
  const auto address = reinterpret_cast<uint64_t>(host);
  EXPECT_FALSE(space_.InDeviceRange(address));
  EXPECT_TRUE(space_.IsHostPinned(host));
  Interval interval;
  ASSERT_TRUE(space_.snapshot()->Resolve(address + 99, &interval));
  EXPECT_EQ(interval.end, address + 100);
  EXPECT_EQ(interval.access, Access::kReadWrite);
  ASSERT_EQ(space_.FreeHost(host), CUDA_SUCCESS);
  EXPECT_FALSE(space_.IsHostPinned(host));

  std::vector<char> mine(100);
  ASSERT_EQ(space_.RegisterHost(mine.data(), 100, CU_MEMHOSTREGISTER_READ_ONLY),
            CUDA_SUCCESS);
  ASSERT_TRUE(space_.snapshot()->Resolve(
      reinterpret_cast<uint64_t>(mine.data()), &interval));
  EXPECT_EQ(interval.access, Access::kRead);
  EXPECT_EQ(space_.UnregisterHost(mine.data()), CUDA_SUCCESS);
}

TEST_F(AddressSpaceTest, ModuleVariablesAreNamedDeviceMemory) {
  const uint64_t address = space_.AllocateModuleGlobal(28, 16, "g");
  ASSERT_NE(address, 0u);
  EXPECT_EQ(address % 16, 0u);
  EXPECT_TRUE(space_.InDeviceRange(address));
  EXPECT_EQ(space_.live_bytes(), live_before_ + 28);
  EXPECT_EQ(space_.snapshot()->Describe(address + 4, 4), "g+0x4 (28 bytes)");
  EXPECT_EQ(*reinterpret_cast<const int*>(address), 0);
  EXPECT_EQ(space_.Free(address), CUDA_ERROR_INVALID_VALUE);
  space_.FreeModuleGlobal(address);
  EXPECT_THAT(space_.snapshot()->Describe(address, 1),
              HasSubstr("freed module variable 'g'"));
  EXPECT_EQ(space_.AllocateModuleGlobal(uint64_t{1} << 60, 16), 0u);
}

TEST_F(AddressSpaceTest, UndefinedMarksFollowTheBlockThroughAliases) {
  constexpr uint64_t kBytes = AddressSpace::kGranularityBytes;
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle handle = 0;
  ASSERT_EQ(space_.CreateHandle(kBytes, properties, &handle), CUDA_SUCCESS);
  uint64_t at[2] = {};
  for (uint64_t& address : at) {
    ASSERT_EQ(space_.Reserve(kBytes, 0, 0, &address), CUDA_SUCCESS);
    ASSERT_EQ(space_.Map(address, kBytes, handle), CUDA_SUCCESS);
  }
  const auto snapshot = space_.snapshot();
  EXPECT_EQ(snapshot->FindUndefined(at[1], kBytes), InitShadow::npos);
  ASSERT_EQ(space_.MarkUndefined(at[0] + 100, 50), CUDA_SUCCESS);
  EXPECT_EQ(snapshot->FindUndefined(at[1], kBytes), at[1] + 100);
  snapshot->NoteWrite(at[1] + 100, 50);
  EXPECT_EQ(snapshot->FindUndefined(at[0], kBytes), InitShadow::npos);
  EXPECT_EQ(space_.MarkUndefined(at[0] + 100, kBytes),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(snapshot->FindUndefined(at[0], kBytes), InitShadow::npos)
      << "all or nothing";
  for (const uint64_t address : at) {
    ASSERT_EQ(space_.Unmap(address, kBytes), CUDA_SUCCESS);
    ASSERT_EQ(space_.FreeReservation(address, kBytes), CUDA_SUCCESS);
  }
  ASSERT_EQ(space_.ReleaseHandle(handle), CUDA_SUCCESS);
}

TEST_F(AddressSpaceTest, InitcheckMakesNewMemoryUndefined) {
  const uint64_t before = Allocate(64);
  check::Reporter::Get().set_initcheck(true);
  const uint64_t during = Allocate(64);
  const uint64_t variable = space_.AllocateModuleGlobal(64, 16, "v");
  check::Reporter::Get().set_initcheck(false);
  const auto snapshot = space_.snapshot();
  EXPECT_EQ(snapshot->FindUndefined(before, 64), InitShadow::npos);
  EXPECT_EQ(snapshot->FindUndefined(during, 64), during);
  EXPECT_EQ(snapshot->FindUndefined(variable, 64), InitShadow::npos);
  space_.FreeModuleGlobal(variable);
  EXPECT_EQ(space_.Free(before), CUDA_SUCCESS);
  EXPECT_EQ(space_.Free(during), CUDA_SUCCESS);
}

TEST_F(AddressSpaceTest, AResetContextKeepsWhatIsNotItsOwn) {
  const uint64_t allocation = Allocate(64);
  void* pinned = nullptr;
  ASSERT_EQ(space_.AllocateHost(64, &pinned), CUDA_SUCCESS);
  uint64_t reserved = 0;
  ASSERT_EQ(space_.Reserve(AddressSpace::kGranularityBytes, 0, 0, &reserved),
            CUDA_SUCCESS);
  space_.FreeContextMemory();
  EXPECT_FALSE(space_.Query(allocation).mapped);
  EXPECT_FALSE(space_.IsHostPinned(pinned));
  EXPECT_TRUE(space_.Query(reserved).in_reservation);
  EXPECT_EQ(space_.FreeReservation(reserved, AddressSpace::kGranularityBytes),
            CUDA_SUCCESS);
}

// Threads allocate, use, mark and free; others take snapshots and check that
// what one says never changes. For ThreadSanitizer as much as for the answers.
TEST_F(AddressSpaceTest, SnapshotsHoldWhileOthersAllocate) {
  std::atomic<bool> done{false};
  const uint64_t fixed = Allocate(1 << 16);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([this] {
      for (int i = 0; i < 200; ++i) {
        uint64_t address = 0;
        if (space_.Allocate(5000, &address) != CUDA_SUCCESS) continue;
        const auto snapshot = space_.snapshot();
        *reinterpret_cast<volatile char*>(address + 4999) = 1;
        EXPECT_TRUE(Resolves(*snapshot, address));
        EXPECT_EQ(space_.Free(address), CUDA_SUCCESS);
      }
    });
  }
  std::thread marker([this, fixed, &done] {
    while (!done) {
      EXPECT_EQ(space_.MarkUndefined(fixed + 1000, 3000), CUDA_SUCCESS);
      space_.snapshot()->NoteWrite(fixed + 1000, 3000);
    }
  });
  std::thread reader([this, fixed, &done] {
    while (!done) {
      const auto snapshot = space_.snapshot();
      Interval first;
      Interval again;
      ASSERT_TRUE(snapshot->Resolve(fixed + 77, &first));
      std::vector<bool> answers;
      for (int pass = 0; pass < 2; ++pass) {
        for (uint64_t i = 0; i < 64; ++i) {
          const bool found =
              snapshot->Resolve(fixed + i * AddressSpace::kGapBytes, &again);
          if (pass == 0) {
            answers.push_back(found);
          } else {
            ASSERT_EQ(found, answers[i]);
          }
        }
      }
      (void)snapshot->Describe(fixed + (1 << 16), 4);
    }
  });
  for (std::thread& thread : threads) thread.join();
  done = true;
  marker.join();
  reader.join();
  EXPECT_EQ(space_.Free(fixed), CUDA_SUCCESS);
}

TEST_F(AddressSpaceTest, TwoHundredRegionsGiveTheirIntervals) {
  // Each region, and the gap before each and behind the last.
  constexpr uint64_t kRegions = 200;
  constexpr uint64_t kStride = 1024;
  const uint64_t base = Allocate((kRegions + 1) * kStride);
  RegionTable& regions = space_.regions();
  ASSERT_TRUE(regions.RegisterHeap("arena", base, (kRegions + 1) * kStride,
                                   RegionTable::Usage::kSubAllocator));
  for (uint64_t i = 0; i < kRegions; ++i) {
    ASSERT_TRUE(regions.AddRegion(base, base + i * kStride + 256, 512));
  }
  const auto snapshot = space_.snapshot();
  uint64_t intervals = 0;
  Interval interval;
  for (uint64_t at = base; at < base + (kRegions + 1) * kStride;
       at = interval.end) {
    ASSERT_TRUE(snapshot->Resolve(at, &interval));
    EXPECT_EQ(interval.access != Access::kNone, (at - base) % kStride == 256);
    ++intervals;
  }
  EXPECT_EQ(intervals, 2 * kRegions + 1);
  EXPECT_TRUE(regions.UnregisterHeap(base));
  EXPECT_EQ(space_.Free(base), CUDA_SUCCESS);
}

}  // namespace
}  // namespace softcuda::memory
