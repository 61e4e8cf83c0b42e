// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_KERNELS_IMAGE_H_
#define PERMAFROST_KERNELS_IMAGE_H_

#include "absl/types/span.h"

namespace permafrost::kernels {

/// The compiled MoE kernels: one uncompressed fatbin with cubins for sm_80, 89,
/// 90, 100 and 120, and PTX text for compute_80 and compute_90. A byte 0
/// follows the span. Lives as long as the program.
absl::Span<const unsigned char> MoeImage();

}  // namespace permafrost::kernels

#endif  // PERMAFROST_KERNELS_IMAGE_H_
