// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// docs/buffers.md says what the table says, and names every difference from
// the original.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "arena/golden_models.h"
#include "permafrost/arena/buffer_table.h"
#include "support/status_matchers.h"

PERMAFROST_EMBEDDED(permafrost_test_buffers_page)

namespace permafrost {
namespace {

using ::permafrost::testing::GoldenModel;
using ::permafrost::testing::GoldenModels;

std::string Page() {
  return std::string(permafrost_test_buffers_page,
                     permafrost_test_buffers_page_end);
}

/// Why the buffer is absent where nothing calls for it: for a model of neither
/// kind, and for one with experts.
std::string AbsentBecause(const BufferRow& row) {
  if (row.gate == nullptr) return "never";
  ModelConfig with_experts;
  with_experts.num_experts = 8;
  for (const ModelConfig& config : {ModelConfig(), with_experts}) {
    const auto reason = row.gate(config, ServingLimits());
    if (reason) return *reason;
  }
  return "never";
}

std::string TableLine(const BufferRow& row) {
  std::string what = row.meaning;
  if (row.aliases != nullptr) {
    const char* separator = "; one of: ";
    for (const char* const* use = row.aliases; *use != nullptr; ++use) {
      absl::StrAppend(&what, separator, *use);
      separator = " / ";
    }
  }
  return absl::StrCat(
      "| `", row.name, "` | ", what, " | ", ElementTypeName(row.element), " | ",
      row.row_padding == 1 ? "-" : absl::StrCat(row.row_padding), " | ",
      AbsentBecause(row), " | ", LifetimeName(row.lifetime), " | ",
      ToucherName(row.toucher), " | ", row.tag, " | ",
      SleepPolicyName(row.sleep.value_or(DefaultSleepPolicy(row.lifetime))),
      " | ", *row.sized_by == '\0' ? "the model alone" : row.sized_by, " |\n");
}

std::string ExpectedTable() {
  std::string table =
      "| buffer | what it holds | type | rows in blocks of | absent where | "
      "lifetime | who touches it | tag | asleep | sized by |\n"
      "|---|---|---|---|---|---|---|---|---|---|\n";
  for (const BufferRow& row : BufferTable()) {
    absl::StrAppend(&table, TableLine(row));
  }
  return table;
}

/// The page's text between the headline and the next one.
std::string Section(const std::string& headline) {
  const std::string page = Page();
  const size_t begin = page.find(headline);
  if (begin == std::string::npos) return "";
  return page.substr(begin, page.find("\n## ", begin) - begin);
}

TEST(BuffersPageTest, HasTheTableAsTheCodeHasIt) {
  const std::string section = Section("## The table");
  const size_t begin = section.find("| buffer |");
  ASSERT_NE(begin, std::string::npos) << ExpectedTable();
  const std::string found =
      section.substr(begin, section.rfind("|\n") + 2 - begin);
  EXPECT_EQ(found, ExpectedTable())
      << "docs/buffers.md: its table must be this one:\n"
      << ExpectedTable();
}

/// The buffers whose bytes differ between the two rules for some model.
std::set<std::string> BuffersThatDiffer() {
  std::vector<ModelConfig> models;
  for (const auto& [name, config] : GoldenModels()) models.push_back(config);
  // What no golden model has: a latent for experts, a width that is no multiple
  // of a scale group, experts that are the widest weights.
  models.push_back(GoldenModel("qwen3-30b-a3b"));
  models.back().moe_latent_size = 16;
  models.push_back(GoldenModel("qwen3-8b"));
  models.back().intermediate_size = 12287;
  models.back().quantization = Quantization::kFp8;
  models.push_back(GoldenModel("qwen3.5-35b-a3b-nested"));
  models.back().hidden_size = 2047;
  models.back().gdn_value_head_dim = 127;
  models.back().layers = {LayerKind::kLinearAttention};
  models.back().moe_intermediate_size = 20000;
  models.back().shared_expert_intermediate_size = 20000;
  std::set<std::string> differ;
  for (const ModelConfig& model : models) {
    for (const int64_t rows : {7, 2047}) {
      for (const bool options : {false, true}) {
        ServingLimits limits;
        limits.max_batch_tokens = rows;
        limits.max_batch_size = 36;
        if (options) {
          limits.lora_rank = 16;
          limits.draft_tokens = 7;
          limits.four_bit_weights = true;
          limits.two_bit_weights = true;
          limits.rowwise_bf16_copies = true;
        }
        const auto ours = ComputeBufferSizes(model, limits).value();
        limits.rules = SizeRules::kSeed;
        const auto seed = ComputeBufferSizes(model, limits).value();
        for (size_t i = 0; i < ours.size(); ++i) {
          if (ours[i].bytes != seed[i].bytes) differ.insert(ours[i].name);
        }
      }
    }
  }
  return differ;
}

TEST(BuffersPageTest, NamesExactlyTheBuffersThatDifferFromTheOriginal) {
  const std::string section = Section("## What differs from the original");
  const std::vector<std::string> pieces = absl::StrSplit(section, '`');
  std::set<std::string> buffers;
  for (const BufferRow& row : BufferTable()) buffers.insert(row.name);
  std::set<std::string> named;
  for (size_t i = 1; i < pieces.size(); i += 2) {
    if (buffers.count(pieces[i]) != 0) named.insert(pieces[i]);
  }
  const std::set<std::string> differ = BuffersThatDiffer();
  for (const std::string& buffer : buffers) {
    EXPECT_EQ(named.count(buffer), differ.count(buffer)) << buffer;
  }
}

}  // namespace
}  // namespace permafrost
