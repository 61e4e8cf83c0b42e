// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/decode_meta_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/arena/embedded_json.h"
#include "tests/support/status_matchers.h"

PERMAFROST_EMBEDDED(permafrost_test_decode_meta)

namespace permafrost {
namespace {

using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();

const nlohmann::json& Golden() {
  static const auto* const golden =
      new nlohmann::json(PERMAFROST_EMBEDDED_JSON(permafrost_test_decode_meta));
  return *golden;
}

/// A region and the bytes that its elements take, said without the layout's
/// own formulas.
struct Region {
  const char* name;
  int64_t offset;
  int64_t bytes;
};

std::vector<Region> RegionsOf(const DecodeMetaLayout& layout) {
  const int64_t r = layout.rows;
  const int64_t t = layout.rows * layout.tokens_per_row;
  const int64_t table = 4 * r * layout.max_blocks;
  return {{"header", layout.header, 64},
          {"slot_mapping", layout.slot_mapping, 8 * t},
          {"state_slot", layout.state_slot, 4 * r},
          {"input_ids", layout.input_ids, 4 * t},
          {"positions", layout.positions, (layout.mrope ? 12 : 4) * t},
          {"seq_lens", layout.seq_lens, 4 * r},
          {"cu_seqlens_q", layout.cu_seqlens_q, 4 * (r + 1)},
          {"kv_last_page_len", layout.kv_last_page_len, 4 * r},
          {"lora_slot", layout.lora_slot, 4 * t},
          {"logits_index", layout.logits_index, 4 * r},
          {"new_block", layout.new_block, 4 * t},
          {"kv_indptr", layout.kv_indptr, layout.csr ? 4 * (r + 1) : 0},
          {"kv_indices", layout.kv_indices, layout.csr ? table : 0},
          {"block_table", layout.block_table, table}};
}

TEST(PadToRungTest, TakesTheSmallestRungThatHoldsTheBatch) {
  const std::vector<int64_t> rungs = {1,  2,  4,  8,   12,  16,  24, 32,
                                      48, 64, 96, 128, 160, 192, 224};
  size_t rung = 0;
  for (int64_t n = 0; n <= 224; ++n) {
    if (n > rungs[rung]) ++rung;
    ASSERT_OK_AND_ASSIGN(const int64_t padded, PadToRung(n));
    EXPECT_EQ(padded, rungs[rung]) << n;
  }
}

TEST(PadToRungTest, BatchesThatAreNoneAreRefused) {
  EXPECT_THAT(PadToRung(-1), StatusIs(absl::StatusCode::kInvalidArgument,
                                      HasSubstr("got -1")));
  EXPECT_THAT(PadToRung(kInt64Max),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2^63")));
}

TEST(SeedDecodeMetaLayoutTest, EqualsGolden) {
  ASSERT_EQ(Golden().at("seed").size(), 8u);
  for (const auto& [batch, fields] : Golden().at("seed").items()) {
    SCOPED_TRACE(batch);
    ASSERT_OK_AND_ASSIGN(
        const SeedDecodeMetaLayout layout,
        SeedDecodeMetaLayout::ForBatch(std::stoll(batch), 257));
    EXPECT_EQ(layout.rows, fields.at("rows"));
    EXPECT_EQ(layout.positions, fields.at("positions"));
    EXPECT_EQ(layout.seq_slot, fields.at("seq_slot"));
    EXPECT_EQ(layout.slots, fields.at("slots"));
    EXPECT_EQ(layout.seq_lens, fields.at("seq_lens"));
    EXPECT_EQ(layout.unused, fields.at("unused"));
    EXPECT_EQ(layout.block_table, fields.at("block_table"));
    EXPECT_EQ(layout.bytes, fields.at("bytes"));
  }
}

TEST(SeedDecodeMetaLayoutTest, LimitsGiveRowsAndBlocks) {
  ServingLimits limits;
  limits.max_batch_tokens = 256;
  limits.max_batch_size = 36;
  limits.max_seq_len = 4096;
  ASSERT_OK_AND_ASSIGN(const SeedDecodeMetaLayout layout,
                       SeedDecodeMetaLayout::ForLimits(limits));
  EXPECT_EQ(layout.rows, 36);
  EXPECT_EQ(layout.max_blocks, 257);
  limits.kv_block_size = 0;
  ASSERT_OK_AND_ASSIGN(const SeedDecodeMetaLayout unpaged,
                       SeedDecodeMetaLayout::ForLimits(limits));
  EXPECT_EQ(unpaged.max_blocks, 256);
}

TEST(SeedDecodeMetaLayoutTest, WhatCannotBeSizedIsRefused) {
  EXPECT_THAT(SeedDecodeMetaLayout::ForBatch(0, 257),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("max_batch_size: got 0")));
  EXPECT_THAT(SeedDecodeMetaLayout::ForBatch(8, 0),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("max_blocks: got 0")));
  for (const auto& [batch, blocks] : {std::pair{kInt64Max, int64_t{1}},
                                      {int64_t{1}, kInt64Max},
                                      {kInt64Max / 24, int64_t{1}},
                                      {int64_t{1} << 32, int64_t{1} << 30}}) {
    EXPECT_THAT(
        SeedDecodeMetaLayout::ForBatch(batch, blocks),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2^63-1")));
  }
  ServingLimits limits;  // max_batch_tokens is 0
  EXPECT_THAT(SeedDecodeMetaLayout::ForLimits(limits),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("max_batch_tokens")));
}

TEST(DecodeMetaLayoutTest, EqualsGolden) {
  const std::vector<std::pair<const char*, DecodeMetaOptions>> variants = {
      {"max_blocks_257", {.max_blocks = 257}},
      {"max_blocks_2049", {.max_blocks = 2049}},
      {"mrope_max_blocks_257", {.max_blocks = 257, .mrope = true}},
      {"csr_max_blocks_257", {.max_blocks = 257, .csr = true}}};
  ASSERT_EQ(Golden().at("one_block").size(), 5u);
  for (const auto& [batch, by_variant] : Golden().at("one_block").items()) {
    ASSERT_EQ(by_variant.size(), variants.size());
    for (const auto& [name, options] : variants) {
      SCOPED_TRACE(batch + " " + name);
      const nlohmann::json& fields = by_variant.at(name);
      ASSERT_OK_AND_ASSIGN(
          const DecodeMetaLayout layout,
          DecodeMetaLayout::ForBatch(std::stoll(batch), options));
      EXPECT_EQ(layout.header, fields.at("header"));
      EXPECT_EQ(layout.slot_mapping, fields.at("slot_mapping_i64"));
      EXPECT_EQ(layout.state_slot, fields.at("state_slot_i32"));
      EXPECT_EQ(layout.input_ids, fields.at("input_ids_i32"));
      EXPECT_EQ(layout.positions, fields.at("positions_i32"));
      EXPECT_EQ(layout.seq_lens, fields.at("seq_lens_i32"));
      EXPECT_EQ(layout.cu_seqlens_q, fields.at("cu_seqlens_q_i32"));
      EXPECT_EQ(layout.kv_last_page_len, fields.at("kv_last_page_len_i32"));
      EXPECT_EQ(layout.lora_slot, fields.at("lora_slot_i32"));
      EXPECT_EQ(layout.logits_index, fields.at("logits_index_i32"));
      EXPECT_EQ(layout.new_block, fields.at("new_block_i32"));
      EXPECT_EQ(layout.delta_bytes, fields.at("delta_bytes"));
      EXPECT_EQ(layout.kv_indptr, fields.at("kv_indptr_i32"));
      EXPECT_EQ(layout.kv_indices, fields.at("kv_indices_i32"));
      EXPECT_EQ(layout.block_table, fields.at("block_table_i32"));
      EXPECT_EQ(layout.full_bytes, fields.at("full_bytes"));
    }
  }
}

TEST(DecodeMetaLayoutTest, RegionsAreAlignedAndDisjointAndHoldTheirElements) {
  for (int64_t batch = 1; batch <= 300; ++batch) {
    for (int64_t blocks : {1, 2, 63, 64, 257, 2049}) {
      for (int64_t drafts : {0, 1, 3, 7}) {
        for (int variant = 0; variant < 4; ++variant) {
          const DecodeMetaOptions options = {.max_blocks = blocks,
                                             .draft_tokens = drafts,
                                             .mrope = (variant & 1) != 0,
                                             .csr = (variant & 2) != 0};
          ASSERT_OK_AND_ASSIGN(const DecodeMetaLayout layout,
                               DecodeMetaLayout::ForBatch(batch, options));
          ASSERT_GE(layout.rows, batch);
          ASSERT_EQ(layout.tokens_per_row, 1 + drafts);
          int64_t end = 0;
          for (const Region& region : RegionsOf(layout)) {
            ASSERT_EQ(region.offset % 256, 0) << region.name;
            ASSERT_GE(region.offset, end) << region.name << " of " << batch;
            end = region.offset + region.bytes;
          }
          ASSERT_GE(layout.full_bytes, end);
          ASSERT_EQ(layout.full_bytes % 256, 0);
          ASSERT_GE(layout.delta_bytes, layout.new_block + 4 * layout.tokens());
          ASSERT_GE(layout.kv_indptr, layout.delta_bytes);
        }
      }
    }
  }
}

TEST(DecodeMetaLayoutTest, BytesNeverFallAsAnythingGrows) {
  std::mt19937_64 random(17);
  for (int round = 0; round < 10000; ++round) {
    const int64_t batch = 1 + static_cast<int64_t>(random() % 512);
    DecodeMetaOptions small;
    small.max_blocks = 1 + static_cast<int64_t>(random() % 5000);
    small.draft_tokens = static_cast<int64_t>(random() % 9);
    small.mrope = random() % 2 != 0;
    small.csr = random() % 2 != 0;
    DecodeMetaOptions large = small;
    int64_t larger_batch = batch;
    switch (random() % 5) {
      case 0:
        larger_batch += static_cast<int64_t>(random() % 100);
        break;
      case 1:
        large.max_blocks += static_cast<int64_t>(random() % 100);
        break;
      case 2:
        ++large.draft_tokens;
        break;
      case 3:
        large.mrope = true;
        break;
      default:
        large.csr = true;
    }
    ASSERT_OK_AND_ASSIGN(const DecodeMetaLayout before,
                         DecodeMetaLayout::ForBatch(batch, small));
    ASSERT_OK_AND_ASSIGN(const DecodeMetaLayout after,
                         DecodeMetaLayout::ForBatch(larger_batch, large));
    ASSERT_LE(before.full_bytes, after.full_bytes);
    ASSERT_LE(before.delta_bytes, after.delta_bytes);
  }
}

TEST(DecodeMetaLayoutTest, RowsHoldThePaddedRungNotTheBatch) {
  // 36 sequences run in the graph of 48.
  ASSERT_OK_AND_ASSIGN(const DecodeMetaLayout layout,
                       DecodeMetaLayout::ForBatch(36, {.max_blocks = 257}));
  EXPECT_EQ(layout.rows, 48);
  ASSERT_OK_AND_ASSIGN(const SeedDecodeMetaLayout seed,
                       SeedDecodeMetaLayout::ForBatch(36, 257));
  EXPECT_EQ(seed.rows, 36);
}

TEST(DecodeMetaLayoutTest, LimitsGiveBlocksAndDrafts) {
  ServingLimits limits;
  limits.max_batch_tokens = 256;
  limits.max_batch_size = 100;
  limits.max_seq_len = 32768;
  limits.draft_tokens = 3;
  ASSERT_OK_AND_ASSIGN(const DecodeMetaLayout layout,
                       DecodeMetaLayout::ForLimits(limits, /*mrope=*/true));
  EXPECT_EQ(layout.rows, 128);
  EXPECT_EQ(layout.tokens(), 512);
  EXPECT_EQ(layout.max_blocks, 2049);
  EXPECT_TRUE(layout.mrope);
  EXPECT_FALSE(layout.csr);
  limits.max_batch_size = 0;
  EXPECT_THAT(DecodeMetaLayout::ForLimits(limits),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("max_batch_size")));
}

TEST(DecodeMetaLayoutTest, B31LayoutsThatDifferHaveDifferentIds) {
  // A writer of one layout and kernels of another can be told apart.
  std::set<uint64_t> ids;
  size_t layouts = 0;
  for (int64_t rows : {1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 160}) {
    for (int64_t blocks : {257, 258, 2049}) {
      for (int64_t drafts : {0, 1}) {
        for (int variant = 0; variant < 4; ++variant) {
          ASSERT_OK_AND_ASSIGN(
              const DecodeMetaLayout layout,
              DecodeMetaLayout::ForBatch(rows, {.max_blocks = blocks,
                                                .draft_tokens = drafts,
                                                .mrope = (variant & 1) != 0,
                                                .csr = (variant & 2) != 0}));
          ids.insert(layout.id());
          ++layouts;
        }
      }
    }
  }
  EXPECT_EQ(ids.size(), layouts);
}

TEST(DecodeMetaLayoutTest, B31BatchesOfOneRungShareOneLayout) {
  ASSERT_OK_AND_ASSIGN(const DecodeMetaLayout few,
                       DecodeMetaLayout::ForBatch(33, {.max_blocks = 257}));
  ASSERT_OK_AND_ASSIGN(const DecodeMetaLayout many,
                       DecodeMetaLayout::ForBatch(48, {.max_blocks = 257}));
  EXPECT_EQ(few.id(), many.id());
}

TEST(DecodeMetaLayoutTest, WhatCannotBeSizedIsRefused) {
  EXPECT_THAT(DecodeMetaLayout::ForBatch(0, {.max_blocks = 257}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("max_batch_size: got 0")));
  EXPECT_THAT(DecodeMetaLayout::ForBatch(8, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("max_blocks: got 0")));
  EXPECT_THAT(
      DecodeMetaLayout::ForBatch(8, {.max_blocks = 1, .draft_tokens = -1}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("draft_tokens: got -1")));
  EXPECT_THAT(
      DecodeMetaLayout::ForBatch(
          128, {.max_blocks = 1, .draft_tokens = int64_t{1} << 24}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cu_seqlens_q")));
  const DecodeMetaOptions wide = {.max_blocks = int64_t{1} << 24};
  EXPECT_OK(DecodeMetaLayout::ForBatch(128, wide));
  DecodeMetaOptions wide_csr = wide;
  wide_csr.csr = true;
  EXPECT_THAT(
      DecodeMetaLayout::ForBatch(128, wide_csr),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("kv_indptr")));
}

TEST(DecodeMetaLayoutTest, OverflowIsAnErrorInEveryFactor) {
  const auto expect_refused = [](int64_t batch, int64_t blocks,
                                 int64_t drafts) {
    EXPECT_THAT(DecodeMetaLayout::ForBatch(
                    batch, {.max_blocks = blocks, .draft_tokens = drafts}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2^63")))
        << batch << " " << blocks << " " << drafts;
  };
  expect_refused(kInt64Max, 1, 0);
  expect_refused(kInt64Max - 64, 1, 0x7fffffff);
  expect_refused(1, kInt64Max, 0);
  expect_refused(1, 1, kInt64Max);
  expect_refused(2, 1, kInt64Max / 2);
  // The table alone would fit; its place behind the other regions does not.
  expect_refused(1, (kInt64Max - 300) / 4, 0);
}

}  // namespace
}  // namespace permafrost
