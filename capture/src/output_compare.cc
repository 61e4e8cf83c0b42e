// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "output_compare.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "permafrost/driver/check.h"

namespace permafrost {
namespace {

size_t ElementBytes(ElementType element) {
  switch (element) {
    case ElementType::kF32:
      return 4;
    case ElementType::kBf16:
      return 2;
    default:
      return 1;
  }
}

uint32_t Bits(absl::Span<const std::byte> data, size_t index, size_t bytes) {
  uint32_t bits = 0;
  std::memcpy(&bits, data.data() + index * bytes, bytes);
  return bits;
}

float Number(ElementType element, uint32_t bits) {
  return std::bit_cast<float>(element == ElementType::kBf16 ? bits << 16
                                                            : bits);
}

std::string Show(ElementType element, uint32_t bits) {
  const size_t bytes = ElementBytes(element);
  const std::string hex =
      absl::StrFormat("0x%0*x", static_cast<int>(2 * bytes), bits);
  if (!IsNumeric(element)) return hex;
  return absl::StrFormat("%.9g (%s)", Number(element, bits), hex);
}

double Tolerance(size_t index, const ExpectedOutput& expected) {
  double tolerance =
      expected.abs_tolerance +
      expected.rel_tolerance * std::abs(double{expected.values[index]});
  if (!expected.tolerances.empty()) {
    tolerance += double{expected.tolerances[index]};
  }
  return tolerance;
}

bool Matches(float got, size_t index, const ExpectedOutput& expected) {
  const float want = expected.values[index];
  if (std::isnan(want) || std::isnan(got)) {
    return std::isnan(want) && std::isnan(got);
  }
  if (std::isinf(want) || std::isinf(got)) return got == want;
  return std::abs(double{got} - double{want}) <= Tolerance(index, expected);
}

// Calls `differs(index)` for every element; `show` fills in the first one.
template <typename Differs, typename Show>
std::optional<OutputDifference> FirstDifference(size_t elements,
                                                size_t element_bytes,
                                                Differs&& differs,
                                                Show&& show) {
  std::optional<OutputDifference> first;
  for (size_t i = 0; i < elements; ++i) {
    if (!differs(i)) continue;
    if (!first) {
      first.emplace();
      first->offset_bytes = static_cast<int64_t>(i * element_bytes);
      first->element_bytes = static_cast<int64_t>(element_bytes);
      first->elements = static_cast<int64_t>(elements);
      show(i, *first);
    }
    ++first->differing_elements;
  }
  return first;
}

}  // namespace

bool IsNumeric(ElementType element) {
  return element == ElementType::kF32 || element == ElementType::kBf16;
}

absl::Status CheckExpectedShape(const OutputRegion& output, int64_t live_bytes,
                                const ExpectedOutput& expected) {
  const size_t element_bytes = ElementBytes(output.element);
  const size_t given = IsNumeric(output.element)
                           ? expected.values.size() * element_bytes
                           : expected.bytes.size();
  if (!expected.tolerances.empty() &&
      expected.tolerances.size() != expected.values.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("oracle: ", expected.tolerances.size(), " tolerances for ",
                     expected.values.size(), " values of '", output.name,
                     "'; give none, or one a value"));
  }
  if (given == static_cast<size_t>(live_bytes)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "oracle: expected values for ", given, " bytes of '", output.name,
      "', live bytes ", live_bytes, "; give one value an element"));
}

std::optional<OutputDifference> CompareWithExpected(
    ElementType element, absl::Span<const std::byte> got,
    const ExpectedOutput& expected) {
  if (!IsNumeric(element)) return CompareBits(element, got, expected.bytes);
  const size_t bytes = ElementBytes(element);
  return FirstDifference(
      got.size() / bytes, bytes,
      [&](size_t i) {
        return !Matches(Number(element, Bits(got, i, bytes)), i, expected);
      },
      [&](size_t i, OutputDifference& first) {
        first.got = Show(element, Bits(got, i, bytes));
        first.expected = absl::StrFormat(
            "%.9g (tolerance %g)", expected.values[i], Tolerance(i, expected));
      });
}

std::optional<OutputDifference> CompareBits(ElementType element,
                                            absl::Span<const std::byte> got,
                                            absl::Span<const std::byte> want) {
  PERMAFROST_CHECK(got.size() == want.size(),
                   "outputs of different sizes are not compared");
  const size_t bytes = ElementBytes(element);
  return FirstDifference(
      got.size() / bytes, bytes,
      [&](size_t i) { return Bits(got, i, bytes) != Bits(want, i, bytes); },
      [&](size_t i, OutputDifference& first) {
        first.got = Show(element, Bits(got, i, bytes));
        first.expected = Show(element, Bits(want, i, bytes));
      });
}

}  // namespace permafrost
