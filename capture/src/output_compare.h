// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_CAPTURE_SRC_OUTPUT_COMPARE_H_
#define PERMAFROST_CAPTURE_SRC_OUTPUT_COMPARE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "permafrost/arena/buffer_table.h"
#include "permafrost/capture/replay_verifier.h"

namespace permafrost {

/// The first element of an output that is not as it must be.
struct OutputDifference {
  int64_t offset_bytes = 0;
  int64_t element_bytes = 1;
  std::string got;
  std::string expected;
  int64_t differing_elements = 0;
  int64_t elements = 0;
};

/// Whether the element type is compared as numbers.
bool IsNumeric(ElementType element);

/// Whether `expected` has a value for each of `live_bytes` bytes of the output.
absl::Status CheckExpectedShape(const OutputRegion& output, int64_t live_bytes,
                                const ExpectedOutput& expected);

/// Compares with the oracle, within its tolerance; a NaN matches a NaN only.
/// The shape must have been checked.
std::optional<OutputDifference> CompareWithExpected(
    ElementType element, absl::Span<const std::byte> got,
    const ExpectedOutput& expected);

/// Compares bit for bit; the sizes are equal.
std::optional<OutputDifference> CompareBits(ElementType element,
                                            absl::Span<const std::byte> got,
                                            absl::Span<const std::byte> want);

}  // namespace permafrost

#endif  // PERMAFROST_CAPTURE_SRC_OUTPUT_COMPARE_H_
