// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_PTX_LEXER_H_
#define SOFTCUDA_PTX_LEXER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace softcuda::ptx {

enum class TokenKind : uint8_t {
  kEnd,
  kWord,     ///< opcode, register, symbol: `add.s32`, `%r1`, `$L__BB0_1`
  kDotWord,  ///< directive or type: `.reg`, `.u32`
  kInteger,
  kFloat,  ///< `0f...`, `0d...` or a decimal floating literal
  kString,
  kPunct,  ///< one character
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  /// `0f` literals keep their 32 bits; all other floats are doubles.
  bool is_single = false;
  char punct = 0;
  uint32_t line = 0;  ///< line of the PTX text, from 1
  std::string_view text;
  uint64_t bits = 0;  ///< value of kInteger, bits of kFloat
};

/// Splits PTX text into tokens, comments dropped. The tokens point into `text`.
/// The last token is kEnd. On a character that PTX does not have, a literal
/// that is out of range or an unclosed comment or string it returns false and
/// says in `error` what and in which line.
bool Tokenize(std::string_view text, std::vector<Token>* tokens,
              std::string* error);

}  // namespace softcuda::ptx

#endif  // SOFTCUDA_PTX_LEXER_H_
