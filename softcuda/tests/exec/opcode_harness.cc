// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "opcode_harness.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <sstream>

#include "exec/form_table.h"
#include "exec_test_support.h"

namespace softcuda::testing {
namespace {

constexpr size_t kMaxInputs = 4;
constexpr uint64_t kUntouched = 0x5a5a5a5a5a5a5a5aULL;

// The value of a format's finite bits with kMantissa bits of fraction.
template <int kMantissa, int kBias>
double FiniteValue(uint32_t magnitude) {
  const int exponent = static_cast<int>(magnitude >> kMantissa);
  const double fraction =
      static_cast<double>(magnitude & ((1U << kMantissa) - 1));
  return exponent == 0 ? std::ldexp(fraction, 1 - kBias - kMantissa)
                       : std::ldexp(fraction + (1 << kMantissa),
                                    exponent - kBias - kMantissa);
}

// Nearest even by bisection over all finite magnitudes; `infinity` is the
// first that is not finite.
template <int kMantissa, int kBias>
uint16_t RoundTo(double x, uint32_t infinity) {
  if (std::isnan(x)) return 0x7fff;
  const uint32_t sign = std::signbit(x) ? 0x8000U : 0;
  const double magnitude = std::fabs(x);
  uint32_t low = 0;
  uint32_t high = infinity;
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    (FiniteValue<kMantissa, kBias>(middle) <= magnitude ? low : high) = middle;
  }
  // `high` may be infinity, which stands for the next power of two here.
  const double below = FiniteValue<kMantissa, kBias>(low);
  const double above = FiniteValue<kMantissa, kBias>(high);
  const double to_below = magnitude - below;
  const double to_above = above - magnitude;
  const bool up = to_above < to_below || (to_above == to_below && (low & 1));
  return static_cast<uint16_t>(sign | (up ? high : low));
}

std::vector<uint64_t> EdgeValues(ValueKind kind) {
  std::vector<uint64_t> values;
  const auto f32 = [&](float x) {
    values.push_back(std::bit_cast<uint32_t>(x));
    values.push_back(std::bit_cast<uint32_t>(-x));
  };
  const auto f64 = [&](double x) {
    values.push_back(std::bit_cast<uint64_t>(x));
    values.push_back(std::bit_cast<uint64_t>(-x));
  };
  switch (kind) {
    case ValueKind::kInteger:
      for (const uint64_t x : {0ULL,
                               1ULL,
                               2ULL,
                               5ULL,
                               31ULL,
                               32ULL,
                               33ULL,
                               63ULL,
                               64ULL,
                               255ULL,
                               0x7fULL,
                               0x80ULL,
                               0x7fffULL,
                               0x8000ULL,
                               0xffffULL,
                               0x7fffffffULL,
                               0x80000000ULL,
                               0xffffffffULL,
                               0x100000000ULL,
                               0x7fffffffffffffffULL,
                               0x8000000000000000ULL,
                               0xffffffffffffffffULL}) {
        values.push_back(x);
      }
      break;
    case ValueKind::kF32:
      for (const float x : {0.0F, 1.0F, 1.5F, 2.5F, 0.3F, 448.0F, 65504.0F,
                            65520.0F, 1e-40F, 3e38F, 2147483648.0F, 255.5F,
                            1e-10F, 0x1p-24F, 0x1p-9F, 0x1.8p-10F}) {
        f32(x);
      }
      f32(std::numeric_limits<float>::infinity());
      f32(std::numeric_limits<float>::quiet_NaN());
      break;
    case ValueKind::kF64:
      for (const double x :
           {0.0, 1.0, 1.5, 2.5, 0.3, 1e-310, 1e300, 4294967296.0, 9.3e18, 1e-40,
            3.5e38, 65519.99, 0x1p-24}) {
        f64(x);
      }
      f64(std::numeric_limits<double>::infinity());
      f64(std::numeric_limits<double>::quiet_NaN());
      break;
    case ValueKind::kF16:
    case ValueKind::kBf16:
      for (const uint64_t x :
           {0x0000ULL, 0x8000ULL, 0x3c00ULL, 0xbc00ULL, 0x3f80ULL, 0xbf80ULL,
            0x0001ULL, 0x8001ULL, 0x03ffULL, 0x7bffULL, 0x7c00ULL, 0xfc00ULL,
            0x7e00ULL, 0x7f80ULL, 0xff80ULL, 0x7fc0ULL, 0x4000ULL, 0x3555ULL}) {
        values.push_back(x);
      }
      break;
    case ValueKind::kPredicate:
      values = {0, 1};
      break;
  }
  return values;
}

uint64_t RandomValue(ValueKind kind, std::mt19937_64& random) {
  const uint64_t bits = random();
  switch (kind) {
    case ValueKind::kInteger:
      // All magnitudes, not only large ones.
      return bits >> (random() % 64);
    case ValueKind::kF32:
      if (bits % 4 == 0) return static_cast<uint32_t>(bits >> 32);
      return std::bit_cast<uint32_t>(static_cast<float>(
          std::ldexp(static_cast<double>(static_cast<int32_t>(bits >> 32)),
                     -31 + static_cast<int>(bits % 41) - 20)));
    case ValueKind::kF64:
      if (bits % 4 == 0) return random();
      return std::bit_cast<uint64_t>(
          std::ldexp(static_cast<double>(static_cast<int64_t>(random())),
                     -63 + static_cast<int>(bits % 141) - 70));
    case ValueKind::kF16:
    case ValueKind::kBf16:
      return bits & 0xffff;
    case ValueKind::kPredicate:
      return bits & 1;
  }
  return 0;
}

const char* RegisterType(ValueKind kind, unsigned bytes) {
  if (kind == ValueKind::kPredicate) return "pred";
  return bytes == 2 ? "b16" : bytes == 4 ? "b32" : "b64";
}

unsigned BytesOfKind(ValueKind kind) {
  switch (kind) {
    case ValueKind::kF32:
      return 4;
    case ValueKind::kF16:
    case ValueKind::kBf16:
      return 2;
    default:
      return 8;
  }
}

// The operand sizes as the form table has them; a wrong size there shows as a
// wrong result.
unsigned SourceBytes(const OpcodeCase& test, size_t index) {
  const exec::Form* form = exec::FormTable::Get().Find(test.form);
  size_t source = 0;
  for (const exec::OperandSpec& spec : form->operands) {
    if (spec.is_destination) continue;
    if (source++ == index) return spec.bytes;
  }
  return BytesOfKind(test.inputs[index]);
}

std::string Kernel(const OpcodeCase& test, bool guarded) {
  std::ostringstream text;
  text << ".visible .entry k(.param .u64 in, .param .u64 out) {\n"
          ".reg .pred %odd; .reg .b32 %t, %u; .reg .b64 %i, %o, %w, %d64;\n"
          "ld.param.u64 %i, [in];\nld.param.u64 %o, [out];\n"
          "mov.u32 %t, %ctaid.x; mov.u32 %u, %ntid.x;\n"
          "mul.lo.u32 %t, %t, %u; mov.u32 %u, %tid.x; add.u32 %t, %t, %u;\n"
          "mul.wide.u32 %w, %t, 32; add.u64 %i, %i, %w;\n"
          "mul.wide.u32 %w, %t, 8; add.u64 %o, %o, %w;\n"
          "and.b32 %u, %t, 1; setp.ne.u32 %odd, %u, 0;\n";
  std::string operands;
  for (size_t k = 0; k < test.inputs.size(); ++k) {
    const unsigned bytes = SourceBytes(test, k);
    const std::string reg = "%s" + std::to_string(k);
    text << ".reg ." << RegisterType(test.inputs[k], bytes) << " " << reg
         << ";\nld.global.b64 %w, [%i+" << 8 * k << "];\n";
    if (test.inputs[k] == ValueKind::kPredicate) {
      text << "setp.ne.u64 " << reg << ", %w, 0;\n";
    } else if (bytes == 8) {
      text << "mov.b64 " << reg << ", %w;\n";
    } else {
      text << "cvt.u" << 8 * bytes << ".u64 " << reg << ", %w;\n";
    }
    operands += ", " + reg;
  }
  if (!test.literal.empty()) operands += ", " + test.literal;
  text << ".reg ." << RegisterType(test.output, test.output_bytes) << " %d;\n"
       << "mov.b64 %w, 0x5a5a5a5a5a5a5a5a;\n";
  if (test.output == ValueKind::kPredicate) {
    text << "setp.eq.u64 %d, %w, 0;\n";
  } else if (test.output_bytes == 8) {
    text << "mov.b64 %d, %w;\n";
  } else {
    text << "cvt.u" << 8 * test.output_bytes << ".u64 %d, %w;\n";
  }
  text << (guarded ? "@%odd " : "") << test.form << " %d" << operands << ";\n";
  if (test.output == ValueKind::kPredicate) {
    text << "selp.u64 %d64, 1, 0, %d;\n";
  } else if (test.output_bytes == 8) {
    text << "mov.b64 %d64, %d;\n";
  } else {
    text << "cvt.u64.u" << 8 * test.output_bytes << " %d64, %d;\n";
  }
  text << "st.global.b64 [%o], %d64;\nret;\n}\n";
  return text.str();
}

double AsDouble(ValueKind kind, uint64_t bits) {
  switch (kind) {
    case ValueKind::kF32:
      return static_cast<double>(
          std::bit_cast<float>(static_cast<uint32_t>(bits)));
    case ValueKind::kF64:
      return std::bit_cast<double>(bits);
    case ValueKind::kF16:
      return static_cast<double>(ToFloat(F16{static_cast<uint16_t>(bits)}));
    case ValueKind::kBf16:
      return static_cast<double>(ToFloat(Bf16{static_cast<uint16_t>(bits)}));
    default:
      return 0;
  }
}

bool Matches(const OpcodeCase& test, uint64_t actual, uint64_t expected) {
  if (actual == expected) return true;
  const double a = AsDouble(test.output, actual);
  const double e = AsDouble(test.output, expected);
  const bool is_float = test.output != ValueKind::kInteger &&
                        test.output != ValueKind::kPredicate;
  if (!is_float) return false;
  if (std::isnan(a) || std::isnan(e)) return std::isnan(a) && std::isnan(e);
  if (test.relative_tolerance == 0 && test.absolute_tolerance == 0) {
    return false;
  }
  if (std::isinf(a) || std::isinf(e)) return a == e;
  return std::fabs(a - e) <=
         test.relative_tolerance * std::fabs(e) + test.absolute_tolerance;
}

void CheckCase(const OpcodeCase& test) {
  SCOPED_TRACE(test.form);
  ASSERT_NE(exec::FormTable::Get().Find(test.form), nullptr) << "no such form";
  std::mt19937_64 random(1234);
  std::vector<std::array<uint64_t, kMaxInputs>> inputs;
  std::vector<std::vector<uint64_t>> edges;
  for (const ValueKind kind : test.inputs) edges.push_back(EdgeValues(kind));
  const auto is_allowed = [&](size_t k, uint64_t bits) {
    const double x = AsDouble(test.inputs[k], bits);
    return test.max_magnitude == 0 || !std::isfinite(x) ||
           std::fabs(x) <= test.max_magnitude;
  };
  const auto pick = [&](size_t k) {
    return random() % 2 == 0 ? edges[k][random() % edges[k].size()]
                             : RandomValue(test.inputs[k], random);
  };
  const size_t first = edges.empty() ? 0 : edges[0].size();
  const size_t second = edges.size() < 2 ? 1 : edges[1].size();
  for (size_t n = 0; n < first * second + 512; ++n) {
    std::array<uint64_t, kMaxInputs> row = {};
    for (size_t k = 0; k < edges.size(); ++k) row[k] = pick(k);
    if (n < first * second) {
      row[0] = edges[0][n % first];
      if (edges.size() > 1) row[1] = edges[1][n / first];
    }
    for (size_t k = 0; k < edges.size(); ++k) {
      if (!is_allowed(k, row[k])) row[k] = 0;
    }
    inputs.push_back(row);
  }
  inputs.resize((inputs.size() + 127) / 128 * 128);
  std::ostringstream mismatches;
  int failures = 0;
  for (const bool guarded : {false, true}) {
    Loaded loaded(Ptx(Kernel(test, guarded)));
    ASSERT_TRUE(loaded) << loaded.error().message;
    DeviceMemory in(inputs);
    DeviceMemory out(inputs.size() * 8);
    ASSERT_EQ(loaded.Run("k",
                         {.grid = {static_cast<uint32_t>(inputs.size() / 128)},
                          .block = {128, 1, 1}},
                         in.address(), out.address()),
              CUDA_SUCCESS)
        << loaded.TakeReports();
    const std::vector<uint64_t> results = out.Read<uint64_t>();
    for (size_t n = 0; n < inputs.size() && failures < 4; ++n) {
      const uint64_t keep = test.output_bytes == 0 ? 0
                            : test.output_bytes == 8
                                ? ~uint64_t{0}
                                : (uint64_t{1} << 8 * test.output_bytes) - 1;
      const bool runs = !guarded || n % 2 == 1;
      const uint64_t expected =
          runs ? test.expect(inputs[n].data()) : kUntouched & keep;
      const bool same =
          runs ? Matches(test, results[n], expected) : results[n] == expected;
      if (same) continue;
      ++failures;
      mismatches << (guarded ? "\nodd threads only, operands"
                             : "\nall threads, operands");
      for (size_t k = 0; k < test.inputs.size(); ++k) {
        mismatches << " 0x" << std::hex << inputs[n][k] << std::dec;
        if (test.inputs[k] != ValueKind::kInteger) {
          mismatches << " (" << AsDouble(test.inputs[k], inputs[n][k]) << ")";
        }
      }
      mismatches << std::hex << ": got 0x" << results[n] << ", expected 0x"
                 << expected << std::dec << " ("
                 << AsDouble(test.output, results[n]) << ", "
                 << AsDouble(test.output, expected) << ")";
    }
  }
  if (failures != 0) ADD_FAILURE() << test.form << mismatches.str();
}

}  // namespace

float ToFloat(F16 h) {
  const uint32_t magnitude = h.bits & 0x7fff;
  double value = FiniteValue<10, 15>(magnitude);
  if (magnitude == 0x7c00) value = std::numeric_limits<double>::infinity();
  if (magnitude > 0x7c00) value = std::numeric_limits<double>::quiet_NaN();
  return static_cast<float>((h.bits & 0x8000) != 0 ? -value : value);
}

float ToFloat(Bf16 b) {
  return std::bit_cast<float>(static_cast<uint32_t>(b.bits) << 16);
}

F16 ToF16(double x) { return {RoundTo<10, 15>(x, 0x7c00)}; }

Bf16 ToBf16(double x) { return {RoundTo<7, 127>(x, 0x7f80)}; }

void CheckOpcodes(const std::vector<OpcodeCase>& cases) {
  for (const OpcodeCase& test : cases) {
    ASSERT_NO_FATAL_FAILURE(CheckCase(test));
  }
}

}  // namespace softcuda::testing
