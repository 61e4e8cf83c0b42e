// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Files that the build puts into a test program.

#ifndef PERMAFROST_TESTS_ARENA_EMBEDDED_JSON_H_
#define PERMAFROST_TESTS_ARENA_EMBEDDED_JSON_H_

#include "nlohmann/json.hpp"

/// Declares the bytes that `permafrost_embed` made; at global scope.
#define PERMAFROST_EMBEDDED(symbol) \
  extern "C" const char symbol[];   \
  extern "C" const char symbol##_end[];

/// The parsed text of an embedded file.
#define PERMAFROST_EMBEDDED_JSON(symbol) \
  nlohmann::json::parse(symbol, symbol##_end)

#endif  // PERMAFROST_TESTS_ARENA_EMBEDDED_JSON_H_
