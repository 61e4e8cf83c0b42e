// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_PTX_CANONICAL_FORM_H_
#define SOFTCUDA_PTX_CANONICAL_FORM_H_

#include <string>
#include <string_view>

namespace softcuda::ptx {

/// An opcode without what the interpreter need not tell apart.
struct CanonicalForm {
  std::string text;
  bool fence_before = false;  ///< a release
  bool fence_after = false;   ///< an acquire
  bool strong = false;        ///< relaxed, volatile, acquire or release
  bool reads_param = false;   ///< ld or st of the .param space
  bool is_hint = false;       ///< does nothing; its operands do not matter
  /// How much executing it looks like waiting for someone: 0 not at all.
  int poll_weight = 0;
  /// What the instruction leaves behind may depend on the order of blocks.
  bool order_sensitive = false;
};

/// Drops cache hints, memory ordering, scopes and `::cta` from memory opcodes,
/// and gives the many spellings of barriers and fences one name each.
CanonicalForm Canonicalize(std::string_view opcode);

}  // namespace softcuda::ptx

#endif  // SOFTCUDA_PTX_CANONICAL_FORM_H_
