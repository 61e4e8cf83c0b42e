// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// One kernel for each tool that script/sanitize runs, with a fault that the tool
// must see in a buffer of an arena, and a sound one. A line that ends in
// `// FAULT name` is the one that softcuda's report must name.

extern "C" __global__ void probe_none(int* data, int count) {
  __shared__ int tile[128];
  const int i = threadIdx.x;
  tile[i] = i;
  __syncthreads();
  if (i < count) data[i] = tile[127 - i];
}

// A write behind the end of the buffer.
extern "C" __global__ void probe_memcheck(int* data, int count) {
  data[count + threadIdx.x] = 1;  // FAULT memcheck
}

// A use of what nobody wrote.
extern "C" __global__ void probe_initcheck(int* data, int count) {
  const int i = threadIdx.x;
  const int before = i < count ? data[i] : 0;  // FAULT initcheck
  if (i < count) data[i] = before > 0 ? 1 : 2;
}

// Warps exchange through shared memory without a barrier.
extern "C" __global__ void probe_racecheck(int* data, int count) {
  __shared__ int tile[128];
  const int i = threadIdx.x;
  tile[i] = i;  // FAULT racecheck
  if (i < count) data[i] = tile[127 - i];
}

// Half of a warp goes to a barrier.
extern "C" __global__ void probe_synccheck(int* data, int count) {
  const int i = threadIdx.x;
  if (i < count && i % 2 == 0) {
    asm volatile("bar.sync 0;" ::: "memory");  // FAULT synccheck
  }
  data[i % count] = i;
}
