// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "program.h"

namespace permafrost::bench {

ProgramResult RunReplayLatency(const std::vector<std::string>& arguments,
                               const std::vector<std::string>& environment) {
  std::vector<std::string> command = {PERMAFROST_REPLAY_LATENCY};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return testing::RunProgram(std::move(command), environment);
}

std::string TinyConfig(const nlohmann::json& replace) {
  nlohmann::json config = {
      {"model_type", "qwen3_moe"}, {"hidden_size", 256},
      {"num_hidden_layers", 4},    {"num_attention_heads", 4},
      {"num_key_value_heads", 2},  {"head_dim", 64},
      {"intermediate_size", 512},  {"moe_intermediate_size", 128},
      {"num_experts", 8},          {"num_experts_per_tok", 2},
      {"norm_topk_prob", true},    {"vocab_size", 1024}};
  if (!replace.is_null()) config.merge_patch(replace);
  return config.dump(2);
}

}  // namespace permafrost::bench
