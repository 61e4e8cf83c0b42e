// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// The last kernel of a step as far as decode metadata goes: it hands back the
// header's step and the sum of what was copied.

#ifndef PERMAFROST_TESTS_ARENA_MEMORY_ECHO_KERNEL_H_
#define PERMAFROST_TESTS_ARENA_MEMORY_ECHO_KERNEL_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "permafrost/arena/decode_meta_layout.h"
#include "permafrost/arena/step_echo.h"
#include "permafrost/driver/context.h"
#include "permafrost/driver/device_ptr.h"
#include "permafrost/driver/handles.h"
#include "permafrost/driver/status.h"

namespace permafrost::testing {

static_assert(offsetof(DecodeMetaHeader, step) == 8);
static_assert(offsetof(DecodeMetaHeader, copied_bytes) == 40);
static_assert(offsetof(StepEcho, body_sum) == 8);

// One thread; sums words 64 to min(copied_bytes, block_bytes) / 4.
inline constexpr char kEchoPtx[] = R"(.version 7.0
.target sm_80
.address_size 64

.visible .entry k_echo(
	.param .u64 k_echo_param_0,
	.param .u64 k_echo_param_1,
	.param .u64 k_echo_param_2
)
{
	.reg .pred 	%p<3>;
	.reg .b32 	%r<2>;
	.reg .b64 	%rd<16>;

	ld.param.u64 	%rd1, [k_echo_param_0];
	ld.param.u64 	%rd2, [k_echo_param_1];
	ld.param.u64 	%rd3, [k_echo_param_2];
	cvta.to.global.u64 	%rd4, %rd1;
	cvta.to.global.u64 	%rd5, %rd3;
	ld.global.u64 	%rd6, [%rd4+8];
	st.global.u64 	[%rd5], %rd6;
	ld.global.u64 	%rd7, [%rd4+40];
	min.u64 	%rd7, %rd7, %rd2;
	shr.u64 	%rd8, %rd7, 2;
	mov.u64 	%rd9, 0;
	mov.u64 	%rd10, 64;

$L__BB0_1:
	setp.ge.u64 	%p1, %rd10, %rd8;
	@%p1 bra 	$L__BB0_2;
	shl.b64 	%rd11, %rd10, 2;
	add.s64 	%rd12, %rd4, %rd11;
	ld.global.u32 	%r1, [%rd12];
	cvt.u64.u32 	%rd13, %r1;
	add.s64 	%rd10, %rd10, 1;
	mul.lo.s64 	%rd14, %rd13, %rd10;
	add.s64 	%rd9, %rd9, %rd14;
	bra 	$L__BB0_1;

$L__BB0_2:
	st.global.u64 	[%rd5+8], %rd9;
	ret;
}
)";

class EchoKernel {
 public:
  static absl::StatusOr<EchoKernel> Load(ContextRef context) {
    EchoKernel kernel;
    PERMAFROST_ASSIGN_OR_RETURN(kernel.module_,
                                Module::Load(std::move(context), kEchoPtx));
    PERMAFROST_ASSIGN_OR_RETURN(kernel.function_,
                                kernel.module_.Function("k_echo"));
    return kernel;
  }

  /// Writes a StepEcho of the block to `echo`.
  absl::Status Launch(CUstream stream, DevicePtr block, int64_t block_bytes,
                      DevicePtr echo) const {
    CUdeviceptr from = block.value();
    auto bytes = static_cast<uint64_t>(block_bytes);
    CUdeviceptr to = echo.value();
    void* params[] = {&from, &bytes, &to};
    return CuStatus(
        module_.context()->api().LaunchKernel(function_, 1, 1, 1, 1, 1, 1, 0,
                                              stream, params, nullptr),
        "cuLaunchKernel");
  }

 private:
  Module module_;
  CUfunction function_ = nullptr;
};

}  // namespace permafrost::testing

#endif  // PERMAFROST_TESTS_ARENA_MEMORY_ECHO_KERNEL_H_
