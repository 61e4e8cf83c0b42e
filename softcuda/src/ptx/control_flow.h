// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_PTX_CONTROL_FLOW_H_
#define SOFTCUDA_PTX_CONTROL_FLOW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ptx/draft.h"

namespace softcuda::ptx {

struct BasicBlock {
  uint32_t begin = 0;  ///< instructions [begin, end)
  uint32_t end = 0;
  std::vector<uint32_t> successors;
};

struct ControlFlow {
  static constexpr uint32_t kNone = 0xffffffff;

  std::vector<BasicBlock> blocks;
  std::vector<uint32_t> block_of;  ///< by instruction
  /// The block where all paths out of this one meet again, or kNone.
  std::vector<uint32_t> post_dominator;
};

/// Resolves jump targets from labels to instructions, turns jumps to an exit
/// into exits, and finds blocks and immediate post-dominators. Paths that end
/// in a trap never come back and so do not count.
///
/// False, with `error`, for a jump to a label that was never placed.
bool AnalyzeControlFlow(Draft* draft, ControlFlow* flow, std::string* error);

}  // namespace softcuda::ptx

#endif  // SOFTCUDA_PTX_CONTROL_FLOW_H_
