// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels of the contract tests. All of them ignore threads beyond `count`.

extern "C" {

__device__ unsigned g_words[7];

// Writes words[0, count).
__global__ void k_fill(unsigned* words, unsigned value, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) words[i] = value;
}

// Reads and writes words[0, count).
__global__ void k_add(unsigned* words, unsigned value, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) words[i] += value;
}

// Reads source[0, count), writes target[0, count).
__global__ void k_copy(unsigned* target, const unsigned* source,
                       unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) target[i] = source[i];
}

// Reads *flag until it is not 0, at most `turns` times.
__global__ void k_gate(volatile unsigned* flag, unsigned long long turns) {
  for (unsigned long long turn = 0; turn < turns; ++turn) {
    if (*flag != 0) return;
  }
}

// Writes one word.
__global__ void k_store(unsigned* word) { *word = 1; }

__global__ void k_trap() { asm volatile("trap;"); }

// Writes g_words.
__global__ void k_words(unsigned value) {
  if (threadIdx.x < 7) g_words[threadIdx.x] = value;
}

}  // extern "C"
