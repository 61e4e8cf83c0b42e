// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/capture/test_kernels.h"

#include <utility>

#include "permafrost/driver/status.h"

namespace permafrost::testing {
namespace {

constexpr char kPtx[] = R"(.version 7.0
.target sm_80
.address_size 64

.visible .entry k_scale(
	.param .u64 k_scale_param_0,
	.param .u64 k_scale_param_1,
	.param .u32 k_scale_param_2,
	.param .f32 k_scale_param_3
)
{
	.reg .pred 	%p<2>;
	.reg .f32 	%f<4>;
	.reg .b32 	%r<6>;
	.reg .b64 	%rd<8>;

	ld.param.u64 	%rd1, [k_scale_param_0];
	ld.param.u64 	%rd2, [k_scale_param_1];
	ld.param.u32 	%r2, [k_scale_param_2];
	ld.param.f32 	%f1, [k_scale_param_3];
	mov.u32 	%r3, %ctaid.x;
	mov.u32 	%r4, %ntid.x;
	mov.u32 	%r5, %tid.x;
	mad.lo.s32 	%r1, %r3, %r4, %r5;
	setp.ge.s32 	%p1, %r1, %r2;
	@%p1 bra 	$L__BB0_2;

	cvta.to.global.u64 	%rd3, %rd2;
	mul.wide.s32 	%rd4, %r1, 4;
	add.s64 	%rd5, %rd3, %rd4;
	ld.global.f32 	%f2, [%rd5];
	mul.f32 	%f3, %f2, %f1;
	cvta.to.global.u64 	%rd6, %rd1;
	add.s64 	%rd7, %rd6, %rd4;
	st.global.f32 	[%rd7], %f3;

$L__BB0_2:
	ret;
}

.visible .entry k_sum(
	.param .u64 k_sum_param_0,
	.param .u64 k_sum_param_1,
	.param .u32 k_sum_param_2
)
{
	.reg .pred 	%p<3>;
	.reg .f32 	%f<4>;
	.reg .b32 	%r<4>;
	.reg .b64 	%rd<6>;

	ld.param.u64 	%rd1, [k_sum_param_0];
	ld.param.u64 	%rd2, [k_sum_param_1];
	ld.param.u32 	%r1, [k_sum_param_2];
	cvta.to.global.u64 	%rd3, %rd2;
	mov.f32 	%f1, 0f00000000;
	mov.u32 	%r2, 0;
	setp.lt.s32 	%p1, %r1, 1;
	@%p1 bra 	$L__BB1_2;

$L__BB1_1:
	mul.wide.s32 	%rd4, %r2, 4;
	add.s64 	%rd5, %rd3, %rd4;
	ld.global.f32 	%f2, [%rd5];
	add.f32 	%f1, %f1, %f2;
	add.s32 	%r2, %r2, 1;
	setp.lt.s32 	%p2, %r2, %r1;
	@%p2 bra 	$L__BB1_1;

$L__BB1_2:
	cvta.to.global.u64 	%rd4, %rd1;
	st.global.f32 	[%rd4], %f1;
	ret;
}

.visible .entry k_count(
	.param .u64 k_count_param_0
)
{
	.reg .b64 	%rd<5>;

	ld.param.u64 	%rd1, [k_count_param_0];
	cvta.to.global.u64 	%rd2, %rd1;
	ld.global.u64 	%rd3, [%rd2];
	add.s64 	%rd4, %rd3, 1;
	st.global.u64 	[%rd2], %rd4;
	ret;
}

.visible .entry k_opaque(
	.param .align 8 .b8 k_opaque_param_0[16]
)
{
	.reg .f32 	%f<2>;
	.reg .b64 	%rd<3>;

	ld.param.u64 	%rd1, [k_opaque_param_0];
	cvta.to.global.u64 	%rd2, %rd1;
	mov.f32 	%f1, 0f3F800000;
	st.global.f32 	[%rd2], %f1;
	ret;
}
)";

ParamSpec Address(const char* name, int64_t offset, Access access,
                  Extent extent) {
  return ParamSpec{name, offset, 8,      ParamKind::kAddress,
                   name, access, extent, /*nullable=*/false};
}

ParamSpec Scalar(const char* name, int64_t offset) {
  return ParamSpec{name, offset,        4,        ParamKind::kScalar,
                   name, Access::kNone, Extent{}, false};
}

}  // namespace

KernelSignature ScaleSignature() {
  return KernelSignature{"k_scale",
                         {Address("dst", 0, Access::kWrite, Extent{4, {2}}),
                          Address("src", 8, Access::kRead, Extent{4, {2}}),
                          Scalar("count", 16), Scalar("factor", 20)}};
}

absl::StatusOr<TestKernels> TestKernels::Load(ContextRef context) {
  TestKernels kernels;
  PERMAFROST_ASSIGN_OR_RETURN(kernels.module_,
                              Module::Load(std::move(context), kPtx));
  PERMAFROST_ASSIGN_OR_RETURN(kernels.scale_,
                              kernels.module_.Function("k_scale"));
  PERMAFROST_ASSIGN_OR_RETURN(kernels.sum_, kernels.module_.Function("k_sum"));
  PERMAFROST_ASSIGN_OR_RETURN(kernels.count_,
                              kernels.module_.Function("k_count"));
  PERMAFROST_ASSIGN_OR_RETURN(kernels.opaque_,
                              kernels.module_.Function("k_opaque"));
  PERMAFROST_RETURN_IF_ERROR(kernels.signatures_.Add(ScaleSignature()));
  PERMAFROST_RETURN_IF_ERROR(kernels.signatures_.Add(
      KernelSignature{"k_sum",
                      {Address("dst", 0, Access::kWrite, Extent{4, {}}),
                       Address("src", 8, Access::kRead, Extent{4, {2}}),
                       Scalar("count", 16)}}));
  PERMAFROST_RETURN_IF_ERROR(kernels.signatures_.Add(KernelSignature{
      "k_count", {Address("counter", 0, Access::kReadWrite, Extent{8, {}})}}));
  return kernels;
}

absl::Status TestKernels::Launch(CUfunction function, CUstream stream,
                                 unsigned blocks, unsigned threads,
                                 void** params) const {
  return CuStatus(
      module_.context()->api().LaunchKernel(function, blocks, 1, 1, threads, 1,
                                            1, 0, stream, params, nullptr),
      "cuLaunchKernel");
}

absl::Status TestKernels::Scale(CUstream stream, DevicePtr dst, DevicePtr src,
                                int32_t count, float factor) const {
  CUdeviceptr to = dst.value();
  CUdeviceptr from = src.value();
  void* params[] = {&to, &from, &count, &factor};
  return Launch(scale_, stream, static_cast<unsigned>(count + 31) / 32, 32,
                params);
}

absl::Status TestKernels::Sum(CUstream stream, DevicePtr dst, DevicePtr src,
                              int32_t count) const {
  CUdeviceptr to = dst.value();
  CUdeviceptr from = src.value();
  void* params[] = {&to, &from, &count};
  return Launch(sum_, stream, 1, 1, params);
}

absl::Status TestKernels::Count(CUstream stream, DevicePtr counter) const {
  CUdeviceptr at = counter.value();
  void* params[] = {&at};
  return Launch(count_, stream, 1, 1, params);
}

absl::Status TestKernels::Opaque(CUstream stream, DevicePtr dst) const {
  struct {
    CUdeviceptr dst;
    uint64_t number;
  } block = {dst.value(), 7};
  void* params[] = {&block};
  return Launch(opaque_, stream, 1, 1, params);
}

}  // namespace permafrost::testing
