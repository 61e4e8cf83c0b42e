// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "ptx/assemble.h"

#include <algorithm>

#include "ptx/control_flow.h"
#include "ptx/slots.h"

namespace softcuda::ptx {
namespace {

using Flow = DraftInst::Flow;

// Dynamic shared memory starts behind the static arrays, aligned for any
// vector access.
constexpr uint32_t kDynamicSharedAlign = 16;

class Assembler {
 public:
  Assembler(const Draft& draft, const ControlFlow& flow, const Slots& slots,
            exec::Program* program)
      : draft_(draft), flow_(flow), slots_(slots), program_(program) {}

  void Run() {
    FindJoins();
    PlaceInstructions();
    PlaceValues();
  }

 private:
  void FindJoins() {
    has_join_.assign(flow_.blocks.size(), false);
    for (uint32_t b = 0; b < flow_.blocks.size(); ++b) {
      const DraftInst& last = draft_.code[flow_.blocks[b].end - 1];
      if (last.flow == Flow::kJump && last.IsGuarded() &&
          flow_.post_dominator[b] != ControlFlow::kNone) {
        has_join_[flow_.post_dominator[b]] = true;
      }
    }
  }

  void PlaceInstructions() {
    const exec::Form* join = exec::FormTable::Get().Find(".join");
    std::vector<size_t> start(flow_.blocks.size());
    size_t count = 0;
    size_t ext_count = 0;
    for (uint32_t b = 0; b < flow_.blocks.size(); ++b) {
      start[b] = count;
      count += has_join_[b] ? 1U : 0U;
      count += flow_.blocks[b].end - flow_.blocks[b].begin;
    }
    for (const DraftInst& inst : draft_.code) ext_count += inst.ext.size();
    // Both get their final size now: instructions point into them.
    program_->code.resize(count);
    program_->strong.assign(count, false);
    program_->ext.resize(ext_count);
    size_t at = 0;
    size_t ext_at = 0;
    uint32_t steps = 0;
    for (uint32_t b = 0; b < flow_.blocks.size(); ++b) {
      if (has_join_[b]) {
        exec::Inst& inst = program_->code[at++];
        inst.fn = join->handler;
        inst.steps = steps + 1;
        inst.location = draft_.code[flow_.blocks[b].begin].location;
        steps = 0;
      }
      for (uint32_t k = flow_.blocks[b].begin; k < flow_.blocks[b].end; ++k) {
        program_->strong[at] = draft_.code[k].strong;
        exec::Inst& inst = program_->code[at++];
        const DraftInst& draft = draft_.code[k];
        ++steps;
        Translate(draft, &ext_at, &inst);
        if (draft.flow == Flow::kNone) continue;
        inst.steps = steps;
        steps = 0;
        if (draft.flow != Flow::kJump) continue;
        inst.target = &program_->code[start[flow_.block_of[draft.target]]];
        const uint32_t meet = flow_.post_dominator[b];
        if (draft.IsGuarded() && meet != ControlFlow::kNone) {
          inst.reconverge = &program_->code[start[meet]];
        }
      }
    }
  }

  void Translate(const DraftInst& draft, size_t* ext_at, exec::Inst* inst) {
    inst->fn = draft.form->handler;
    inst->imm = draft.imm;
    inst->location = draft.location;
    if (draft.IsGuarded()) {
      inst->guard = slots_.of[draft.guard];
      inst->invert = draft.guard_negated ? 0xffffffff : 0;
    }
    uint32_t* const fields[] = {&inst->dst, &inst->a, &inst->b,
                                &inst->c,   &inst->d, &inst->e};
    for (size_t k = 0; k < draft.form->operands.size(); ++k) {
      const auto kind = draft.form->operands[k].kind;
      if (kind == exec::OperandSpec::Kind::kLiteral) continue;
      *fields[k] = kind == exec::OperandSpec::Kind::kVector
                       ? draft.fields[k]
                       : slots_.of[draft.fields[k]];
    }
    if (draft.ext.empty()) return;
    inst->ext = &program_->ext[*ext_at];
    for (const uint32_t value : draft.ext) {
      program_->ext[(*ext_at)++] = slots_.of[value];
    }
  }

  void PlaceValues() {
    uint32_t shared = draft_.static_shared_bytes;
    shared = (shared + kDynamicSharedAlign - 1) / kDynamicSharedAlign *
             kDynamicSharedAlign;
    program_->static_shared_bytes = draft_.static_shared_bytes;
    for (uint32_t value = 0; value < draft_.values.size(); ++value) {
      const Value& from = draft_.values[value];
      if (slots_.of[value] == 0) continue;
      if (from.kind == Value::Kind::kSpecial) {
        program_->specials.push_back({slots_.of[value], from.special});
      } else if (from.kind == Value::Kind::kConstant) {
        exec::ConstantSlot constant;
        constant.slot = slots_.of[value];
        constant.bytes = from.reg_class == RegClass::kPred ? 0
                         : from.reg_class == RegClass::k16 ? 2
                         : from.reg_class == RegClass::k32 ? 4
                                                           : 8;
        constant.value = from.constant;
        if (from.is_dynamic_shared) {
          constant.value += shared;
          program_->static_shared_bytes = shared;
        }
        program_->constants.push_back(constant);
      }
    }
    program_->register_bytes = slots_.bytes;
    program_->registers_per_thread = std::min(slots_.words_per_thread, 255U);
    program_->local_bytes = draft_.local_bytes;
    program_->order_sensitive = draft_.order_sensitive;
  }

  const Draft& draft_;
  const ControlFlow& flow_;
  const Slots& slots_;
  exec::Program* program_;
  std::vector<bool> has_join_;
};

}  // namespace

std::unique_ptr<exec::Program> Assemble(Draft draft, std::string* error) {
  ControlFlow flow;
  if (!AnalyzeControlFlow(&draft, &flow, error)) return nullptr;
  Slots slots;
  if (!AssignSlots(draft, flow, &slots, error)) return nullptr;
  auto program = std::make_unique<exec::Program>();
  Assembler(draft, flow, slots, program.get()).Run();
  return program;
}

}  // namespace softcuda::ptx
