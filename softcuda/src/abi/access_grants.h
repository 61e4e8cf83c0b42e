// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_ABI_ACCESS_GRANTS_H_
#define SOFTCUDA_ABI_ACCESS_GRANTS_H_

#include <vector>

#include "abi/cuda_abi.h"
#include "memory/address_space.h"

namespace softcuda::abi {

/// The rights that a list of access descriptors grants, in its order.
///
/// Errors: INVALID_VALUE for an empty list, unknown flags and unknown places;
///   NOT_SUPPORTED for the host; INVALID_DEVICE for a device that is not there.
CUresult ReadGrants(const CUmemAccessDesc* descriptors, size_t count,
                    std::vector<memory::AccessGrant>* grants);

}  // namespace softcuda::abi

#endif  // SOFTCUDA_ABI_ACCESS_GRANTS_H_
