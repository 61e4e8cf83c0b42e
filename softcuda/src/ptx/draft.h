// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_PTX_DRAFT_H_
#define SOFTCUDA_PTX_DRAFT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "exec/form_table.h"
#include "exec/program.h"
#include "ptx/syntax.h"

namespace softcuda::ptx {

inline constexpr uint32_t kNoValue = 0xffffffff;

/// A virtual register of the decoded kernel: a register of the text, a
/// temporary of the decoder, a constant or a special register.
struct Value {
  enum class Kind : uint8_t { kRegister, kConstant, kSpecial };
  Kind kind = Kind::kRegister;
  RegClass reg_class = RegClass::k32;
  exec::Special special = exec::Special::kTidX;
  /// Add the address of dynamic shared memory to `constant` once it is known.
  bool is_dynamic_shared = false;
  uint64_t constant = 0;
};

/// An instruction whose operands are values, not yet slots.
struct DraftInst {
  enum class Flow : uint8_t {
    kNone,
    kJump,  ///< to `target`
    kExit,
    kDeadEnd,  ///< a trap: nothing follows
  };
  const exec::Form* form = nullptr;
  Flow flow = Flow::kNone;
  uint32_t fields[6] = {};    ///< values, or offsets into `ext`
  std::vector<uint32_t> ext;  ///< values of vector operands
  uint32_t guard = kNoValue;
  bool guard_negated = false;
  int64_t imm = 0;
  uint32_t target = 0;  ///< a label until control flow is built, then an index
  uint32_t location = 0;
  bool strong = false;  ///< a memory access that others may do as well

  bool IsGuarded() const { return guard != kNoValue; }
};

/// A kernel between syntax and program.
struct Draft {
  std::vector<Value> values;
  std::vector<DraftInst> code;
  std::vector<uint32_t> labels;  ///< index into `code`
  uint32_t static_shared_bytes = 0;
  uint32_t local_bytes = 0;
  bool order_sensitive = false;
};

/// Calls `visit(value, is_destination)` for each value an instruction names,
/// its guard included.
template <class Visit>
void VisitValues(const DraftInst& inst, Visit visit) {
  using Kind = exec::OperandSpec::Kind;
  if (inst.guard != kNoValue) visit(inst.guard, false);
  const auto& operands = inst.form->operands;
  // Sources first: an instruction reads before it writes.
  for (const bool destinations : {false, true}) {
    for (size_t k = 0; k < operands.size(); ++k) {
      const exec::OperandSpec& spec = operands[k];
      if (spec.is_destination != destinations || spec.kind == Kind::kLiteral) {
        continue;
      }
      if (spec.kind == Kind::kVector) {
        for (uint32_t n = 0; n < spec.count; ++n) {
          visit(inst.ext[inst.fields[k] + n], destinations);
        }
      } else {
        visit(inst.fields[k], destinations);
      }
    }
  }
}

}  // namespace softcuda::ptx

#endif  // SOFTCUDA_PTX_DRAFT_H_
