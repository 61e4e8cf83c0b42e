// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ptx/parser_internal.h"

namespace softcuda::ptx {
namespace {

constexpr int kMaxOperandDepth = 8;
constexpr uint64_t kMaxRegisters = uint64_t{1} << 22;

bool IsRegisterNumber(std::string_view digits, uint64_t* value) {
  if (digits.empty() || digits.size() > 9) return false;
  if (digits.size() > 1 && digits[0] == '0') return false;
  *value = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return false;
    *value = *value * 10 + static_cast<uint64_t>(c - '0');
  }
  return true;
}

}  // namespace

bool Parser::ParseBody() {
  location_ = 0;
  scope_ = 0;
  function_->scopes.emplace_back();
  for (const auto* list : {&function_->returns, &function_->params}) {
    for (const Variable& variable : *list) {
      function_->scopes[0].variables[variable.name] =
          static_cast<uint32_t>(function_->variables.size());
      function_->variables.push_back(variable);
    }
  }
  if (!Expect('{')) return false;
  int depth = 1;
  while (depth > 0) {
    if (Peek().kind == TokenKind::kEnd) return Fail("expected '}'");
    if (Accept('{')) {
      ++depth;
      Scope scope;
      scope.parent = scope_;
      scope_ = static_cast<uint32_t>(function_->scopes.size());
      function_->scopes.push_back(std::move(scope));
    } else if (Accept('}')) {
      --depth;
      scope_ = function_->scopes[scope_].parent;
    } else if (!ParseStatement()) {
      return false;
    }
  }
  ResolveNames();
  return true;
}

bool Parser::ParseStatement() {
  if (Accept(';')) return true;
  if (At('@')) return ParseInstruction();
  if (Peek().kind == TokenKind::kWord) {
    return At(':', 1) ? ParseLabel() : ParseInstruction();
  }
  if (AtDot(".reg")) return ParseRegisters();
  if (AtDot(".loc")) return ParseLocation();
  if (AtDot(".pragma")) return SkipStatement();
  if (AtDot(".file")) return ParseFile();
  static constexpr std::pair<std::string_view, Space> kSpaces[] = {
      {".local", Space::kLocal},
      {".shared", Space::kShared},
      {".param", Space::kParam},
      {".const", Space::kConst},
      {".global", Space::kGlobal}};
  for (const auto& [word, space] : kSpaces) {
    if (!AtDot(word)) continue;
    Take();
    if (space == Space::kGlobal || space == Space::kConst) {
      return Fail("a function cannot declare such a variable");
    }
    const size_t first = function_->variables.size();
    if (!ParseVariables(space, false, &function_->variables, false)) {
      return false;
    }
    for (size_t i = first; i < function_->variables.size(); ++i) {
      function_->scopes[scope_].variables[function_->variables[i].name] =
          static_cast<uint32_t>(i);
    }
    return true;
  }
  return Fail("expected an instruction or a declaration");
}

bool Parser::ParseRegisters() {
  Take();
  if (Peek().kind == TokenKind::kDotWord && Peek().text[1] == 'v') {
    return Fail("vector registers are not supported");
  }
  Type type;
  if (!ParseType(&type)) return false;
  if (type.bytes > 8) return Fail("128-bit registers are not supported");
  const RegClass reg_class = type.bytes == 0   ? RegClass::kPred
                             : type.bytes <= 2 ? RegClass::k16
                             : type.bytes == 4 ? RegClass::k32
                                               : RegClass::k64;
  Scope& scope = function_->scopes[scope_];
  do {
    if (Peek().kind != TokenKind::kWord) return Fail("expected a register");
    const std::string_view name = Take().text;
    if (Accept('<')) {
      uint64_t count = 0;
      if (!TakeUnsigned(~uint64_t{0}, "a register count", &count) ||
          !Expect('>')) {
        return false;
      }
      scope.ranges.push_back({name, {count, reg_class}});
    } else {
      if (function_->registers.size() >= kMaxRegisters) {
        return Fail("more than 2^22 registers");
      }
      scope.registers[name] =
          static_cast<uint32_t>(function_->registers.size());
      function_->registers.push_back(reg_class);
    }
  } while (Accept(','));
  return Expect(';');
}

bool Parser::FindRegister(std::string_view name, uint32_t* index) {
  for (uint32_t at = scope_;; at = function_->scopes[at].parent) {
    Scope& scope = function_->scopes[at];
    const auto found = scope.registers.find(name);
    if (found != scope.registers.end()) {
      *index = found->second;
      return true;
    }
    for (const auto& [prefix, range] : scope.ranges) {
      uint64_t number = 0;
      if (name.size() <= prefix.size() ||
          name.substr(0, prefix.size()) != prefix ||
          !IsRegisterNumber(name.substr(prefix.size()), &number) ||
          number >= range.first ||
          function_->registers.size() >= kMaxRegisters) {
        continue;
      }
      *index = static_cast<uint32_t>(function_->registers.size());
      function_->registers.push_back(range.second);
      scope.registers[name] = *index;
      return true;
    }
    if (at == 0) return false;
  }
}

uint32_t Parser::AddLocation(uint64_t file, uint64_t line, uint64_t column,
                             uint32_t inlined_at) {
  exec::SourceLocation location;
  location.file = static_cast<uint32_t>(file);
  location.line = static_cast<uint32_t>(line);
  location.column = static_cast<uint32_t>(column);
  location.inlined_at = inlined_at;
  const uint32_t index = static_cast<uint32_t>(syntax_->locations.size());
  syntax_->locations.push_back(location);
  latest_location_[{file, line, column}] = index;
  return index;
}

bool Parser::ParseLocation() {
  constexpr uint64_t kMax = 0xffffffff;
  Take();
  uint64_t file = 0;
  uint64_t line = 0;
  uint64_t column = 0;
  if (!TakeUnsigned(kMax, ".loc", &file) ||
      !TakeUnsigned(kMax, ".loc", &line) ||
      !TakeUnsigned(kMax, ".loc", &column)) {
    return false;
  }
  uint32_t inlined_at = 0;
  while (Accept(',')) {
    const std::string_view word =
        Peek().kind == TokenKind::kWord ? Take().text : std::string_view();
    uint64_t ignored = 0;
    if (word == "function_name") {
      if (Peek().kind != TokenKind::kWord) return Fail("expected a label");
      Take();
      if (Accept('+') && !TakeUnsigned(kMax, "an offset", &ignored)) {
        return false;
      }
    } else if (word == "inlined_at") {
      uint64_t at[3] = {};
      for (uint64_t& part : at) {
        if (!TakeUnsigned(kMax, "inlined_at", &part)) return false;
      }
      // The call site's own .loc came before, with its own call site.
      const auto found = latest_location_.find({at[0], at[1], at[2]});
      inlined_at = found != latest_location_.end()
                       ? found->second
                       : AddLocation(at[0], at[1], at[2], 0);
    } else if (Peek().kind == TokenKind::kWord ||
               Peek().kind == TokenKind::kInteger) {
      Take();
    } else {
      return Fail("unknown part of .loc");
    }
  }
  location_ = AddLocation(file, line, column, inlined_at);
  if (function_ != nullptr && function_->location == 0) {
    function_->location = location_;
  }
  return true;
}

bool Parser::ParseLabel() {
  const std::string_view name = Take().text;
  Take();
  Scope& scope = function_->scopes[scope_];
  if (AtDot(".branchtargets")) {
    Take();
    std::vector<std::string_view>& targets = scope.branch_targets[name];
    do {
      if (Peek().kind != TokenKind::kWord) return Fail("expected a label");
      targets.push_back(Take().text);
    } while (Accept(','));
    return Expect(';');
  }
  if (AtDot(".callprototype") || AtDot(".calltargets")) return SkipStatement();
  if (scope.labels.count(name) != 0) return Fail("label declared twice");
  scope.labels[name] = static_cast<uint32_t>(function_->labels.size());
  function_->labels.push_back(static_cast<uint32_t>(function_->body.size()));
  return true;
}

bool Parser::ParseInstruction() {
  Instruction instruction;
  instruction.line = Peek().line;
  instruction.location = location_;
  instruction.scope = scope_;
  if (Accept('@')) {
    instruction.has_guard = true;
    instruction.guard_negated = Accept('!');
    if (Peek().kind != TokenKind::kWord ||
        !FindRegister(Peek().text, &instruction.guard) ||
        function_->registers[instruction.guard] != RegClass::kPred) {
      return Fail("a guard must be a predicate register");
    }
    Take();
  }
  if (Peek().kind != TokenKind::kWord) return Fail("expected an opcode");
  instruction.opcode = Take().text;
  if (!Accept(';')) {
    do {
      Operand operand;
      if (!ParseOperand(0, &operand)) return false;
      instruction.operands.push_back(std::move(operand));
      if (Accept('|')) {
        if (!ParseOperand(0, &operand)) return false;
        if (instruction.has_pair || instruction.operands.size() != 1) {
          return Fail("only the first operand can be a pair");
        }
        instruction.has_pair = true;
        instruction.operands.push_back(std::move(operand));
      }
    } while (Accept(','));
    if (!Expect(';')) return false;
  }
  function_->body.push_back(std::move(instruction));
  return true;
}

bool Parser::ParseOperandList(char close, int depth, Operand* operand) {
  if (Accept(close)) return true;
  do {
    Operand element;
    if (!ParseOperand(depth + 1, &element)) return false;
    operand->elements.push_back(std::move(element));
  } while (Accept(','));
  return Expect(close);
}

bool Parser::ParseOperand(int depth, Operand* operand) {
  *operand = Operand();
  if (depth > kMaxOperandDepth) return Fail("operands nested too deeply");
  if (Accept('{')) {
    operand->kind = Operand::Kind::kVector;
    return ParseOperandList('}', depth, operand);
  }
  if (Accept('(')) {
    operand->kind = Operand::Kind::kVector;
    return ParseOperandList(')', depth, operand);
  }
  if (Accept('[')) {
    operand->kind = Operand::Kind::kAddress;
    if (!ParseOperandList(']', depth, operand)) return false;
    // An offset was read as part of the base; an absolute address is all
    // offset.
    if (!operand->elements.empty()) {
      Operand& base = operand->elements[0];
      operand->bits = base.bits;
      if (base.kind == Operand::Kind::kInteger) {
        operand->elements.erase(operand->elements.begin());
      } else {
        base.bits = 0;
      }
    }
    return true;
  }
  if (Accept('!')) {
    if (!ParseOperand(depth + 1, operand)) return false;
    if (operand->kind != Operand::Kind::kRegister ||
        function_->registers[operand->index] != RegClass::kPred) {
      return Fail("'!' needs a predicate register");
    }
    operand->negated = !operand->negated;
    return true;
  }
  const bool negative = Accept('-');
  if (Peek().kind == TokenKind::kInteger) {
    operand->kind = Operand::Kind::kInteger;
    operand->bits = Take().bits;
    if (negative) operand->bits = ~operand->bits + 1;
    return true;
  }
  if (Peek().kind == TokenKind::kFloat) {
    const Token& token = Take();
    operand->kind = Operand::Kind::kFloat;
    operand->is_single = token.is_single;
    operand->bits = token.bits;
    if (negative) {
      operand->bits ^= token.is_single ? uint64_t{1} << 31 : uint64_t{1} << 63;
    }
    return true;
  }
  if (!negative && Peek().kind == TokenKind::kWord) {
    return ParseWordOperand(depth, operand);
  }
  return Fail("expected an operand");
}

bool Parser::ParseWordOperand(int depth, Operand* operand) {
  const std::string_view name = Take().text;
  if (name == "_") {
    operand->kind = Operand::Kind::kSink;
    return true;
  }
  operand->name = name;
  if (FindRegister(name, &operand->index)) {
    operand->kind = Operand::Kind::kRegister;
    // A register takes an offset only as the base of an address.
    if (depth == 0) return true;
  } else {
    operand->kind = Operand::Kind::kName;
  }
  if (At('+') || At('-')) {
    bool minus = Take().punct == '-';
    if (Accept('-')) minus = !minus;
    uint64_t offset = 0;
    if (!TakeUnsigned(~uint64_t{0}, "an offset", &offset)) return false;
    operand->bits = minus ? ~offset + 1 : offset;
  }
  return true;
}

void Parser::Resolve(uint32_t scope, Operand* operand) {
  for (Operand& element : operand->elements) Resolve(scope, &element);
  if (operand->kind != Operand::Kind::kName) return;
  for (uint32_t at = scope;; at = function_->scopes[at].parent) {
    const Scope& names = function_->scopes[at];
    const auto variable = names.variables.find(std::string(operand->name));
    if (variable != names.variables.end()) {
      operand->kind = Operand::Kind::kVariable;
      operand->index = variable->second;
      return;
    }
    const auto label = names.labels.find(operand->name);
    if (label != names.labels.end()) {
      operand->kind = Operand::Kind::kLabel;
      operand->index = label->second;
      return;
    }
    if (at == 0) return;
  }
}

void Parser::ResolveNames() {
  for (Instruction& instruction : function_->body) {
    for (Operand& operand : instruction.operands) {
      Resolve(instruction.scope, &operand);
    }
  }
}

}  // namespace softcuda::ptx
