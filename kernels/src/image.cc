// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "permafrost/kernels/image.h"

#include <cstddef>

extern "C" {
extern const unsigned char permafrost_moe_image[];
extern const unsigned char permafrost_moe_image_end[];
}

namespace permafrost::kernels {

absl::Span<const unsigned char> MoeImage() {
  return {permafrost_moe_image,
          static_cast<size_t>(permafrost_moe_image_end - permafrost_moe_image)};
}

}  // namespace permafrost::kernels
