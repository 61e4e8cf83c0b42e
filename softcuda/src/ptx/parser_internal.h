// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_PTX_PARSER_INTERNAL_H_
#define SOFTCUDA_PTX_PARSER_INTERNAL_H_

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "ptx/lexer.h"
#include "ptx/syntax.h"

namespace softcuda::ptx {

/// Recursive descent over the tokens. The module level and declarations are in
/// parser.cc, function bodies in parser_body.cc.
class Parser {
 public:
  Parser(Syntax* syntax, std::string* error) : syntax_(syntax), error_(error) {}

  bool Run(std::string_view text);

 private:
  struct Type {
    uint32_t bytes = 0;  ///< 0 for .pred
    bool is_float = false;
  };

  const Token& Peek(size_t ahead = 0) const {
    const size_t at = at_ + ahead;
    return tokens_[at < tokens_.size() ? at : tokens_.size() - 1];
  }
  const Token& Take() {
    const Token& token = Peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool At(char punct, size_t ahead = 0) const {
    return Peek(ahead).kind == TokenKind::kPunct && Peek(ahead).punct == punct;
  }
  bool AtDot(std::string_view word) const {
    return Peek().kind == TokenKind::kDotWord && Peek().text == word;
  }
  bool Accept(char punct) {
    if (!At(punct)) return false;
    Take();
    return true;
  }
  bool Expect(char punct);
  bool Fail(const std::string& what);
  bool TakeUnsigned(uint64_t limit, const char* what, uint64_t* value);

  // parser.cc
  bool ParseModuleItem();
  bool ParseVersion();
  bool ParseFile();
  bool SkipBraces();
  bool SkipStatement();
  bool ParseFunction(bool is_entry);
  bool ParseParams(std::vector<Variable>* params);
  bool ParsePerformanceDirectives(Function* function);
  bool ParseDimensions(uint64_t* product);
  bool ParseVariables(Space space, bool is_extern,
                      std::vector<Variable>* variables, bool is_param);
  bool ParseVariableTail(Space space, bool is_extern, bool is_param,
                         uint32_t align, const Type& type, Variable* variable);
  bool ParseInitializer(const Type& type, Variable* variable);
  bool ParseInitialValue(const Type& type, Variable* variable);
  bool ParseType(Type* type);

  // parser_body.cc
  bool ParseBody();
  bool ParseStatement();
  bool ParseRegisters();
  bool ParseLocation();
  bool ParseLabel();
  bool ParseInstruction();
  bool ParseOperand(int depth, Operand* operand);
  bool ParseOperandList(char close, int depth, Operand* operand);
  bool ParseWordOperand(int depth, Operand* operand);
  bool FindRegister(std::string_view name, uint32_t* index);
  void ResolveNames();
  void Resolve(uint32_t scope, Operand* operand);
  uint32_t AddLocation(uint64_t file, uint64_t line, uint64_t column,
                       uint32_t inlined_at);

  Syntax* syntax_;
  std::string* error_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  Function* function_ = nullptr;
  uint32_t scope_ = 0;
  uint32_t location_ = 0;
  std::map<std::tuple<uint64_t, uint64_t, uint64_t>, uint32_t> latest_location_;
};

}  // namespace softcuda::ptx

#endif  // SOFTCUDA_PTX_PARSER_INTERNAL_H_
