// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_PTX_SYNTAX_H_
#define SOFTCUDA_PTX_SYNTAX_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "exec/program.h"

namespace softcuda::ptx {

/// Storage class of a register, which is all the interpreter knows of its
/// type. 8-bit registers are kept in 16 bits.
enum class RegClass : uint8_t { kPred, k16, k32, k64 };

/// What an operand text says. Names that are not registers stay names until the
/// function is complete, because labels are used before they are declared.
struct Operand {
  enum class Kind : uint8_t {
    kRegister,
    kInteger,
    kFloat,
    kName,      ///< special register, variable, label or function
    kVariable,  ///< resolved: `index` into Function::variables
    kLabel,     ///< resolved: `index` into Function::labels
    kAddress,   ///< `[base + offset]`; `elements[0]` is the base, if any
    kVector,    ///< `{a, b, ...}`
    kSink,      ///< `_`
  };
  Kind kind = Kind::kInteger;
  bool negated = false;    ///< `!%p`
  bool is_single = false;  ///< of kFloat
  uint32_t index = 0;      ///< register, variable or label
  uint64_t bits = 0;       ///< value of a literal; offset of kAddress or kName
  std::string_view name;
  std::vector<Operand> elements;
};

struct Instruction {
  std::string_view opcode;  ///< whole form: `ld.global.v2.u32`
  bool has_guard = false;
  bool guard_negated = false;
  uint32_t guard = 0;  ///< register
  uint32_t line = 0;   ///< of the PTX text
  uint32_t location = 0;
  uint32_t scope = 0;
  std::vector<Operand> operands;
  /// `d|p` writes its second destination as an extra operand after `d`.
  bool has_pair = false;
};

enum class Space : uint8_t { kGlobal, kConst, kShared, kLocal, kParam };

struct Relocation {
  uint32_t offset = 0;  ///< in the variable
  std::string_view symbol;
  int64_t addend = 0;
};

struct Variable {
  Space space = Space::kGlobal;
  std::string name;
  uint32_t align = 1;
  uint64_t bytes = 0;
  bool is_extern = false;
  std::vector<uint8_t> initial;  ///< may be shorter than `bytes`
  std::vector<Relocation> relocations;
};

struct Scope {
  uint32_t parent = 0;  ///< scope 0 is its own parent
  std::unordered_map<std::string_view, uint32_t> registers;
  /// `%r<10>` declares %r0..%r9, each created when it is first named.
  std::vector<std::pair<std::string_view, std::pair<uint64_t, RegClass>>>
      ranges;
  std::unordered_map<std::string, uint32_t> variables;
  std::unordered_map<std::string_view, uint32_t> labels;
  std::unordered_map<std::string_view, std::vector<std::string_view>>
      branch_targets;
};

struct Function {
  std::string name;
  bool is_entry = false;
  bool has_body = false;
  uint32_t line = 0;
  std::vector<Variable> returns;
  std::vector<Variable> params;
  std::vector<RegClass> registers;
  std::vector<Variable> variables;
  std::vector<Instruction> body;
  std::vector<uint32_t> labels;  ///< position in `body`
  std::vector<Scope> scopes;
  uint32_t location = 0;  ///< first .loc of the body
  uint32_t max_threads = 0;
  bool needs_cluster = false;
};

/// A parsed module; views point into the text it was parsed from.
struct Syntax {
  uint32_t version_major = 0;
  uint32_t version_minor = 0;
  std::string target;
  std::vector<Variable> variables;
  std::vector<Function> functions;
  std::vector<exec::SourceLocation> locations;
  std::vector<std::string> files;  ///< by .file number

  const Function* FindFunction(std::string_view name) const;
};

}  // namespace softcuda::ptx

#endif  // SOFTCUDA_PTX_SYNTAX_H_
