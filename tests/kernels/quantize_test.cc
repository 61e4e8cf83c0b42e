// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernel_fixture.h"
#include "permafrost/kernels/oracle.h"

namespace permafrost::kernels::testing {
namespace {

std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

class QuantizeTest : public KernelModeTest {
 protected:
  int64_t Groups(int64_t columns) { return (columns + 127) / 128; }

  void ExpectBf16EqualsOracle(const std::vector<uint16_t>& input, int64_t rows,
                              int64_t columns) {
    SCOPED_TRACE(::testing::Message() << rows << " x " << columns << " bf16");
    std::vector<float> floats;
    for (uint16_t bits : input) floats.push_back(Bf16ToFloat(bits));
    const QuantizedRows want = QuantizeOracle(floats, columns);
    ASSERT_OK_AND_ASSIGN(const auto in, DeviceArray<uint16_t>::Create(
                                            context(), rows * columns));
    ASSERT_OK_AND_ASSIGN(const auto out, DeviceArray<uint8_t>::Create(
                                             context(), rows * columns));
    ASSERT_OK_AND_ASSIGN(
        const auto scales,
        DeviceArray<float>::Create(context(), rows * Groups(columns)));
    ASSERT_OK(in.Upload(input));
    ASSERT_OK(Run(
        GetParam(),
        [&](CUstream s) {
          return kernels().QuantizeBf16(s, {.input = in.ptr(),
                                            .output = out.ptr(),
                                            .scales = scales.ptr(),
                                            .live_rows = DevicePtr(),
                                            .rows = rows,
                                            .columns = columns});
        },
        [&] {
          PERMAFROST_RETURN_IF_ERROR(Poison(out));
          return Poison(scales);
        },
        [&] {
          ASSERT_OK_AND_ASSIGN(const std::vector<uint8_t> got, out.Download());
          ASSERT_OK_AND_ASSIGN(const std::vector<float> got_scales,
                               scales.Download());
          EXPECT_EQ(got, want.bytes);
          EXPECT_EQ(Bits(got_scales), Bits(want.scales));
        }));
  }

  // `live` of `rows` rows are live; the others must keep their poison.
  void ExpectF32EqualsOracle(const std::vector<float>& input, int64_t rows,
                             int64_t columns, int32_t live) {
    SCOPED_TRACE(::testing::Message()
                 << live << " of " << rows << " x " << columns << " f32");
    const int64_t live_rows = std::clamp<int64_t>(live, 0, rows);
    const QuantizedRows want = QuantizeOracle(
        absl::MakeSpan(input).first(static_cast<size_t>(live_rows * columns)),
        columns);
    ASSERT_OK_AND_ASSIGN(const auto in,
                         DeviceArray<float>::Create(context(), rows * columns));
    ASSERT_OK_AND_ASSIGN(const auto live_count,
                         DeviceArray<int32_t>::Create(context(), 1));
    ASSERT_OK_AND_ASSIGN(const auto out, DeviceArray<uint8_t>::Create(
                                             context(), rows * columns));
    ASSERT_OK_AND_ASSIGN(
        const auto scales,
        DeviceArray<uint32_t>::Create(context(), rows * Groups(columns)));
    ASSERT_OK(live_count.Upload({live}));
    ASSERT_OK(in.Upload(input));
    MarkUndefined(in.ptr() + live_rows * columns * 4,
                  (rows - live_rows) * columns * 4);
    ASSERT_OK(Run(
        GetParam(),
        [&](CUstream s) {
          return kernels().QuantizeF32(s, {.input = in.ptr(),
                                           .output = out.ptr(),
                                           .scales = scales.ptr(),
                                           .live_rows = live_count.ptr(),
                                           .rows = rows,
                                           .columns = columns});
        },
        [&] {
          PERMAFROST_RETURN_IF_ERROR(Poison(out));
          return Poison(scales);
        },
        [&] {
          ASSERT_OK_AND_ASSIGN(const std::vector<uint8_t> got, out.Download());
          ASSERT_OK_AND_ASSIGN(const std::vector<uint32_t> got_scales,
                               scales.Download());
          std::vector<uint8_t> want_bytes = want.bytes;
          want_bytes.resize(got.size(), 0xa5);
          std::vector<uint32_t> want_scales = Bits(want.scales);
          want_scales.resize(got_scales.size(), 0xa5a5a5a5U);
          EXPECT_EQ(got, want_bytes);
          EXPECT_EQ(got_scales, want_scales);
        }));
  }
};

TEST_P(QuantizeTest, RandomRowsOfEveryShape) {
  TestData data(4);
  // 144 and 1856 end in a partial group, 768 in a partial warp.
  for (int64_t columns : {16, 128, 144, 512, 768, 1856, 2048}) {
    ExpectBf16EqualsOracle(data.Bf16s(3 * columns, 20.0F), 3, columns);
    ExpectF32EqualsOracle(data.Floats(5 * columns, 3.0F), 5, columns, 4);
  }
}

TEST_P(QuantizeTest, EveryE4m3NeighbourhoodRoundsTheSame) {
  // 448 pins the scale to 1, so the inputs are codes: midpoints and their
  // neighbours of every pair of finite values.
  std::vector<float> input;
  for (unsigned code = 0; code < 0x7e; ++code) {
    const float low = E4m3ToFloat(static_cast<uint8_t>(code));
    const float high = E4m3ToFloat(static_cast<uint8_t>(code + 1));
    const float middle = (low + high) / 2;
    for (float value : {low, middle, std::nextafter(middle, 0.0F),
                        std::nextafter(middle, 1000.0F)}) {
      if (input.size() % 128 == 0) input.push_back(448.0F);
      input.push_back(value);
      if (input.size() % 128 == 0) input.push_back(448.0F);
      input.push_back(-value);
    }
  }
  input.resize((input.size() + 127) / 128 * 128, 1.0F);
  const auto rows = static_cast<int64_t>(input.size()) / 128;
  ExpectF32EqualsOracle(input, rows, 128, static_cast<int32_t>(rows));
}

TEST_P(QuantizeTest, EdgeGroups) {
  const float kDenormal = 0x1p-140F;
  const float kLargest = std::numeric_limits<float>::max();
  std::vector<float> input;
  for (const std::vector<float>& pattern :
       std::vector<std::vector<float>>{{0.0F},
                                       {-0.0F},
                                       {kDenormal, -kDenormal},
                                       {1e-11F, -1e-10F, 5e-11F},
                                       {kNan},
                                       {kNan, 1.0F, -2.0F},
                                       {kInfinity, 1.0F},
                                       {-kInfinity, kNan, kLargest},
                                       {kLargest, -kLargest, 1.0F},
                                       {448.0F, 464.0F, -480.0F}}) {
    for (size_t i = 0; i < 128; ++i) {
      input.push_back(pattern[i % pattern.size()]);
    }
  }
  ExpectF32EqualsOracle(input, 10, 128, 10);
  ExpectF32EqualsOracle(input, 2, 640, 2);
  std::vector<uint16_t> bf16;
  for (float value : input) bf16.push_back(FloatToBf16(value));
  ExpectBf16EqualsOracle(bf16, 10, 128);
}

TEST_P(QuantizeTest, OnlyLiveRowsAreTouched) {
  TestData data(5);
  const std::vector<float> input = data.Floats(9 * 144, 3.0F);
  // More live rows than the capacity, or fewer than none, are bounded.
  for (int32_t live : {0, 1, 8, 9, 1000, -1}) {
    ExpectF32EqualsOracle(input, 9, 144, live);
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, QuantizeTest, AllModes(), ModeParamName);

}  // namespace
}  // namespace permafrost::kernels::testing
