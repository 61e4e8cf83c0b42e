// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// The models of data/arena_sizes_golden.json, as values.

#ifndef PERMAFROST_TESTS_ARENA_GOLDEN_MODELS_H_
#define PERMAFROST_TESTS_ARENA_GOLDEN_MODELS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "arena/embedded_json.h"
#include "permafrost/arena/buffer_table.h"
#include "permafrost/arena/model_config.h"
#include "permafrost/arena/serving_limits.h"

PERMAFROST_EMBEDDED(permafrost_test_arena_sizes)

namespace permafrost::testing {

/// The whole file. The program embeds it under `permafrost_test_arena_sizes`.
inline const nlohmann::json& ArenaSizesGolden() {
  static const auto* const golden =
      new nlohmann::json(PERMAFROST_EMBEDDED_JSON(permafrost_test_arena_sizes));
  return *golden;
}

/// A model's figures under the short names of the file; absent ones are 0.
inline ModelConfig ConfigFromFigures(const std::string& name,
                                     const nlohmann::json& figures) {
  const auto figure = [&](const char* key) {
    return figures.value(key, int64_t{0});
  };
  ModelConfig config;
  config.source = name;
  config.model_type = figures.at("model_type");
  config.hidden_size = figure("H");
  config.num_layers = figure("L");
  config.num_attention_heads = figure("nq");
  config.num_kv_heads = figure("nkv");
  config.head_dim = figure("hd");
  config.vocab_size = figure("V");
  config.intermediate_size = figure("I");
  config.num_experts = figure("E");
  config.experts_per_token = figure("k");
  config.moe_intermediate_size = figure("Ie");
  config.shared_expert_intermediate_size = figure("Is");
  config.kv_lora_rank = figure("r_kv");
  config.q_lora_rank = figure("r_q");
  config.qk_nope_head_dim = figure("d_nope");
  config.qk_rope_head_dim = figure("d_rope");
  config.v_head_dim = figure("d_v");
  config.gated_attention = figures.value("gated", false);
  config.gdn_key_heads = figure("nk");
  config.gdn_value_heads = figure("nv");
  config.gdn_key_head_dim = figure("dk");
  config.gdn_value_head_dim = figure("dv");
  config.gdn_conv_kernel = figure("ck");
  config.mamba_heads = figure("mh");
  config.mamba_head_dim = figure("mp");
  config.mamba_state = figure("ms");
  config.mamba_groups = figure("mg");
  config.hyper_connections = figure("hc");
  config.hyper_connection_rank = figure("hcr");
  config.o_groups = figure("og");
  config.o_lora_rank = figure("olr");
  config.indexer_heads = figure("inh");
  config.indexer_head_dim = figure("ihd");
  config.indexer_top_k = figure("itk");
  config.indexer_compress_ratio = figure("icr");
  return config;
}

/// Every model of the file, by name.
inline std::map<std::string, ModelConfig> GoldenModels() {
  std::map<std::string, ModelConfig> models;
  for (const auto& [name, model] : ArenaSizesGolden().at("models").items()) {
    models.emplace(name, ConfigFromFigures(name, model.at("figures")));
  }
  return models;
}

inline ModelConfig GoldenModel(const std::string& name) {
  return ConfigFromFigures(
      name, ArenaSizesGolden().at("models").at(name).at("figures"));
}

/// The limits that the file's sizes are for, with those rules.
inline ServingLimits GoldenLimits(SizeRules rules) {
  const nlohmann::json& params = ArenaSizesGolden().at("params");
  ServingLimits limits;
  limits.max_batch_tokens = params.at("M");
  limits.max_batch_size = params.at("max_batch_size");
  limits.max_seq_len = params.at("max_seq_len");
  limits.kv_block_size = params.at("kv_block_size");
  limits.sm_count = params.at("sm_count");
  limits.lora_rank = params.at("adapter_max_rank");
  limits.split_k = params.at("splitk") == "auto" ? SplitKPolicy::kAuto
                                                 : SplitKPolicy::kLegacy;
  limits.rules = rules;
  return limits;
}

inline const BufferSize* FindSize(const std::vector<BufferSize>& sizes,
                                  absl::string_view name) {
  for (const BufferSize& size : sizes) {
    if (size.name == name) return &size;
  }
  return nullptr;
}

}  // namespace permafrost::testing

#endif  // PERMAFROST_TESTS_ARENA_GOLDEN_MODELS_H_
