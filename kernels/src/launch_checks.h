// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_KERNELS_SRC_LAUNCH_CHECKS_H_
#define PERMAFROST_KERNELS_SRC_LAUNCH_CHECKS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "permafrost/kernels/moe_kernels.h"

namespace permafrost::kernels {

// What each launcher checks before it enqueues, as functions of their own so
// that a layer can check all its launches before the first.
absl::Status CheckTopK(const TopKArgs& args);
absl::Status CheckBuildWorklist(const WorklistArgs& args);
absl::Status CheckQuantize(const char* kernel, const QuantizeArgs& args,
                           bool has_live_rows);
absl::Status CheckGateUp(const GateUpArgs& args);
absl::Status CheckDown(const DownArgs& args);
absl::Status CheckSwiGlu(const SwiGluArgs& args);
absl::Status CheckCombine(const CombineArgs& args);

// Groups of 128 in `columns`.
constexpr int64_t QuantGroups(int64_t columns) {
  return (columns + kQuantGroup - 1) / kQuantGroup;
}

// The most entries that a big and a small list of this shape can have, by the
// argument at the builder's body.
int64_t BigTilesBound(int64_t ids, int64_t experts, int64_t width);
int64_t SmallTilesBound(int64_t ids, int64_t experts, int64_t width);

}  // namespace permafrost::kernels

#endif  // PERMAFROST_KERNELS_SRC_LAUNCH_CHECKS_H_
