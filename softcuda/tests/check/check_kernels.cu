// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Kernels with one fault each, and sound ones beside them. A line that ends in
// `// FAULT name` is the one that a report of the test `name` must name; tests
// find its number here.
#include <cuda_pipeline_primitives.h>

#define KERNEL extern "C" __global__ void

// --- sound ones, which tests also use as parts of graphs ---

KERNEL k_fill(int* out, int n, int value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = value;  // FAULT fill
}

KERNEL k_add(const int* in, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    const int value = in[i];  // FAULT add_read
    out[i] = value + 1;       // FAULT add_write
  }
}

KERNEL k_increment(int* data, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] += 1;
}

KERNEL k_reverse_shared(const int* in, int* out) {
  __shared__ int tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[127 - threadIdx.x];
}

KERNEL k_tree_sum(const int* in, int* out) {
  __shared__ int tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
  for (int half = 64; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) tile[threadIdx.x] += tile[threadIdx.x + half];
  }
  if (threadIdx.x == 0) *out = tile[0];
}

KERNEL k_atomic_histogram(const int* in, int* bins, int n) {
  __shared__ int local[16];
  if (threadIdx.x < 16) local[threadIdx.x] = 0;
  __syncthreads();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&local[in[i] & 15], 1);
  __syncthreads();
  if (threadIdx.x < 16) atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}

KERNEL k_global_exchange(int* data) {
  data[threadIdx.x] = threadIdx.x;
  __syncthreads();
  const int other = data[127 - threadIdx.x];
  __syncthreads();
  data[threadIdx.x] = other;
}

// The classic: each block leaves a part, the last one adds them up.
KERNEL k_last_block_done(int* parts, unsigned* done, int* out) {
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = blockIdx.x + 1;
    __threadfence();
    is_last = atomicAdd(done, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last || threadIdx.x != 0) return;
  int sum = 0;
  for (int k = 0; k < gridDim.x; ++k) sum += parts[k];
  *out = sum;
}

KERNEL k_all_threads_fence(int* parts, unsigned* done, int* out) {
  __shared__ bool is_last;
  parts[blockIdx.x * blockDim.x + threadIdx.x] = 1;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicAdd(done, 1u) == gridDim.x - 1;
  __syncthreads();
  if (!is_last || threadIdx.x != 0) return;
  int sum = 0;
  for (int k = 0; k < gridDim.x * blockDim.x; ++k) sum += parts[k];
  *out = sum;
}

KERNEL k_flag_handover(int* data, int* flag, int* out) {
  if (blockIdx.x == 0) {
    if (threadIdx.x == 0) {
      *data = 42;
      asm volatile("st.release.gpu.s32 [%0], 1;" ::"l"(flag) : "memory");
    }
  } else if (threadIdx.x == 0) {
    int seen = 0;
    while (seen == 0) {
      asm volatile("ld.acquire.gpu.s32 %0, [%1];"
                   : "=r"(seen)
                   : "l"(flag)
                   : "memory");
    }
    *out = *data;
  }
}

KERNEL k_lock(int* lock, int* data) {
  if (threadIdx.x != 0) return;
  while (atomicCAS(lock, 0, 1) != 0) {
  }
  __threadfence();
  *data += 1;
  __threadfence();
  atomicExch(lock, 0);
}

KERNEL k_named_barriers(int* out) {
  __shared__ int box[64];
  // Two warps produce, two consume.
  if (threadIdx.x < 64) {
    box[threadIdx.x] = threadIdx.x;
    asm volatile("bar.arrive 1, 128;" ::: "memory");
  } else {
    asm volatile("bar.sync 1, 128;" ::: "memory");
    out[threadIdx.x - 64] = box[127 - threadIdx.x];
  }
}

KERNEL k_half_barriers(int* out) {
  __shared__ int box[128];
  const int half = threadIdx.x / 64;
  box[threadIdx.x] = threadIdx.x;
  asm volatile("bar.sync %0, 64;" ::"r"(half + 1) : "memory");
  out[threadIdx.x] = box[threadIdx.x ^ 32];
}

KERNEL k_double_buffer(const int* in, int* out, int turns) {
  __shared__ int tile[2][128];
  int sum = 0;
  tile[0][threadIdx.x] = in[threadIdx.x];
  for (int turn = 0; turn < turns; ++turn) {
    __syncthreads();
    if (turn + 1 < turns) tile[(turn + 1) & 1][threadIdx.x] = in[threadIdx.x];
    sum += tile[turn & 1][127 - threadIdx.x];
  }
  out[threadIdx.x] = sum;
}

KERNEL k_async_copy(const int4* in, int* out) {
  __shared__ int4 tile[64];
  __pipeline_memcpy_async(&tile[threadIdx.x], &in[threadIdx.x], 16);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  out[threadIdx.x] = tile[63 - threadIdx.x].x;
}

KERNEL k_warp_sum(const int* in, int* out) {
  int value = in[threadIdx.x];
  for (int step = 16; step > 0; step /= 2) {
    value += __shfl_down_sync(0xffffffffu, value, step);
  }
  if (threadIdx.x % 32 == 0) out[threadIdx.x / 32] = value;
}

KERNEL k_half_warp_shuffle(const int* in, int* out) {
  if (threadIdx.x % 32 < 16) {
    const int value = in[threadIdx.x];
    out[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, value, 1);
  }
}

KERNEL k_warp_exchange(int* out) {
  __shared__ int box[64];
  box[threadIdx.x] = threadIdx.x;
  __syncwarp();
  out[threadIdx.x] = box[threadIdx.x ^ 1];
}

KERNEL k_early_exit(int* out, int n) {
  if (threadIdx.x >= 64) return;
  __shared__ int box[64];
  box[threadIdx.x] = n;
  __syncthreads();
  out[threadIdx.x] = box[63 - threadIdx.x];
}

KERNEL k_bytes_side_by_side(unsigned char* out) {
  out[threadIdx.x * gridDim.x + blockIdx.x] = 1;
}

KERNEL k_shared_bytes_side_by_side(unsigned char* out) {
  __shared__ unsigned char box[128];
  const int at = threadIdx.x % 32 * 4 + threadIdx.x / 32;
  box[at] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = box[threadIdx.x];
}

KERNEL k_shared_atomic_max(int* out) {
  __shared__ int best;
  if (threadIdx.x == 0) best = 0;
  __syncthreads();
  atomicMax(&best, static_cast<int>(threadIdx.x));
  __syncthreads();
  if (threadIdx.x == 0) *out = best;
}

KERNEL k_read_only_sharing(const int* table, int* out) {
  int sum = 0;
  for (int k = 0; k < 32; ++k) sum += table[k];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

KERNEL k_grid_wait_then_add(const int* in, int* out, int n) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] + 1;
}

KERNEL k_vector_copy(const int4* in, int4* out) {
  out[threadIdx.x] = in[threadIdx.x];
}

KERNEL k_local_array(const int* in, int* out) {
  int local[8];
  for (int k = 0; k < 8; ++k) local[in[k] & 7] = k;
  out[threadIdx.x] = local[threadIdx.x & 7];
}

KERNEL k_dynamic_shared(const int* in, int* out) {
  extern __shared__ int dynamic[];
  dynamic[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = dynamic[(threadIdx.x + 37) % blockDim.x];
}

KERNEL k_grid_stride(const int* in, int* out, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += gridDim.x * blockDim.x) {
    out[i] = in[i];
  }
}

KERNEL k_compare_and_swap_max(const int* in, int* best) {
  const int mine = in[threadIdx.x];
  int seen = atomicAdd(best, 0);
  while (mine > seen) {
    const int before = atomicCAS(best, seen, mine);
    if (before == seen) break;
    seen = before;
  }
}

KERNEL k_ballot_compact(const int* in, int* out) {
  const bool keep = in[threadIdx.x] > 6;
  const unsigned votes = __ballot_sync(0xffffffffu, keep);
  if (keep) out[__popc(votes & ((1u << threadIdx.x) - 1))] = in[threadIdx.x];
}

// One pointer into either memory.
KERNEL k_generic_pointer(int* out, int use_shared) {
  __shared__ int tile[64];
  int* const at = use_shared != 0 ? tile : out + 64;
  at[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = at[63 - threadIdx.x];
}

// --- memcheck ---

KERNEL f_write_past_end(int* out, int n) {
  out[n] = 1;  // FAULT write_past_end
}

KERNEL f_read_before(const int* in, int* out) {
  out[0] = in[-1];  // FAULT read_before
}

KERNEL f_misaligned(char* out) {
  *reinterpret_cast<int*>(out + 2) = 1;  // FAULT misaligned
}

KERNEL f_misaligned_vector(int* data) {
  *reinterpret_cast<int4*>(data + 1) = make_int4(1, 2, 3, 4);  // FAULT misaligned_vector
}

KERNEL f_null(int* out) {
  *out = 1;  // FAULT null
}

KERNEL f_atomic_past_end(int* out, int n) {
  atomicAdd(out + n, 1);  // FAULT atomic_past_end
}

KERNEL f_shared_past_end(int* out, int at) {
  __shared__ int tile[32];
  tile[threadIdx.x] = 1;
  __syncthreads();
  out[0] = tile[at];  // FAULT shared_past_end
}

KERNEL f_dynamic_shared_past_end(int* out, int at) {
  extern __shared__ int dynamic[];
  dynamic[at] = 1;  // FAULT dynamic_shared_past_end
  out[0] = 1;
}

KERNEL f_async_copy_past_end(const int4* in, int* out, int n) {
  __shared__ int4 tile[32];
  __pipeline_memcpy_async(&tile[threadIdx.x], &in[n + threadIdx.x], 16);  // FAULT async_copy_past_end
  __pipeline_commit();
  __pipeline_wait_prior(0);
  out[threadIdx.x] = tile[threadIdx.x].x;
}

__device__ __forceinline__ void StoreAt(int* out, int at) {
  out[at] = 7;  // FAULT inlined
}

KERNEL f_inlined(int* out, int n) {
  StoreAt(out, n);  // FAULT inlined_call
}

KERNEL f_one_block_of_many(int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = n;  // FAULT one_block_of_many
}

// --- initcheck ---

KERNEL f_undefined_global(const int* in, int* out) {
  out[threadIdx.x] = in[threadIdx.x];  // FAULT undefined_global
}

KERNEL f_undefined_byte(const unsigned char* in, int* out) {
  const int value = *reinterpret_cast<const int*>(in);  // FAULT undefined_byte
  *out = value;
}

KERNEL f_undefined_atomic(int* data) {
  atomicAdd(data, 1);  // FAULT undefined_atomic
}

KERNEL f_undefined_shared(int* out) {
  __shared__ int tile[64];
  if (threadIdx.x < 16) tile[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x];  // FAULT undefined_shared
}

KERNEL f_undefined_shared_byte(int* out) {
  __shared__ __align__(4) unsigned char tile[4];
  if (threadIdx.x < 3) tile[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = *reinterpret_cast<int*>(tile);  // FAULT undefined_shared_byte
}

KERNEL f_async_copy_no_wait(const int4* in, int* out) {
  __shared__ int4 tile[32];
  __pipeline_memcpy_async(&tile[threadIdx.x], &in[threadIdx.x], 16);
  __pipeline_commit();
  out[threadIdx.x] = tile[threadIdx.x].x;  // FAULT async_copy_no_wait
  __pipeline_wait_prior(0);
}

KERNEL f_undefined_shared_atomic(int* out) {
  __shared__ int count;
  const int before = atomicAdd(&count, 1);  // FAULT undefined_shared_atomic
  out[threadIdx.x] = before;
}

// --- racecheck in shared memory ---

KERNEL f_shared_no_barrier(const int* in, int* out) {
  __shared__ int tile[128];
  tile[threadIdx.x] = in[threadIdx.x];  // FAULT shared_no_barrier
  out[threadIdx.x] = tile[127 - threadIdx.x];
}

KERNEL f_shared_write_after_read(const int* in, int* out) {
  __shared__ int tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  const int other = tile[127 - threadIdx.x];
  tile[threadIdx.x] = other;  // FAULT shared_write_after_read
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x];
}

KERNEL f_shared_write_write(int* out) {
  __shared__ int winner;
  if (threadIdx.x % 32 == 0) winner = threadIdx.x;  // FAULT shared_write_write
  __syncthreads();
  out[threadIdx.x] = winner;
}

KERNEL f_two_barriers(int* out) {
  __shared__ int tile[128];
  const int half = threadIdx.x / 64;
  tile[threadIdx.x] = threadIdx.x;
  asm volatile("bar.sync %0, 64;" ::"r"(half + 1) : "memory");
  out[threadIdx.x] = tile[127 - threadIdx.x];  // FAULT two_barriers
}

KERNEL f_syncwarp_is_not_enough(int* out) {
  __shared__ int tile[64];
  if (threadIdx.x < 32) tile[threadIdx.x] = 1;
  __syncwarp();
  if (threadIdx.x >= 32) out[threadIdx.x] = tile[threadIdx.x - 32];  // FAULT syncwarp_is_not_enough
}

KERNEL f_shared_atomic_and_read(int* out) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  atomicAdd(&count, 1);
  if (threadIdx.x >= 64) out[threadIdx.x] = count;  // FAULT shared_atomic_and_read
}

KERNEL f_tree_sum_no_barrier(const int* in, int* out) {
  __shared__ int tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < 64) tile[threadIdx.x] += tile[threadIdx.x + 64];  // FAULT tree_write
  if (threadIdx.x < 32) tile[threadIdx.x] += tile[threadIdx.x + 32];  // FAULT tree_sum_no_barrier
  __syncthreads();
  if (threadIdx.x == 0) *out = tile[0];
}

KERNEL f_async_copy_no_barrier(const int4* in, int* out) {
  __shared__ int4 tile[64];
  __pipeline_memcpy_async(&tile[threadIdx.x], &in[threadIdx.x], 16);  // FAULT async_copy_no_barrier
  __pipeline_commit();
  __pipeline_wait_prior(0);
  out[threadIdx.x] = tile[63 - threadIdx.x].x;
}

KERNEL f_loop_without_second_barrier(const int* in, int* out, int turns) {
  __shared__ int tile[128];
  int sum = 0;
  for (int turn = 0; turn < turns; ++turn) {
    tile[threadIdx.x] = in[threadIdx.x];  // FAULT loop_without_second_barrier
    __syncthreads();
    sum += tile[127 - threadIdx.x];
  }
  out[threadIdx.x] = sum;
}

// --- racecheck in global memory ---

KERNEL f_blocks_write_one_word(int* out) {
  if (threadIdx.x == 0) *out = blockIdx.x;  // FAULT blocks_write_one_word
}

KERNEL f_reads_other_block(int* data, int* out) {
  data[blockIdx.x * blockDim.x + threadIdx.x] = 1;  // FAULT other_block_write
  __syncthreads();
  const int other = (blockIdx.x + 1) % gridDim.x;
  out[blockIdx.x * blockDim.x + threadIdx.x] =
      data[other * blockDim.x + threadIdx.x];  // FAULT reads_other_block
}

KERNEL f_last_block_no_fence(int* parts, unsigned* done, int* out) {
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = blockIdx.x + 1;
    is_last = atomicAdd(done, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last || threadIdx.x != 0) return;
  int sum = 0;
  for (int k = 0; k < gridDim.x; ++k) sum += parts[k];  // FAULT last_block_no_fence
  *out = sum;
}

KERNEL f_last_block_block_fence(int* parts, unsigned* done, int* out) {
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = blockIdx.x + 1;
    __threadfence_block();
    is_last = atomicAdd(done, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last || threadIdx.x != 0) return;
  int sum = 0;
  for (int k = 0; k < gridDim.x; ++k) sum += parts[k];  // FAULT last_block_block_fence
  *out = sum;
}

KERNEL f_last_block_late_write(int* parts, unsigned* done, int* out) {
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    __threadfence();
    is_last = atomicAdd(done, 1u) == gridDim.x - 1;
    parts[blockIdx.x] = blockIdx.x + 1;
  }
  __syncthreads();
  if (!is_last || threadIdx.x != 0) return;
  int sum = 0;
  for (int k = 0; k < gridDim.x; ++k) sum += parts[k];  // FAULT last_block_late_write
  *out = sum;
}

KERNEL f_flag_without_release(int* data, int* flag, int* out) {
  if (blockIdx.x == 0) {
    if (threadIdx.x == 0) {
      *data = 42;
      asm volatile("st.relaxed.gpu.s32 [%0], 1;" ::"l"(flag) : "memory");
    }
  } else if (threadIdx.x == 0) {
    int seen = 0;
    while (seen == 0) {
      asm volatile("ld.acquire.gpu.s32 %0, [%1];"
                   : "=r"(seen)
                   : "l"(flag)
                   : "memory");
    }
    *out = *data;  // FAULT flag_without_release
  }
}

KERNEL f_global_no_barrier(int* data, int* out) {
  data[threadIdx.x] = threadIdx.x;  // FAULT global_no_barrier
  out[threadIdx.x] = data[127 - threadIdx.x];
}

KERNEL f_unaligned_overlap(unsigned char* data) {
  // Each block owns three bytes, and writes four.
  unsigned char* mine = data + blockIdx.x * 3;
  for (int k = 0; k < 4; ++k) mine[k] = blockIdx.x;  // FAULT unaligned_overlap
}

KERNEL f_lock_without_fence(int* lock, int* data) {
  if (threadIdx.x != 0) return;
  while (atomicCAS(lock, 0, 1) != 0) {
  }
  *data += 1;  // FAULT lock_without_fence
  atomicExch(lock, 0);
}

KERNEL f_atomic_and_plain(int* data) {
  if (blockIdx.x == 0) {
    atomicAdd(data, 1);
  } else if (threadIdx.x == 0) {
    *data = 5;  // FAULT atomic_and_plain
  }
}

// --- synccheck, ends ---

KERNEL f_divergent_barrier(int* out) {
  if (threadIdx.x % 2 == 0) {
    asm volatile("bar.sync 0;" ::: "memory");  // FAULT divergent_barrier
    out[threadIdx.x] = 1;
  } else {
    out[threadIdx.x] = 2;
  }
}

KERNEL f_missing_participant(int* out) {
  if (threadIdx.x < 32) {
    asm volatile("bar.sync 1, 96;" ::: "memory");  // FAULT missing_participant
  }
  out[threadIdx.x] = 1;
}

KERNEL f_barrier_count(int* out, int count) {
  asm volatile("bar.sync 1, %0;" ::"r"(count) : "memory");  // FAULT barrier_count
  out[threadIdx.x] = 1;
}

KERNEL f_barrier_number(int* out, int barrier) {
  asm volatile("bar.sync %0;" ::"r"(barrier) : "memory");  // FAULT barrier_number
  out[threadIdx.x] = 1;
}

KERNEL f_shuffle_absent_lanes(const int* in, int* out) {
  if (threadIdx.x < 16) {
    out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, in[threadIdx.x], 1);  // FAULT shuffle_absent_lanes
  } else {
    out[threadIdx.x] = 0;
  }
  // Nobody has left when the others get here.
  __syncthreads();
  out[threadIdx.x + 64] = 1;
}

KERNEL f_vote_absent_lanes(int* out) {
  if (threadIdx.x < 8) {
    out[threadIdx.x] = __ballot_sync(0xffffffffu, threadIdx.x & 1);  // FAULT vote_absent_lanes
  } else {
    out[threadIdx.x] = 0;
  }
  // Nobody has left when the others get here.
  __syncthreads();
  out[threadIdx.x + 64] = 1;
}

KERNEL f_syncwarp_absent_lanes(int* out) {
  if (threadIdx.x < 8) {
    out[threadIdx.x] = 1;
    __syncwarp(0xffffffffu);  // FAULT syncwarp_absent_lanes
    out[threadIdx.x + 32] = 2;
  } else {
    out[threadIdx.x] = 0;
  }
  // Nobody has left when the others get here.
  __syncthreads();
  out[threadIdx.x + 64] = 1;
}

KERNEL f_spin(const int* flag) {
  int seen = 0;
  while (seen == 0) {
    asm volatile("ld.relaxed.gpu.s32 %0, [%1];" : "=r"(seen) : "l"(flag));  // FAULT spin
  }
}

KERNEL f_trap(int n) {
  if (n > 0) __trap();  // FAULT trap
}

// The order of two blocks shows in what they leave behind.
KERNEL f_order_bug(int* data) {
  if (threadIdx.x == 0) *data = *data * 3 + static_cast<int>(blockIdx.x);  // FAULT order_bug
}
