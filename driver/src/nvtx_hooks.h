// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_DRIVER_SRC_NVTX_HOOKS_H_
#define PERMAFROST_DRIVER_SRC_NVTX_HOOKS_H_

namespace permafrost::internal {

// Offers the listener's entry points that the library of a loaded driver
// exports, if it does, to NVTX. NVTX asks for them at its first call and only
// when no tool was named, so this goes before any call and never displaces a
// tool.
void OfferNvtxListener(void* library);

}  // namespace permafrost::internal

#endif  // PERMAFROST_DRIVER_SRC_NVTX_HOOKS_H_
