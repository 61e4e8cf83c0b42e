// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/arena_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "permafrost/arena/model_config.h"
#include "support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr int64_t kMebi = int64_t{1} << 20;

BufferSize Present(std::string name, int64_t bytes, std::string tag = "step") {
  return {.name = std::move(name),
          .bytes = bytes,
          .tag = std::move(tag),
          .meaning = "a test buffer"};
}

BufferSize Absent(std::string name, std::string reason) {
  return {.name = std::move(name),
          .bytes = 0,
          .gate_reason = std::move(reason),
          .tag = "step"};
}

TEST(ArenaPlanTest, PlacesBuffersInOrderOn256Bytes) {
  ASSERT_OK_AND_ASSIGN(
      const ArenaPlan plan,
      PlanArena({Present("a", 1), Present("b", 256), Present("c", 257)}, {}));
  EXPECT_EQ(plan.Find("a")->offset_bytes, 0);
  EXPECT_EQ(plan.Find("b")->offset_bytes, 256);
  EXPECT_EQ(plan.Find("c")->offset_bytes, 512);
  EXPECT_EQ(plan.total_bytes(), 2 * kMebi);
  EXPECT_EQ(plan.buffer_bytes(), 514);
  EXPECT_EQ(plan.guard_total_bytes(), 0);
  EXPECT_EQ(plan.rounding_bytes(), 2 * kMebi - 514);
  EXPECT_OK(ValidatePlan(plan));
}

TEST(ArenaPlanTest, GuardsFollowEveryBufferTheLastIncluded) {
  ASSERT_OK_AND_ASSIGN(
      const ArenaPlan plan,
      PlanArena({Present("a", 100), Present("b", 256)},
                {.granularity_bytes = 256, .guard_bytes = 512}));
  // a: 0..100, guard to 612, rounded to 768; b: 768..1024, guard to 1536.
  EXPECT_EQ(plan.Find("b")->offset_bytes, 768);
  EXPECT_EQ(plan.total_bytes(), 1536);
  EXPECT_EQ(plan.guard_total_bytes(), 1024);
  EXPECT_EQ(plan.rounding_bytes(), 1536 - 356 - 1024);
  EXPECT_OK(ValidatePlan(plan));
}

TEST(ArenaPlanTest, TagsBecomeSegmentsOnTheGranularity) {
  ASSERT_OK_AND_ASSIGN(
      const ArenaPlan plan,
      PlanArena({Present("a", 3 * kMebi, "step"), Present("w", 100, "kept"),
                 Present("b", 100, "step")},
                {}));
  ASSERT_EQ(plan.segments().size(), 2u);
  EXPECT_EQ(plan.segments()[0].tag, "step");
  EXPECT_EQ(plan.segments()[0].offset_bytes, 0);
  EXPECT_EQ(plan.segments()[0].bytes, 4 * kMebi);
  EXPECT_EQ(plan.segments()[1].tag, "kept");
  EXPECT_EQ(plan.segments()[1].offset_bytes, 4 * kMebi);
  EXPECT_EQ(plan.segments()[1].bytes, 2 * kMebi);
  EXPECT_EQ(plan.Find("b")->offset_bytes, 3 * kMebi);
  EXPECT_EQ(plan.Find("w")->offset_bytes, 4 * kMebi);
  EXPECT_OK(ValidatePlan(plan));
}

TEST(ArenaPlanTest, PoliciesOfOneTagBecomeSegmentsOfTheirOwn) {
  BufferSize kept = Present("kept", 300, "kv");
  kept.sleep = SleepPolicy::kKeep;
  BufferSize also_kept = Present("also_kept", 100, "kv");
  also_kept.sleep = SleepPolicy::kKeep;
  ASSERT_OK_AND_ASSIGN(
      const ArenaPlan plan,
      PlanArena({kept, Present("scratch", 100, "kv"), also_kept},
                {.granularity_bytes = 4096, .guard_bytes = 256}));
  ASSERT_EQ(plan.segments().size(), 2u);
  EXPECT_EQ(SegmentLabel(plan.segments()[0]), "segment 'kv' (keep)");
  EXPECT_EQ(SegmentLabel(plan.segments()[1]), "segment 'kv' (discard)");
  EXPECT_EQ(plan.SegmentOf(*plan.Find("also_kept")), &plan.segments()[0]);
  EXPECT_EQ(plan.SegmentOf(*plan.Find("scratch")), &plan.segments()[1]);
  const SegmentBytes bytes = plan.BytesOf(plan.segments()[0]);
  EXPECT_EQ(bytes.buffer_bytes, 400);
  EXPECT_EQ(bytes.guard_bytes, 512);
  EXPECT_EQ(bytes.rounding_bytes, 4096 - 400 - 512);
  EXPECT_OK(ValidatePlan(plan));
}

TEST(ArenaPlanTest, GranularityNeedBeNoPowerOfTwo) {
  ASSERT_OK_AND_ASSIGN(const ArenaPlan plan,
                       PlanArena({Present("a", 1), Present("b", 1, "kept")},
                                 {.granularity_bytes = 3 * 256}));
  EXPECT_EQ(plan.segments()[1].offset_bytes, 768);
  EXPECT_EQ(plan.total_bytes(), 1536);
  EXPECT_OK(ValidatePlan(plan));
}

TEST(ArenaPlanTest, AbsentBuffersTakeNoPlaceAndKeepTheirReason) {
  ASSERT_OK_AND_ASSIGN(
      const ArenaPlan plan,
      PlanArena({Absent("slab", "no experts"), Present("a", 256)},
                {.granularity_bytes = 256}));
  EXPECT_EQ(plan.total_bytes(), 256);
  EXPECT_FALSE(plan.Find("slab")->is_present());
  EXPECT_EQ(plan.Find("slab")->gate_reason, "no experts");
  EXPECT_EQ(plan.Find("a")->offset_bytes, 0);
  EXPECT_EQ(plan.Find("b"), nullptr);
}

TEST(ArenaPlanTest, RefusesSizesThatContradictThemselves) {
  EXPECT_THAT(PlanArena({Present("a", 1), Present("a", 2)}, {}),
              StatusIs(kInvalid, HasSubstr("'a' is there twice")));
  EXPECT_THAT(PlanArena({Present("", 1)}, {}),
              StatusIs(kInvalid, HasSubstr("name")));
  EXPECT_THAT(PlanArena({Present("a", -1)}, {}),
              StatusIs(kInvalid, HasSubstr("got -1")));
  EXPECT_THAT(PlanArena({Present("a", 0)}, {}),
              StatusIs(kInvalid, HasSubstr("no reason")));
  BufferSize both = Absent("a", "no experts");
  both.bytes = 1;
  EXPECT_THAT(PlanArena({both}, {}),
              StatusIs(kInvalid, HasSubstr("no experts")));
  EXPECT_THAT(PlanArena({}, {}), StatusIs(kInvalid, HasSubstr("0 buffers")));
  EXPECT_THAT(PlanArena({Absent("a", "no experts")}, {}), StatusIs(kInvalid));
}

TEST(ArenaPlanTest, RefusesOptionsOffThe256ByteGrid) {
  for (int64_t granularity : {int64_t{0}, int64_t{-256}, int64_t{100},
                              std::numeric_limits<int64_t>::min()}) {
    EXPECT_THAT(
        PlanArena({Present("a", 1)}, {.granularity_bytes = granularity}),
        StatusIs(kInvalid, HasSubstr("granularity_bytes")))
        << granularity;
  }
  for (int64_t guard : {int64_t{-256}, int64_t{1}, int64_t{255}}) {
    EXPECT_THAT(PlanArena({Present("a", 1)}, {.guard_bytes = guard}),
                StatusIs(kInvalid, HasSubstr("guard_bytes")))
        << guard;
  }
}

TEST(ArenaPlanTest, OverflowIsAnErrorThatNamesThePlace) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(PlanArena({Present("a", kMax - 1000), Present("b", 2000)}, {}),
              StatusIs(kInvalid, AllOf(HasSubstr("'b'"), HasSubstr("2^63-1"))));
  EXPECT_THAT(PlanArena({Present("a", kMax)}, {}),
              StatusIs(kInvalid, HasSubstr("segment 'step'")));
  EXPECT_THAT(PlanArena({Present("a", 1)},
                        {.granularity_bytes = 256, .guard_bytes = kMax - 255}),
              StatusIs(kInvalid));
}

TEST(ArenaPlanTest, PlansOfEveryPresetAreValidWithAndWithoutGuards) {
  for (const std::string& preset : ModelPresets()) {
    ASSERT_OK_AND_ASSIGN(const ModelConfig config, LoadModelConfig(preset));
    for (int64_t rows : {1, 7, 8, 4096}) {
      for (int64_t guard : {0, 256, 4096}) {
        SCOPED_TRACE(preset + " rows=" + std::to_string(rows) +
                     " guard=" + std::to_string(guard));
        ASSERT_OK_AND_ASSIGN(
            std::vector<BufferSize> sizes,
            ComputeBufferSizes(config, {.max_batch_tokens = rows}));
        ASSERT_OK_AND_ASSIGN(
            const ArenaPlan plan,
            PlanArena(std::move(sizes), {.guard_bytes = guard}));
        EXPECT_OK(ValidatePlan(plan));
        EXPECT_EQ(plan.buffers().size(), BufferTable().size());
        EXPECT_EQ(plan.buffer_bytes() + plan.guard_total_bytes() +
                      plan.rounding_bytes(),
                  plan.total_bytes());
        EXPECT_GE(plan.rounding_bytes(), 0);
        SegmentBytes sum;
        for (const PlannedSegment& segment : plan.segments()) {
          const SegmentBytes bytes = plan.BytesOf(segment);
          EXPECT_EQ(
              bytes.buffer_bytes + bytes.guard_bytes + bytes.rounding_bytes,
              segment.bytes);
          EXPECT_GE(bytes.rounding_bytes, 0);
          sum.buffer_bytes += bytes.buffer_bytes;
          sum.guard_bytes += bytes.guard_bytes;
          sum.rounding_bytes += bytes.rounding_bytes;
        }
        EXPECT_EQ(sum.buffer_bytes, plan.buffer_bytes());
        EXPECT_EQ(sum.guard_bytes, plan.guard_total_bytes());
        EXPECT_EQ(sum.rounding_bytes, plan.rounding_bytes());
      }
    }
  }
}

TEST(ArenaPlanTest, SameInputsGiveTheSamePlan) {
  const auto make = [] {
    return PlanArena({Present("a", 1000), Present("b", 70000, "kept"),
                      Absent("c", "not here"), Present("d", 5)},
                     {.guard_bytes = 256})
        ->ToTable();
  };
  EXPECT_EQ(make(), make());
}

TEST(ArenaPlanTest, TableShowsEveryBufferSegmentAndTotal) {
  ASSERT_OK_AND_ASSIGN(
      const ArenaPlan plan,
      PlanArena({Present("hidden", 1000), Present("out", 24),
                 Absent("slab", "the model has no routed experts")},
                {.guard_bytes = 256}));
  EXPECT_EQ(plan.ToTable(),
            "buffer  offset  bytes  lifetime   meaning\n"
            "hidden     0x0   1000  per layer  a test buffer\n"
            "out      0x500     24  per layer  a test buffer\n"
            "slab         -      0  per layer  absent: the model has no routed "
            "experts\n"
            "segment 'step' (discard): 0x0, 2097152 bytes (2.0 MiB): 1024 in "
            "buffers, 2095616 of rounding, 512 of guards\n"
            "total 2097152 bytes (2.0 MiB): 1024 in 2 buffers, 2095616 of "
            "rounding (256-byte starts, 2097152-byte granules), 512 of guards "
            "(256 after each buffer)\n");
}

}  // namespace
}  // namespace permafrost
