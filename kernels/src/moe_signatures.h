// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_KERNELS_SRC_MOE_SIGNATURES_H_
#define PERMAFROST_KERNELS_SRC_MOE_SIGNATURES_H_

#include "absl/status/statusor.h"
#include "permafrost/arena/kernel_signature.h"

namespace permafrost::kernels {

// The signatures of the entry points in src/moe_kernels.cu.
absl::StatusOr<SignatureSet> MoeSignatures();

}  // namespace permafrost::kernels

#endif  // PERMAFROST_KERNELS_SRC_MOE_SIGNATURES_H_
