// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_EXEC_FORM_TABLE_H_
#define SOFTCUDA_EXEC_FORM_TABLE_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "exec/program.h"

namespace softcuda::exec {

/// One operand of an opcode form.
struct OperandSpec {
  enum class Kind : uint8_t {
    kScalar,   ///< register, literal, special register or symbol
    kVector,   ///< `{...}` of `count` scalars, in Inst::ext
    kAddress,  ///< `[base+offset]`: slot of the base, offset in Inst::imm
    kLiteral,  ///< an integer literal, in Inst::imm
    kCarry,    ///< the carry flags; not in the text
  };
  Kind kind = Kind::kScalar;
  bool is_destination = false;
  bool sign_extends = false;  ///< into a register wider than `bytes`
  uint8_t bytes = 0;          ///< 2, 4 or 8; 0 for a predicate
  uint8_t count = 1;
};

/// An opcode form: what runs it and what operands it takes.
struct Form {
  Handler handler = nullptr;
  std::vector<OperandSpec> operands;  ///< in Inst's order: dst, a, b, ...
  int64_t imm = 0;                    ///< for Inst::imm
};

/// The decode table: canonical opcode form -> Form.
///
/// A form is the opcode's text, with `|` behind it when the text has a pair
/// `d|p` as its first operand, or `/n` when it takes n operands and the same
/// opcode exists with another number. Memory forms are canonical without cache
/// hints and orderings: see CanonicalForm.
///
/// Operand notation, one word an operand, in text order: `h`, `r`, `l` a
/// scalar of 16, 32, 64 bits; `H`, `R` the same, signed; `p` a predicate; `4r`
/// a vector of four; `m32`, `m64` an address with a base of that size; `i` a
/// literal; `c` the carry flags; `=` in front of a destination.
class FormTable {
 public:
  /// The table for this machine, built at the first call.
  static const FormTable& Get();

  const Form* Find(const std::string& form) const {
    const auto found = forms_.find(form);
    return found == forms_.end() ? nullptr : &found->second;
  }

  /// Every form, in alphabetical order.
  std::vector<std::string> Names() const;

  void Add(const char* form, Handler handler, const char* operands,
           int64_t imm = 0);
  /// The same for the form `base` + `type`; `?` in `operands` stands for
  /// `scalar`. Plain characters keep library code out of files that are
  /// compiled for more than one instruction set.
  void Add(const char* base, const char* type, Handler handler,
           const char* operands, const char* scalar, int64_t imm = 0);
  /// The same for a form given in pieces.
  void AddParts(std::initializer_list<const char*> form, Handler handler,
                const char* operands, int64_t imm = 0);

 private:
  std::unordered_map<std::string, Form> forms_;
};

}  // namespace softcuda::exec

#endif  // SOFTCUDA_EXEC_FORM_TABLE_H_
