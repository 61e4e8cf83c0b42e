// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Golden tests of opcode forms: each case is a form and a scalar C++ function
// that says what it computes. The harness writes a kernel around the form, runs
// it on edge values and random ones, with all lanes and under a guard, and
// compares every bit.
#ifndef SOFTCUDA_TESTS_EXEC_OPCODE_HARNESS_H_
#define SOFTCUDA_TESTS_EXEC_OPCODE_HARNESS_H_

#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

namespace softcuda::testing {

/// Half-precision operands: bits, so that only conversions give them a value.
struct F16 {
  uint16_t bits;
};
struct Bf16 {
  uint16_t bits;
};

float ToFloat(F16 h);
float ToFloat(Bf16 b);
/// Rounds to nearest even, independently of the interpreter: by search over
/// the neighbours in the target format.
F16 ToF16(double x);
Bf16 ToBf16(double x);

enum class ValueKind { kInteger, kF32, kF64, kF16, kBf16, kPredicate };

struct OpcodeCase {
  std::string form;
  std::vector<ValueKind> inputs;
  ValueKind output = ValueKind::kInteger;
  unsigned output_bytes = 8;
  std::function<uint64_t(const uint64_t*)> expect;
  double relative_tolerance = 0;  ///< 0: every bit counts, but NaNs are alike
  double absolute_tolerance = 0;
  double max_magnitude = 0;  ///< of finite operands; 0: no limit
  std::string literal;       ///< text of a literal operand at the end
};

namespace internal {

template <class T>
T FromBits(uint64_t bits) {
  if constexpr (std::is_same_v<T, bool>) {
    return (bits & 1) != 0;
  } else if constexpr (sizeof(T) == 8) {
    return std::bit_cast<T>(bits);
  } else if constexpr (sizeof(T) == 4) {
    return std::bit_cast<T>(static_cast<uint32_t>(bits));
  } else if constexpr (sizeof(T) == 2) {
    return std::bit_cast<T>(static_cast<uint16_t>(bits));
  } else {
    return std::bit_cast<T>(static_cast<uint8_t>(bits));
  }
}

template <class T>
uint64_t ToBits(T value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? 1 : 0;
  } else if constexpr (sizeof(T) == 8) {
    return std::bit_cast<uint64_t>(value);
  } else if constexpr (sizeof(T) == 4) {
    return std::bit_cast<uint32_t>(value);
  } else if constexpr (sizeof(T) == 2) {
    return std::bit_cast<uint16_t>(value);
  } else {
    // Registers hold 8-bit values in 16 bits, extended by their sign.
    const auto extended = static_cast<int16_t>(value);
    return std::bit_cast<uint16_t>(extended);
  }
}

template <class T>
constexpr ValueKind KindOf() {
  if constexpr (std::is_same_v<T, bool>) return ValueKind::kPredicate;
  if constexpr (std::is_same_v<T, float>) return ValueKind::kF32;
  if constexpr (std::is_same_v<T, double>) return ValueKind::kF64;
  if constexpr (std::is_same_v<T, F16>) return ValueKind::kF16;
  if constexpr (std::is_same_v<T, Bf16>) return ValueKind::kBf16;
  return ValueKind::kInteger;
}

template <class R, class... A, size_t... I>
std::function<uint64_t(const uint64_t*)> Wrap(R (*f)(A...),
                                              std::index_sequence<I...>) {
  return [f](const uint64_t* x) { return ToBits<R>(f(FromBits<A>(x[I])...)); };
}

}  // namespace internal

/// How PTX names an arithmetic type: ".s32", ".f64".
template <class T>
std::string TypeName() {
  if constexpr (std::is_same_v<T, float>) return ".f32";
  if constexpr (std::is_same_v<T, double>) return ".f64";
  return (std::is_signed_v<T> ? ".s" : ".u") + std::to_string(8 * sizeof(T));
}

/// A case from a function without captures: its argument types say what the
/// operands are.
template <class R, class... A>
OpcodeCase Op(std::string form, R (*f)(A...)) {
  OpcodeCase result;
  result.form = std::move(form);
  result.inputs = {internal::KindOf<A>()...};
  result.output = internal::KindOf<R>();
  result.output_bytes = std::is_same_v<R, bool> ? 0
                        : sizeof(R) == 1        ? 2
                                                : sizeof(R);
  result.expect = internal::Wrap(f, std::index_sequence_for<A...>());
  return result;
}

/// A case whose result may be off by some of its size.
template <class R, class... A>
OpcodeCase Approx(std::string form, double relative, double absolute,
                  R (*f)(A...)) {
  OpcodeCase result = Op(std::move(form), f);
  result.relative_tolerance = relative;
  result.absolute_tolerance = absolute;
  return result;
}

/// A case with a literal as its last operand.
template <class R, class... A>
OpcodeCase WithLiteral(std::string form, std::string literal, R (*f)(A...)) {
  OpcodeCase result = Op(std::move(form), f);
  result.literal = std::move(literal);
  return result;
}

/// Runs the cases; a failure names the form and the operands.
void CheckOpcodes(const std::vector<OpcodeCase>& cases);

}  // namespace softcuda::testing

#endif  // SOFTCUDA_TESTS_EXEC_OPCODE_HARNESS_H_
