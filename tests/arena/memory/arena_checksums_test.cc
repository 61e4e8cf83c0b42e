// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/arena_checksums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "arena_fixture.h"
#include "permafrost/driver/handles.h"

namespace permafrost::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ArenaChecksumsTest : public ArenaTest {
 protected:
  void Fill(const ArenaView& arena, const std::string& name,
            unsigned char byte) {
    ASSERT_OK_AND_ASSIGN(const BufferRef buffer, arena.Find(name));
    SetBytes(buffer.base, byte, buffer.bytes);
  }

  void SetBytes(DevicePtr at, unsigned char byte, int64_t bytes) {
    const Context::Scope scope = context()->MakeCurrent();
    ASSERT_OK(scope.status());
    ASSERT_EQ(api().MemsetD8(at.value(), byte, static_cast<size_t>(bytes)),
              CUDA_SUCCESS);
    // The fill is asynchronous, and the stream that reads does not wait for the
    // one that it runs on.
    ASSERT_EQ(api().CtxSynchronize(), CUDA_SUCCESS);
  }

  void FillAll(const ArenaView& arena) {
    for (const char* name : {"scratch", "tables", "counters", "cache"}) {
      Fill(arena, name, 0x5a);
    }
  }
};
PERMAFROST_ON_BOTH_MEMORIES(ArenaChecksumsTest);

TEST_P(ArenaChecksumsTest, OneForEachPresentBufferInTheOrderOfThePlan) {
  ASSERT_OK_AND_ASSIGN(const Arena arena, CreateSmall());
  FillAll(arena.view());
  ASSERT_OK_AND_ASSIGN(const Stream stream, Stream::Create(context()));
  ASSERT_OK_AND_ASSIGN(const std::vector<BufferChecksum> sums,
                       ChecksumBuffers(arena.view(), stream.get()));
  std::vector<std::string> names;
  for (const BufferChecksum& sum : sums) names.push_back(sum.buffer);
  EXPECT_THAT(names, ElementsAre("scratch", "tables", "counters", "cache"));
  EXPECT_EQ(sums[1].bytes, 5000);
  ASSERT_OK_AND_ASSIGN(const std::vector<BufferChecksum> again,
                       ChecksumBuffers(arena.view(), stream.get()));
  EXPECT_EQ(FirstDifference(sums, again), "");
}

// The first byte, one in the middle, the last of a partial word; and the same
// bytes in another order.
TEST_P(ArenaChecksumsTest, OneByteAnywhereTellsWhichBuffer) {
  ASSERT_OK_AND_ASSIGN(const Arena arena, CreateSmall());
  FillAll(arena.view());
  ASSERT_OK_AND_ASSIGN(const Stream stream, Stream::Create(context()));
  ASSERT_OK_AND_ASSIGN(const std::vector<BufferChecksum> before,
                       ChecksumBuffers(arena.view(), stream.get()));
  ASSERT_OK_AND_ASSIGN(const BufferRef scratch, arena.view().Find("scratch"));
  for (const int64_t at :
       {int64_t{0}, int64_t{12345}, scratch.bytes / 2, scratch.bytes - 1}) {
    SetBytes(scratch.base + at, 0x5b, 1);
    ASSERT_OK_AND_ASSIGN(const std::vector<BufferChecksum> after,
                         ChecksumBuffers(arena.view(), stream.get()));
    EXPECT_EQ(FirstDifference(before, after), "scratch") << at;
    SetBytes(scratch.base + at, 0x5a, 1);
  }
  SetBytes(scratch.base, 0x01, 1);
  ASSERT_OK_AND_ASSIGN(const std::vector<BufferChecksum> first,
                       ChecksumBuffers(arena.view(), stream.get()));
  SetBytes(scratch.base, 0x5a, 1);
  SetBytes(scratch.base + 8, 0x01, 1);
  ASSERT_OK_AND_ASSIGN(const std::vector<BufferChecksum> ninth,
                       ChecksumBuffers(arena.view(), stream.get()));
  EXPECT_NE(first[0].checksum, ninth[0].checksum);
}

TEST_P(ArenaChecksumsTest, OfChosenBuffersOnly) {
  ASSERT_OK_AND_ASSIGN(const Arena arena, CreateSmall());
  FillAll(arena.view());
  ASSERT_OK_AND_ASSIGN(const Stream stream, Stream::Create(context()));
  ASSERT_OK_AND_ASSIGN(
      const std::vector<BufferChecksum> sums,
      ChecksumBuffers(arena.view(), stream.get(), {"cache", "tables"}));
  ASSERT_EQ(sums.size(), 2u);
  EXPECT_EQ(sums[0].buffer, "cache");
  EXPECT_EQ(sums[1].buffer, "tables");
  EXPECT_THAT(ChecksumBuffers(arena.view(), stream.get(), {"nope"}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("'nope'")));
  EXPECT_THAT(
      ChecksumBuffers(arena.view(), stream.get(), {"absent"}),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("'absent'")));
}

TEST_P(ArenaChecksumsTest, WhatWasEnqueuedBeforeIsDone) {
  ASSERT_OK_AND_ASSIGN(const Arena arena, CreateSmall());
  FillAll(arena.view());
  ASSERT_OK_AND_ASSIGN(const Stream stream, Stream::Create(context()));
  ASSERT_OK_AND_ASSIGN(const std::vector<BufferChecksum> before,
                       ChecksumBuffers(arena.view(), stream.get()));
  ASSERT_OK_AND_ASSIGN(const BufferRef tables, arena.view().Find("tables"));
  {
    const Context::Scope scope = context()->MakeCurrent();
    ASSERT_OK(scope.status());
    ASSERT_EQ(api().MemsetD8Async(tables.base.value(), 1, 5000, stream.get()),
              CUDA_SUCCESS);
  }
  ASSERT_OK_AND_ASSIGN(const std::vector<BufferChecksum> after,
                       ChecksumBuffers(arena.view(), stream.get()));
  EXPECT_EQ(FirstDifference(before, after), "tables");
}

TEST_P(ArenaChecksumsTest, AFailingCallIsReportedAndLeavesNothingBehind) {
  ASSERT_OK_AND_ASSIGN(const Arena arena, CreateSmall());
  FillAll(arena.view());
  ASSERT_OK_AND_ASSIGN(const Stream stream, Stream::Create(context()));
  const int64_t live_before = LiveBytes();
  int failed = 0;
  for (int n = 1; n < 1000; ++n) {
    faulting().FailCall(n);
    const bool ok = ChecksumBuffers(arena.view(), stream.get()).ok();
    const std::string call = faulting().last_failed_call();
    faulting().Disarm();
    DropStrayContexts();
    EXPECT_EQ(LiveBytes(), live_before) << n << " " << call;
    if (call.empty()) {
      EXPECT_TRUE(ok);
      break;
    }
    // A scope that cannot be left has no one to tell.
    if (call != "cuCtxPopCurrent") {
      EXPECT_FALSE(ok) << n << " " << call;
    }
    ++failed;
  }
  EXPECT_GT(failed, 8);
  EXPECT_OK(ChecksumBuffers(arena.view(), stream.get()));
}

TEST(FirstDifferenceTest, SeesMissingBuffersOnEitherSide) {
  const BufferChecksum a = {"a", 8, 1};
  const BufferChecksum b = {"b", 8, 2};
  EXPECT_EQ(FirstDifference({a, b}, {a, b}), "");
  EXPECT_EQ(FirstDifference({a, b}, {a}), "b");
  EXPECT_EQ(FirstDifference({a}, {a, b}), "b");
  EXPECT_EQ(FirstDifference({a}, {BufferChecksum{"a", 9, 1}}), "a");
  EXPECT_EQ(FirstDifference({}, {}), "");
}

}  // namespace
}  // namespace permafrost::testing
