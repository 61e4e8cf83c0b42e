// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/step_echo.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "permafrost/driver/status.h"

namespace permafrost {
namespace {

/// The header's region, which the sum leaves out because it holds the sum.
constexpr size_t kHeaderWords = 64;

}  // namespace

uint64_t DecodeMetaBodySum(absl::Span<const std::byte> block) {
  uint64_t sum = 0;
  const size_t words = block.size() / sizeof(uint32_t);
  for (size_t i = kHeaderWords; i < words; ++i) {
    uint32_t word;
    std::memcpy(&word, block.data() + i * sizeof(word), sizeof(word));
    sum += (i + 1) * word;
  }
  return sum;
}

absl::Status CheckStepEcho(uint64_t expected_step, uint64_t read_step) {
  if (read_step == expected_step) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "decode metadata: echoed step: got ", read_step, ", expected ",
      expected_step,
      read_step < expected_step
          ? ": the step ran on a stale block; its upload was skipped or came "
            "after the replay"
          : ": the step ran on a later step's block; the staging memory was "
            "rewritten before its copy ran",
      "; upload on the graph's stream, and write only slots that were "
      "acquired"));
}

absl::Status CheckStepEcho(const StepEcho& expected, const StepEcho& read) {
  PERMAFROST_RETURN_IF_ERROR(CheckStepEcho(expected.step, read.step));
  if (read.body_sum == expected.body_sum) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "decode metadata: sum of the block of step ", expected.step, ": got ",
      read.body_sum, ", expected ", expected.body_sum,
      ": the upload is torn; copy all bytes of the mode, and write neither the "
      "staging memory nor the block while it is copied"));
}

}  // namespace permafrost
