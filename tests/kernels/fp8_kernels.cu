// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// The device's reading of e4m3 by itself, for every code.
#include "device/fp8.cuh"

extern "C" __global__ void decode_e4m3(const uint4* bytes, float* values) {
  float decoded[16];
  permafrost::kernels::device::Dequantize16(bytes[threadIdx.x], decoded);
  for (int i = 0; i < 16; ++i) values[16 * threadIdx.x + i] = decoded[i];
}
