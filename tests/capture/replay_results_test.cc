// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// The verdict "results stable": each way a replay can be wrong, planted.

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <stdexcept>

#include "permafrost/driver/status.h"
#include "tests/capture/verifier_fixture.h"

namespace permafrost {
namespace {

using ::permafrost::testing::Floats;
using ::permafrost::testing::kMaxRows;
using ::permafrost::testing::MakeCopyStep;
using ::permafrost::testing::MakeScaleStep;
using ::permafrost::testing::StatusIs;
using ::permafrost::testing::VerifierTest;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ReplayResultsTest : public VerifierTest {
 protected:
  // output = input * factor.
  Step MakeFactorStep(float factor) {
    return [this, factor](const StepContext& step) {
      return kernels().Scale(step.stream, step.arena.Find("output")->base,
                             step.arena.Find("input")->base,
                             Floats(step.bucket), factor);
    };
  }

  // scratch = input * 6, then output[0] = sum of `summed` rows of scratch.
  Step MakeSumStep(bool sum_all_rows) {
    return [this, sum_all_rows](const StepContext& step) -> absl::Status {
      const DevicePtr scratch = step.arena.Find("scratch")->base;
      PERMAFROST_RETURN_IF_ERROR(kernels().Scale(step.stream, scratch,
                                                 step.arena.Find("input")->base,
                                                 Floats(step.bucket), 6.0f));
      return kernels().Sum(
          step.stream, step.arena.Find("output")->base, scratch,
          Floats(sum_all_rows ? Bucket{kMaxRows} : step.bucket));
    };
  }

  void UseSumOracle() {
    options().outputs[0].live_bytes = [](Bucket) { return int64_t{4}; };
    options().oracle = [](Bucket bucket, const std::string& name) {
      float sum = 0;
      for (const float value : InputOf(bucket, name)) sum += value * 6.0f;
      ExpectedOutput expected;
      expected.values = {sum};
      return absl::StatusOr<std::vector<ExpectedOutput>>({expected});
    };
  }
};

TEST_F(ReplayResultsTest, ACorrectStepHasBothVerdicts) {
  ASSERT_NO_FATAL_FAILURE(
      CaptureStepForVerifier(MakeScaleStep(kernels()), /*guard_bytes=*/256));
  const VerifyReport report = Verify();
  EXPECT_TRUE(report.addresses_stable) << report.ToText();
  EXPECT_TRUE(report.results_stable) << report.ToText();
  EXPECT_THAT(report.findings, IsEmpty());
  EXPECT_THAT(report.first_difference, IsEmpty());
  EXPECT_THAT(report.inputs, ElementsAre("balanced", "skewed", "empty"));
  EXPECT_EQ(report.replays, 18);
  EXPECT_EQ(report.eager_runs, 9);
  EXPECT_EQ(report.compared_nodes, 2 * 18);
  EXPECT_GT(report.compared_bytes, 18 * 2 * 16 * 4);
  EXPECT_GT(report.guard_bytes, 0);
  EXPECT_EQ(set().counters().replays, 18);
  EXPECT_THAT(report.ToText(), AllOf(HasSubstr("addresses stable: yes"),
                                     HasSubstr("results stable: yes")));
}

TEST_F(ReplayResultsTest, AReplayThatIsNeverLaunchedIsFound) {
  ASSERT_NO_FATAL_FAILURE(CaptureStepForVerifier(MakeScaleStep(kernels())));
  options().replay = [](CapturedGraph&) { return absl::OkStatus(); };
  const VerifyReport report = Verify();
  EXPECT_FALSE(report.results_stable);
  EXPECT_TRUE(report.addresses_stable);
  EXPECT_TRUE(Has(report, VerifyFindingKind::kNotWritten, "output"));
  EXPECT_THAT(report.first_difference,
              AllOf(HasSubstr("replay 0"), HasSubstr("8 rows"),
                    HasSubstr("input 'balanced'"),
                    HasSubstr("poison still there: the replay did not write "
                              "'output'")));
  EXPECT_THAT(report.ToText(), HasSubstr("results stable: no"));
}

// Skipped once, in the middle: the result of the replay before is gone.
TEST_F(ReplayResultsTest, OneSkippedReplayIsFound) {
  ASSERT_NO_FATAL_FAILURE(CaptureStepForVerifier(MakeScaleStep(kernels())));
  int replays = 0;
  options().replay = [&](CapturedGraph& graph) {
    return ++replays == 8 ? absl::OkStatus() : graph.Replay();
  };
  const VerifyReport report = Verify();
  EXPECT_FALSE(report.results_stable);
  ASSERT_EQ(report.findings.size(), 1u) << report.ToText();
  EXPECT_EQ(report.findings[0].kind, VerifyFindingKind::kNotWritten);
  EXPECT_EQ(report.findings[0].replay, 7);
}

// Every replay, and the eager run too, is wrong in the same way: a check that
// compares replays with each other would call this stable.
TEST_F(ReplayResultsTest, AStepThatIsAlwaysWrongAlikeIsFound) {
  ASSERT_NO_FATAL_FAILURE(CaptureStepForVerifier(MakeFactorStep(5.0f)));
  const VerifyReport report = Verify();
  EXPECT_FALSE(report.results_stable);
  EXPECT_TRUE(report.addresses_stable);
  EXPECT_TRUE(Has(report, VerifyFindingKind::kOracleMismatch, "output"));
  EXPECT_FALSE(Has(report, VerifyFindingKind::kEagerMismatch));
  EXPECT_THAT(report.first_difference,
              AllOf(HasSubstr("'output'+0x0: got 5"), HasSubstr("expected 6"),
                    HasSubstr("the oracle"), HasSubstr("128 of 128")));
}

TEST_F(ReplayResultsTest, ATooWideToleranceStillMeetsTheEagerRun) {
  ASSERT_NO_FATAL_FAILURE(CaptureStepForVerifier(MakeFactorStep(6.0f)));
  options().eager = MakeFactorStep(6.00001f);
  const auto oracle = options().oracle;
  options().oracle = [oracle](Bucket bucket, const std::string& input) {
    auto expected = oracle(bucket, input);
    (*expected)[0].rel_tolerance = 0.01;
    return expected;
  };
  const VerifyReport report = Verify();
  EXPECT_FALSE(report.results_stable);
  EXPECT_TRUE(Has(report, VerifyFindingKind::kEagerMismatch, "output"));
  EXPECT_FALSE(Has(report, VerifyFindingKind::kOracleMismatch));
}

TEST_F(ReplayResultsTest, ADifferenceBeyondTheToleranceIsFound) {
  ASSERT_NO_FATAL_FAILURE(CaptureStepForVerifier(MakeFactorStep(6.01f)));
  const auto oracle = options().oracle;
  double tolerance = 0.01;
  options().oracle = [&](Bucket bucket, const std::string& input) {
    auto expected = oracle(bucket, input);
    (*expected)[0].rel_tolerance = tolerance;
    return expected;
  };
  EXPECT_TRUE(Verify().results_stable);
  tolerance = 0.001;
  EXPECT_FALSE(Verify().results_stable);
}

TEST_F(ReplayResultsTest, EachValueMayHaveATolerance) {
  ASSERT_NO_FATAL_FAILURE(CaptureStepForVerifier(MakeFactorStep(6.01f)));
  const auto oracle = options().oracle;
  size_t missing = 0;
  float share = 0.01f;
  options().oracle = [&](Bucket bucket, const std::string& input) {
    auto expected = oracle(bucket, input);
    for (const float value : (*expected)[0].values) {
      (*expected)[0].tolerances.push_back(value * share);
    }
    (*expected)[0].tolerances.resize((*expected)[0].values.size() - missing);
    return expected;
  };
  EXPECT_TRUE(Verify().results_stable);
  share = 0.001f;
  EXPECT_FALSE(Verify().results_stable);
  missing = 1;
  EXPECT_THAT(Verify().first_difference,
              HasSubstr("127 tolerances for 128 values of 'output'"));
}

TEST_F(ReplayResultsTest, ARowThatIsNotWrittenIsFoundByItsPoison) {
  ASSERT_NO_FATAL_FAILURE(
      CaptureStepForVerifier([&](const StepContext& step) -> absl::Status {
        return kernels().Scale(step.stream, step.arena.Find("output")->base,
                               step.arena.Find("input")->base,
                               Floats(step.bucket) - 16, 6.0f);
      }));
  const VerifyReport report = Verify();
  EXPECT_FALSE(report.results_stable);
  EXPECT_THAT(report.first_difference,
              AllOf(HasSubstr("'output'+0x1c0"), HasSubstr("poison"),
                    HasSubstr("16 of 128")));
}

TEST_F(ReplayResultsTest, AStaleTailOfALargerBatchIsFound) {
  ASSERT_NO_FATAL_FAILURE(CaptureStepForVerifier(MakeSumStep(true)));
  ASSERT_NO_FATAL_FAILURE(UseSumOracle());
  options().use_softcuda_checks = false;
  // Nothing but the shrinking batch: the tail holds what 8 rows left.
  options().schedule = {{2, 0, PoisonPattern::kZeros},
                        {0, 0, PoisonPattern::kLeavePrevious}};
  const VerifyReport report = Verify();
  EXPECT_FALSE(report.results_stable);
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings[0].replay, 1);
  EXPECT_EQ(report.findings[0].rows, 2);
  EXPECT_EQ(report.findings[0].kind, VerifyFindingKind::kOracleMismatch);
  EXPECT_THAT(report.first_difference, HasSubstr("previous batch"));
}

TEST_F(ReplayResultsTest, AStaleTailIsFoundByThePatternsToo) {
  ASSERT_NO_FATAL_FAILURE(CaptureStepForVerifier(MakeSumStep(true)));
  ASSERT_NO_FATAL_FAILURE(UseSumOracle());
  options().use_softcuda_checks = false;
  options().schedule = {{0, 0, PoisonPattern::kZeros}};
  // Zeros hide it from the oracle; the eager run's scratch holds other bytes.
  EXPECT_FALSE(Verify().results_stable);
  options().schedule = {{0, 0, PoisonPattern::kNan}};
  EXPECT_FALSE(Verify().results_stable);
}

TEST_F(ReplayResultsTest, ASumOfLiveRowsOnlyIsClean) {
  ASSERT_NO_FATAL_FAILURE(CaptureStepForVerifier(MakeSumStep(false)));
  ASSERT_NO_FATAL_FAILURE(UseSumOracle());
  const VerifyReport report = Verify();
  EXPECT_TRUE(report.results_stable) << report.ToText();
}

TEST_F(ReplayResultsTest, TheReplayCounterMustAdvanceByOne) {
  const Step scale = MakeScaleStep(kernels());
  ASSERT_NO_FATAL_FAILURE(
      CaptureStepForVerifier([&](const StepContext& step) -> absl::Status {
        PERMAFROST_RETURN_IF_ERROR(
            kernels().Count(step.stream, step.arena.Find("counter")->base));
        return scale(step);
      }));
  options().replay_counter = [&]() -> absl::StatusOr<int64_t> {
    int64_t count = 0;
    PERMAFROST_RETURN_IF_ERROR(
        CuStatus(api().MemcpyDtoHAsync(&count, Buffer("counter").base.value(),
                                       8, lane().stream()),
                 "cuMemcpyDtoHAsync"));
    PERMAFROST_RETURN_IF_ERROR(lane().Drain());
    return count;
  };
  const VerifyReport twin = Verify();
  EXPECT_TRUE(twin.results_stable) << twin.ToText();

  options().replay = [](CapturedGraph& graph) {
    graph.Replay().IgnoreError();
    return graph.Replay();
  };
  const VerifyReport report = Verify();
  EXPECT_FALSE(report.results_stable);
  EXPECT_TRUE(Has(report, VerifyFindingKind::kCounterMismatch));
}

TEST_F(ReplayResultsTest, BytesAndHalfFloatsAreComparedAsSuch) {
  ASSERT_NO_FATAL_FAILURE(CaptureStepForVerifier(MakeCopyStep(context())));
  // The bytes of the input, as they are.
  options().outputs[0].element = ElementType::kMixed;
  options().oracle = [](Bucket bucket, const std::string& name) {
    const std::vector<float> values = InputOf(bucket, name);
    ExpectedOutput expected;
    expected.bytes.resize(values.size() * 4);
    std::memcpy(expected.bytes.data(), values.data(), expected.bytes.size());
    return absl::StatusOr<std::vector<ExpectedOutput>>({expected});
  };
  EXPECT_TRUE(Verify().results_stable);

  // The same bytes read as bf16: a float's upper half is the value, cut.
  options().outputs[0].element = ElementType::kBf16;
  float wrong = 0.0f;
  options().oracle = [&](Bucket bucket, const std::string& name) {
    ExpectedOutput expected;
    for (const float value : InputOf(bucket, name)) {
      expected.values.push_back(0.0f);
      const auto upper = std::bit_cast<uint32_t>(value) & 0xFFFF0000u;
      expected.values.push_back(std::bit_cast<float>(upper) + wrong);
    }
    return absl::StatusOr<std::vector<ExpectedOutput>>({expected});
  };
  EXPECT_TRUE(Verify().results_stable);
  wrong = 0.5f;
  const VerifyReport report = Verify();
  EXPECT_FALSE(report.results_stable);
  EXPECT_THAT(report.first_difference, HasSubstr("'output'+0x2: got 1 "));
}

TEST_F(ReplayResultsTest, WhatFailsInTheRunIsAFindingAndNoVerdict) {
  ASSERT_NO_FATAL_FAILURE(CaptureStepForVerifier(MakeScaleStep(kernels())));
  const VerifyOptions good = options();

  options().oracle =
      [](Bucket,
         const std::string&) -> absl::StatusOr<std::vector<ExpectedOutput>> {
    return std::vector<ExpectedOutput>(1);
  };
  VerifyReport report = Verify();
  EXPECT_TRUE(Has(report, VerifyFindingKind::kRunFailed));
  EXPECT_FALSE(report.results_stable || report.addresses_stable);
  EXPECT_THAT(report.first_difference,
              HasSubstr("0 bytes of 'output', live bytes 512"));

  options() = good;
  options().oracle =
      [](Bucket,
         const std::string&) -> absl::StatusOr<std::vector<ExpectedOutput>> {
    throw std::runtime_error("no oracle today");
  };
  EXPECT_THAT(Verify().first_difference, HasSubstr("no oracle today"));

  options() = good;
  options().inputs[0].write = [](Bucket, CUstream) {
    return absl::AbortedError("no input");
  };
  EXPECT_THAT(Verify().first_difference,
              AllOf(HasSubstr("no input"), HasSubstr("'balanced'")));

  options() = good;
  options().replay = [](CapturedGraph&) {
    return absl::InternalError("no replay");
  };
  EXPECT_THAT(Verify().first_difference, HasSubstr("no replay"));

  options() = good;
  options().eager = [](const StepContext&) {
    return absl::InternalError("no eager run");
  };
  EXPECT_THAT(Verify().first_difference, HasSubstr("no eager run"));

  options() = good;
  EXPECT_TRUE(Verify().results_stable);
}

TEST_F(ReplayResultsTest, EndsAfterTheFindingsItMayMake) {
  ASSERT_NO_FATAL_FAILURE(CaptureStepForVerifier(MakeFactorStep(5.0f)));
  options().max_findings = 2;
  const VerifyReport report = Verify();
  EXPECT_EQ(report.findings.size(), 2u);
  EXPECT_LT(report.replays, 18);
  EXPECT_FALSE(report.results_stable);
}

TEST_F(ReplayResultsTest, OptionsThatCannotWorkAreNamed) {
  ASSERT_NO_FATAL_FAILURE(CaptureStepForVerifier(MakeScaleStep(kernels())));
  const VerifyOptions good = options();
  const auto run = [&](const char* message) {
    ReplayVerifier verifier(arena(), set().graphs(), options());
    EXPECT_THAT(verifier.Run(), StatusIs(absl::StatusCode::kInvalidArgument,
                                         HasSubstr(message)));
    options() = good;
  };
  options().inputs.clear();
  run("0 inputs");
  options().outputs.clear();
  run("0 outputs");
  options().oracle = nullptr;
  run("oracle");
  options().eager = nullptr;
  run("eager");
  options().inputs[1].write = nullptr;
  run("'skewed'");
  options().outputs[0].live_bytes = nullptr;
  run("'output'");
  options().outputs[0].base = DevicePtr();
  run("'output' is at 0x0");
  options().scratch[0].bytes = -1;
  run("'scratch'");
  options().schedule = {{3, 0, PoisonPattern::kZeros}};
  run("graph 3 of 3");
  ReplayVerifier none(arena(), {}, options());
  EXPECT_THAT(none.Run(), StatusIs(absl::StatusCode::kInvalidArgument,
                                   HasSubstr("no graph")));
}

}  // namespace
}  // namespace permafrost
