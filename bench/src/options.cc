// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace permafrost::bench {

absl::Status CheckAgainstModel(const Options& options,
                               const ModelConfig& config) {
  if (!config.is_moe()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--config: ", config.source, " is a dense model (model_type ",
        config.model_type,
        ") and has no MoE layer; accepted: a model with routed experts"));
  }
  if (options.layers > config.num_layers) {
    return absl::InvalidArgumentError(
        absl::StrCat("--layers: got ", options.layers, "; accepted: 1 to ",
                     config.num_layers, ", the layers of ", config.source));
  }
  if (options.distinct_experts > config.num_experts) {
    return absl::InvalidArgumentError(
        absl::StrCat("--distinct-experts: got ", options.distinct_experts,
                     "; accepted: 0 to ", config.num_experts,
                     ", the experts of ", config.source));
  }
  return absl::OkStatus();
}

}  // namespace permafrost::bench
