// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "ptx/parser.h"

#include <bit>
#include <cstring>

#include "ptx/parser_internal.h"

namespace softcuda::ptx {
namespace {

// No device has more; it keeps sums of sizes far from overflow.
constexpr uint64_t kMaxVariableBytes = uint64_t{1} << 40;
constexpr uint64_t kMaxParamBytes = 32764;

}  // namespace

const Function* Syntax::FindFunction(std::string_view name) const {
  const Function* declared = nullptr;
  for (const Function& function : functions) {
    if (function.name != name) continue;
    if (function.has_body) return &function;
    declared = &function;
  }
  return declared;
}

bool Parser::Fail(const std::string& what) {
  *error_ = "line " + std::to_string(Peek().line) + " of the PTX text";
  if (function_ != nullptr) *error_ += ", in " + function_->name;
  *error_ += ": " + what;
  if (Peek().kind == TokenKind::kEnd) {
    *error_ += ", at the end of the text";
  } else {
    *error_ += ", at '" + std::string(Peek().text.substr(0, 80)) + "'";
  }
  return false;
}

bool Parser::Expect(char punct) {
  if (Accept(punct)) return true;
  return Fail(std::string("expected '") + punct + "'");
}

bool Parser::TakeUnsigned(uint64_t limit, const char* what, uint64_t* value) {
  if (Peek().kind != TokenKind::kInteger) {
    return Fail(std::string("expected a number for ") + what);
  }
  if (Peek().bits > limit) {
    return Fail(std::string(what) + " is above " + std::to_string(limit));
  }
  *value = Take().bits;
  return true;
}

bool Parser::Run(std::string_view text) {
  if (!Tokenize(text, &tokens_, error_)) return false;
  syntax_->locations.emplace_back();  // 0 is "no location"
  syntax_->files.emplace_back();
  if (!AtDot(".version")) return Fail("a PTX text starts with .version");
  while (Peek().kind != TokenKind::kEnd) {
    if (!ParseModuleItem()) return false;
  }
  if (syntax_->target.empty()) return Fail("no .target");
  return true;
}

bool Parser::ParseModuleItem() {
  function_ = nullptr;
  if (Accept(';')) return true;
  bool is_extern = false;
  while (AtDot(".visible") || AtDot(".extern") || AtDot(".weak") ||
         AtDot(".common")) {
    is_extern |= Take().text == ".extern";
  }
  if (Peek().kind != TokenKind::kDotWord) return Fail("expected a directive");
  if (AtDot(".version")) return ParseVersion();
  if (AtDot(".target")) {
    Take();
    if (Peek().kind != TokenKind::kWord) return Fail("expected a target");
    syntax_->target = std::string(Take().text);
    while (Accept(',')) Take();
    return true;
  }
  if (AtDot(".address_size")) {
    Take();
    uint64_t bits = 0;
    if (!TakeUnsigned(64, ".address_size", &bits)) return false;
    return bits == 64 || Fail("only .address_size 64 is supported");
  }
  if (AtDot(".file")) return ParseFile();
  if (AtDot(".section")) {
    Take();
    if (Peek().kind == TokenKind::kDotWord) Take();
    return SkipBraces();
  }
  if (AtDot(".pragma") || AtDot(".alias")) return SkipStatement();
  if (AtDot(".loc")) return ParseLocation();
  if (AtDot(".entry") || AtDot(".func")) {
    return ParseFunction(Take().text == ".entry");
  }
  static constexpr std::pair<std::string_view, Space> kSpaces[] = {
      {".global", Space::kGlobal},
      {".const", Space::kConst},
      {".shared", Space::kShared}};
  for (const auto& [word, space] : kSpaces) {
    if (!AtDot(word)) continue;
    Take();
    return ParseVariables(space, is_extern, &syntax_->variables, false);
  }
  return Fail("unknown directive");
}

bool Parser::ParseVersion() {
  Take();
  const std::string text(Peek().text);
  const size_t dot = text.find('.');
  if (Peek().kind != TokenKind::kFloat || dot == std::string::npos ||
      dot == 0 || dot > 3 || text.size() - dot > 3 ||
      text.find_first_not_of("0123456789.") != std::string::npos) {
    return Fail("expected a version such as 9.0");
  }
  syntax_->version_major = static_cast<uint32_t>(std::stoul(text));
  const std::string minor = text.substr(dot + 1);
  syntax_->version_minor =
      minor.empty() ? 0 : static_cast<uint32_t>(std::stoul(minor));
  Take();
  return true;
}

bool Parser::ParseFile() {
  Take();
  uint64_t number = 0;
  if (!TakeUnsigned(1 << 20, ".file", &number)) return false;
  if (Peek().kind != TokenKind::kString) return Fail("expected a file name");
  if (number >= syntax_->files.size()) syntax_->files.resize(number + 1);
  syntax_->files[number] = std::string(Take().text);
  while (Accept(',')) {
    if (!TakeUnsigned(~uint64_t{0}, ".file", &number)) return false;
  }
  return true;
}

bool Parser::SkipBraces() {
  if (!Expect('{')) return false;
  int depth = 1;
  while (depth > 0) {
    if (Peek().kind == TokenKind::kEnd) return Fail("expected '}'");
    if (At('{')) ++depth;
    if (At('}')) --depth;
    Take();
  }
  return true;
}

bool Parser::SkipStatement() {
  while (!At(';')) {
    if (Peek().kind == TokenKind::kEnd) return Fail("expected ';'");
    Take();
  }
  Take();
  return true;
}

bool Parser::ParseType(Type* type) {
  static constexpr std::tuple<std::string_view, uint32_t, bool> kTypes[] = {
      {".pred", 0, false}, {".b8", 1, false},    {".u8", 1, false},
      {".s8", 1, false},   {".b16", 2, false},   {".u16", 2, false},
      {".s16", 2, false},  {".f16", 2, false},   {".bf16", 2, false},
      {".b32", 4, false},  {".u32", 4, false},   {".s32", 4, false},
      {".f32", 4, true},   {".f16x2", 4, false}, {".bf16x2", 4, false},
      {".b64", 8, false},  {".u64", 8, false},   {".s64", 8, false},
      {".f64", 8, true},   {".b128", 16, false}};
  if (Peek().kind == TokenKind::kDotWord) {
    for (const auto& [word, bytes, is_float] : kTypes) {
      if (Peek().text != word) continue;
      Take();
      *type = {bytes, is_float};
      return true;
    }
  }
  return Fail(
      "expected a type (textures, samplers, surfaces and vector "
      "variables are not supported)");
}

bool Parser::ParseVariables(Space space, bool is_extern,
                            std::vector<Variable>* variables, bool is_param) {
  uint64_t align = 0;
  while (AtDot(".align") || AtDot(".attribute")) {
    if (Take().text == ".align") {
      if (!TakeUnsigned(1 << 12, ".align", &align)) return false;
      if (!std::has_single_bit(align)) return Fail(".align is no power of 2");
    } else {
      if (!Expect('(')) return false;
      while (!At(')')) {
        if (Peek().kind == TokenKind::kEnd) return Fail("expected ')'");
        Take();
      }
      Take();
    }
  }
  Type type;
  if (!ParseType(&type)) return false;
  if (type.bytes == 0) return Fail("a variable cannot be a predicate");
  if (is_param && AtDot(".ptr")) {
    // What follows describes the pointee: its .align says nothing about where
    // the parameter lies.
    Take();
    while (AtDot(".align") || AtDot(".global") || AtDot(".const") ||
           AtDot(".shared") || AtDot(".local")) {
      uint64_t pointee_align = 0;
      if (Take().text == ".align" &&
          !TakeUnsigned(1 << 20, ".align", &pointee_align)) {
        return false;
      }
    }
  }
  const uint32_t natural = type.bytes;
  do {
    Variable variable;
    if (!ParseVariableTail(space, is_extern, is_param,
                           align != 0 ? static_cast<uint32_t>(align) : natural,
                           type, &variable)) {
      return false;
    }
    variables->push_back(std::move(variable));
  } while (!is_param && Accept(','));
  return is_param || Expect(';');
}

bool Parser::ParseVariableTail(Space space, bool is_extern, bool is_param,
                               uint32_t align, const Type& type,
                               Variable* variable) {
  if (Peek().kind != TokenKind::kWord) return Fail("expected a name");
  variable->space = space;
  variable->is_extern = is_extern;
  variable->align = align;
  variable->name = std::string(Take().text);
  uint64_t count = 1;
  bool is_open = false;
  while (Accept('[')) {
    if (Accept(']')) {
      is_open = true;
      continue;
    }
    uint64_t extent = 0;
    if (!TakeUnsigned(kMaxVariableBytes, "an array extent", &extent) ||
        !Expect(']')) {
      return false;
    }
    if (extent != 0 && count > kMaxVariableBytes / extent) {
      return Fail("array of more than 2^40 bytes");
    }
    count *= extent;
  }
  variable->bytes = is_open ? 0 : count * type.bytes;
  if (variable->bytes > kMaxVariableBytes) {
    return Fail("array of more than 2^40 bytes");
  }
  if (is_param && variable->bytes > kMaxParamBytes) {
    return Fail("parameter of more than 32764 bytes");
  }
  if (!is_param && Accept('=')) {
    if (space != Space::kGlobal && space != Space::kConst) {
      return Fail("only .global and .const variables can be initialised");
    }
    if (!ParseInitializer(type, variable)) return false;
    if (is_open) {
      variable->bytes = variable->initial.size();
    } else if (variable->initial.size() > variable->bytes) {
      return Fail("more initial values than elements");
    }
  } else if (is_open && space != Space::kShared && !is_extern) {
    return Fail("array without an extent");
  }
  return true;
}

bool Parser::ParseInitializer(const Type& type, Variable* variable) {
  if (!At('{')) return ParseInitialValue(type, variable);
  // Nested braces of a multi-dimensional array are taken as one flat list, so
  // inner lists must be complete, as nvcc writes them.
  int depth = 0;
  do {
    if (Accept('{')) {
      ++depth;
    } else if (Accept('}')) {
      --depth;
    } else if (!Accept(',')) {
      if (!ParseInitialValue(type, variable)) return false;
    }
  } while (depth > 0);
  return true;
}

bool Parser::ParseInitialValue(const Type& type, Variable* variable) {
  const size_t at = variable->initial.size();
  uint64_t bits = 0;
  bool negative = false;
  if (Accept('-')) negative = true;
  if (Peek().kind == TokenKind::kInteger) {
    bits = Take().bits;
    if (negative) bits = ~bits + 1;
    if (type.is_float) {
      const double value = static_cast<double>(static_cast<int64_t>(bits));
      bits = type.bytes == 8
                 ? std::bit_cast<uint64_t>(value)
                 : std::bit_cast<uint32_t>(static_cast<float>(value));
    }
  } else if (Peek().kind == TokenKind::kFloat) {
    const Token& token = Take();
    double value = token.is_single ? static_cast<double>(std::bit_cast<float>(
                                         static_cast<uint32_t>(token.bits)))
                                   : std::bit_cast<double>(token.bits);
    if (negative) value = -value;
    if (type.bytes == 4) {
      // A literal of 32 bits keeps them, NaN payload included.
      bits = token.is_single && !negative
                 ? token.bits
                 : std::bit_cast<uint32_t>(static_cast<float>(value));
    } else {
      bits = std::bit_cast<uint64_t>(value);
    }
  } else if (Peek().kind == TokenKind::kWord && !negative && type.bytes == 8) {
    const bool is_generic = Peek().text == "generic" && At('(', 1);
    if (is_generic) {
      Take();
      Take();
    }
    if (Peek().kind != TokenKind::kWord) return Fail("expected a symbol");
    Relocation relocation;
    relocation.offset = static_cast<uint32_t>(at);
    relocation.symbol = Take().text;
    if (is_generic && !Expect(')')) return false;
    if (At('+') || At('-')) {
      const bool minus = Take().punct == '-';
      uint64_t addend = 0;
      if (!TakeUnsigned(kMaxVariableBytes, "an offset", &addend)) return false;
      relocation.addend =
          minus ? -static_cast<int64_t>(addend) : static_cast<int64_t>(addend);
    }
    variable->relocations.push_back(relocation);
  } else {
    return Fail("expected an initial value");
  }
  if (at + type.bytes > (uint64_t{1} << 31)) {
    return Fail("more than 2^31 bytes of initial values");
  }
  variable->initial.resize(at + type.bytes);
  std::memcpy(variable->initial.data() + at, &bits,
              type.bytes < 8 ? type.bytes : 8);
  return true;
}

bool Parser::ParseParams(std::vector<Variable>* params) {
  if (!Expect('(')) return false;
  if (Accept(')')) return true;
  do {
    if (!AtDot(".param")) {
      return Fail("expected .param (register parameters are not supported)");
    }
    Take();
    if (!ParseVariables(Space::kParam, false, params, true)) return false;
    if (params->size() > kMaxParamBytes) return Fail("too many parameters");
  } while (Accept(','));
  return Expect(')');
}

bool Parser::ParseDimensions(uint64_t* product) {
  *product = 1;
  do {
    uint64_t extent = 0;
    if (!TakeUnsigned(1 << 20, "a dimension", &extent)) return false;
    *product *= extent;
    if (*product > (uint64_t{1} << 40)) return Fail("dimensions too large");
  } while (Accept(','));
  return true;
}

bool Parser::ParsePerformanceDirectives(Function* function) {
  while (Peek().kind == TokenKind::kDotWord) {
    const std::string_view word = Take().text;
    uint64_t value = 0;
    if (word == ".maxntid" || word == ".reqntid") {
      if (!ParseDimensions(&value)) return false;
      function->max_threads =
          static_cast<uint32_t>(value == 0 || value > 1024 ? 1024 : value);
    } else if (word == ".minnctapersm" || word == ".maxnreg" ||
               word == ".maxnctapersm" || word == ".abi_preserve" ||
               word == ".abi_preserve_control") {
      if (!TakeUnsigned(1 << 20, "a limit", &value)) return false;
    } else if (word == ".pragma") {
      if (!SkipStatement()) return false;
    } else if (word == ".explicitcluster") {
      function->needs_cluster = true;
    } else if (word == ".reqnctapercluster" || word == ".maxclusterrank") {
      if (!ParseDimensions(&value)) return false;
      function->needs_cluster |= value != 1;
    } else if (word != ".noreturn" && word != ".blocksareclusters") {
      return Fail("unknown directive of a function before");
    }
  }
  return true;
}

bool Parser::ParseFunction(bool is_entry) {
  Function& function = syntax_->functions.emplace_back();
  function_ = &function;
  function.is_entry = is_entry;
  function.line = Peek().line;
  while (AtDot(".noreturn")) Take();
  if (!is_entry && At('(') && !ParseParams(&function.returns)) return false;
  if (Peek().kind != TokenKind::kWord) return Fail("expected a name");
  function.name = std::string(Take().text);
  if (At('(') && !ParseParams(&function.params)) return false;
  if (!ParsePerformanceDirectives(&function)) return false;
  if (Accept(';')) return true;
  function.has_body = true;
  return ParseBody();
}

bool Parse(std::string_view text, Syntax* syntax, std::string* error) {
  return Parser(syntax, error).Run(text);
}

}  // namespace softcuda::ptx
