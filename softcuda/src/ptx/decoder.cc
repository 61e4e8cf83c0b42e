// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "ptx/decoder.h"

#include <algorithm>

#include "exec/align.h"
#include "exec/source_lines.h"
#include "ptx/canonical_form.h"

namespace softcuda::ptx {
namespace {

constexpr size_t kMaxInstructions = size_t{1} << 19;

}  // namespace

std::vector<uint32_t> Decoder::ParamOffsets(const Function& kernel,
                                            uint32_t* bytes) {
  std::vector<uint32_t> offsets;
  uint64_t end = 0;
  for (const Variable& param : kernel.params) {
    end = AlignUp(end, param.align);
    offsets.push_back(static_cast<uint32_t>(end));
    end += param.bytes;
  }
  *bytes = static_cast<uint32_t>(end);
  return offsets;
}

bool Decoder::Fail(const std::string& what) {
  std::string text = "kernel '" + kernel_->name + "'";
  if (frame_ != nullptr && frame_->function != kernel_) {
    text += ", function '" + frame_->function->name + "'";
  }
  if (instruction_ != nullptr) {
    text += ", '" + std::string(instruction_->opcode) + "'";
    const exec::SourceLine line = exec::FindSourceLine(
        syntax_.locations, syntax_.files, instruction_->location);
    text += " at ";
    if (!line.file.empty()) {
      text += line.file + ":" + std::to_string(line.line) + ", ";
    }
    text += "line " + std::to_string(instruction_->line) + " of the PTX text";
  }
  *error_ = text + ": " + what;
  return false;
}

bool Decoder::FailOperands() {
  return Fail("the operands do not fit the opcode");
}

uint8_t Decoder::BytesOf(RegClass reg_class) {
  switch (reg_class) {
    case RegClass::kPred:
      return 0;
    case RegClass::k16:
      return 2;
    case RegClass::k32:
      return 4;
    case RegClass::k64:
      return 8;
  }
  return 0;
}

RegClass Decoder::ClassOf(uint8_t bytes) {
  return bytes == 0   ? RegClass::kPred
         : bytes == 2 ? RegClass::k16
         : bytes == 4 ? RegClass::k32
                      : RegClass::k64;
}

uint32_t Decoder::NewValue(RegClass reg_class) {
  Value value;
  value.reg_class = reg_class;
  draft_->values.push_back(value);
  return static_cast<uint32_t>(draft_->values.size() - 1);
}

uint32_t Decoder::Constant(uint64_t bits, uint8_t bytes,
                           bool is_dynamic_shared) {
  if (bytes == 0) bits = bits != 0 ? 0xffffffff : 0;
  if (bytes == 2) bits &= 0xffff;
  if (bytes == 4) bits &= 0xffffffff;
  const auto [found, is_new] =
      constants_.try_emplace({bits, bytes + (is_dynamic_shared ? 16U : 0U)}, 0);
  if (is_new) {
    found->second = NewValue(ClassOf(bytes));
    Value& value = draft_->values[found->second];
    value.kind = Value::Kind::kConstant;
    value.constant = bits;
    value.is_dynamic_shared = is_dynamic_shared;
  }
  return found->second;
}

uint32_t Decoder::Carry() {
  if (carry_ == kNoValue) carry_ = NewValue(RegClass::kPred);
  return carry_;
}

uint32_t Decoder::NewLabel() {
  draft_->labels.push_back(kNoValue);
  return static_cast<uint32_t>(draft_->labels.size() - 1);
}

void Decoder::PlaceLabel(uint32_t label) {
  draft_->labels[label] = static_cast<uint32_t>(draft_->code.size());
}

DraftInst* Decoder::Append(const char* form) {
  DraftInst& inst = draft_->code.emplace_back();
  inst.form = exec::FormTable::Get().Find(form);
  inst.location = instruction_ != nullptr ? instruction_->location
                                          : frame_->function->location;
  return &inst;
}

bool Decoder::Decode(const Function& kernel, Draft* draft, std::string* error) {
  draft_ = draft;
  error_ = error;
  kernel_ = &kernel;
  if (kernel.needs_cluster) {
    return Fail("thread block clusters are not supported");
  }
  Frame frame;
  frame.function = &kernel;
  frame.variables.assign(kernel.variables.size(), 0);
  frame.variable_known.assign(kernel.variables.size(), false);
  uint32_t param_bytes = 0;
  const std::vector<uint32_t> offsets = ParamOffsets(kernel, &param_bytes);
  for (size_t k = 0; k < offsets.size(); ++k) {
    frame.variables[k] = offsets[k];
    frame.variable_known[k] = true;
  }
  if (!DecodeFunction(&frame)) return false;
  // Code that runs off its end exits.
  instruction_ = nullptr;
  frame_ = &frame;
  Append(".exit")->flow = DraftInst::Flow::kExit;
  return true;
}

bool Decoder::DecodeFunction(Frame* frame) {
  Frame* const caller = frame_;
  const Instruction* const call = instruction_;
  frame_ = frame;
  const Function& function = *frame->function;
  call_stack_.push_back(function.name);
  for (const RegClass reg_class : function.registers) {
    frame->registers.push_back(NewValue(reg_class));
  }
  frame->first_label = static_cast<uint32_t>(draft_->labels.size());
  draft_->labels.resize(draft_->labels.size() + function.labels.size(),
                        kNoValue);
  // Labels in text order, to be placed as the body goes by.
  std::vector<uint32_t> by_position(function.labels.size());
  for (uint32_t k = 0; k < by_position.size(); ++k) by_position[k] = k;
  std::stable_sort(by_position.begin(), by_position.end(),
                   [&](uint32_t a, uint32_t b) {
                     return function.labels[a] < function.labels[b];
                   });
  size_t next_label = 0;
  const auto place_labels = [&](size_t position) {
    while (next_label < by_position.size() &&
           function.labels[by_position[next_label]] == position) {
      PlaceLabel(frame->first_label + by_position[next_label++]);
    }
  };
  for (size_t k = 0; k < function.body.size(); ++k) {
    place_labels(k);
    instruction_ = &function.body[k];
    if (draft_->code.size() > kMaxInstructions) {
      return Fail("the kernel has more than 2^19 instructions");
    }
    if (!DecodeInstruction(function.body[k])) return false;
  }
  place_labels(function.body.size());
  call_stack_.pop_back();
  frame_ = caller;
  instruction_ = call;
  return true;
}

const exec::Form* Decoder::FindForm(const std::string& text, bool has_pair,
                                    size_t operand_count) {
  const exec::FormTable& table = exec::FormTable::Get();
  const exec::Form* form = table.Find(has_pair ? text + "|" : text);
  if (form != nullptr) return form;
  return table.Find(text + "/" + std::to_string(operand_count));
}

bool Decoder::IsLocalParam(const Operand& operand) const {
  if (operand.kind != Operand::Kind::kAddress) return false;
  const bool is_entry_frame = frame_->return_label == kNoValue;
  if (operand.elements.empty()) return false;
  const Operand& base = operand.elements[0];
  if (base.kind != Operand::Kind::kVariable) return !is_entry_frame;
  const size_t kernel_params = is_entry_frame ? kernel_->params.size() : 0;
  return base.index >= kernel_params;
}

bool Decoder::DecodeInstruction(const Instruction& instruction) {
  bool done = false;
  if (!DecodeControl(instruction, &done)) return false;
  if (done) return true;
  if (!DecodeMove(instruction, &done)) return false;
  if (done) return true;
  CanonicalForm canonical = Canonicalize(instruction.opcode);
  if (canonical.is_hint) return true;
  draft_->order_sensitive |= canonical.order_sensitive;
  if (canonical.reads_param) {
    // .param variables of functions live in local memory here.
    const size_t address = canonical.text[0] == 'l' ? 1 : 0;
    if (instruction.operands.size() > address &&
        IsLocalParam(instruction.operands[address])) {
      canonical.text.replace(canonical.text.find("param"), 5, "local");
    }
  }
  const exec::Form* form = FindForm(canonical.text, instruction.has_pair,
                                    instruction.operands.size());
  if (form == nullptr) {
    return Fail("the opcode form is not supported by softcuda");
  }
  if (canonical.fence_before) Append(".fence");
  const size_t first = draft_->code.size();
  if (!Emit(*form, instruction)) return false;
  if (canonical.strong) {
    // Emit may surround the access with moves, for which it means nothing.
    for (size_t k = first; k < draft_->code.size(); ++k) {
      draft_->code[k].strong = true;
    }
  }
  if (canonical.fence_after) Append(".fence");
  if (canonical.poll_weight != 0) Append(".poll")->imm = canonical.poll_weight;
  if (instruction.opcode == "trap" && !instruction.has_guard) {
    draft_->code.back().flow = DraftInst::Flow::kDeadEnd;
  }
  return true;
}

bool Decoder::Emit(const exec::Form& form, const Instruction& instruction) {
  DraftInst inst;
  inst.form = &form;
  inst.imm = form.imm;
  inst.location = instruction.location;
  if (instruction.has_guard) {
    inst.guard = frame_->registers[instruction.guard];
    inst.guard_negated = instruction.guard_negated;
  }
  after_.clear();
  imm_used_ = false;
  size_t next = 0;
  for (size_t k = 0; k < form.operands.size(); ++k) {
    if (form.operands[k].kind == exec::OperandSpec::Kind::kCarry) {
      inst.fields[k] = Carry();
      continue;
    }
    if (next >= instruction.operands.size()) return FailOperands();
    if (!BindOperand(form.operands[k], instruction.operands[next++], k,
                     &inst)) {
      return false;
    }
  }
  if (next != instruction.operands.size()) return FailOperands();
  const uint32_t guard = inst.guard;
  const bool guard_negated = inst.guard_negated;
  draft_->code.push_back(std::move(inst));
  for (const Conversion& conversion : after_) {
    AppendResize(conversion.from, conversion.to, conversion.sign_extends);
    draft_->code.back().guard = guard;
    draft_->code.back().guard_negated = guard_negated;
  }
  return true;
}

}  // namespace softcuda::ptx
