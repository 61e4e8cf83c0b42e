// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "permafrost/kernels/planted_faults.h"

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

extern "C" {
extern const unsigned char permafrost_planted_image[];
extern const unsigned char permafrost_planted_image_end[];
extern const unsigned char permafrost_planted_overrun[];
}

namespace permafrost::kernels::planted {

absl::Span<const unsigned char> PlantedImage() {
  return {permafrost_planted_image,
          static_cast<size_t>(permafrost_planted_image_end -
                              permafrost_planted_image)};
}

absl::StatusOr<MoeKernels> LoadWithFault(ContextRef context,
                                         PlantedKernelFault fault) {
  static constexpr absl::string_view kBuilder[] = {"moe_build_worklist"};
  static constexpr absl::string_view kConsumers[] = {"moe_gemm_gate_up",
                                                     "moe_gemm_down"};
  const unsigned char* image = permafrost_planted_image;
  absl::Span<const absl::string_view> replaced;
  switch (fault) {
    case PlantedKernelFault::kBuilderSkipsEmptyTotal:
      replaced = kBuilder;
      break;
    case PlantedKernelFault::kConsumerReadsPastTotal:
      replaced = kConsumers;
      break;
    case PlantedKernelFault::kBuilderWritesPastBuffer:
      image = permafrost_planted_overrun;
      replaced = kBuilder;
      break;
  }
  return MoeKernels::LoadReplacing(std::move(context), image, replaced);
}

}  // namespace permafrost::kernels::planted
