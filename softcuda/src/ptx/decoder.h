// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_PTX_DECODER_H_
#define SOFTCUDA_PTX_DECODER_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "exec/form_table.h"
#include "ptx/draft.h"
#include "ptx/syntax.h"

namespace softcuda::ptx {

/// Addresses of a module's `.global` and `.const` variables.
using SymbolAddresses = std::unordered_map<std::string, uint64_t>;

/// Turns one `.entry` into instructions of the form table. Called functions are
/// copied into their callers, so a kernel is one piece of code in the end.
class Decoder {
 public:
  Decoder(const Syntax& syntax, const SymbolAddresses& symbols)
      : syntax_(syntax), symbols_(symbols) {}

  /// False with a text in `error` that names the kernel, the opcode form and
  /// the source line.
  bool Decode(const Function& kernel, Draft* draft, std::string* error);

  /// The parameters' places in the parameter space.
  static std::vector<uint32_t> ParamOffsets(const Function& kernel,
                                            uint32_t* bytes);

 private:
  // One function's body being copied: what its names mean there.
  struct Frame {
    const Function* function = nullptr;
    std::vector<uint32_t> registers;  // value of each register
    std::vector<uint64_t> variables;  // address in its space
    std::vector<bool> variable_known;
    uint32_t first_label = 0;
    uint32_t return_label = kNoValue;  // kNoValue: ret is exit
    int depth = 0;
  };

  struct Conversion {
    uint32_t from = 0;
    uint32_t to = 0;
    bool sign_extends = false;
  };

  bool Fail(const std::string& what);
  bool FailOperands();

  bool DecodeFunction(Frame* frame);
  bool DecodeInstruction(const Instruction& instruction);
  bool DecodeControl(const Instruction& instruction, bool* done);
  bool DecodeJump(const Instruction& instruction);
  bool DecodeJumpTable(const Instruction& instruction);
  bool DecodeCall(const Instruction& instruction);
  bool DecodeMove(const Instruction& instruction, bool* done);

  const exec::Form* FindForm(const std::string& text, bool has_pair,
                             size_t operand_count);
  bool Emit(const exec::Form& form, const Instruction& instruction);
  bool BindOperand(const exec::OperandSpec& spec, const Operand& operand,
                   size_t index, DraftInst* inst);
  bool BindScalar(const exec::OperandSpec& spec, const Operand& operand,
                  uint32_t* value);
  bool BindAddress(const exec::OperandSpec& spec, const Operand& operand,
                   size_t index, DraftInst* inst);
  bool SourceValue(const Operand& operand, uint8_t bytes, uint32_t* value);
  bool LiteralValue(const Operand& operand, uint8_t bytes, uint32_t* value);
  bool SpecialValue(const Operand& operand, uint32_t* value);
  bool SymbolValue(const Operand& operand, uint8_t bytes, uint32_t* value);
  bool VariableAddress(uint32_t index, uint64_t* address);
  void AppendResize(uint32_t from, uint32_t to, bool sign_extends);
  bool IsLocalParam(const Operand& operand) const;

  uint32_t NewValue(RegClass reg_class);
  uint32_t Constant(uint64_t bits, uint8_t bytes,
                    bool is_dynamic_shared = false);
  uint32_t Carry();
  uint32_t NewLabel();
  void PlaceLabel(uint32_t label);
  DraftInst* Append(const char* form);
  bool PlaceShared(const Variable& variable, const std::string& key,
                   uint64_t* offset);
  bool PlaceLocal(const Variable& variable, uint64_t* offset);
  static uint8_t BytesOf(RegClass reg_class);
  static RegClass ClassOf(uint8_t bytes);

  const Syntax& syntax_;
  const SymbolAddresses& symbols_;
  Draft* draft_ = nullptr;
  std::string* error_ = nullptr;
  const Function* kernel_ = nullptr;
  Frame* frame_ = nullptr;
  const Instruction* instruction_ = nullptr;
  std::map<std::pair<uint64_t, uint32_t>, uint32_t> constants_;
  std::map<std::string, uint32_t> specials_;
  std::unordered_map<std::string, uint64_t> shared_offsets_;
  std::vector<std::string> call_stack_;
  // Conversions of destinations, to be emitted behind the instruction.
  std::vector<Conversion> after_;
  uint32_t carry_ = kNoValue;
  bool imm_used_ = false;
};

}  // namespace softcuda::ptx

#endif  // SOFTCUDA_PTX_DECODER_H_
