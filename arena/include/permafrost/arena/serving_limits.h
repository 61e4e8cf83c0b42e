// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_SERVING_LIMITS_H_
#define PERMAFROST_ARENA_SERVING_LIMITS_H_

#include <cstdint>

#include "absl/status/status.h"

namespace permafrost {

/// How attention splits the keys of one sequence over thread blocks.
enum class SplitKPolicy {
  kAuto,    ///< as many splits as fill the device, up to 16, for every row
  kLegacy,  ///< one slot for each multiprocessor
};

/// Whose rules the sizes follow.
enum class SizeRules {
  kOurs,  ///< absent buffers are NULL, unions are declared, rows are padded
  kSeed,  ///< the original design, byte for byte: for parity tests
};

/// What an engine promises never to exceed; together with the model it decides
/// the size of every buffer. Nothing is read from the environment.
struct ServingLimits {
  /// Token rows of the largest step. Units: rows; at least 1.
  int64_t max_batch_tokens = 0;
  /// Sequences of the largest decode batch. Units: rows; at least 1.
  int64_t max_batch_size = 64;
  /// Tokens of the longest sequence, prompt and answer together; at least 1.
  int64_t max_seq_len = 32768;
  /// Tokens of one KV block; 0 where the engine has no paged KV cache.
  int64_t kv_block_size = 16;
  /// Multiprocessors of the device, which size the attention workspace; at
  /// least 1. An input, so that a plan needs no device.
  int64_t sm_count = 132;
  /// Rank of the widest LoRA adapter; 0: no adapters, and no buffers for them.
  int64_t lora_rank = 0;
  /// Draft tokens verified with each sequence in one step; 0: none.
  int64_t draft_tokens = 0;
  SplitKPolicy split_k = SplitKPolicy::kAuto;
  /// Dense weights come in 4-bit blocks, whose kernels read the activations as
  /// blocks of 8 bits.
  bool four_bit_weights = false;
  /// The weights are quantised to 2 bits, and are expanded in a buffer.
  bool two_bit_weights = false;
  /// Row-wise FP8 weights of linear-attention layers get a bf16 copy.
  bool rowwise_bf16_copies = false;
  SizeRules rules = SizeRules::kOurs;

  friend bool operator==(const ServingLimits&, const ServingLimits&) = default;
};

/// Errors: kInvalidArgument naming the first limit that is out of its range.
/// Threads: any. Capture: no driver call.
absl::Status CheckLimits(const ServingLimits& limits);

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_SERVING_LIMITS_H_
