// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_STEP_ECHO_H_
#define PERMAFROST_ARENA_STEP_ECHO_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace permafrost {

/// What the last kernel of a step hands back about the metadata it ran on.
///
/// The kernel writes it to device memory, the host reads it with the step's
/// results. `step` is the block's header.step; it tells an upload that did not
/// happen, or that came too early or too late. `body_sum` is worked out by the
/// device over the bytes that the header says were copied, as
/// `DecodeMetaBodySum` does; it tells an upload of which only a part arrived.
struct StepEcho {
  uint64_t step = 0;
  uint64_t body_sum = 0;

  friend bool operator==(const StepEcho&, const StepEcho&) = default;
};

/// The sum of a block's 32-bit words behind the header's 256 bytes, each times
/// its index in the block plus 1, modulo 2^64. Order of summation does not
/// matter, so that a kernel may split it over threads.
///
/// @param block  all copied bytes, the header's included: a multiple of 4.
/// Cost: about a microsecond for 6 KB. Threads: any. Capture: no driver call.
uint64_t DecodeMetaBodySum(absl::Span<const std::byte> block);

/// Whether the step ran on its own upload: for kernels that hand back only the
/// header's step. A torn upload whose header arrived passes.
///
/// Errors: kDataLoss with both numbers.
absl::Status CheckStepEcho(uint64_t expected_step, uint64_t read_step);

/// Whether the step ran on its own upload, and on all of it.
///
/// @param expected  what writing the upload returned.
/// Errors: kDataLoss with the numbers that differ.
absl::Status CheckStepEcho(const StepEcho& expected, const StepEcho& read);

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_STEP_ECHO_H_
