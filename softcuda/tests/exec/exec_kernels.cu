// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Ordinary CUDA code, as kernels of inference engines have it. The test runs
// its PTX for compute_80 and compute_90, which nvcc makes in different ways.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_pipeline_primitives.h>

#include <cstdint>

__constant__ float kWeights[8] = {1.0F, 0.5F, 0.25F, 2.0F,
                                  4.0F, 8.0F, 3.0F,  0.125F};
__device__ unsigned int global_counter = 5;

struct Shape {
  int rows;
  int columns;
  float scale;
  int64_t stride;
};

__device__ float WarpSum(float x) {
  for (int offset = 16; offset > 0; offset /= 2) {
    x += __shfl_xor_sync(0xffffffffU, x, offset);
  }
  return x;
}

// out[row] = scale * sum of a row, one block a row, any width.
extern "C" __global__ void row_sums(const float* in, float* out, Shape shape) {
  __shared__ float partial[32];
  const float* row = in + blockIdx.x * shape.stride;
  float sum = 0.0F;
  for (int c = threadIdx.x; c < shape.columns; c += blockDim.x) sum += row[c];
  sum = WarpSum(sum);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0.0F;
    sum = WarpSum(sum);
    if (threadIdx.x == 0) out[blockIdx.x] = shape.scale * sum;
  }
}

// Twelve functions of x, in f32.
extern "C" __global__ void math_f32(const float* in, float* out, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float x = in[i];
  float* to = out + 12 * i;
  to[0] = expf(x);
  to[1] = logf(fabsf(x));
  to[2] = sinf(x);
  to[3] = cosf(x);
  to[4] = tanhf(x);
  to[5] = powf(fabsf(x), 1.7F);
  to[6] = sqrtf(fabsf(x));
  to[7] = rsqrtf(fabsf(x));
  to[8] = erff(x);
  to[9] = fmodf(x, 0.7F);
  to[10] = __expf(x) / (1.0F + __fdividef(1.0F, x));
  to[11] = roundf(x) + floorf(x) * rintf(x);
}

extern "C" __global__ void math_f64(const double* in, double* out, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const double x = in[i];
  double* to = out + 5 * i;
  to[0] = exp(x);
  to[1] = log(fabs(x));
  to[2] = sin(x);
  to[3] = sqrt(fabs(x)) / 3.0;
  to[4] = pow(fabs(x), 1.3);
}

// Quantises each group of 32 values to e4m3 with a scale, and back.
extern "C" __global__ void fp8_round_trip(const __nv_bfloat16* in,
                                          __nv_fp8_e4m3* quantised,
                                          float* scales, float* back) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float x = __bfloat162float(in[i]);
  float largest = fabsf(x);
  for (int offset = 16; offset > 0; offset /= 2) {
    largest =
        fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, offset));
  }
  const float scale = largest > 0.0F ? largest / 448.0F : 1.0F;
  const __nv_fp8_e4m3 q(x / scale);
  quantised[i] = q;
  if (threadIdx.x % 32 == 0) scales[i / 32] = scale;
  back[i] = static_cast<float>(q) * scale;
}

extern "C" __global__ void fp8_pairs(const float2* in, uint16_t* e4m3,
                                     uint16_t* e5m2, float2* back) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float2 x = in[i];
  e4m3[i] = __nv_cvt_float2_to_fp8x2(x, __NV_SATFINITE, __NV_E4M3);
  e5m2[i] = __nv_cvt_float2_to_fp8x2(x, __NV_SATFINITE, __NV_E5M2);
  const __half2_raw raw = __nv_cvt_fp8x2_to_halfraw2(e4m3[i], __NV_E4M3);
  back[i] = __half22float2(__half2(raw));
}

extern "C" __global__ void halves(const __half2* a, const __half2* b,
                                  __half2* sum, __nv_bfloat162* product,
                                  unsigned int* less) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  sum[i] = __hadd2(a[i], __hmul2(b[i], __float2half2_rn(0.5F)));
  const float2 x = __half22float2(a[i]);
  const float2 y = __half22float2(b[i]);
  product[i] = __hfma2(__floats2bfloat162_rn(x.x, x.y),
                       __floats2bfloat162_rn(y.x, y.y),
                       __float2bfloat162_rn(1.0F));
  less[i] = __hlt(__low2half(a[i]), __low2half(b[i])) ? 1 : 0;
  less[i] += __heq(__high2half(a[i]), __high2half(b[i])) ? 2 : 0;
}

// Position of each key among the equal keys of its warp, and their number.
extern "C" __global__ void ranks_in_warp(const int* keys, int* rank, int* count,
                                         int* leaders) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int lane = threadIdx.x % 32;
  const unsigned int same = __match_any_sync(0xffffffffU, keys[i]);
  rank[i] = __popc(same & ((1U << lane) - 1));
  count[i] = __popc(same);
  const unsigned int ballot = __ballot_sync(0xffffffffU, rank[i] == 0);
  leaders[i] = __popc(ballot) + (__any_sync(0xffffffffU, lane == 7) ? 100 : 0) +
               (__all_sync(0xffffffffU, lane < 31) ? 1000 : 0) +
               static_cast<int>(__reduce_add_sync(0xffffffffU, lane));
}

extern "C" __global__ void histogram(const int* values, int count, int* bins,
                                     float* total, double* squares,
                                     int* largest) {
  __shared__ int local[64];
  for (int b = threadIdx.x; b < 64; b += blockDim.x) local[b] = 0;
  __syncthreads();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) {
    const int v = values[i];
    atomicAdd(&local[v % 64], 1);
    atomicAdd(total, static_cast<float>(v));
    atomicMax(largest, v);
    auto* bits = reinterpret_cast<unsigned long long*>(squares);
    unsigned long long seen = *bits;
    unsigned long long expected;
    do {
      expected = seen;
      const double next =
          __longlong_as_double(static_cast<long long>(expected)) +
          static_cast<double>(v) * v;
      seen = atomicCAS(bits, expected,
                       static_cast<unsigned long long>(
                           __double_as_longlong(next)));
    } while (seen != expected && count < 0);
  }
  __syncthreads();
  for (int b = threadIdx.x; b < 64; b += blockDim.x) {
    if (local[b] != 0) atomicAdd(&bins[b], local[b]);
  }
  if (threadIdx.x == 0) atomicInc(&global_counter, 1000);
}

// Exclusive prefix sum over a block of 256.
extern "C" __global__ void prefix_sum(const int* in, int* out) {
  extern __shared__ int sums[];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int x = in[blockIdx.x * blockDim.x + threadIdx.x];
  int inclusive = x;
  for (int offset = 1; offset < 32; offset *= 2) {
    const int below = __shfl_up_sync(0xffffffffU, inclusive, offset);
    if (lane >= offset) inclusive += below;
  }
  if (lane == 31) sums[warp] = inclusive;
  __syncthreads();
  int before = 0;
  for (int w = 0; w < warp; ++w) before += sums[w];
  out[blockIdx.x * blockDim.x + threadIdx.x] = before + inclusive - x;
}

__device__ __noinline__ int64_t Collatz(int64_t n, int* steps) {
  int count = 0;
  int64_t largest = n;
  while (n != 1) {
    n = n % 2 == 0 ? n / 2 : 3 * n + 1;
    largest = n > largest ? n : largest;
    ++count;
  }
  *steps = count;
  return largest;
}

// Integer work of many kinds, diverging, with an indexed local array and a
// call that is not inlined.
extern "C" __global__ void integers(const uint64_t* in, uint64_t* out,
                                    int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const uint64_t x = in[i];
  uint64_t* to = out + 8 * i;
  int buckets[16];
  for (int k = 0; k < 16; ++k) buckets[k] = k;
  for (uint64_t rest = x; rest != 0; rest /= 10) buckets[rest % 10] += 1;
  int64_t mix = 0;
  for (int k = 0; k < 16; ++k) mix = mix * 31 + buckets[(k * 7 + i) % 16];
  to[0] = static_cast<uint64_t>(mix);
  int steps = 0;
  to[1] = static_cast<uint64_t>(Collatz(1 + i % 97, &steps));
  to[2] = static_cast<uint64_t>(steps);
  to[3] = __umul64hi(x, 0x9e3779b97f4a7c15ULL) ^ (x / 12345) ^ (x % 977);
  const auto low = static_cast<uint32_t>(x);
  const auto high = static_cast<uint32_t>(x >> 32);
  to[4] = __brev(low) + __clz(static_cast<int>(high)) +
          __ffs(static_cast<int>(low)) + __popcll(x);
  to[5] = __byte_perm(low, high, 0x3715) ^ __funnelshift_l(low, high, 13);
  switch (x % 7) {
    case 0:
      to[6] = x + 1;
      break;
    case 1:
      to[6] = x * 3;
      break;
    case 2:
      to[6] = x ^ 0xff;
      break;
    case 3:
      to[6] = x >> 3;
      break;
    case 5:
      to[6] = ~x;
      break;
    default:
      to[6] = static_cast<uint64_t>(static_cast<int64_t>(x) / -7);
  }
  to[7] = static_cast<uint64_t>(kWeights[x % 8] * 8.0F);
}

// Copies a tile through shared memory asynchronously and transposes it.
extern "C" __global__ void transpose_tile(const float4* in, float* out) {
  __shared__ __align__(16) float tile[32][36];
  const int row = threadIdx.x / 8;
  const int quad = threadIdx.x % 8;
  __pipeline_memcpy_async(&tile[row][4 * quad], &in[threadIdx.x], 16);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  for (int k = 0; k < 4; ++k) {
    out[(4 * quad + k) * 32 + row] = tile[row][4 * quad + k];
  }
}

// D[16][8] = A[16][16] * B[16][8] in bf16, by ldmatrix and the tensor core.
extern "C" __global__ void mma_bf16(const __nv_bfloat16* a,
                                    const __nv_bfloat16* b_by_column,
                                    float* d) {
  __shared__ __align__(16) __nv_bfloat16 tile[16 * 16];
  for (int k = threadIdx.x; k < 256; k += 32) tile[k] = a[k];
  __syncwarp();
  const int lane = threadIdx.x;
  const auto address = static_cast<uint32_t>(
      __cvta_generic_to_shared(&tile[(lane % 16) * 16 + (lane / 16) * 8]));
  uint32_t fa[4];
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3])
      : "r"(address));
  const auto* columns = reinterpret_cast<const uint32_t*>(b_by_column);
  const uint32_t fb0 = columns[(lane / 4) * 8 + lane % 4];
  const uint32_t fb1 = columns[(lane / 4) * 8 + lane % 4 + 4];
  float c[4] = {0.0F, 0.0F, 0.0F, 0.0F};
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb0), "r"(fb1));
  for (int k = 0; k < 4; ++k) {
    d[(lane / 4 + 8 * (k / 2)) * 8 + (lane % 4) * 2 + k % 2] = c[k];
  }
}

#if __CUDA_ARCH__ >= 890
// D[16][8] = A[16][32] * B[32][8] in e4m3.
extern "C" __global__ void mma_e4m3(const uint32_t* a, const uint32_t* b,
                                    float* d) {
  const int lane = threadIdx.x;
  const int g = lane / 4;
  const int t = lane % 4;
  float c[4] = {1.0F, 2.0F, 3.0F, 4.0F};
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[g * 8 + t]), "r"(a[(g + 8) * 8 + t]), "r"(a[g * 8 + t + 4]),
        "r"(a[(g + 8) * 8 + t + 4]), "r"(b[g * 8 + t]), "r"(b[g * 8 + t + 4]));
  for (int k = 0; k < 4; ++k) {
    d[(g + 8 * (k / 2)) * 8 + t * 2 + k % 2] = c[k];
  }
}
#endif

// The line of the faulty read below.
__device__ int faulty_line = __LINE__ + 1;
__device__ float Nth(const float* values, int index) { return values[index]; }

// Reads one past the end of `values` in its last thread.
extern "C" __global__ void reads_past_end(const float* values, float* out,
                                          int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = Nth(values, i + 1);
}
