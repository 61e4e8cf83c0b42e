// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/capture/verifier_fixture.h"

#include <algorithm>
#include <utility>

#include "permafrost/driver/status.h"

namespace permafrost::testing {

std::vector<float> VerifierTest::InputOf(Bucket bucket,
                                         const std::string& name) {
  std::vector<float> values(static_cast<size_t>(Floats(bucket)), 0.0f);
  for (size_t i = 0; i < values.size(); ++i) {
    if (name == "balanced") values[i] = 1.0f + static_cast<float>(i % 7);
    if (name == "skewed" && i < 4) values[i] = 100.0f;
  }
  return values;
}

void VerifierTest::CaptureStepForVerifier(const Step& step, int64_t guard_bytes,
                                          CaptureOptions capture_options) {
  ASSERT_OK(Prepare(step, {{2}, {4}, {8}}, guard_bytes));
  ASSERT_OK_AND_ASSIGN(set_, Capture(std::move(capture_options)));
  const DevicePtr input = Buffer("input").base;
  for (const char* name : {"balanced", "skewed", "empty"}) {
    options_.inputs.push_back(
        {name, [this, name, input](Bucket bucket, CUstream stream) {
           const std::vector<float> values = InputOf(bucket, name);
           PERMAFROST_RETURN_IF_ERROR(
               CuStatus(api().MemcpyHtoDAsync(input.value(), values.data(),
                                              values.size() * 4, stream),
                        "cuMemcpyHtoDAsync"));
           // The values go out of scope.
           return CuStatus(api().StreamSynchronize(stream),
                           "cuStreamSynchronize");
         }});
  }
  options_.outputs = {
      {"output", Buffer("output").base, ElementType::kF32,
       [](Bucket bucket) { return static_cast<int64_t>(Floats(bucket)) * 4; }}};
  options_.scratch = {
      {"scratch", Buffer("scratch").base, Buffer("scratch").bytes}};
  options_.oracle = [](Bucket bucket, const std::string& name)
      -> absl::StatusOr<std::vector<ExpectedOutput>> {
    ExpectedOutput expected;
    expected.values = InputOf(bucket, name);
    for (float& value : expected.values) value *= 6.0f;
    return std::vector<ExpectedOutput>{expected};
  };
  options_.eager = step;
}

VerifyReport VerifierTest::Verify() {
  ReplayVerifier verifier(arena(), set().graphs(), options());
  absl::StatusOr<VerifyReport> report = verifier.Run();
  EXPECT_OK(report);
  return report.ok() ? *std::move(report) : VerifyReport();
}

bool VerifierTest::Has(const VerifyReport& report, VerifyFindingKind kind,
                       const std::string& buffer) {
  return std::any_of(report.findings.begin(), report.findings.end(),
                     [&](const VerifyFinding& finding) {
                       return finding.kind == kind &&
                              (buffer.empty() || finding.buffer == buffer);
                     });
}

}  // namespace permafrost::testing
