// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "kernel_fixture.h"
#include "permafrost/driver/handles.h"
#include "permafrost/kernels/image.h"
#include "permafrost/kernels/planted_faults.h"

namespace permafrost::kernels::testing {
namespace {

constexpr const char* kKernels[] = {
    "moe_topk",         "moe_build_worklist", "quantize_bf16", "quantize_f32",
    "moe_gemm_gate_up", "moe_gemm_down",      "moe_swiglu",    "moe_combine"};

class SignaturesTest : public KernelTest {
 protected:
  void ExpectParamsOf(CUfunction function, const KernelSignature& signature) {
    SCOPED_TRACE(signature.kernel);
    for (size_t i = 0; i < signature.params.size(); ++i) {
      size_t offset = 0;
      size_t size = 0;
      ASSERT_EQ(api().FuncGetParamInfo(function, i, &offset, &size),
                CUDA_SUCCESS)
          << "parameter " << i;
      EXPECT_EQ(static_cast<int64_t>(offset), signature.params[i].offset_bytes)
          << signature.params[i].name;
      EXPECT_EQ(static_cast<int64_t>(size), signature.params[i].size_bytes)
          << signature.params[i].name;
    }
    size_t offset = 0;
    size_t size = 0;
    EXPECT_EQ(api().FuncGetParamInfo(function, signature.params.size(), &offset,
                                     &size),
              CUDA_ERROR_INVALID_VALUE)
        << "the kernel has more parameters than its signature";
  }
};

TEST_F(SignaturesTest, EveryKernelHasOneAndItIsTheDriversView) {
  const Context::Scope scope = context()->MakeCurrent();
  ASSERT_OK(scope.status());
  ASSERT_OK_AND_ASSIGN(const Module module,
                       Module::Load(context(), MoeImage().data()));
  EXPECT_EQ(kernels().signatures().size(), std::size(kKernels));
  for (const char* name : kKernels) {
    const KernelSignature* signature = kernels().signatures().Find(name);
    ASSERT_NE(signature, nullptr) << name;
    ASSERT_OK_AND_ASSIGN(const CUfunction function, module.Function(name));
    ExpectParamsOf(function, *signature);
  }
}

TEST_F(SignaturesTest, PlantedKernelsHaveTheSameParameters) {
  const Context::Scope scope = context()->MakeCurrent();
  ASSERT_OK(scope.status());
  ASSERT_OK_AND_ASSIGN(const Module module,
                       Module::Load(context(), planted::PlantedImage().data()));
  for (const char* name :
       {"moe_build_worklist", "moe_gemm_gate_up", "moe_gemm_down"}) {
    ASSERT_OK_AND_ASSIGN(const CUfunction function, module.Function(name));
    ExpectParamsOf(function, *kernels().signatures().Find(name));
  }
}

}  // namespace
}  // namespace permafrost::kernels::testing
