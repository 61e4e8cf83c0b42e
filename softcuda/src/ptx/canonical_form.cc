// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "ptx/canonical_form.h"

#include <algorithm>
#include <array>
#include <vector>

namespace softcuda::ptx {
namespace {

constexpr int kLoadPollWeight = 32;

bool StartsWith(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

template <size_t N>
bool IsOneOf(std::string_view word,
             const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::vector<std::string_view> Split(std::string_view opcode) {
  std::vector<std::string_view> words;
  while (true) {
    const size_t dot = opcode.find('.');
    words.push_back(opcode.substr(0, dot));
    if (dot == std::string_view::npos) return words;
    opcode.remove_prefix(dot + 1);
  }
}

std::string Join(const std::vector<std::string_view>& words) {
  std::string text;
  for (const std::string_view word : words) {
    if (!text.empty()) text += '.';
    text += word;
  }
  return text;
}

bool IsCacheHint(std::string_view word) {
  static constexpr std::array<std::string_view, 8> kHints = {
      "ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc"};
  // A cache_hint has an operand of its own, so that form stays unknown.
  return IsOneOf(word, kHints) || StartsWith(word, "L1::") ||
         (StartsWith(word, "L2::") && word != "L2::cache_hint");
}

bool IsScope(std::string_view word) {
  static constexpr std::array<std::string_view, 4> kScopes = {"cta", "cluster",
                                                              "gpu", "sys"};
  return IsOneOf(word, kScopes);
}

std::string_view WithoutCta(std::string_view word) {
  if (word == "shared::cta") return "shared";
  if (word == "param::entry" || word == "param::func") return "param";
  return word;
}

bool IsMemoryOpcode(std::string_view base) {
  static constexpr std::array<std::string_view, 5> kOpcodes = {
      "ld", "ldu", "st", "atom", "red"};
  return IsOneOf(base, kOpcodes);
}

bool Contains(const std::vector<std::string_view>& words,
              std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Whether blocks that run in another order could leave other bits behind.
bool IsOrderSensitive(const std::vector<std::string_view>& words,
                      bool is_polling) {
  const std::string_view base = words[0];
  if (Contains(words, "shared") || Contains(words, "local") ||
      Contains(words, "param")) {
    return false;
  }
  if (base == "ld") return is_polling;
  if (base == "atom") return true;
  if (base != "red") return false;
  const std::string_view type = words.back();
  return StartsWith(type, "f") || StartsWith(type, "bf") ||
         Contains(words, "inc") || Contains(words, "dec");
}

CanonicalForm CanonicalizeMemory(const std::vector<std::string_view>& words) {
  static constexpr std::array<std::string_view, 9> kOrders = {
      "weak",     "relaxed", "acquire", "release", "acq_rel",
      "volatile", "mmio",    "sc",      "unified"};
  CanonicalForm form;
  std::vector<std::string_view> kept = {words[0] == "ldu" ? "ld" : words[0]};
  bool is_polling = false;
  for (size_t k = 1; k < words.size(); ++k) {
    const std::string_view word = WithoutCta(words[k]);
    if (IsOneOf(word, kOrders)) {
      form.fence_after |= word == "acquire";
      form.fence_before |= word == "release";
      is_polling |= word != "weak" && word != "unified";
      form.strong |= word != "weak" && word != "unified";
    } else if (!IsCacheHint(word) && !IsScope(word)) {
      form.reads_param |= word == "param";
      kept.push_back(word);
    }
  }
  form.order_sensitive = IsOrderSensitive(kept, is_polling);
  // A load that asks for the newest value is most often part of a loop that
  // waits; an atomic seldom is.
  if (kept[0] == "ld" && is_polling) form.poll_weight = kLoadPollWeight;
  if (kept[0] == "atom") form.poll_weight = 1;
  form.text = Join(kept);
  return form;
}

// bar, bar.cta, barrier, barrier.cta; .aligned says nothing new.
CanonicalForm CanonicalizeBarrier(const std::vector<std::string_view>& words) {
  CanonicalForm form;
  std::vector<std::string_view> kept;
  for (size_t k = 1; k < words.size(); ++k) {
    if (words[k] != "cta" && words[k] != "aligned") kept.push_back(words[k]);
  }
  form.text = ".bar." + Join(kept);
  return form;
}

}  // namespace

CanonicalForm Canonicalize(std::string_view opcode) {
  const std::vector<std::string_view> words = Split(opcode);
  const std::string_view base = words[0];
  if (IsMemoryOpcode(base)) return CanonicalizeMemory(words);
  CanonicalForm form;
  if ((base == "bar" || base == "barrier") && words.size() > 1 &&
      words[1] != "warp" && words[1] != "cluster") {
    return CanonicalizeBarrier(words);
  }
  if (base == "membar" || (base == "fence" && words.size() > 1 &&
                           (words[1] == "sc" || words[1] == "acq_rel" ||
                            words[1] == "acquire" || words[1] == "release"))) {
    const bool is_block_wide = Contains(words, "cta");
    form.text = is_block_wide ? ".fence.block" : ".fence";
    return form;
  }
  if (base == "prefetch" || base == "prefetchu" || base == "applypriority") {
    form.text = ".nothing";
    form.is_hint = true;
    return form;
  }
  std::vector<std::string_view> kept;
  const bool is_copy = StartsWith(opcode, "cp.async.");
  for (const std::string_view word : words) {
    if (is_copy && StartsWith(word, "L2::") && word != "L2::cache_hint") {
      continue;
    }
    kept.push_back(WithoutCta(word));
  }
  form.text = Join(kept);
  return form;
}

}  // namespace softcuda::ptx
