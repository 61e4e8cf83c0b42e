// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Each case plants one fault into a plan that passes, and expects its name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "permafrost/arena/arena_plan.h"
#include "support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

/// The parts of a plan, open to change.
struct Parts {
  std::vector<PlannedBuffer> buffers = {
      {.name = "a", .offset_bytes = 0, .bytes = 1000, .tag = "step"},
      {.name = "b", .offset_bytes = 1280, .bytes = 256, .tag = "step"},
      {.name = "slab", .gate_reason = "no experts", .tag = "step"},
      {.name = "w", .offset_bytes = 4096, .bytes = 3840, .tag = "kept"}};
  std::vector<PlannedSegment> segments = {
      {.tag = "step", .offset_bytes = 0, .bytes = 4096},
      {.tag = "kept", .offset_bytes = 4096, .bytes = 4096}};
  int64_t total_bytes = 8192;
  PlanOptions options = {.granularity_bytes = 4096, .guard_bytes = 256};
};

absl::Status ValidateWith(const std::function<void(Parts&)>& change) {
  Parts parts;
  change(parts);
  return ValidatePlan(ArenaPlan::FromParts(parts.buffers, parts.segments,
                                           parts.total_bytes, parts.options));
}

void ExpectFault(const std::function<void(Parts&)>& change,
                 const ::testing::Matcher<const std::string&>& message) {
  EXPECT_THAT(ValidateWith(change),
              StatusIs(absl::StatusCode::kInvalidArgument, message));
}

TEST(ValidatePlanTest, PassesAPlanWithoutFault) {
  EXPECT_OK(ValidateWith([](Parts&) {}));
}

TEST(ValidatePlanTest, OverlapNamesBothBuffers) {
  ExpectFault([](Parts& p) { p.buffers[1].offset_bytes = 768; },
              AllOf(HasSubstr("'a'"), HasSubstr("'b'"), HasSubstr("overlap")));
  ExpectFault([](Parts& p) { p.buffers[1].offset_bytes = 0; },
              AllOf(HasSubstr("'a'"), HasSubstr("'b'"), HasSubstr("overlap")));
}

TEST(ValidatePlanTest, OverlapOfBuffersThatAreNoNeighboursInTheTable) {
  ExpectFault(
      [](Parts& p) {
        p.buffers.push_back(
            {.name = "c", .offset_bytes = 256, .bytes = 8, .tag = "step"});
      },
      AllOf(HasSubstr("'a'"), HasSubstr("'c'"), HasSubstr("overlap")));
}

TEST(ValidatePlanTest, GapShorterThanTheGuard) {
  ExpectFault([](Parts& p) { p.buffers[1].offset_bytes = 1024; },
              AllOf(HasSubstr("24 bytes apart"), HasSubstr("256")));
  // The same places are fine where no guard is asked for.
  EXPECT_OK(ValidateWith([](Parts& p) {
    p.buffers[1].offset_bytes = 1024;
    p.options.guard_bytes = 0;
  }));
}

TEST(ValidatePlanTest, NoGuardBehindTheLastBufferOfASegment) {
  ExpectFault([](Parts& p) { p.buffers[3].bytes = 3841; },
              AllOf(HasSubstr("'w'"), HasSubstr("255 bytes before the end")));
}

/// Two buffers over each other that list each other.
void LayOver(Parts& p) {
  p.options.overlay = Overlay::kOn;
  p.buffers[1].offset_bytes = 512;
  p.buffers[0].shares_with = {"b"};
  p.buffers[1].shares_with = {"a"};
}

TEST(ValidatePlanTest, OverlapThatBothListPassesWithOverlayOn) {
  EXPECT_OK(ValidateWith(LayOver));
  ExpectFault(
      [](Parts& p) {
        LayOver(p);
        p.buffers[0].shares_with.clear();
        p.buffers[1].shares_with.clear();
      },
      AllOf(HasSubstr("'a'"), HasSubstr("'b'"), HasSubstr("neither lists")));
  ExpectFault(
      [](Parts& p) {
        LayOver(p);
        p.options.overlay = Overlay::kOff;
      },
      AllOf(HasSubstr("'a'"), HasSubstr("overlay is off")));
}

TEST(ValidatePlanTest, OverlapOfOthersThanThoseListed) {
  // c lies over a; only a and b may.
  ExpectFault(
      [](Parts& p) {
        LayOver(p);
        p.buffers.push_back(
            {.name = "c", .offset_bytes = 0, .bytes = 8, .tag = "step"});
      },
      AllOf(HasSubstr("'a'"), HasSubstr("'c'"), HasSubstr("overlap")));
  // c lies behind b, and a reaches over b into it.
  ExpectFault(
      [](Parts& p) {
        LayOver(p);
        p.buffers[0].bytes = 2000;
        p.buffers.push_back(
            {.name = "c", .offset_bytes = 1536, .bytes = 8, .tag = "step"});
      },
      AllOf(HasSubstr("'a'"), HasSubstr("'c'"), HasSubstr("overlap")));
}

TEST(ValidatePlanTest, GuardsMayBeSharedByThoseListedAlone) {
  EXPECT_OK(ValidateWith([](Parts& p) {
    LayOver(p);
    p.buffers[1].offset_bytes = 1024;
  }));
}

TEST(ValidatePlanTest, SharingListsThatContradictThePlan) {
  const auto with_names = [](std::vector<std::string> names) {
    return [names](Parts& p) {
      LayOver(p);
      p.buffers[0].shares_with = names;
    };
  };
  ExpectFault(with_names({}), HasSubstr("does not list it back"));
  ExpectFault(with_names({"b", "b"}), HasSubstr("sorted"));
  ExpectFault(with_names({"slab"}),
              AllOf(HasSubstr("'slab'"), HasSubstr("absent")));
  ExpectFault(with_names({"a"}), HasSubstr("itself"));
  ExpectFault(with_names({"b", "x"}),
              AllOf(HasSubstr("'x'"), HasSubstr("does not have")));
  ExpectFault(with_names({"b", "w"}),
              AllOf(HasSubstr("'w'"), HasSubstr("another segment")));
  ExpectFault(
      [](Parts& p) {
        LayOver(p);
        p.buffers[2].shares_with = {"a"};
      },
      AllOf(HasSubstr("'slab'"), HasSubstr("is absent")));
}

TEST(ValidatePlanTest, StartOffThe256ByteGrid) {
  ExpectFault([](Parts& p) { p.buffers[1].offset_bytes = 1281; },
              AllOf(HasSubstr("'b'"), HasSubstr("multiple of 256")));
}

TEST(ValidatePlanTest, BufferOutsideItsSegment) {
  ExpectFault([](Parts& p) { p.buffers[1].offset_bytes = 8192; },
              AllOf(HasSubstr("'b'"), HasSubstr("not inside")));
  ExpectFault([](Parts& p) { p.buffers[3].offset_bytes = 2048; },
              AllOf(HasSubstr("'w'"), HasSubstr("not inside")));
  ExpectFault([](Parts& p) { p.buffers[3].bytes = kMax; },
              AllOf(HasSubstr("'w'"), HasSubstr("not inside")));
  ExpectFault([](Parts& p) { p.buffers[1].offset_bytes = kMax - 255; },
              AllOf(HasSubstr("'b'"), HasSubstr("not inside")));
  ExpectFault([](Parts& p) { p.buffers[1].offset_bytes = -256; },
              AllOf(HasSubstr("'b'"), HasSubstr("not inside")));
  ExpectFault([](Parts& p) { p.buffers[1].bytes = -1; },
              AllOf(HasSubstr("'b'"), HasSubstr("not inside")));
}

TEST(ValidatePlanTest, TagWithoutASegmentAndSegmentWithoutABuffer) {
  ExpectFault([](Parts& p) { p.buffers[1].tag = "io"; },
              AllOf(HasSubstr("'b'"), HasSubstr("'io'")));
  ExpectFault([](Parts& p) { p.buffers[1].sleep = SleepPolicy::kKeep; },
              AllOf(HasSubstr("'b'"), HasSubstr("'step'"), HasSubstr("keep")));
  ExpectFault([](Parts& p) { p.buffers.pop_back(); },
              AllOf(HasSubstr("'kept'"), HasSubstr("no buffer")));
}

TEST(ValidatePlanTest, SegmentsOffTheGranularityOrOverlapping) {
  ExpectFault([](Parts& p) { p.segments[0].bytes = 2048; },
              AllOf(HasSubstr("'step'"), HasSubstr("multiples of 4096")));
  ExpectFault([](Parts& p) { p.segments[1].offset_bytes = 2048; },
              AllOf(HasSubstr("'kept'"), HasSubstr("multiples of 4096")));
  ExpectFault(
      [](Parts& p) { p.segments[0].bytes = 8192; },
      AllOf(HasSubstr("'step'"), HasSubstr("'kept'"), HasSubstr("overlap")));
  ExpectFault([](Parts& p) { p.segments[1].tag = "step"; },
              HasSubstr("two segments"));
  // One tag has a segment for each of its policies.
  EXPECT_OK(ValidateWith([](Parts& p) {
    p.segments[1].tag = "step";
    p.segments[1].sleep = SleepPolicy::kKeep;
    p.buffers[3].tag = "step";
    p.buffers[3].sleep = SleepPolicy::kKeep;
  }));
  ExpectFault([](Parts& p) { p.segments[1].bytes = 0; }, HasSubstr("'kept'"));
}

TEST(ValidatePlanTest, TotalThatIsNotTheEndOfTheSegments) {
  ExpectFault([](Parts& p) { p.total_bytes = 12288; }, HasSubstr("12288"));
  ExpectFault([](Parts& p) { p.total_bytes = 4096; },
              AllOf(HasSubstr("'kept'"), HasSubstr("4096 bytes")));
  ExpectFault([](Parts& p) { p.segments[1].bytes = kMax / 4096 * 4096; },
              HasSubstr("'kept'"));
}

TEST(ValidatePlanTest, AbsentBufferWithAPlaceOrWithoutAReason) {
  ExpectFault([](Parts& p) { p.buffers[2].offset_bytes = 2048; },
              AllOf(HasSubstr("'slab'"), HasSubstr("absent")));
  ExpectFault([](Parts& p) { p.buffers[2].gate_reason.clear(); },
              AllOf(HasSubstr("'slab'"), HasSubstr("reason")));
  ExpectFault([](Parts& p) { p.buffers[1].gate_reason = "no experts"; },
              AllOf(HasSubstr("'b'"), HasSubstr("no experts")));
}

TEST(ValidatePlanTest, NamesMissingOrRepeated) {
  ExpectFault([](Parts& p) { p.buffers[1].name = "a"; },
              HasSubstr("named 'a'"));
  ExpectFault([](Parts& p) { p.buffers[1].name.clear(); },
              HasSubstr("no name"));
}

TEST(ValidatePlanTest, OptionsOffTheGrid) {
  ExpectFault([](Parts& p) { p.options.granularity_bytes = 0; },
              HasSubstr("granularity_bytes"));
  ExpectFault([](Parts& p) { p.options.guard_bytes = 100; },
              HasSubstr("guard_bytes"));
}

}  // namespace
}  // namespace permafrost
