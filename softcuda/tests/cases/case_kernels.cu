// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Kernels after public bug reports: c_ the sound form, f_ the reported one. A
// line that ends in `// FAULT name` is the one that a report must name.

#define KERNEL extern "C" __global__ void

KERNEL c_fill(int* out, int n, int value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = value;  // FAULT fill
}

KERNEL c_add(const int* in, int* out, int n, int value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] + value;  // FAULT add
}

// --- counters that must be 0 at entry ---

// The first block waits for the others by a counter, and adds up their parts.
KERNEL c_split_k(const int* in, int* parts, unsigned* counter, int* out) {
  if (threadIdx.x != 0) return;
  parts[blockIdx.x] = in[blockIdx.x];
  __threadfence();
  atomicAdd(counter, 1u);  // FAULT split_k_count
  if (blockIdx.x != 0) return;
  unsigned seen = 0;
  while (seen != gridDim.x) {
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(seen) : "l"(counter) : "memory");  // FAULT split_k_spin
  }
  int sum = 0;
  for (int k = 0; k < gridDim.x; ++k) sum += parts[k];
  *out = sum;
}

__device__ __forceinline__ void TakeTiles(unsigned* next, int* visits,
                                          unsigned tiles) {
  __shared__ unsigned tile;
  while (true) {
    if (threadIdx.x == 0) tile = atomicAdd(next, 1u);
    __syncthreads();
    const unsigned mine = tile;
    __syncthreads();
    if (mine >= tiles) return;
    if (threadIdx.x == 0) atomicAdd(&visits[mine], 1);
  }
}

KERNEL c_steal_tiles(unsigned* next, int* visits, unsigned tiles) {
  TakeTiles(next, visits, tiles);
}

// Nothing keeps other blocks from taking tiles before the reset.
KERNEL f_steal_tiles_reset_inside(unsigned* next, int* visits, unsigned tiles) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *next = 0;  // FAULT reset_inside
  __syncthreads();
  TakeTiles(next, visits, tiles);
}

// --- tails that nobody writes ---

KERNEL c_consume_tiles(const int* map, const int* total, int* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < *total) out[i] = map[i] * 2;
}

KERNEL f_consume_before_the_bound(const int* map, const int* total, int* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  int value = 0;
  asm volatile("ld.global.s32 %0, [%1];" : "=r"(value) : "l"(map + i));  // FAULT before_the_bound
  if (i < *total) out[i] = value * 2;
}

KERNEL c_accumulate(const float* in, float* sum) {
  sum[threadIdx.x] += in[threadIdx.x];  // FAULT accumulate
}

// Saturates, and so makes a number of whatever it reads.
KERNEL c_saturate_rows(const float* in, float* out, int rows, int width) {
  const int row = blockIdx.x;
  if (row >= rows) return;
  const int i = row * width + threadIdx.x;
  out[i] = fminf(fmaxf(in[i], -448.0f), 448.0f);  // FAULT saturate
}

KERNEL c_copy_rows(const float* in, float* out, int rows, int width) {
  const int row = blockIdx.x;
  if (row >= rows) return;
  const int i = row * width + threadIdx.x;
  out[i] = in[i];  // FAULT copy_rows
}

KERNEL c_check_scales(const float* scales, int n, int* bad) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && !(scales[i] > 0.0f)) atomicAdd(bad, 1);  // FAULT check_scales
}

// --- shared memory ---

__device__ __forceinline__ int UpperBound(const int* sorted, int n, int value) {
  int low = 0;
  int high = n;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (sorted[middle] <= value) {  // FAULT search
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

__device__ __forceinline__ int PrefixOf(const int* counts, int i) {
  int sum = 0;
  for (int k = 0; k <= i; ++k) sum += counts[k];
  return sum;
}

KERNEL c_prefix_search(const int* counts, int* owner) {
  __shared__ int prefix[128];
  prefix[threadIdx.x] = PrefixOf(counts, threadIdx.x);
  __syncthreads();
  owner[threadIdx.x] = UpperBound(prefix, 128, threadIdx.x);
}

KERNEL f_prefix_search_no_barrier(const int* counts, int* owner) {
  __shared__ int prefix[128];
  prefix[threadIdx.x] = PrefixOf(counts, threadIdx.x);
  owner[threadIdx.x] = UpperBound(prefix, 128, threadIdx.x);  // FAULT search_no_barrier
}

KERNEL c_count_matrix(const int* bins, int* out) {
  __shared__ int counts[4][32];
  for (int row = 0; row < 4; ++row) {
    if (threadIdx.x < 32) counts[row][threadIdx.x] = 0;
  }
  __syncthreads();
  atomicAdd(&counts[threadIdx.x / 32][bins[threadIdx.x] & 31], 1);
  __syncthreads();
  out[threadIdx.x] = counts[threadIdx.x / 32][threadIdx.x % 32];
}

KERNEL f_count_matrix_one_row_zeroed(const int* bins, int* out) {
  __shared__ int counts[4][32];
  if (threadIdx.x < 32) counts[0][threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&counts[threadIdx.x / 32][bins[threadIdx.x] & 31], 1);  // FAULT one_row_zeroed
  __syncthreads();
  out[threadIdx.x] = counts[threadIdx.x / 32][threadIdx.x % 32];
}

KERNEL c_dynamic_shared(int* out, int n) {
  extern __shared__ int dynamic[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) dynamic[i] = i;
  __syncthreads();
  if (threadIdx.x == 0) *out = dynamic[n - 1];
}

// --- addresses ---

KERNEL c_gather_blocks(const int* blocks, const int* data, int* out) {
  const int block = blocks[threadIdx.x];
  int value = 0;
  if (block >= 0) {
    asm volatile("ld.global.s32 %0, [%1];" : "=r"(value) : "l"(data + block));
  }
  out[threadIdx.x] = block >= 0 ? value : 0;
}

// The padding entry is -1: what is loaded for it is thrown away.
KERNEL f_gather_padding_too(const int* blocks, const int* data, int* out) {
  const int block = blocks[threadIdx.x];
  int value = 0;
  asm volatile("ld.global.s32 %0, [%1];" : "=r"(value) : "l"(data + block));  // FAULT gather_padding
  out[threadIdx.x] = block >= 0 ? value : 0;
}

KERNEL c_store_byte(unsigned char* out, unsigned long long at) {
  out[at] = 0x5a;  // FAULT store_byte
}

KERNEL c_store_in_row(unsigned char* base, unsigned row, unsigned stride) {
  base[static_cast<unsigned long long>(row) * stride] = 0x5a;
}

// The product wraps at 2^31 when it is taken as signed.
KERNEL f_store_in_row_int(unsigned char* base, unsigned row, unsigned stride) {
  const int offset = static_cast<int>(row * stride);
  base[offset] = 0x5a;  // FAULT row_int
}

// Widened too late: the product has wrapped at 2^32.
KERNEL f_store_in_row_late(unsigned char* base, unsigned row, unsigned stride) {
  const unsigned offset = row * stride;
  base[static_cast<unsigned long long>(offset)] = 0x5a;
}
