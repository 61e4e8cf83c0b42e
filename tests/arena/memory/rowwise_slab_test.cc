// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/rowwise_slab.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "arena_fixture.h"

namespace permafrost::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kSlabBytes = 4096;

class RowwiseSlabTest : public ArenaTest {
 protected:
  absl::StatusOr<Arena> CreateWithSlab() {
    std::vector<BufferSize> sizes = SmallSizes();
    sizes.push_back(
        Sized("copies", kSlabBytes, Lifetime::kPersistentSlab, "copies"));
    sizes.back().sized_by = "rowwise_bf16_copies";
    PERMAFROST_ASSIGN_OR_RETURN(ArenaPlan plan,
                                PlanArena(std::move(sizes), PlanOptions{}));
    return Arena::Create(context(), std::move(plan), Options());
  }
};
PERMAFROST_ON_BOTH_MEMORIES(RowwiseSlabTest);

TEST_P(RowwiseSlabTest, PiecesAreAlignedApartAndInsideTheBuffer) {
  ASSERT_OK_AND_ASSIGN(const Arena arena, CreateWithSlab());
  ASSERT_OK_AND_ASSIGN(const BufferRef buffer, arena.view().Find("copies"));
  ASSERT_OK_AND_ASSIGN(RowwiseSlab slab,
                       RowwiseSlab::Over(arena.view(), "copies"));
  EXPECT_EQ(slab.held_bytes(), kSlabBytes);
  EXPECT_EQ(slab.used_bytes(), 0);
  ASSERT_OK_AND_ASSIGN(const BufferRef first, slab.Carve("layer 0", 1000));
  ASSERT_OK_AND_ASSIGN(const BufferRef second, slab.Carve("layer 1", 1));
  ASSERT_OK_AND_ASSIGN(const BufferRef rest, slab.Carve("layer 2", 2816));
  EXPECT_EQ(first.base, buffer.base);
  EXPECT_EQ(first.bytes, 1000);
  EXPECT_EQ(first.name, "layer 0");
  EXPECT_EQ(second.base, buffer.base + 1024);
  EXPECT_EQ(rest.base, buffer.base + 1280);
  EXPECT_EQ(slab.used_bytes(), kSlabBytes);
}

TEST_P(RowwiseSlabTest, APieceTooManyNamesAllAndTheOption) {
  ASSERT_OK_AND_ASSIGN(const Arena arena, CreateWithSlab());
  ASSERT_OK_AND_ASSIGN(RowwiseSlab slab,
                       RowwiseSlab::Over(arena.view(), "copies"));
  ASSERT_OK(slab.Carve("layer 0", 1000));
  for (const int64_t bytes : {kSlabBytes - 1024 + 1, INT64_MAX}) {
    EXPECT_THAT(
        slab.Carve("layer 1", bytes),
        StatusIs(absl::StatusCode::kResourceExhausted,
                 AllOf(HasSubstr("'copies'"), HasSubstr("'layer 1'"),
                       HasSubstr("asked for " + std::to_string(bytes)),
                       HasSubstr("carved 1000 of 4096"),
                       HasSubstr("ServingLimits::rowwise_bf16_copies"))));
  }
  // The refusal took nothing.
  EXPECT_EQ(slab.used_bytes(), 1000);
  EXPECT_OK(slab.Carve("layer 1", kSlabBytes - 1024));
}

TEST_P(RowwiseSlabTest, EmptyPiecesAreRefused) {
  ASSERT_OK_AND_ASSIGN(const Arena arena, CreateWithSlab());
  ASSERT_OK_AND_ASSIGN(RowwiseSlab slab,
                       RowwiseSlab::Over(arena.view(), "copies"));
  for (const int64_t bytes : {int64_t{0}, int64_t{-1}, INT64_MIN}) {
    EXPECT_THAT(
        slab.Carve("layer 0", bytes),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'layer 0'")));
  }
  EXPECT_EQ(slab.used_bytes(), 0);
}

// A piece carved in a capture would be filled by that graph's replays alone.
TEST_P(RowwiseSlabTest, B80_NothingGrowsAfterTheFreeze) {
  ASSERT_OK_AND_ASSIGN(Arena arena, CreateWithSlab());
  ASSERT_OK_AND_ASSIGN(RowwiseSlab slab,
                       RowwiseSlab::Over(arena.view(), "copies"));
  EXPECT_FALSE(arena.view().is_frozen());
  ASSERT_OK_AND_ASSIGN(const BufferRef before, slab.Carve("layer 0", 256));
  ASSERT_OK_AND_ASSIGN(const FrozenArena frozen, std::move(arena).Freeze());
  EXPECT_TRUE(frozen.view().is_frozen());
  EXPECT_THAT(slab.Carve("layer 1", 256),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("'copies'"), HasSubstr("'layer 1'"),
                             HasSubstr("asked for 256"),
                             HasSubstr("carved 256 of 4096"),
                             HasSubstr("before Arena::Freeze()"))));
  EXPECT_EQ(slab.used_bytes(), 256);
  // A slab made after the freeze hands out nothing either.
  ASSERT_OK_AND_ASSIGN(RowwiseSlab late,
                       RowwiseSlab::Over(frozen.view(), "copies"));
  EXPECT_THAT(late.Carve("layer 0", 1),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(frozen.view().Find("copies")->base, before.base);
}

TEST_P(RowwiseSlabTest, B01OneByteAboveTheCapacityMovesNothing) {
  ASSERT_OK_AND_ASSIGN(Arena arena, CreateWithSlab());
  ASSERT_OK_AND_ASSIGN(RowwiseSlab slab,
                       RowwiseSlab::Over(arena.view(), "copies"));
  ASSERT_OK_AND_ASSIGN(const FrozenArena frozen, std::move(arena).Freeze());
  const uint64_t before = frozen.fingerprint();
  EXPECT_THAT(
      slab.Carve("layer 0", kSlabBytes + 1),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("'copies'"),
                     HasSubstr("asked for " + std::to_string(kSlabBytes + 1)),
                     HasSubstr("of 4096"))));
  EXPECT_OK(frozen.VerifyStable());
  EXPECT_EQ(frozen.fingerprint(), before);
}

TEST_P(RowwiseSlabTest, ReleasedArenasHaveNothingToCarve) {
  ASSERT_OK_AND_ASSIGN(Arena arena, CreateWithSlab());
  ASSERT_OK_AND_ASSIGN(RowwiseSlab slab,
                       RowwiseSlab::Over(arena.view(), "copies"));
  ASSERT_OK(arena.Release());
  EXPECT_THAT(
      slab.Carve("layer 0", 256),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("released")));
}

TEST_P(RowwiseSlabTest, OnlyABufferForPiecesIsASlab) {
  ASSERT_OK_AND_ASSIGN(const Arena arena, CreateWithSlab());
  EXPECT_THAT(RowwiseSlab::Over(arena.view(), "scratch"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("'scratch'"), HasSubstr("per layer"),
                             HasSubstr("persistent slab"))));
  EXPECT_THAT(RowwiseSlab::Over(arena.view(), "absent"),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(
      RowwiseSlab::Over(arena.view()),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("'ssm_rowwise_w_bf16'")));
}

TEST_P(RowwiseSlabTest, ThreadsCarveDifferentPieces) {
  ASSERT_OK_AND_ASSIGN(const Arena arena, CreateWithSlab());
  ASSERT_OK_AND_ASSIGN(RowwiseSlab slab,
                       RowwiseSlab::Over(arena.view(), "copies"));
  constexpr size_t kThreads = 4;
  std::vector<std::vector<DevicePtr>> carved(kThreads);
  std::vector<std::thread> threads;
  for (std::vector<DevicePtr>& mine : carved) {
    threads.emplace_back([&slab, &mine] {
      while (true) {
        const absl::StatusOr<BufferRef> piece = slab.Carve("piece", 200);
        if (!piece.ok()) return;
        mine.push_back(piece->base);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<CUdeviceptr> all;
  for (const std::vector<DevicePtr>& mine : carved) {
    for (const DevicePtr piece : mine) all.push_back(piece.value());
  }
  std::sort(all.begin(), all.end());
  ASSERT_EQ(all.size(), 16u);
  for (size_t i = 1; i < all.size(); ++i) EXPECT_EQ(all[i] - all[i - 1], 256u);
}

}  // namespace
}  // namespace permafrost::testing
