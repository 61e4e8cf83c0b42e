// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_KERNELS_SRC_DEVICE_FP8_CUH_
#define PERMAFROST_KERNELS_SRC_DEVICE_FP8_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

namespace permafrost::kernels::device {

// Four e4m3 values of one word, lowest byte first.
__device__ __forceinline__ void DequantizeWord(uint32_t word, float* out) {
#if __CUDA_ARCH__ >= 890
  // Nine instructions for four values. The header's functions take 13, and the
  // GEMMs spend most of their instructions here.
  asm("{\n"
      "  .reg .b16 low, high, h0, h1, h2, h3;\n"
      "  .reg .b32 pair0, pair1;\n"
      "  mov.b32 {low, high}, %4;\n"
      "  cvt.rn.f16x2.e4m3x2 pair0, low;\n"
      "  cvt.rn.f16x2.e4m3x2 pair1, high;\n"
      "  mov.b32 {h0, h1}, pair0;\n"
      "  mov.b32 {h2, h3}, pair1;\n"
      "  cvt.f32.f16 %0, h0;\n"
      "  cvt.f32.f16 %1, h1;\n"
      "  cvt.f32.f16 %2, h2;\n"
      "  cvt.f32.f16 %3, h3;\n"
      "}"
      : "=f"(out[0]), "=f"(out[1]), "=f"(out[2]), "=f"(out[3])
      : "r"(word));
#else
  // Without the instruction. A half has the same fields, one bit wider in the
  // exponent: in its place an e4m3 value reads as 2^-8 of itself, subnormals
  // too, and the product is exact. NaN, all ones, would come out as 480.
#pragma unroll
  for (int pair = 0; pair < 2; ++pair) {
    const uint32_t bytes = __byte_perm(word, 0, pair == 0 ? 0x4140 : 0x4342);
    const uint32_t scaled = (bytes & 0x00800080U) << 8 | (bytes & 0x007f007fU)
                                                             << 7;
    const uint32_t is_nan = ((bytes & 0x007f007fU) + 0x00010001U) & 0x00800080U;
    uint32_t halves;
    asm("mul.rn.f16x2 %0, %1, %2;"
        : "=r"(halves)
        : "r"(scaled), "r"(0x5c005c00U));
    halves |= is_nan * 0xfc;
    asm("{\n"
        "  .reg .b16 low, high;\n"
        "  mov.b32 {low, high}, %2;\n"
        "  cvt.f32.f16 %0, low;\n"
        "  cvt.f32.f16 %1, high;\n"
        "}"
        : "=f"(out[2 * pair]), "=f"(out[2 * pair + 1])
        : "r"(halves));
  }
#endif
}

__device__ __forceinline__ void Dequantize16(const uint4& packed,
                                             float (&out)[16]) {
  DequantizeWord(packed.x, out);
  DequantizeWord(packed.y, out + 4);
  DequantizeWord(packed.z, out + 8);
  DequantizeWord(packed.w, out + 12);
}

// Rounds to nearest even, saturates to +-448, keeps NaN as 0x7f.
__device__ __forceinline__ uint32_t QuantizeWord(const float* values,
                                                 float inverse_scale) {
  const uint32_t low = __nv_cvt_float2_to_fp8x2(
      make_float2(values[0] * inverse_scale, values[1] * inverse_scale),
      __NV_SATFINITE, __NV_E4M3);
  const uint32_t high = __nv_cvt_float2_to_fp8x2(
      make_float2(values[2] * inverse_scale, values[3] * inverse_scale),
      __NV_SATFINITE, __NV_E4M3);
  return low | high << 16U;
}

__device__ __forceinline__ float LowBf16(uint32_t word) {
  return __uint_as_float(word << 16U);
}

__device__ __forceinline__ float HighBf16(uint32_t word) {
  return __uint_as_float(word & 0xffff0000U);
}

__device__ __forceinline__ uint32_t PackBf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return static_cast<uint32_t>(__bfloat16_as_ushort(pair.x)) |
         static_cast<uint32_t>(__bfloat16_as_ushort(pair.y)) << 16U;
}

}  // namespace permafrost::kernels::device

#endif  // PERMAFROST_KERNELS_SRC_DEVICE_FP8_CUH_
