// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernel_fixture.h"
#include "permafrost/driver/handles.h"
#include "permafrost/kernels/oracle.h"

extern "C" const unsigned char permafrost_fp8_compute_80[];
extern "C" const unsigned char permafrost_fp8_compute_90[];

namespace permafrost::kernels::testing {
namespace {

struct Image {
  const char* name;
  const unsigned char* bytes;
};

class Fp8Test : public KernelTest,
                public ::testing::WithParamInterface<Image> {};

// Below 8.9 there is no instruction for it; both ways must agree with the
// format, bit for bit, and NaN stay NaN.
TEST_P(Fp8Test, EveryE4m3CodeIsDecodedExactly) {
  const Context::Scope scope = context()->MakeCurrent();
  ASSERT_OK_AND_ASSIGN(const Module module,
                       Module::Load(context(), GetParam().bytes));
  ASSERT_OK_AND_ASSIGN(const CUfunction decode, module.Function("decode_e4m3"));
  std::vector<uint8_t> codes(256);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i);
  ASSERT_OK_AND_ASSIGN(const auto bytes,
                       DeviceArray<uint8_t>::Create(context(), 256));
  ASSERT_OK_AND_ASSIGN(const auto values,
                       DeviceArray<float>::Create(context(), 256));
  ASSERT_OK(bytes.Upload(codes));
  CUdeviceptr from = bytes.ptr().value();
  CUdeviceptr to = values.ptr().value();
  void* params[] = {&from, &to};
  ASSERT_EQ(api().LaunchKernel(decode, 1, 1, 1, 16, 1, 1, 0, stream(), params,
                               nullptr),
            CUDA_SUCCESS);
  ASSERT_OK(Synchronize());
  ASSERT_OK_AND_ASSIGN(const std::vector<float> got, values.Download());
  for (size_t i = 0; i < codes.size(); ++i) {
    const float want = E4m3ToFloat(codes[i]);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got[i])) << i << ": got " << got[i];
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want))
          << i << ": got " << got[i] << ", want " << want;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Targets, Fp8Test,
    ::testing::Values(Image{"compute_80", permafrost_fp8_compute_80},
                      Image{"compute_90", permafrost_fp8_compute_90}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace permafrost::kernels::testing
