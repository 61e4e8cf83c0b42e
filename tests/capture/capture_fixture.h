// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// What the tests of capture/ share: a small arena, a lane, and steps.

#ifndef PERMAFROST_TESTS_CAPTURE_CAPTURE_FIXTURE_H_
#define PERMAFROST_TESTS_CAPTURE_CAPTURE_FIXTURE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "permafrost/arena/arena.h"
#include "permafrost/capture/capture_all.h"
#include "permafrost/capture/lane.h"
#include "permafrost/capture/step.h"
#include "permafrost/capture/warm_up.h"
#include "tests/capture/test_kernels.h"
#include "tests/support/soft_driver.h"
#include "tests/support/status_matchers.h"

namespace permafrost::testing {

inline constexpr int64_t kRowFloats = 16;
inline constexpr int64_t kMaxRows = 8;
inline constexpr int64_t kBufferBytes = kMaxRows * kRowFloats * 4;

inline int32_t Floats(Bucket bucket) {
  return static_cast<int32_t>(bucket.rows * kRowFloats);
}

/// Buffers input, scratch, output of kMaxRows rows; state and counter of 64
/// bytes; and "absent", which is gated off.
ArenaPlan MakeTestPlan(int64_t guard_bytes = 0);

/// output = input, by a copy.
Step MakeCopyStep(ContextRef context);

/// scratch = input * 2, output = scratch * 3. The kernels outlive the step.
Step MakeScaleStep(const TestKernels& kernels);

class CaptureTest : public DriverTest {
 protected:
  void SetUp() override;
  void TearDown() override;

  /// Makes the arena, fills all buffers with zeros, warms the step, freezes.
  absl::Status Prepare(const Step& step,
                       const std::vector<Bucket>& buckets = {{2}, {4}, {8}},
                       int64_t guard_bytes = 0);

  /// As Prepare, on an arena of that plan.
  absl::Status PrepareWith(ArenaPlan plan, const Step& step,
                           const std::vector<Bucket>& buckets);

  /// Captures with the test kernels' signatures.
  absl::StatusOr<GraphSet> Capture(CaptureOptions options = {});

  /// Captures the recording alone, with no audit.
  absl::StatusOr<Graph> Record(
      const std::function<absl::Status(CUstream)>& record);

  const Lane& lane() const { return *lane_; }
  const TestKernels& kernels() const { return *kernels_; }
  const FrozenArena& arena() const { return *arena_; }
  const WarmSet& warm_set() const { return *warm_set_; }
  FrozenArena& mutable_arena() { return *arena_; }

  /// A buffer of the arena, which must exist.
  BufferRef Buffer(absl::string_view name) const;

  /// Drained copies between a buffer and the host.
  void Write(DevicePtr base, const std::vector<float>& values) const;
  std::vector<float> Read(DevicePtr base, int64_t count) const;

 private:
  std::optional<Context::Scope> scope_;
  std::optional<Lane> lane_;
  std::optional<TestKernels> kernels_;
  std::optional<WarmSet> warm_set_;
  std::optional<FrozenArena> arena_;
};

}  // namespace permafrost::testing

#endif  // PERMAFROST_TESTS_CAPTURE_CAPTURE_FIXTURE_H_
