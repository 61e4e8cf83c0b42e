// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_TESTS_ARENA_MEMORY_POKE_KERNEL_H_
#define PERMAFROST_TESTS_ARENA_MEMORY_POKE_KERNEL_H_

namespace permafrost::testing {

/// `k_poke(address)` stores the byte 1.
inline constexpr char kPokePtx[] = R"(.version 7.0
.target sm_80
.address_size 64

.visible .entry k_poke(
	.param .u64 k_poke_param_0
)
{
	.reg .b16 	%rs<2>;
	.reg .b64 	%rd<3>;

	ld.param.u64 	%rd1, [k_poke_param_0];
	cvta.to.global.u64 	%rd2, %rd1;
	mov.u16 	%rs1, 1;
	st.global.u8 	[%rd2], %rs1;
	ret;
}
)";

}  // namespace permafrost::testing

#endif  // PERMAFROST_TESTS_ARENA_MEMORY_POKE_KERNEL_H_
