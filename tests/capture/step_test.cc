// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/capture/step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include "permafrost/capture/address_audit.h"
#include "permafrost/capture/replay_verifier.h"
#include "tests/support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(BucketLadderTest, RowsGoToTheSmallestRungThatHoldsThem) {
  ASSERT_OK_AND_ASSIGN(const BucketLadder ladder,
                       BucketLadder::Create({1, 2, 8}));
  for (const auto& [rows, rung] : std::vector<std::pair<int64_t, int64_t>>{
           {0, 1}, {1, 1}, {2, 2}, {3, 8}, {7, 8}, {8, 8}}) {
    ASSERT_OK_AND_ASSIGN(const Bucket bucket, ladder.RungFor(rows));
    EXPECT_EQ(bucket.rows, rung) << rows;
  }
}

TEST(BucketLadderTest, AboveTheLastRungNamesBoth) {
  ASSERT_OK_AND_ASSIGN(const BucketLadder ladder,
                       BucketLadder::Create({1, 2, 8}));
  EXPECT_THAT(ladder.RungFor(9),
              StatusIs(absl::StatusCode::kOutOfRange,
                       AllOf(HasSubstr("9 rows"), HasSubstr("last rung 8"))));
}

TEST(BucketLadderTest, NegativeRowsAreRefused) {
  ASSERT_OK_AND_ASSIGN(const BucketLadder ladder, BucketLadder::Create({4}));
  EXPECT_THAT(ladder.RungFor(-1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("-1")));
}

TEST(BucketLadderTest, RungsMustAscendFromOne) {
  EXPECT_THAT(BucketLadder::Create({}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(
      BucketLadder::Create({0, 1}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 rows")));
  EXPECT_THAT(BucketLadder::Create({2, 2}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("2 rows after 2")));
  EXPECT_THAT(BucketLadder::Create({4, 2}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(AuditPolicyTest, EverythingIsAnErrorUntilAllowed) {
  AuditPolicy policy;
  EXPECT_TRUE(policy.IsError(FindingKind::kForeignAddress));
  EXPECT_TRUE(policy.IsError(FindingKind::kEmptyGraph));
  policy.Allow(FindingKind::kEmptyGraph);
  EXPECT_FALSE(policy.IsError(FindingKind::kEmptyGraph));
  EXPECT_TRUE(policy.IsError(FindingKind::kForeignAddress));
}

TEST(AuditPolicyTest, WhatCouldNotBeReadStaysAnError) {
  AuditPolicy policy;
  policy.Allow(FindingKind::kUnreadable);
  EXPECT_TRUE(policy.IsError(FindingKind::kUnreadable));
}

TEST(AuditReportTest, StatusListsErrorsOnly) {
  AuditReport report;
  AuditFinding finding;
  finding.kind = FindingKind::kForeignAddress;
  finding.node_index = 3;
  finding.node = "k_scale";
  finding.param = "src";
  finding.message = "elsewhere";
  report.findings.push_back(finding);
  finding.is_error = false;
  finding.param = "dst";
  report.findings.push_back(finding);
  EXPECT_EQ(report.error_count(), 1);
  EXPECT_THAT(report.ToStatus(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("1 error:"),
                             HasSubstr("node 3 (k_scale), parameter 'src'"),
                             Not(HasSubstr("'dst'")))));
  EXPECT_THAT(report.ToText(),
              AllOf(HasSubstr("error: foreign address: node 3"),
                    HasSubstr("allowed: foreign address: node 3")));
}

std::vector<size_t> Graphs(const std::vector<ScheduledReplay>& schedule) {
  std::vector<size_t> graphs;
  for (const ScheduledReplay& replay : schedule) graphs.push_back(replay.graph);
  return graphs;
}

TEST(ReplayScheduleTest, InterleavesEveryBucketWithTheLargest) {
  const auto schedule = MakeReplaySchedule({2, 8, 4}, 1);
  EXPECT_THAT(Graphs(schedule), ElementsAre(1, 0, 1, 2, 1, 0, 1, 2));
}

TEST(ReplayScheduleTest, EveryBucketSeesEveryInput) {
  const auto schedule = MakeReplaySchedule({1, 2, 4, 8}, 3);
  std::set<std::pair<size_t, size_t>> seen;
  for (const ScheduledReplay& r : schedule) seen.emplace(r.graph, r.input);
  EXPECT_EQ(seen.size(), 12u);
}

TEST(ReplayScheduleTest, EveryBucketSeesSeveralPatterns) {
  const auto schedule = MakeReplaySchedule({1, 8}, 4);
  std::set<PoisonPattern> small;
  std::set<PoisonPattern> large;
  for (const ScheduledReplay& r : schedule) {
    (r.graph == 0 ? small : large).insert(r.pattern);
  }
  EXPECT_GE(small.size(), 4u);
  EXPECT_GE(large.size(), 4u);
}

TEST(ReplayScheduleTest, ShrinkingLeavesWhatTheLargestLeft) {
  const auto schedule = MakeReplaySchedule({1, 8}, 3);
  int shrinking = 0;
  for (size_t i = 0; i < schedule.size(); ++i) {
    if (schedule[i].pattern != PoisonPattern::kLeavePrevious) continue;
    ++shrinking;
    ASSERT_GT(i, 0u);
    EXPECT_EQ(schedule[i].graph, 0u);
    EXPECT_EQ(schedule[i - 1].graph, 1u);
  }
  EXPECT_EQ(shrinking, 3);
}

TEST(ReplayScheduleTest, OneBucketIsReplayedWithEveryInputToo) {
  const auto schedule = MakeReplaySchedule({4}, 2);
  std::set<size_t> inputs;
  for (const ScheduledReplay& r : schedule) {
    EXPECT_EQ(r.graph, 0u);
    inputs.insert(r.input);
  }
  EXPECT_EQ(inputs.size(), 2u);
}

}  // namespace
}  // namespace permafrost
