// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "moe_shape.h"

#include "absl/strings/str_cat.h"

namespace permafrost {

absl::Status CheckMoeShape(absl::string_view what, const ModelConfig& config,
                           int64_t rows) {
  const auto refuse = [&](absl::string_view figure, int64_t got,
                          absl::string_view limit) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " of model '", config.source, "': ", figure,
                     ": got ", got, ", limit ", limit));
  };
  if (config.num_experts == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        what, " of model '", config.source,
        "': num_experts: got 0, limit at least 1; a dense model has no MoE "
        "layer, use the config of a model that has experts"));
  }
  if (config.num_experts < 0) {
    return refuse("num_experts", config.num_experts, "at least 1");
  }
  if (config.experts_per_token < 1 ||
      config.experts_per_token > config.num_experts) {
    return refuse("experts_per_token", config.experts_per_token,
                  absl::StrCat("1 to num_experts=", config.num_experts));
  }
  if (config.hidden_size < 1) {
    return refuse("hidden_size", config.hidden_size, "at least 1");
  }
  if (config.moe_intermediate_size < 1) {
    return refuse("moe_intermediate_size", config.moe_intermediate_size,
                  "at least 1");
  }
  if (config.shared_expert_intermediate_size < 0) {
    return refuse("shared_expert_intermediate_size",
                  config.shared_expert_intermediate_size, "at least 0");
  }
  if (rows < 0) return refuse("rows", rows, "at least 0");
  return absl::OkStatus();
}

absl::Status MoeShapeTooLarge(absl::string_view what, const ModelConfig& config,
                              int64_t rows) {
  return absl::InvalidArgumentError(absl::StrCat(
      what, " of model '", config.source, "': size: got rows=", rows,
      " experts=", config.num_experts, " top-k=", config.experts_per_token,
      " hidden=", config.hidden_size,
      " expert width=", config.moe_intermediate_size,
      " shared width=", config.shared_expert_intermediate_size,
      ", limit 2^63-1 bytes; lower the rows"));
}

}  // namespace permafrost
