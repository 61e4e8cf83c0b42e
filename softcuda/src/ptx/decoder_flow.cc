// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Jumps, calls and the packing forms of mov.
#include <algorithm>

#include "ptx/decoder.h"

namespace softcuda::ptx {
namespace {

constexpr int kMaxCallDepth = 32;

bool IsVector(const Operand& operand) {
  return operand.kind == Operand::Kind::kVector;
}

}  // namespace

bool Decoder::DecodeControl(const Instruction& instruction, bool* done) {
  const std::string_view opcode = instruction.opcode;
  *done = true;
  const auto guarded = [&](DraftInst* inst) {
    if (!instruction.has_guard) return;
    inst->guard = frame_->registers[instruction.guard];
    inst->guard_negated = instruction.guard_negated;
  };
  if (opcode == "bra" || opcode == "bra.uni") return DecodeJump(instruction);
  if (opcode == "brx.idx" || opcode == "brx.idx.uni") {
    return DecodeJumpTable(instruction);
  }
  if (opcode == "exit" || opcode == "ret" || opcode == "ret.uni") {
    if (!instruction.operands.empty()) return FailOperands();
    if (opcode != "exit" && frame_->return_label != kNoValue) {
      DraftInst* inst = Append(".jump");
      inst->flow = DraftInst::Flow::kJump;
      inst->target = frame_->return_label;
      guarded(inst);
      return true;
    }
    DraftInst* inst = Append(".exit");
    inst->flow = DraftInst::Flow::kExit;
    guarded(inst);
    return true;
  }
  if (opcode == "call" || opcode == "call.uni") {
    return DecodeCall(instruction);
  }
  *done = false;
  return true;
}

bool Decoder::DecodeJump(const Instruction& instruction) {
  if (instruction.operands.size() != 1 ||
      instruction.operands[0].kind != Operand::Kind::kLabel) {
    return Fail("the target is no label of this function");
  }
  DraftInst* inst = Append(".jump");
  inst->flow = DraftInst::Flow::kJump;
  inst->target = frame_->first_label + instruction.operands[0].index;
  if (instruction.has_guard) {
    inst->guard = frame_->registers[instruction.guard];
    inst->guard_negated = instruction.guard_negated;
  }
  return true;
}

// A jump table becomes a chain of compare and jump: tables are short.
bool Decoder::DecodeJumpTable(const Instruction& instruction) {
  if (instruction.operands.size() != 2 ||
      instruction.operands[1].kind != Operand::Kind::kName) {
    return FailOperands();
  }
  const Function& function = *frame_->function;
  const std::vector<std::string_view>* targets = nullptr;
  for (uint32_t scope = instruction.scope;;
       scope = function.scopes[scope].parent) {
    const auto& tables = function.scopes[scope].branch_targets;
    const auto found = tables.find(instruction.operands[1].name);
    if (found != tables.end()) {
      targets = &found->second;
      break;
    }
    if (scope == 0) return Fail("there is no .branchtargets of that name");
  }
  uint32_t index = 0;
  if (!SourceValue(instruction.operands[0], 4, &index)) return false;
  for (size_t k = 0; k < targets->size(); ++k) {
    Operand target;
    target.kind = Operand::Kind::kName;
    target.name = (*targets)[k];
    uint32_t label = kNoValue;
    for (uint32_t scope = instruction.scope; label == kNoValue;
         scope = function.scopes[scope].parent) {
      const auto& labels = function.scopes[scope].labels;
      const auto found = labels.find(target.name);
      if (found != labels.end()) label = found->second;
      if (scope == 0) break;
    }
    if (label == kNoValue) return Fail("a branch target is no label");
    const uint32_t constant = Constant(k, 4);
    const uint32_t equal = NewValue(RegClass::kPred);
    DraftInst* compare = Append("setp.eq.u32");
    compare->fields[0] = equal;
    compare->fields[1] = index;
    compare->fields[2] = constant;
    uint32_t taken = equal;
    if (instruction.has_guard) {
      uint32_t guard = frame_->registers[instruction.guard];
      if (instruction.guard_negated) {
        const uint32_t negated = NewValue(RegClass::kPred);
        DraftInst* inst = Append("not.pred");
        inst->fields[0] = negated;
        inst->fields[1] = guard;
        guard = negated;
      }
      taken = NewValue(RegClass::kPred);
      DraftInst* both = Append("and.pred");
      both->fields[0] = taken;
      both->fields[1] = equal;
      both->fields[2] = guard;
    }
    DraftInst* jump = Append(".jump");
    jump->flow = DraftInst::Flow::kJump;
    jump->target = frame_->first_label + label;
    jump->guard = taken;
  }
  return true;
}

bool Decoder::DecodeCall(const Instruction& instruction) {
  const std::vector<Operand>& operands = instruction.operands;
  size_t at = 0;
  const Operand* results = nullptr;
  const Operand* arguments = nullptr;
  if (at < operands.size() && IsVector(operands[at])) {
    results = &operands[at++];
  }
  if (at >= operands.size() || operands[at].kind != Operand::Kind::kName) {
    return Fail("only direct calls are supported");
  }
  const std::string_view name = operands[at++].name;
  if (at < operands.size() && IsVector(operands[at])) {
    arguments = &operands[at++];
  }
  if (at != operands.size()) return Fail("only direct calls are supported");
  if (name == "__assertfail") {
    DraftInst* inst = Append(".assert");
    if (instruction.has_guard) {
      inst->guard = frame_->registers[instruction.guard];
      inst->guard_negated = instruction.guard_negated;
    } else {
      inst->flow = DraftInst::Flow::kDeadEnd;
    }
    return true;
  }
  if (name == "vprintf") return Fail("printf on the device is not supported");
  const Function* callee = syntax_.FindFunction(name);
  if (callee == nullptr || !callee->has_body || callee->is_entry) {
    return Fail("there is no body for the function '" + std::string(name) +
                "'");
  }
  if (std::find(call_stack_.begin(), call_stack_.end(), callee->name) !=
      call_stack_.end()) {
    return Fail("recursive calls are not supported");
  }
  if (frame_->depth >= kMaxCallDepth) return Fail("calls nested too deeply");
  const size_t result_count = results != nullptr ? results->elements.size() : 0;
  const size_t argument_count =
      arguments != nullptr ? arguments->elements.size() : 0;
  if (result_count != callee->returns.size() ||
      argument_count != callee->params.size()) {
    return Fail("the call does not match the function's parameters");
  }

  Frame frame;
  frame.function = callee;
  frame.depth = frame_->depth + 1;
  frame.variables.assign(callee->variables.size(), 0);
  frame.variable_known.assign(callee->variables.size(), false);
  // A parameter of the callee is the caller's variable itself.
  for (size_t k = 0; k < result_count + argument_count; ++k) {
    const Operand& actual = k < result_count
                                ? results->elements[k]
                                : arguments->elements[k - result_count];
    if (actual.kind != Operand::Kind::kVariable ||
        frame_->function->variables[actual.index].space != Space::kParam ||
        frame_->function->variables[actual.index].bytes <
            callee->variables[k].bytes ||
        (frame_->return_label == kNoValue &&
         actual.index < kernel_->params.size())) {
      return Fail("arguments must be .param variables of the caller");
    }
    if (!VariableAddress(actual.index, &frame.variables[k])) return false;
    frame.variable_known[k] = true;
  }
  frame.return_label = NewLabel();
  uint32_t skip_label = kNoValue;
  if (instruction.has_guard) {
    skip_label = NewLabel();
    DraftInst* skip = Append(".jump");
    skip->flow = DraftInst::Flow::kJump;
    skip->target = skip_label;
    skip->guard = frame_->registers[instruction.guard];
    skip->guard_negated = !instruction.guard_negated;
  }
  if (!DecodeFunction(&frame)) return false;
  PlaceLabel(frame.return_label);
  if (skip_label != kNoValue) PlaceLabel(skip_label);
  return true;
}

bool Decoder::DecodeMove(const Instruction& instruction, bool* done) {
  *done = false;
  if (instruction.opcode.substr(0, 4) != "mov." ||
      instruction.operands.size() != 2) {
    return true;
  }
  const bool packs = IsVector(instruction.operands[1]);
  const bool unpacks = IsVector(instruction.operands[0]);
  if (packs == unpacks) return true;
  const Operand& parts = instruction.operands[packs ? 1 : 0];
  // The type's letter does not matter for moving bits.
  const size_t digits = instruction.opcode.find_last_not_of("0123456789") + 1;
  const std::string text = std::string(packs ? "mov.pack.b" : "mov.unpack.b") +
                           std::string(instruction.opcode.substr(digits)) +
                           "." + std::to_string(parts.elements.size());
  const exec::Form* form = exec::FormTable::Get().Find(text);
  if (form == nullptr) {
    return Fail("the opcode form is not supported by softcuda");
  }
  *done = true;
  return Emit(*form, instruction);
}

}  // namespace softcuda::ptx
