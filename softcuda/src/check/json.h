// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_CHECK_JSON_H_
#define SOFTCUDA_CHECK_JSON_H_

#include <string>
#include <string_view>

namespace softcuda::check {

/// The text as a JSON string, quotes included. Bytes that are not ASCII, which
/// need not be UTF-8, become question marks.
std::string JsonString(std::string_view text);

}  // namespace softcuda::check

#endif  // SOFTCUDA_CHECK_JSON_H_
