// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Small kernels for the tests of capture/, as PTX text that either driver
// loads, with their signatures.

#ifndef PERMAFROST_TESTS_CAPTURE_TEST_KERNELS_H_
#define PERMAFROST_TESTS_CAPTURE_TEST_KERNELS_H_

#include <cuda.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "permafrost/arena/kernel_signature.h"
#include "permafrost/driver/context.h"
#include "permafrost/driver/device_ptr.h"
#include "permafrost/driver/handles.h"

namespace permafrost::testing {

class TestKernels {
 public:
  static absl::StatusOr<TestKernels> Load(ContextRef context);

  /// Of Scale, Sum and Count; Opaque has none.
  const SignatureSet& signatures() const { return signatures_; }

  /// dst[i] = src[i] * factor, for i < count.
  absl::Status Scale(CUstream stream, DevicePtr dst, DevicePtr src,
                     int32_t count, float factor) const;

  /// dst[0] = src[0] + ... + src[count - 1].
  absl::Status Sum(CUstream stream, DevicePtr dst, DevicePtr src,
                   int32_t count) const;

  /// Adds 1 to the 64-bit counter.
  absl::Status Count(CUstream stream, DevicePtr counter) const;

  /// dst[0] = 1, from a struct {address dst, 8 bytes}.
  absl::Status Opaque(CUstream stream, DevicePtr dst) const;

  CUfunction scale() const { return scale_; }
  CUfunction opaque() const { return opaque_; }

 private:
  absl::Status Launch(CUfunction function, CUstream stream, unsigned blocks,
                      unsigned threads, void** params) const;

  Module module_;
  CUfunction scale_ = nullptr;
  CUfunction sum_ = nullptr;
  CUfunction count_ = nullptr;
  CUfunction opaque_ = nullptr;
  SignatureSet signatures_;
};

/// The signature of Scale, for tests that change it.
KernelSignature ScaleSignature();

}  // namespace permafrost::testing

#endif  // PERMAFROST_TESTS_CAPTURE_TEST_KERNELS_H_
