// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_TESTS_CAPTURE_VERIFIER_FIXTURE_H_
#define PERMAFROST_TESTS_CAPTURE_VERIFIER_FIXTURE_H_

#include <optional>
#include <string>
#include <vector>

#include "permafrost/capture/replay_verifier.h"
#include "tests/capture/capture_fixture.h"

namespace permafrost::testing {

/// Verifies a step that shall give output = input * 6 on three inputs.
class VerifierTest : public CaptureTest {
 protected:
  /// The input of a bucket: "balanced", "skewed" or "empty".
  static std::vector<float> InputOf(Bucket bucket, const std::string& name);

  /// Captures `step` for 2, 4 and 8 rows and fills in `options`.
  void CaptureStepForVerifier(const Step& step, int64_t guard_bytes = 0,
                              CaptureOptions capture_options = {});

  VerifyReport Verify();

  /// Whether a finding of that kind names the buffer.
  static bool Has(const VerifyReport& report, VerifyFindingKind kind,
                  const std::string& buffer = "");

  GraphSet& set() { return *set_; }
  VerifyOptions& options() { return options_; }

  void TearDown() override {
    set_.reset();
    CaptureTest::TearDown();
  }

 private:
  std::optional<GraphSet> set_;
  VerifyOptions options_;
};

}  // namespace permafrost::testing

#endif  // PERMAFROST_TESTS_CAPTURE_VERIFIER_FIXTURE_H_
