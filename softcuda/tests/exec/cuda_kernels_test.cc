// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// exec_kernels.cu, compiled by nvcc as the product's kernels are, against
// computations on the host. Each test runs the PTX of both architectures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "exec_test_support.h"
#include "opcode_harness.h"

extern "C" const unsigned char softcuda_exec_kernels[];
extern "C" const unsigned char softcuda_exec_kernels_end[];

namespace softcuda::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Shape {
  int rows;
  int columns;
  float scale;
  int64_t stride;
};

class CudaKernelsTest : public ::testing::TestWithParam<int> {
 protected:
  CudaKernelsTest()
      : loaded_(softcuda_exec_kernels,
                static_cast<size_t>(softcuda_exec_kernels_end -
                                    softcuda_exec_kernels),
                GetParam()) {}

  void SetUp() override { ASSERT_TRUE(loaded_) << loaded_.error().message; }

  template <class... Args>
  void Run(const std::string& kernel, const LaunchShape& shape,
           const Args&... args) {
    ASSERT_EQ(loaded_.Run(kernel, shape, args...), CUDA_SUCCESS)
        << loaded_.TakeReports();
  }

  Loaded loaded_;
  std::mt19937_64 random_{7};
};

INSTANTIATE_TEST_SUITE_P(Architectures, CudaKernelsTest,
                         ::testing::Values(80, 90), [](const auto& version) {
                           return "compute_" + std::to_string(version.param);
                         });

TEST_P(CudaKernelsTest, RowSums) {
  constexpr int kRows = 7;
  constexpr int kColumns = 333;
  constexpr size_t kStride = 340;
  std::vector<float> in(kRows * kStride);
  for (float& x : in) x = static_cast<float>(random_() % 1000);
  DeviceMemory from(in);
  DeviceMemory to(kRows * 4);
  Run("row_sums", {.grid = {kRows, 1, 1}, .block = {128, 1, 1}}, from.address(),
      to.address(), Shape{kRows, kColumns, 0.5F, kStride});
  for (size_t r = 0; r < kRows; ++r) {
    const float sum =
        std::accumulate(&in[r * kStride], &in[r * kStride + kColumns], 0.0F);
    EXPECT_EQ(to.as<float>()[r], sum * 0.5F) << "whole numbers add exactly";
  }
}

// |actual - expected| within `ulps` units of the last place and an absolute
// slack for results near 0.
void ExpectClose(float actual, double expected, double ulps,
                 const std::string& what) {
  const double slack = ulps * std::fabs(expected) * 0x1p-23 + 1e-6;
  EXPECT_NEAR(actual, expected, slack) << what;
}

TEST_P(CudaKernelsTest, MathInSinglePrecision) {
  std::vector<float> in;
  for (int k = 1; k < 700; ++k) in.push_back(0.037F * static_cast<float>(k));
  for (int k = 1; k < 300; ++k) in.push_back(-0.031F * static_cast<float>(k));
  in.push_back(100000.5F);  // sine by the slow path of large arguments
  DeviceMemory from(in);
  DeviceMemory to(in.size() * 12 * 4);
  Run("math_f32", {.grid = {8, 1, 1}, .block = {128, 1, 1}}, from.address(),
      to.address(), static_cast<int>(in.size()));
  for (size_t k = 0; k < in.size(); ++k) {
    const float* out = to.as<float>() + 12 * k;
    const double x = in[k];
    const std::string at = " of " + std::to_string(x);
    if (x < 80) ExpectClose(out[0], std::exp(x), 4, "expf" + at);
    ExpectClose(out[1], std::log(std::fabs(x)), 4, "logf" + at);
    ExpectClose(out[2], std::sin(x), 4, "sinf" + at);
    ExpectClose(out[3], std::cos(x), 4, "cosf" + at);
    ExpectClose(out[4], std::tanh(x), 8, "tanhf" + at);
    ExpectClose(out[5], std::pow(std::fabs(x), static_cast<double>(1.7F)), 10,
                "powf" + at);
    EXPECT_EQ(out[6], std::sqrt(std::fabs(in[k]))) << at;
    ExpectClose(out[7], 1 / std::sqrt(std::fabs(x)), 4, "rsqrtf" + at);
    ExpectClose(out[8], std::erf(x), 4, "erff" + at);
    EXPECT_EQ(out[9], std::fmod(in[k], 0.7F)) << at;
    if (x > 0 && x < 80) {
      ExpectClose(out[10], std::exp(x) / (1 + 1 / x), 40, "__expf" + at);
    }
    EXPECT_EQ(out[11],
              std::round(in[k]) + std::floor(in[k]) * std::nearbyint(in[k]))
        << at;
  }
}

TEST_P(CudaKernelsTest, MathInDoublePrecision) {
  std::vector<double> in;
  for (int k = 1; k < 500; ++k) in.push_back(0.0137 * k * (k % 2 ? 1 : -1));
  in.push_back(1e9);  // by a function that is not inlined
  DeviceMemory from(in);
  DeviceMemory to(in.size() * 5 * 8);
  Run("math_f64", {.grid = {4, 1, 1}, .block = {128, 1, 1}}, from.address(),
      to.address(), static_cast<int>(in.size()));
  for (size_t k = 0; k < in.size(); ++k) {
    const double* out = to.as<double>() + 5 * k;
    const double x = in[k];
    const auto near = [](double expected) {
      return std::fabs(expected) * 1e-14 + 1e-15;
    };
    if (x < 700) {
      EXPECT_NEAR(out[0], std::exp(x), near(std::exp(x))) << x;
    }
    EXPECT_NEAR(out[1], std::log(std::fabs(x)), near(std::log(std::fabs(x))));
    EXPECT_NEAR(out[2], std::sin(x), near(1)) << x;
    EXPECT_EQ(out[3], std::sqrt(std::fabs(x)) / 3.0);
    const double power = std::pow(std::fabs(x), 1.3);
    EXPECT_NEAR(out[4], power, near(power)) << x;
  }
}

// Values of e4m3 codes, for comparison by distance.
float E4m3Value(uint8_t code) {
  const int m = code & 0x7f;
  const double value =
      m < 8 ? m * 0x1p-9 : std::ldexp(8 + (m & 7), (m >> 3) - 10);
  return static_cast<float>((code & 0x80) != 0 ? -value : value);
}

uint8_t NearestE4m3(float x) {
  uint8_t best = 0;
  for (int code = 0; code <= 0x7e; ++code) {
    const float distance =
        std::fabs(std::fabs(x) - E4m3Value(static_cast<uint8_t>(code)));
    const float best_distance = std::fabs(std::fabs(x) - E4m3Value(best));
    if (distance < best_distance ||
        (distance == best_distance && code % 2 == 0)) {
      best = static_cast<uint8_t>(code);
    }
  }
  return static_cast<uint8_t>(best | (std::signbit(x) ? 0x80 : 0));
}

TEST_P(CudaKernelsTest, Fp8RoundTrip) {
  std::vector<uint16_t> in(512);
  std::normal_distribution<float> normal(0, 3);
  for (size_t k = 0; k < in.size(); ++k) {
    in[k] = ToBf16(k / 32 == 3 ? 0.0F : normal(random_)).bits;
  }
  DeviceMemory from(in);
  DeviceMemory codes(512);
  DeviceMemory scales(16 * 4);
  DeviceMemory back(512 * 4);
  Run("fp8_round_trip", {.grid = {2, 1, 1}, .block = {256, 1, 1}},
      from.address(), codes.address(), scales.address(), back.address());
  for (size_t group = 0; group < 16; ++group) {
    float largest = 0;
    for (size_t k = 0; k < 32; ++k) {
      largest = std::max(largest, std::fabs(ToFloat(Bf16{in[group * 32 + k]})));
    }
    const float scale = largest > 0 ? largest / 448.0F : 1.0F;
    EXPECT_EQ(scales.as<float>()[group], scale);
    for (size_t k = 0; k < 32; ++k) {
      const float x = ToFloat(Bf16{in[group * 32 + k]}) / scale;
      const uint8_t code = codes.as<uint8_t>()[group * 32 + k];
      EXPECT_EQ(code, NearestE4m3(x)) << x;
      EXPECT_EQ(back.as<float>()[group * 32 + k], E4m3Value(code) * scale);
    }
  }
}

TEST_P(CudaKernelsTest, Fp8Pairs) {
  std::vector<float> in(2 * 256);
  for (size_t k = 0; k < in.size(); ++k) {
    in[k] = std::ldexp(static_cast<float>(random_() % 2000) - 1000.0F,
                       static_cast<int>(k % 20) - 18);
  }
  DeviceMemory from(in);
  DeviceMemory e4m3(512);
  DeviceMemory e5m2(512);
  DeviceMemory back(256 * 8);
  Run("fp8_pairs", {.grid = {2, 1, 1}, .block = {128, 1, 1}}, from.address(),
      e4m3.address(), e5m2.address(), back.address());
  for (size_t k = 0; k < in.size(); ++k) {
    const uint8_t code = e4m3.as<uint8_t>()[k];
    EXPECT_EQ(code, NearestE4m3(in[k])) << in[k];
    EXPECT_EQ(back.as<float>()[k], E4m3Value(code));
    // e5m2 is the upper byte of a half: compare with the nearest of both.
    const float half =
        ToFloat(F16{static_cast<uint16_t>(e5m2.as<uint8_t>()[k] << 8)});
    EXPECT_LE(std::fabs(half - in[k]),
              std::max(std::fabs(in[k]) * 0.125F, 0x1p-17F))
        << in[k];
  }
}

TEST_P(CudaKernelsTest, HalvesAndBfloats) {
  constexpr size_t kCount = 256;
  std::vector<uint16_t> a(2 * kCount);
  std::vector<uint16_t> b(2 * kCount);
  for (size_t k = 0; k < 2 * kCount; ++k) {
    a[k] = ToF16(std::ldexp(static_cast<double>(random_() % 512) - 256,
                            static_cast<int>(random_() % 12) - 8))
               .bits;
    b[k] = k % 5 == 0 ? a[k] : ToF16(static_cast<double>(random_() % 64)).bits;
  }
  DeviceMemory da(a);
  DeviceMemory db(b);
  DeviceMemory sum(kCount * 4);
  DeviceMemory product(kCount * 4);
  DeviceMemory less(kCount * 4);
  Run("halves", {.grid = {2, 1, 1}, .block = {128, 1, 1}}, da.address(),
      db.address(), sum.address(), product.address(), less.address());
  for (size_t k = 0; k < 2 * kCount; ++k) {
    const double x = ToFloat(F16{a[k]});
    const double y = ToFloat(F16{b[k]});
    EXPECT_EQ(sum.as<uint16_t>()[k], ToF16(x + ToFloat(ToF16(y * 0.5))).bits);
    EXPECT_EQ(product.as<uint16_t>()[k],
              ToBf16(double{ToFloat(ToBf16(x))} * ToFloat(ToBf16(y)) + 1).bits);
    if (k % 2 == 0) {
      const double x1 = ToFloat(F16{a[k + 1]});
      const double y1 = ToFloat(F16{b[k + 1]});
      EXPECT_EQ(less.as<uint32_t>()[k / 2],
                (x < y ? 1u : 0u) + (x1 == y1 ? 2u : 0u));
    }
  }
}

TEST_P(CudaKernelsTest, RanksInWarp) {
  std::vector<int> keys(128);
  for (int& key : keys) key = static_cast<int>(random_() % 9);
  DeviceMemory from(keys);
  DeviceMemory rank(128 * 4);
  DeviceMemory count(128 * 4);
  DeviceMemory leaders(128 * 4);
  Run("ranks_in_warp", {.grid = {2, 1, 1}, .block = {64, 1, 1}}, from.address(),
      rank.address(), count.address(), leaders.address());
  for (size_t warp = 0; warp < 4; ++warp) {
    std::map<int, int> seen;
    std::vector<int> ranks;
    for (size_t l = 0; l < 32; ++l)
      ranks.push_back(seen[keys[warp * 32 + l]]++);
    for (size_t l = 0; l < 32; ++l) {
      const size_t i = warp * 32 + l;
      EXPECT_EQ(rank.as<int>()[i], ranks[l]);
      EXPECT_EQ(count.as<int>()[i], seen[keys[i]]);
      EXPECT_EQ(leaders.as<int>()[i],
                static_cast<int>(seen.size()) + 100 + 31 * 16);
    }
  }
}

TEST_P(CudaKernelsTest, Histogram) {
  constexpr int kCount = 1000;
  std::vector<int> values(kCount);
  std::vector<int> expected(64, 0);
  float total = 0;
  for (int& v : values) {
    v = static_cast<int>(random_() % 500);
    ++expected[static_cast<size_t>(v % 64)];
    total += static_cast<float>(v);
  }
  DeviceMemory from(values);
  DeviceMemory bins(std::vector<int>(64, 0));
  DeviceMemory sum(std::vector<float>{0});
  DeviceMemory squares(std::vector<double>{0});
  DeviceMemory largest(std::vector<int>{-1});
  Run("histogram", {.grid = {5, 1, 1}, .block = {224, 1, 1}}, from.address(),
      kCount, bins.address(), sum.address(), squares.address(),
      largest.address());
  EXPECT_EQ(bins.Read<int>(), expected);
  EXPECT_EQ(*sum.as<float>(), total);
  EXPECT_EQ(*largest.as<int>(),
            *std::max_element(values.begin(), values.end()));
  const auto* counter = loaded_.module().FindGlobal("global_counter");
  ASSERT_NE(counter, nullptr);
  EXPECT_EQ(*reinterpret_cast<const unsigned*>(counter->address), 5u + 5);
}

TEST_P(CudaKernelsTest, PrefixSum) {
  std::vector<int> in(3 * 256);
  for (int& x : in) x = static_cast<int>(random_() % 100);
  DeviceMemory from(in);
  DeviceMemory to(in.size() * 4);
  for (const uint64_t seed : {0u, 1u, 2u}) {
    Run("prefix_sum",
        {.grid = {3, 1, 1},
         .block = {256, 1, 1},
         .dynamic_shared_bytes = 32,
         .seed = seed},
        from.address(), to.address());
    for (int block = 0; block < 3; ++block) {
      int before = 0;
      for (int k = block * 256; k < block * 256 + 256; ++k) {
        ASSERT_EQ(to.as<int>()[k], before);
        before += in[static_cast<size_t>(k)];
      }
    }
  }
}

uint32_t BytePermute(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t bytes = uint64_t{b} << 32 | a;
  uint32_t r = 0;
  for (int k = 0; k < 4; ++k) {
    r |= static_cast<uint32_t>(bytes >> 8 * (selector >> 4 * k & 7) & 0xff)
         << 8 * k;
  }
  return r;
}

TEST_P(CudaKernelsTest, Integers) {
  constexpr int kCount = 300;
  std::vector<uint64_t> in(kCount);
  for (uint64_t& x : in) x = random_() >> (random_() % 64);
  DeviceMemory from(in);
  DeviceMemory to(kCount * 64);
  Run("integers", {.grid = {3, 1, 1}, .block = {128, 1, 1}}, from.address(),
      to.address(), kCount);
  const float weights[8] = {1.0F, 0.5F, 0.25F, 2.0F, 4.0F, 8.0F, 3.0F, 0.125F};
  for (int i = 0; i < kCount; ++i) {
    SCOPED_TRACE(i);
    const uint64_t* out = to.as<uint64_t>() + 8 * i;
    const uint64_t x = in[static_cast<size_t>(i)];
    int64_t buckets[16];
    std::iota(buckets, buckets + 16, 0);
    for (uint64_t rest = x; rest != 0; rest /= 10) ++buckets[rest % 10];
    uint64_t mix = 0;
    for (int k = 0; k < 16; ++k) {
      mix = mix * 31 + static_cast<uint64_t>(buckets[(k * 7 + i) % 16]);
    }
    EXPECT_EQ(out[0], mix);
    int64_t n = 1 + i % 97;
    int64_t largest = n;
    uint64_t steps = 0;
    for (; n != 1; ++steps) {
      n = n % 2 == 0 ? n / 2 : 3 * n + 1;
      largest = std::max(largest, n);
    }
    EXPECT_EQ(out[1], static_cast<uint64_t>(largest));
    EXPECT_EQ(out[2], steps);
    const auto product =
        static_cast<unsigned __int128>(x) * 0x9e3779b97f4a7c15ULL;
    EXPECT_EQ(out[3],
              static_cast<uint64_t>(product >> 64) ^ (x / 12345) ^ (x % 977));
    const auto low = static_cast<uint32_t>(x);
    const auto high = static_cast<uint32_t>(x >> 32);
    uint32_t reversed = 0;
    for (int k = 0; k < 32; ++k) reversed |= (low >> k & 1) << (31 - k);
    EXPECT_EQ(out[4],
              reversed + static_cast<uint32_t>(
                             std::countl_zero(high) +
                             (low != 0 ? std::countr_zero(low) + 1 : 0) +
                             std::popcount(x)));
    EXPECT_EQ(out[5],
              BytePermute(low, high, 0x3715) ^ (high << 13 | low >> 19));
    const uint64_t cases[7] = {
        x + 1,
        x * 3,
        x ^ 0xff,
        x >> 3,
        static_cast<uint64_t>(static_cast<int64_t>(x) / -7),
        ~x,
        static_cast<uint64_t>(static_cast<int64_t>(x) / -7)};
    EXPECT_EQ(out[6], cases[x % 7]);
    EXPECT_EQ(out[7], static_cast<uint64_t>(weights[x % 8] * 8.0F));
  }
}

TEST_P(CudaKernelsTest, TransposeThroughAsyncCopies) {
  std::vector<float> in(32 * 32);
  std::iota(in.begin(), in.end(), 0.0F);
  DeviceMemory from(in);
  DeviceMemory to(in.size() * 4);
  Run("transpose_tile", {.block = {256, 1, 1}}, from.address(), to.address());
  for (size_t r = 0; r < 32; ++r) {
    for (size_t c = 0; c < 32; ++c) {
      ASSERT_EQ(to.as<float>()[c * 32 + r], in[r * 32 + c]);
    }
  }
}

TEST_P(CudaKernelsTest, MatrixProductInBfloat) {
  std::vector<uint16_t> a(16 * 16);
  std::vector<uint16_t> b(8 * 16);
  for (uint16_t& x : a)
    x = ToBf16(static_cast<double>(random_() % 17) - 8).bits;
  for (uint16_t& x : b) x = ToBf16(static_cast<double>(random_() % 9) - 4).bits;
  DeviceMemory da(a);
  DeviceMemory db(b);
  DeviceMemory d(16 * 8 * 4);
  Run("mma_bf16", {}, da.address(), db.address(), d.address());
  for (size_t m = 0; m < 16; ++m) {
    for (size_t n = 0; n < 8; ++n) {
      float sum = 0;
      for (size_t k = 0; k < 16; ++k) {
        sum += ToFloat(Bf16{a[m * 16 + k]}) * ToFloat(Bf16{b[n * 16 + k]});
      }
      EXPECT_EQ(d.as<float>()[m * 8 + n], sum) << m << ", " << n;
    }
  }
}

TEST_P(CudaKernelsTest, MatrixProductInE4m3) {
  if (GetParam() < 89) GTEST_SKIP() << "compute_80 has no such instruction";
  std::vector<uint8_t> a(16 * 32);
  std::vector<uint8_t> b(8 * 32);
  // Small whole numbers: every partial sum is exact.
  for (uint8_t& x : a) x = NearestE4m3(static_cast<float>(random_() % 9) - 4);
  for (uint8_t& x : b) x = NearestE4m3(static_cast<float>(random_() % 9) - 4);
  DeviceMemory da(a);
  DeviceMemory db(b);
  DeviceMemory d(16 * 8 * 4);
  Run("mma_e4m3", {}, da.address(), db.address(), d.address());
  for (size_t m = 0; m < 16; ++m) {
    for (size_t n = 0; n < 8; ++n) {
      float sum = static_cast<float>(1 + 2 * (m / 8) + n % 2);
      for (size_t k = 0; k < 32; ++k) {
        sum += E4m3Value(a[m * 32 + k]) * E4m3Value(b[n * 32 + k]);
      }
      EXPECT_EQ(d.as<float>()[m * 8 + n], sum) << m << ", " << n;
    }
  }
}

TEST_P(CudaKernelsTest, AFaultNamesTheLineOfTheSource) {
  DeviceMemory values(100 * 4);
  DeviceMemory out(128 * 4);
  Run("reads_past_end", {.block = {128, 1, 1}}, values.address(), out.address(),
      99);
  EXPECT_EQ(loaded_.Run("reads_past_end", {.block = {128, 1, 1}},
                        values.address(), out.address(), 100),
            CUDA_ERROR_ILLEGAL_ADDRESS);
  const auto* line = loaded_.module().FindGlobal("faulty_line");
  ASSERT_NE(line, nullptr);
  const int faulty_line = *reinterpret_cast<const int*>(line->address);
  EXPECT_THAT(
      loaded_.TakeReports(),
      AllOf(HasSubstr("reads_past_end"),
            HasSubstr("exec_kernels.cu:" + std::to_string(faulty_line)),
            HasSubstr("thread (99,0,0)"), HasSubstr("1 byte past the end")));
}

}  // namespace
}  // namespace softcuda::testing
