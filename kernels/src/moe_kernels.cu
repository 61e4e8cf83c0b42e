// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

// The shipped image: every entry point, each documented at its body.

#include "device/fault_policy.cuh"

#define PERMAFROST_FAULTS NoFaults
#include "device/faultable_entries.cuh"
#include "device/elementwise.cuh"
#include "device/quantize.cuh"
#include "device/topk.cuh"

namespace permafrost::kernels::device {

extern "C" __global__ void __launch_bounds__(kTopKThreads)
    moe_topk(const float* logits, int32_t* topk_ids, float* topk_weights,
             int rows, int experts, int topk, int normalize) {
  TopK(logits, topk_ids, topk_weights, rows, experts, topk, normalize);
}

extern "C" __global__ void __launch_bounds__(kQuantizeThreads)
    quantize_bf16(const __nv_bfloat16* input, uint8_t* output, float* scales,
                  int rows, int columns, int groups) {
  Quantize(input, output, scales, rows, columns, groups);
}

extern "C" __global__ void __launch_bounds__(kQuantizeThreads)
    quantize_f32(const float* input, const int32_t* live_rows, uint8_t* output,
                 float* scales, int rows, int columns, int groups) {
  Quantize(input, output, scales, min(*live_rows, rows), columns, groups);
}

extern "C" __global__ void __launch_bounds__(kSwiGluThreads)
    moe_swiglu(float* gate, const float* up, const int32_t* live_rows, int rows,
               int topk, int width) {
  SwiGlu(gate, up, live_rows, rows, topk, width);
}

extern "C" __global__ void __launch_bounds__(kCombineThreads)
    moe_combine(const __nv_bfloat16* residual, const __nv_bfloat16* down,
                const int32_t* inverse, const float* weights,
                __nv_bfloat16* out, int rows, int topk, int hidden) {
  Combine(residual, down, inverse, weights, out, rows, topk, hidden);
}

}  // namespace permafrost::kernels::device
