// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "kernel_fixture.h"
#include "permafrost/arena/moe_fp8_layout.h"
#include "permafrost/arena/moe_routing_layout.h"
#include "permafrost/kernels/oracle.h"

namespace permafrost::kernels::testing {
namespace {

struct RoutingCase {
  std::string name;
  int64_t rows = 0;
  int64_t experts = 0;
  int64_t topk = 0;
  int64_t width = 0;
  int64_t small_rows = kDefaultSmallRows;
  std::vector<int32_t> ids;
};

class BuildWorklistTest : public KernelModeTest {
 protected:
  // Runs the builder over poison of three kinds and compares every byte of both
  // blocks: what the contract says is stored must be the oracle's, and what it
  // says is not touched must be the poison.
  void ExpectEqualsOracle(const RoutingCase& test) {
    SCOPED_TRACE(::testing::Message()
                 << test.name << ": " << test.rows << " rows, " << test.experts
                 << " experts, top-" << test.topk << ", width " << test.width);
    const ModelConfig config =
        TinyMoeConfig(test.width, 64, test.experts, test.topk);
    ASSERT_OK_AND_ASSIGN(const MoeFp8Layout layout,
                         MoeFp8Layout::ForRows(config, test.rows));
    ASSERT_OK_AND_ASSIGN(const MoeRoutingLayout routing_layout,
                         MoeRoutingLayout::ForRows(config, test.rows));
    ASSERT_OK_AND_ASSIGN(const auto slab,
                         DeviceArray<uint8_t>::Create(context(), layout.bytes));
    ASSERT_OK_AND_ASSIGN(
        const auto routing,
        DeviceArray<uint8_t>::Create(context(), routing_layout.bytes));
    const WorklistResult want =
        BuildWorklistOracle(test.ids, test.experts, test.width,
                            layout.has_small_list() ? test.small_rows : 0);
    ASSERT_LE(static_cast<int64_t>(want.worklist.size()),
              layout.capacity_tiles());
    ASSERT_LE(static_cast<int64_t>(want.small_worklist.size()),
              layout.small_capacity_tiles());

    const uint8_t poisons[] = {0xa5, 0x00, 0x7f};
    size_t execution = 0;
    std::vector<uint8_t> slab_bytes;
    std::vector<uint8_t> routing_bytes;
    ASSERT_OK(Run(
        GetParam(),
        [&](CUstream s) {
          return kernels().BuildWorklist(s, {.layout = layout,
                                             .slab = slab.ptr(),
                                             .routing_layout = routing_layout,
                                             .routing = routing.ptr(),
                                             .rows = test.rows,
                                             .experts = test.experts,
                                             .topk = test.topk,
                                             .width = test.width,
                                             .small_rows = test.small_rows});
        },
        [&]() -> absl::Status {
          const uint8_t poison = poisons[execution++ % 3];
          slab_bytes.assign(static_cast<size_t>(layout.bytes), poison);
          routing_bytes.assign(static_cast<size_t>(routing_layout.bytes),
                               poison);
          Put(routing_bytes, routing_layout.topk_ids, test.ids);
          PERMAFROST_RETURN_IF_ERROR(Poison(slab, poison));
          PERMAFROST_RETURN_IF_ERROR(routing.Upload(routing_bytes));
          MarkUndefined(routing.ptr() + routing_layout.offsets,
                        routing_layout.bytes - routing_layout.offsets);
          return absl::OkStatus();
        },
        [&] {
          Put(routing_bytes, routing_layout.offsets, want.offsets);
          Put(routing_bytes, routing_layout.sorted, want.sorted);
          Put(routing_bytes, routing_layout.inverse, want.inverse);
          Put(slab_bytes, layout.worklist, want.worklist);
          Put(slab_bytes, layout.counter,
              std::vector<int32_t>{static_cast<int32_t>(want.worklist.size())});
          if (layout.has_small_list()) {
            Put(slab_bytes, layout.small_worklist, want.small_worklist);
            Put(slab_bytes, layout.small_counter,
                std::vector<int32_t>{
                    static_cast<int32_t>(want.small_worklist.size())});
          }
          ASSERT_OK_AND_ASSIGN(const std::vector<uint8_t> got_slab,
                               slab.Download());
          ASSERT_OK_AND_ASSIGN(const std::vector<uint8_t> got_routing,
                               routing.Download());
          ExpectSame("routing", got_routing, routing_bytes);
          ExpectSame("slab", got_slab, slab_bytes);
        }));
  }

 private:
  template <typename T>
  static void Put(std::vector<uint8_t>& bytes, int64_t offset,
                  const std::vector<T>& values) {
    if (values.empty()) return;
    std::memcpy(bytes.data() + offset, values.data(),
                values.size() * sizeof(T));
  }

  static void ExpectSame(const char* what, const std::vector<uint8_t>& got,
                         const std::vector<uint8_t>& want) {
    const auto [at, unused] =
        std::mismatch(got.begin(), got.end(), want.begin());
    EXPECT_TRUE(at == got.end()) << what << " differs first at byte "
                                 << at - got.begin() << " of " << got.size();
  }
};

std::vector<int32_t> Same(int64_t count, int32_t id) {
  return std::vector<int32_t>(static_cast<size_t>(count), id);
}

TEST_P(BuildWorklistTest, RandomRoutesOfEveryExpertCount) {
  TestData data(2);
  for (int64_t experts : {1, 31, 32, 33, 128, 256, 257, 512, 1023, 1024}) {
    const int64_t topk = std::min<int64_t>(experts, 8);
    for (int64_t rows : {1, 24}) {
      ExpectEqualsOracle({.name = "random",
                          .rows = rows,
                          .experts = experts,
                          .topk = topk,
                          .width = 192,
                          .ids = data.TopKIds(rows, experts, topk)});
    }
  }
}

TEST_P(BuildWorklistTest, EmptyRoutesStoreBothZeros) {
  for (int64_t experts : {1, 32, 256, 1024}) {
    ExpectEqualsOracle({.name = "all dropped",
                        .rows = 7,
                        .experts = experts,
                        .topk = 1,
                        .width = 128,
                        .ids = Same(7, -1)});
  }
}

TEST_P(BuildWorklistTest, IdsOutOfRangeAreDropped) {
  std::vector<int32_t> ids = {0,       31,        32,        33, -1, -2,
                              1 << 30, INT32_MIN, INT32_MAX, 5,  5,  -1};
  ExpectEqualsOracle({.name = "out of range",
                      .rows = 6,
                      .experts = 32,
                      .topk = 2,
                      .width = 64,
                      .ids = ids});
}

TEST_P(BuildWorklistTest, AllToOneExpert) {
  for (int64_t experts : {1, 256, 1024}) {
    for (int32_t id : {0, static_cast<int32_t>(experts) - 1}) {
      ExpectEqualsOracle({.name = "all to one",
                          .rows = 300,
                          .experts = experts,
                          .topk = 1,
                          .width = 448,
                          .ids = Same(300, id)});
    }
  }
}

TEST_P(BuildWorklistTest, OneRowForEachExpert) {
  for (int64_t experts : {33, 256, 1024}) {
    std::vector<int32_t> ids;
    for (int64_t e = experts - 1; e >= 0; --e) {
      ids.push_back(static_cast<int32_t>(e));
    }
    ExpectEqualsOracle({.name = "one each",
                        .rows = experts,
                        .experts = experts,
                        .topk = 1,
                        .width = 192,
                        .ids = ids});
  }
}

// 129 rows need a second, almost empty row tile: the worst case of the
// capacity's proof.
TEST_P(BuildWorklistTest, OneRowMoreThanATileForEachExpert) {
  std::vector<int32_t> ids;
  for (int i = 0; i < 129; ++i) {
    for (int32_t e = 0; e < 5; ++e) ids.push_back(e);
  }
  ExpectEqualsOracle({.name = "129 each",
                      .rows = 129,
                      .experts = 5,
                      .topk = 5,
                      .width = 320,
                      .ids = ids});
}

TEST_P(BuildWorklistTest, SmallListTakesExpertsUpToTheThreshold) {
  // 256 experts have a small list: 15, 16, 17 and 128 rows around thresholds.
  std::vector<int32_t> ids = Same(15, 3);
  for (const auto& [count, id] :
       {std::pair{16, 4}, {17, 200}, {128, 255}, {129, 9}}) {
    ids.insert(ids.end(), static_cast<size_t>(count), id);
  }
  for (int64_t small_rows : {0, 1, 16, 128}) {
    ExpectEqualsOracle({.name = "thresholds",
                        .rows = static_cast<int64_t>(ids.size()),
                        .experts = 256,
                        .topk = 1,
                        .width = 128,
                        .small_rows = small_rows,
                        .ids = ids});
  }
}

// More ids than the 256-thread block takes, so 1024 threads loop over them, and
// the width of a model whose column tiles do not fit into six bits.
TEST_P(BuildWorklistTest, ManyRowsAndWideColumns) {
  TestData data(3);
  ExpectEqualsOracle({.name = "large block",
                      .rows = 600,
                      .experts = 256,
                      .topk = 8,
                      .width = 512,
                      .ids = data.TopKIds(600, 256, 8)});
  ExpectEqualsOracle({.name = "wide",
                      .rows = 4,
                      .experts = 16,
                      .topk = 2,
                      .width = 7168,
                      .ids = data.TopKIds(4, 16, 2)});
}

INSTANTIATE_TEST_SUITE_P(Modes, BuildWorklistTest, AllModes(), ModeParamName);

// A row_start above 16 bits, with every id on one expert; eager only, because
// it is large for an interpreter.
class BuildWorklistLargeTest : public BuildWorklistTest {};

TEST_P(BuildWorklistLargeTest, LargestBatchOfTheKernels) {
  std::vector<int32_t> ids = Same(int64_t{kMaxRows} * kMaxTopK, 1023);
  for (size_t i = 0; i < ids.size(); i += 7) {
    ids[i] = static_cast<int32_t>(i % 1024);
  }
  ExpectEqualsOracle({.name = "largest",
                      .rows = kMaxRows,
                      .experts = 1024,
                      .topk = kMaxTopK,
                      .width = 64,
                      .ids = ids});
}

INSTANTIATE_TEST_SUITE_P(Modes, BuildWorklistLargeTest,
                         ::testing::Values(LaunchMode::kEager), ModeParamName);

}  // namespace
}  // namespace permafrost::kernels::testing
