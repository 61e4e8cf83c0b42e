// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_KERNELS_SRC_DEVICE_TOPK_CUH_
#define PERMAFROST_KERNELS_SRC_DEVICE_TOPK_CUH_

#include <cfloat>
#include <cstdint>

#include "device/fault_policy.cuh"

namespace permafrost::kernels::device {

// NaN becomes -FLT_MAX (fmaxf drops it), infinities become +-FLT_MAX.
__device__ __forceinline__ float FiniteLogit(float logit) {
  return fminf(fmaxf(logit, -FLT_MAX), FLT_MAX);
}

// Unsigned integers in the order of the floats. No finite float maps to 0 or
// to 0xffffffff.
__device__ __forceinline__ uint32_t OrderedKey(float value) {
  // -0 and +0 are equal logits and must tie; adding +0 turns -0 into +0.
  const uint32_t bits = __float_as_uint(value + 0.0F);
  return bits ^ ((bits >> 31U) != 0U ? 0xffffffffU : 0x80000000U);
}

__device__ __forceinline__ float KeyValue(uint32_t key) {
  return __uint_as_float(key ^
                         ((key >> 31U) != 0U ? 0x80000000U : 0xffffffffU));
}

// moe_topk: softmax over the router's logits and the topk largest, per row.
//
// Grid and block: ceil(rows / 4) blocks of 128 threads; one warp a row.
// Reads:  logits f32 [rows][experts].
// Writes: topk_ids i32 [rows][topk] and topk_weights f32 [rows][topk], every
//         element, on every call. Best first; ties go to the lowest expert.
// Inert:  a row whose logits are all -inf (a padding row) gets ids -1 and
//         weights 0. Any other row gets valid, distinct ids: NaN counts as
//         -FLT_MAX and infinities as +-FLT_MAX.
// Weights: exp(logit - max) over the sum of all experts, or of the chosen ones
//         when `normalize` is not 0.
// Replay: carries nothing; there is nothing to re-initialise.
// Alignment: 4 bytes.
//
// Each round takes the largest key after the previous choice in the order (key
// descending, expert ascending), so no list of taken experts is kept and the
// register count does not grow with the number of experts.
__device__ __forceinline__ void TopK(const float* logits, int32_t* topk_ids,
                                     float* topk_weights, int rows, int experts,
                                     int topk, int normalize) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const int row =
      static_cast<int>(blockIdx.x * (blockDim.x / 32U) + threadIdx.x / 32U);
  if (row >= rows) return;
  const float* row_logits = logits + static_cast<int64_t>(row) * experts;

  bool inert = true;
  for (int e = lane; e < experts; e += 32) {
    inert = inert && row_logits[e] == -INFINITY;
  }
  inert = __all_sync(kFullWarp, inert) != 0;

  uint32_t previous_key = 0xffffffffU;
  uint32_t previous_expert = 0;
  float best_value = 0.0F;
  int32_t my_id = -1;
  float my_weight = 0.0F;
  if (!inert) {
    for (int round = 0; round < topk; ++round) {
      uint32_t key = 0;
      uint32_t expert = 0xffffffffU;
      for (int e = lane; e < experts; e += 32) {
        const uint32_t candidate = OrderedKey(FiniteLogit(row_logits[e]));
        const bool is_left = candidate < previous_key ||
                             (candidate == previous_key &&
                              static_cast<uint32_t>(e) > previous_expert);
        if (is_left && candidate > key) {
          key = candidate;
          expert = static_cast<uint32_t>(e);
        }
      }
      previous_key = __reduce_max_sync(kFullWarp, key);
      previous_expert = __reduce_min_sync(
          kFullWarp, key == previous_key ? expert : 0xffffffffU);
      const float value = KeyValue(previous_key);
      if (round == 0) best_value = value;
      if (lane == round) {
        my_id = static_cast<int32_t>(previous_expert);
        my_weight = expf(value - best_value);
      }
    }
    float sum = my_weight;
    if (normalize == 0) {
      sum = 0.0F;
      for (int e = lane; e < experts; e += 32) {
        sum += expf(FiniteLogit(row_logits[e]) - best_value);
      }
    }
    for (int offset = 16; offset > 0; offset /= 2) {
      sum += __shfl_xor_sync(kFullWarp, sum, offset);
    }
    my_weight /= sum;
  }
  if (lane < topk) {
    const int64_t at = static_cast<int64_t>(row) * topk + lane;
    topk_ids[at] = my_id;
    topk_weights[at] = my_weight;
  }
}

}  // namespace permafrost::kernels::device

#endif  // PERMAFROST_KERNELS_SRC_DEVICE_TOPK_CUH_
