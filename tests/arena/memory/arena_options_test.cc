// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

//
// Peers, shareable handles, RDMA; and what a Create that does not fit says.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "permafrost/arena/largest_fitting.h"
#include "tests/arena/memory/arena_fixture.h"

namespace permafrost {
namespace {

using ::permafrost::testing::SmallPlan;
using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// A driver whose device has what the test says it has, and which has a second
// device that is its first one.
std::map<int, int> attribute_answers;
int peer_answer = 1;
std::vector<std::vector<CUmemAccessDesc>> access_made;
PFN_cuDeviceGetAttribute_v2000 honest_attribute = nullptr;
PFN_cuMemSetAccess_v10020 honest_set_access = nullptr;

CUresult AnswerAttribute(int* value, CUdevice_attribute attribute,
                         CUdevice device) {
  const CUresult result =
      honest_attribute(value, attribute, device == 7 ? 0 : device);
  const auto found = attribute_answers.find(static_cast<int>(attribute));
  if (found != attribute_answers.end()) *value = found->second;
  return result;
}
CUresult DeviceSeven(CUdevice* device, int ordinal) {
  if (ordinal != 0 && ordinal != 7) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult AnswerPeer(int* can_access, CUdevice, CUdevice) {
  *can_access = peer_answer;
  return CUDA_SUCCESS;
}
CUresult RecordAccess(CUdeviceptr base, size_t bytes,
                      const CUmemAccessDesc* access, size_t count) {
  access_made.emplace_back(access, access + count);
  return honest_set_access(base, bytes, access, 1);
}

class ArenaOptionsTest : public ::permafrost::testing::ArenaTest {
 protected:
  void SetUp() override {
    ArenaTest::SetUp();
    if (HasFatalFailure()) return;
    attribute_answers.clear();
    peer_answer = 1;
    access_made.clear();
    DriverApi table = driver()->api();
    honest_attribute = table.DeviceGetAttribute;
    honest_set_access = table.MemSetAccess;
    table.DeviceGetAttribute = &AnswerAttribute;
    table.DeviceGet = &DeviceSeven;
    table.DeviceCanAccessPeer = &AnswerPeer;
    table.MemSetAccess = &RecordAccess;
    ASSERT_OK_AND_ASSIGN(
        answering_, Context::RetainPrimary(Driver::WithApi(driver(), table)));
  }

  absl::Status CreateWith(const ArenaOptions& options) {
    return Arena::Create(answering_, SmallPlan(), options).status();
  }

  ContextRef answering_;
};
INSTANTIATE_TEST_SUITE_P(Memory, ArenaOptionsTest, ::testing::Values(true),
                         ::permafrost::testing::MemoryName);

TEST_P(ArenaOptionsTest, HandleTypesThatTheDeviceHasNotAreNamed) {
  const struct {
    CUmemAllocationHandleType type;
    CUdevice_attribute support;
    const char* name;
  } cases[] = {
      {CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
       CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
       "POSIX file descriptors"},
      {CU_MEM_HANDLE_TYPE_FABRIC,
       CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, "fabric handles"}};
  for (const auto& one : cases) {
    attribute_answers[one.support] = 0;
    ArenaOptions options;
    options.shareable_handle_types = one.type;
    EXPECT_THAT(CreateWith(options),
                StatusIs(kUnimplemented,
                         AllOf(HasSubstr("shareable_handle_types"),
                               HasSubstr("device 0"), HasSubstr(one.name))));
  }
  attribute_answers.clear();
  attribute_answers
      [CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED] = 1;
  ArenaOptions options;
  options.shareable_handle_types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  EXPECT_OK(CreateWith(options));
  options.shareable_handle_types = CU_MEM_HANDLE_TYPE_WIN32;
  EXPECT_THAT(CreateWith(options), StatusIs(kInvalid, HasSubstr("got 2")));
}

TEST_P(ArenaOptionsTest, RdmaThatTheDeviceHasNotIsNamed) {
  ArenaOptions options;
  options.rdma_capable = true;
  const int support =
      CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED;
  attribute_answers[support] = 0;
  EXPECT_THAT(CreateWith(options),
              StatusIs(kUnimplemented, HasSubstr("rdma_capable")));
  attribute_answers[support] = 1;
  EXPECT_OK(CreateWith(options));
}

TEST_P(ArenaOptionsTest, PeersGetTheSameAccessAtCreateAndAtWake) {
  ArenaOptions options;
  options.peers = {7};
  ASSERT_OK_AND_ASSIGN(ArenaPlan plan,
                       PlanArena({::permafrost::testing::Sized(
                                     "x", 100, Lifetime::kPerLayer, "step")},
                                 {}));
  ASSERT_OK_AND_ASSIGN(Arena arena,
                       Arena::Create(answering_, std::move(plan), options));
  ASSERT_OK_AND_ASSIGN(FrozenArena frozen, std::move(arena).Freeze());
  ASSERT_OK(frozen.Sleep());
  ASSERT_OK(frozen.Wake());
  ASSERT_EQ(access_made.size(), 2u);
  for (const std::vector<CUmemAccessDesc>& access : access_made) {
    ASSERT_EQ(access.size(), 2u);
    EXPECT_EQ(access[0].location.id, 0);
    EXPECT_EQ(access[1].location.id, 7);
    for (const CUmemAccessDesc& one : access) {
      EXPECT_EQ(one.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
      EXPECT_EQ(one.flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    }
  }
}

TEST_P(ArenaOptionsTest, PeersThatAreNoneAreRefusedByNumber) {
  ArenaOptions options;
  options.peers = {5};
  EXPECT_THAT(
      CreateWith(options),
      StatusIs(kInvalid, AllOf(HasSubstr("peers"), HasSubstr("device 5"))));
  options.peers = {0};
  EXPECT_THAT(CreateWith(options),
              StatusIs(kInvalid, HasSubstr("device 0 is the arena's own")));
  options.peers = {7, 7};
  EXPECT_THAT(CreateWith(options),
              StatusIs(kInvalid, HasSubstr("device 7 is there twice")));
  options.peers = {7};
  peer_answer = 0;
  EXPECT_THAT(CreateWith(options),
              StatusIs(kUnimplemented, AllOf(HasSubstr("device 7"),
                                             HasSubstr("no peer access"))));
}

TEST_P(ArenaOptionsTest, OneAllocationCannotBeShared) {
  ArenaOptions options;
  options.use_vmm = false;
  EXPECT_OK(CreateWith(options));
  options.peers = {7};
  EXPECT_THAT(CreateWith(options),
              StatusIs(kUnimplemented, HasSubstr("peers")));
  options.peers.clear();
  options.rdma_capable = true;
  EXPECT_THAT(CreateWith(options),
              StatusIs(kUnimplemented, HasSubstr("rdma_capable")));
}

TEST_P(ArenaOptionsTest, B113ARefusalTellsTheLargestBatchThatWouldFit) {
  PERMAFROST_NEEDS_SOFTCUDA();
  ASSERT_OK_AND_ASSIGN(const ModelConfig config,
                       LoadModelConfig("qwen3-30b-a3b"));
  const ServingLimits limits = {.max_batch_tokens = 512};
  const auto plan_for = [&](int64_t rows) {
    ServingLimits smaller = limits;
    smaller.max_batch_tokens = rows;
    return *PlanArena(*ComputeBufferSizes(config, smaller), {});
  };
  ArenaOptions options;
  options.largest_fitting = [&](int64_t free_bytes) {
    return LargestFittingBatchTokens(config, limits, {}, free_bytes);
  };
  ASSERT_OK_AND_ASSIGN(const int64_t total, context()->TotalMemoryBytes());
  soft()->SetDeviceMemoryBytes(bytes_before() + plan_for(100).total_bytes());
  faulting().ResetCounts();
  const absl::Status status =
      Arena::Create(context(), plan_for(512), options).status();
  const int64_t reserved = faulting().calls("cuMemAddressReserve");
  const int64_t fits = *LargestFittingBatchTokens(config, limits, {},
                                                  plan_for(100).total_bytes());
  const absl::Status largest =
      Arena::Create(context(), plan_for(fits), options).status();
  const absl::Status one_more =
      Arena::Create(context(), plan_for(fits + 1), options).status();
  soft()->SetDeviceMemoryBytes(total);
  EXPECT_GE(fits, 100);
  EXPECT_THAT(
      status,
      StatusIs(
          absl::StatusCode::kResourceExhausted,
          AllOf(
              HasSubstr(absl::StrCat("needs ", plan_for(512).total_bytes())),
              HasSubstr(absl::StrCat(plan_for(100).total_bytes(), " are free")),
              HasSubstr("the largest buffers are '"),
              HasSubstr(absl::StrCat("would fit is ", fits)))));
  EXPECT_EQ(reserved, 0);
  EXPECT_OK(largest);
  EXPECT_THAT(one_more, StatusIs(absl::StatusCode::kResourceExhausted));

  soft()->SetDeviceMemoryBytes(bytes_before() + 1);
  const absl::Status nothing =
      Arena::Create(context(), plan_for(512), options).status();
  options.largest_fitting = [](int64_t) -> absl::StatusOr<int64_t> {
    return absl::InternalError("broken");
  };
  const absl::Status unknown =
      Arena::Create(context(), plan_for(512), options).status();
  soft()->SetDeviceMemoryBytes(total);
  EXPECT_THAT(nothing, StatusIs(absl::StatusCode::kResourceExhausted,
                                HasSubstr("no max_batch_tokens would fit")));
  EXPECT_THAT(unknown, StatusIs(absl::StatusCode::kResourceExhausted,
                                HasSubstr("not known: broken")));
}

}  // namespace
}  // namespace permafrost
