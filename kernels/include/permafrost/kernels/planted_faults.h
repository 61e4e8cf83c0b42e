// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_KERNELS_PLANTED_FAULTS_H_
#define PERMAFROST_KERNELS_PLANTED_FAULTS_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "permafrost/driver/context.h"
#include "permafrost/kernels/moe_kernels.h"

namespace permafrost::kernels::planted {

/// Faults that checkers and verifiers must find. Each is one condition in the
/// shipped kernel's own source, compiled the other way.
enum class PlantedKernelFault {
  /// The builder stores a counter only when it is not 0, so an empty route
  /// leaves what an earlier replay stored.
  kBuilderSkipsEmptyTotal,
  /// Both GEMMs load one entry at or past the counter, and do nothing with it.
  kConsumerReadsPastTotal,
  /// The builder stores one byte behind the last counter, with which the slab
  /// ends.
  kBuilderWritesPastBuffer,
};

/// The kernels with one fault in. Names, parameters and signatures are those
/// of the sound ones. For tests and for `--plant`; linked into nothing else.
/// Errors: those of `MoeKernels::Load`.
absl::StatusOr<MoeKernels> LoadWithFault(ContextRef context,
                                         PlantedKernelFault fault);

/// The compiled faulty kernels: as `MoeImage`, with cubins for sm_80 and sm_90
/// and PTX for compute_90 only.
absl::Span<const unsigned char> PlantedImage();

}  // namespace permafrost::kernels::planted

#endif  // PERMAFROST_KERNELS_PLANTED_FAULTS_H_
