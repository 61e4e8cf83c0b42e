// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_IMAGE_FATBIN_H_
#define SOFTCUDA_IMAGE_FATBIN_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace softcuda::image {

/// The PTX text to run, or why there is none.
struct PtxChoice {
  CUresult code = CUDA_SUCCESS;
  std::string message;
  std::string_view text;  ///< into the image
};

/// Finds the PTX text in an image as cuModuleLoadData takes it: a fatbin, or
/// PTX text. Of several PTX entries the one with the highest architecture that
/// is not above `capability` is taken.
///
/// The layout of fatbins is not documented; what is read here is what nvcc 13
/// writes with --no-compress. Every offset is checked against `bytes`.
PtxChoice FindPtx(const void* image, size_t bytes, int capability);

/// The size that an image says it has: of a fatbin from its header, of text up
/// to its NUL. Nothing when it is neither. Reads 16 bytes, or up to the NUL.
std::optional<size_t> ImageBytes(const void* image);

}  // namespace softcuda::image

#endif  // SOFTCUDA_IMAGE_FATBIN_H_
