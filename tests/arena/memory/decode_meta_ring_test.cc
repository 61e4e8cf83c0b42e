// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/decode_meta_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "permafrost/arena/arena.h"
#include "tests/arena/memory/arena_fixture.h"
#include "tests/arena/memory/decode_meta_fixture.h"
#include "tests/capture/counting_new.h"

namespace permafrost {
namespace {

using ::permafrost::testing::Gate;
using ::permafrost::testing::kTestMaxBlocks;
using ::permafrost::testing::StatusIs;
using ::permafrost::testing::TestBatch;
using ::permafrost::testing::TestMetaLimits;
using ::permafrost::testing::TestSequence;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

// A slot is written once, and uploaded only when written.
static_assert(!std::is_copy_constructible_v<DecodeMetaSlot>);
static_assert(!std::is_copy_constructible_v<WrittenDecodeMeta>);
static_assert(
    !std::is_invocable_v<decltype(&DecodeMetaRing::Upload), DecodeMetaRing&,
                         DecodeMetaSlot&&, CUstream>);
static_assert(
    !std::is_invocable_v<decltype(&DecodeMetaRing::Upload), DecodeMetaRing&,
                         WrittenDecodeMeta&, CUstream>);
static_assert(
    !std::is_invocable_v<decltype(&DecodeMetaSlot::Write), DecodeMetaSlot&,
                         const DecodeBatch&, DecodeMetaMode>);

const std::vector<TestSequence> kTwo = {{.id = 3, .seq_len = 5},
                                        {.id = 2, .seq_len = 7}};
const std::vector<TestSequence> kTwoLater = {{.id = 3, .seq_len = 6},
                                             {.id = 2, .seq_len = 8}};

class DecodeMetaRingTest : public ::permafrost::testing::DecodeMetaUploadTest {
};

TEST_F(DecodeMetaRingTest, AFullUploadReachesTheDeviceByteForByte) {
  ASSERT_OK_AND_ASSIGN(DecodeMetaRing ring, MakeRing());
  ASSERT_OK_AND_ASSIGN(WrittenDecodeMeta written, Write(ring, 1, kFull, kTwo));
  const std::vector<std::byte> want(written.bytes().begin(),
                                    written.bytes().end());
  ASSERT_EQ(want.size(), static_cast<size_t>(layout().full_bytes));
  ASSERT_OK(ring.Upload(std::move(written), stream()));
  const std::vector<std::byte> got = ReadBlock();
  EXPECT_TRUE(std::equal(want.begin(), want.end(), got.begin()));
  EXPECT_THAT(
      std::vector<std::byte>(got.begin() + layout().full_bytes, got.end()),
      Each(std::byte{kFill}));
}

TEST_F(DecodeMetaRingTest, ADeltaUploadLeavesTheTableToTheDevice) {
  ASSERT_OK_AND_ASSIGN(DecodeMetaRing ring, MakeRing());
  ASSERT_OK(Upload(ring, 1, kFull, kTwo));
  const std::vector<std::byte> before = ReadBlock();
  ASSERT_OK_AND_ASSIGN(WrittenDecodeMeta written,
                       Write(ring, 2, kDelta, kTwoLater));
  ASSERT_EQ(written.bytes().size(), static_cast<size_t>(layout().delta_bytes));
  const std::vector<std::byte> want(written.bytes().begin(),
                                    written.bytes().end());
  ASSERT_OK(ring.Upload(std::move(written), stream()));
  const std::vector<std::byte> got = ReadBlock();
  EXPECT_TRUE(std::equal(want.begin(), want.end(), got.begin()));
  EXPECT_TRUE(std::equal(before.begin() + layout().delta_bytes, before.end(),
                         got.begin() + layout().delta_bytes));
}

TEST_F(DecodeMetaRingTest, AStepIsOneCopyAndOneEvent) {
  ASSERT_OK_AND_ASSIGN(DecodeMetaRing ring, MakeRing());
  ASSERT_OK(Upload(ring, 1, kFull, kTwo));
  ASSERT_OK(Upload(ring, 2, kFull, kTwo));
  faulting().ResetCounts();
  ASSERT_OK(Upload(ring, 3, kDelta, kTwoLater));
  EXPECT_EQ(faulting().calls("cuMemcpyHtoDAsync"), 1);
  EXPECT_EQ(faulting().calls("cuEventRecord"), 1);
  EXPECT_EQ(faulting().calls("cuEventSynchronize"), 1);
  EXPECT_EQ(faulting().calls("cuStreamIsCapturing"), 1);
  EXPECT_EQ(faulting().calls(), 8);  // and a context scope for each of two
}

// The driver's side of a step, so that what it allocates is not counted.
CUresult CUDAAPI Succeed(CUdeviceptr, const void*, size_t, CUstream) {
  return CUDA_SUCCESS;
}
CUresult CUDAAPI SucceedOnEvent(CUevent) { return CUDA_SUCCESS; }
CUresult CUDAAPI SucceedOnEventAndStream(CUevent, CUstream) {
  return CUDA_SUCCESS;
}
CUresult CUDAAPI SayNotCapturing(CUstream, CUstreamCaptureStatus* status) {
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI SucceedOnContext(CUcontext) { return CUDA_SUCCESS; }
CUresult CUDAAPI SucceedOnPop(CUcontext*) { return CUDA_SUCCESS; }

TEST_F(DecodeMetaRingTest, AStepAllocatesNothing) {
  DriverApi quiet = api();
  quiet.MemcpyHtoDAsync = Succeed;
  quiet.EventSynchronize = SucceedOnEvent;
  quiet.EventRecord = SucceedOnEventAndStream;
  quiet.StreamIsCapturing = SayNotCapturing;
  quiet.CtxPushCurrent = SucceedOnContext;
  quiet.CtxPopCurrent = SucceedOnPop;
  ASSERT_OK_AND_ASSIGN(
      const ContextRef on_quiet,
      Context::RetainPrimary(Driver::WithApi(driver(), quiet)));
  ASSERT_OK_AND_ASSIGN(
      DecodeMetaRing ring,
      DecodeMetaRing::Create(on_quiet, layout(), TestMetaLimits(), block()));
  TestBatch first(1, 4, kTwo);
  TestBatch second(2, 4, kTwoLater);
  TestBatch refused(3, 5, kTwoLater);
  const auto step = [&](const DecodeBatch& batch, DecodeMetaMode mode) {
    absl::StatusOr<DecodeMetaSlot> slot = ring.Acquire();
    absl::StatusOr<WrittenDecodeMeta> written =
        (*std::move(slot)).Write(batch, mode);
    if (!written.ok()) return false;
    return ring.Upload(*std::move(written), stream()).ok();
  };
  const auto allocations_of = [&](TestBatch& batch, DecodeMetaMode mode,
                                  bool is_taken) {
    const DecodeBatch view = batch.View();
    const int64_t before = ::permafrost::testing::ThreadAllocations();
    EXPECT_EQ(step(view, mode), is_taken);
    return ::permafrost::testing::ThreadAllocations() - before;
  };
  EXPECT_EQ(allocations_of(first, kFull, true), 0);
  EXPECT_EQ(allocations_of(second, kDelta, true), 0);
  // The counter counts: an error has a text.
  EXPECT_GT(allocations_of(refused, kDelta, false), 0);
}

TEST_F(DecodeMetaRingTest, B54EverySlotHoldsTheLargestUploadFromTheStart) {
  ASSERT_OK_AND_ASSIGN(DecodeMetaRing ring, MakeRing(3));
  EXPECT_EQ(faulting().calls("cuMemHostAlloc"), 3);
  EXPECT_EQ(faulting().calls("cuEventCreate"), 3);
  const std::vector<TestSequence> largest = {{.id = 1, .seq_len = 64},
                                             {.id = 2, .seq_len = 64},
                                             {.id = 3, .seq_len = 64},
                                             {.id = 4, .seq_len = 64}};
  for (uint64_t step = 1; step <= 7; ++step) {
    const std::vector<TestSequence> few = {{.id = step, .seq_len = 1}};
    ASSERT_OK_AND_ASSIGN(
        const StepEcho echo,
        Upload(ring, step, kFull, step % 4 == 0 ? few : largest));
    EXPECT_OK(CheckStepEcho(echo, RunStep()));
  }
  EXPECT_EQ(faulting().calls("cuMemHostAlloc"), 3);
}

TEST_F(DecodeMetaRingTest, B117PaddingNeedsNoMemoryInAnyBatch) {
  // A ring whose padding has no block is never made; one that has needs no
  // driver call for it, whatever the batch, and the upload is never skipped.
  DecodeMetaLimits without = TestMetaLimits();
  without.dummy_block = -1;
  EXPECT_THAT(DecodeMetaRing::Create(context(), layout(), without, block()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("dummy_block: got -1")));
  EXPECT_EQ(faulting().calls(), 0);
  ASSERT_OK_AND_ASSIGN(DecodeMetaRing ring, MakeRing());
  faulting().ResetCounts();
  uint64_t step = 0;
  for (size_t count = 0; count <= 4; ++count) {
    std::vector<TestSequence> sequences;
    for (size_t i = 0; i < count; ++i) sequences.push_back({.id = i});
    ASSERT_OK_AND_ASSIGN(const StepEcho echo,
                         Upload(ring, ++step, kFull, sequences));
    EXPECT_OK(CheckStepEcho(echo, RunStep()));
  }
  EXPECT_EQ(faulting().calls("cuMemcpyHtoDAsync"), 5);
  EXPECT_EQ(faulting().calls("cuMemHostAlloc"), 0);
}

TEST_F(DecodeMetaRingTest, ASlotIsNotHandedOutBeforeItsCopyHasRun) {
  ASSERT_OK_AND_ASSIGN(DecodeMetaRing ring, MakeRing(2));
  Gate gate;
  ASSERT_EQ(gate.Enqueue(api(), stream()), CUDA_SUCCESS);
  ASSERT_OK(Upload(ring, 1, kFull, kTwo));
  // The second slot is free although the first one's copy waits.
  ASSERT_OK(Upload(ring, 2, kDelta, kTwoLater));
  EXPECT_THAT(ring.TryAcquire(),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("slot 0"), HasSubstr("step 1"))));
  gate.Open();
  ASSERT_OK(stream_owner().Synchronize());
  EXPECT_OK(ring.TryAcquire());
}

TEST_F(DecodeMetaRingTest, B89AcquireWaitsSoThatEveryStepGetsItsOwnBytes) {
  // One slot, written again while the copy of the step before is held back.
  ASSERT_OK_AND_ASSIGN(DecodeMetaRing ring, MakeRing(1));
  Gate gate;
  ASSERT_EQ(gate.Enqueue(api(), stream()), CUDA_SUCCESS);
  ASSERT_OK_AND_ASSIGN(const StepEcho first, Upload(ring, 1, kFull, kTwo));
  ASSERT_OK(LaunchEcho());
  std::thread opener([&gate] { gate.Open(); });
  // Blocks until the opener has run, whichever comes first.
  absl::StatusOr<WrittenDecodeMeta> second = Write(ring, 2, kFull, kTwoLater);
  opener.join();
  ASSERT_OK(second);
  EXPECT_OK(CheckStepEcho(first, ReadEcho()));
}

TEST_F(DecodeMetaRingTest, B89ASlotRewrittenBeforeItsCopyIsSeenByTheEcho) {
  // The planted fault: the memory is written without being acquired.
  ASSERT_OK_AND_ASSIGN(DecodeMetaRing ring, MakeRing(1));
  ASSERT_OK_AND_ASSIGN(WrittenDecodeMeta written, Write(ring, 1, kFull, kTwo));
  const StepEcho expected = written.echo();
  auto* const memory = const_cast<std::byte*>(written.bytes().data());
  Gate gate;
  ASSERT_EQ(gate.Enqueue(api(), stream()), CUDA_SUCCESS);
  ASSERT_OK(ring.Upload(std::move(written), stream()));
  ASSERT_OK(LaunchEcho());
  const uint64_t next_step = 2;
  std::memcpy(memory + offsetof(DecodeMetaHeader, step), &next_step,
              sizeof(next_step));
  gate.Open();
  const StepEcho read = ReadEcho();
  EXPECT_THAT(CheckStepEcho(expected.step, read.step),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("rewritten before its copy ran")));
}

TEST_F(DecodeMetaRingTest, ASkippedUploadIsSeenByTheEcho) {
  ASSERT_OK_AND_ASSIGN(DecodeMetaRing ring, MakeRing());
  ASSERT_OK_AND_ASSIGN(const StepEcho first, Upload(ring, 1, kFull, kTwo));
  EXPECT_OK(CheckStepEcho(first, RunStep()));
  ASSERT_OK_AND_ASSIGN(const WrittenDecodeMeta second,
                       Write(ring, 2, kDelta, kTwoLater));
  EXPECT_THAT(
      CheckStepEcho(second.echo(), RunStep()),
      StatusIs(absl::StatusCode::kDataLoss,
               AllOf(HasSubstr("got 1, expected 2"), HasSubstr("stale"))));
}

TEST_F(DecodeMetaRingTest, ATornUploadIsSeenByTheSum) {
  ASSERT_OK_AND_ASSIGN(DecodeMetaRing ring, MakeRing());
  ASSERT_OK(Upload(ring, 1, kFull, kTwo));
  ASSERT_OK_AND_ASSIGN(const WrittenDecodeMeta second,
                       Write(ring, 2, kDelta, kTwoLater));
  // Half of it arrives: header, slots, states, and the rest is of step 1.
  ASSERT_EQ(api().MemcpyHtoDAsync(block().base.value(), second.bytes().data(),
                                  second.bytes().size() / 4, stream()),
            CUDA_SUCCESS);
  const StepEcho torn = RunStep();
  EXPECT_OK(CheckStepEcho(second.echo().step, torn.step));
  EXPECT_THAT(CheckStepEcho(second.echo(), torn),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("torn")));
  ASSERT_EQ(api().MemcpyHtoDAsync(block().base.value(), second.bytes().data(),
                                  second.bytes().size(), stream()),
            CUDA_SUCCESS);
  EXPECT_OK(CheckStepEcho(second.echo(), RunStep()));
}

TEST_F(DecodeMetaRingTest, ManyStepsOfBothModesEchoThemselves) {
  ASSERT_OK_AND_ASSIGN(DecodeMetaRing ring, MakeRing());
  uint64_t step = 0;
  for (int32_t seq_len = 1; seq_len <= 40; ++seq_len) {
    const std::vector<TestSequence> batch = {{.id = 5, .seq_len = seq_len}};
    ASSERT_OK_AND_ASSIGN(
        const StepEcho echo,
        Upload(ring, ++step, seq_len % 10 == 1 ? kFull : kDelta, batch));
    EXPECT_OK(CheckStepEcho(echo, RunStep())) << seq_len;
  }
}

TEST_F(DecodeMetaRingTest, OneSlotIsOutAtATime) {
  ASSERT_OK_AND_ASSIGN(DecodeMetaRing ring, MakeRing());
  std::optional<DecodeMetaSlot> slot;
  {
    absl::StatusOr<DecodeMetaSlot> acquired = ring.Acquire();
    ASSERT_OK(acquired);
    slot.emplace(*std::move(acquired));
  }
  EXPECT_THAT(ring.Acquire(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                       HasSubstr("slot 0 is out already")));
  EXPECT_THAT(ring.Release(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                       HasSubstr("slot 0 is out")));
  slot.reset();
  EXPECT_OK(ring.Acquire());
}

TEST_F(DecodeMetaRingTest, ARefusedBatchGivesItsSlotBack) {
  ASSERT_OK_AND_ASSIGN(DecodeMetaRing ring, MakeRing());
  EXPECT_THAT(Write(ring, 1, kDelta, kTwo),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("upload this step FULL")));
  EXPECT_THAT(Write(ring, 0, kFull, kTwo),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_OK(Upload(ring, 1, kFull, kTwo));
}

TEST_F(DecodeMetaRingTest, AHandleThatWasGivenAwayIsRefused) {
  ASSERT_OK_AND_ASSIGN(DecodeMetaRing ring, MakeRing());
  ASSERT_OK_AND_ASSIGN(DecodeMetaSlot slot, ring.Acquire());
  TestBatch batch(1, 4, kTwo);
  ASSERT_OK_AND_ASSIGN(WrittenDecodeMeta written,
                       std::move(slot).Write(batch.View(), kFull));
  // NOLINTBEGIN(bugprone-use-after-move): this is what is refused
  EXPECT_THAT(
      std::move(slot).Write(batch.View(), kFull),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("given away")));
  ASSERT_OK(ring.Upload(std::move(written), stream()));
  EXPECT_THAT(
      ring.Upload(std::move(written), stream()),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("given away")));
  // NOLINTEND(bugprone-use-after-move)
}

TEST_F(DecodeMetaRingTest, AStepOfAnotherRingIsRefused) {
  ASSERT_OK_AND_ASSIGN(DecodeMetaRing ring, MakeRing());
  ASSERT_OK_AND_ASSIGN(DecodeMetaRing other, MakeRing());
  ASSERT_OK_AND_ASSIGN(WrittenDecodeMeta written, Write(other, 1, kFull, kTwo));
  EXPECT_THAT(
      ring.Upload(std::move(written), stream()),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("another ring")));
}

TEST_F(DecodeMetaRingTest, B31KernelsOfAnotherLayoutAreRefused) {
  ASSERT_OK_AND_ASSIGN(const DecodeMetaRing ring, MakeRing());
  ASSERT_OK_AND_ASSIGN(
      const DecodeMetaLayout other,
      DecodeMetaLayout::ForBatch(8, {.max_blocks = kTestMaxBlocks}));
  EXPECT_THAT(ring.CheckLayout(other),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("of 8 rows, uploads are written with id")));
  EXPECT_OK(ring.CheckLayout(layout()));
}

TEST_F(DecodeMetaRingTest, AnotherStreamIsRefusedUntilTheFirstIsLeft) {
  ASSERT_OK_AND_ASSIGN(DecodeMetaRing ring, MakeRing());
  ASSERT_OK_AND_ASSIGN(Stream other, Stream::Create(context()));
  ASSERT_OK(Upload(ring, 1, kFull, kTwo));
  ASSERT_OK_AND_ASSIGN(WrittenDecodeMeta second,
                       Write(ring, 2, kDelta, kTwoLater));
  EXPECT_THAT(ring.Upload(std::move(second), other.get()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("LeaveStream")));
  ASSERT_OK(ring.LeaveStream());
  ASSERT_OK_AND_ASSIGN(WrittenDecodeMeta again,
                       Write(ring, 2, kDelta, kTwoLater));
  EXPECT_OK(ring.Upload(std::move(again), other.get()));
  EXPECT_OK(ring.Release());
}

TEST_F(DecodeMetaRingTest, ACapturingStreamIsRefusedAndItsCaptureGoesOn) {
  ASSERT_OK_AND_ASSIGN(DecodeMetaRing ring, MakeRing());
  ASSERT_OK_AND_ASSIGN(WrittenDecodeMeta written, Write(ring, 1, kFull, kTwo));
  ASSERT_EQ(
      api().StreamBeginCapture(stream(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
      CUDA_SUCCESS);
  EXPECT_THAT(ring.Upload(std::move(written), stream()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("CapturedDecodeMeta")));
  EXPECT_OK(LaunchEcho());
  CUgraph graph = nullptr;
  ASSERT_EQ(api().StreamEndCapture(stream(), &graph), CUDA_SUCCESS);
  const Graph owned = Graph::Adopt(context(), graph);
  size_t nodes = 0;
  ASSERT_EQ(api().GraphGetNodes(graph, nullptr, &nodes), CUDA_SUCCESS);
  EXPECT_EQ(nodes, 1u);
  EXPECT_OK(Upload(ring, 1, kFull, kTwo));
}

TEST_F(DecodeMetaRingTest, ForgettingTheDeviceNeedsFull) {
  ASSERT_OK_AND_ASSIGN(DecodeMetaRing ring, MakeRing());
  ASSERT_OK(Upload(ring, 1, kFull, kTwo));
  ring.ForgetDevice();
  EXPECT_THAT(Upload(ring, 2, kDelta, kTwoLater),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_OK(Upload(ring, 2, kFull, kTwoLater));
}

TEST_F(DecodeMetaRingTest, WhatCannotBeUploadedToIsRefused) {
  DecodeMetaBlock small = block();
  --small.bytes;
  EXPECT_THAT(
      DecodeMetaRing::Create(context(), layout(), TestMetaLimits(), small),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("size it by the same layout")));
  for (DevicePtr base : {DevicePtr(), block().base + 128}) {
    EXPECT_THAT(DecodeMetaRing::Create(context(), layout(), TestMetaLimits(),
                                       {base, layout().full_bytes}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("limit a multiple of 256")));
  }
  EXPECT_THAT(MakeRing(0), StatusIs(absl::StatusCode::kInvalidArgument,
                                    HasSubstr("slots: got 0")));
}

TEST_F(DecodeMetaRingTest, ReleaseIsFinalAndMayBeRepeated) {
  ASSERT_OK_AND_ASSIGN(DecodeMetaRing ring, MakeRing());
  ASSERT_OK(Upload(ring, 1, kFull, kTwo));
  EXPECT_OK(ring.Release());
  ExpectNothingLeft();
  EXPECT_OK(ring.Release());
  EXPECT_THAT(ring.Acquire(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                       HasSubstr("released")));
}

TEST_F(DecodeMetaRingTest, ASlotOutlivesItsRing) {
  std::optional<DecodeMetaRing> ring;
  {
    absl::StatusOr<DecodeMetaRing> made = MakeRing();
    ASSERT_OK(made);
    ring.emplace(*std::move(made));
  }
  ASSERT_OK_AND_ASSIGN(DecodeMetaSlot slot, ring->Acquire());
  ring.reset();
  TestBatch batch(1, 4, kTwo);
  EXPECT_OK(std::move(slot).Write(batch.View(), kFull));
}

TEST_F(DecodeMetaRingTest, UploadsIntoTheArenasBufferUntilItIsReleased) {
  absl::StatusOr<ArenaPlan> plan = PlanArena(
      {::permafrost::testing::Sized("scratch", 5000, Lifetime::kPerLayer,
                                    "step"),
       ::permafrost::testing::Sized("decode_meta", layout().full_bytes,
                                    Lifetime::kHostWritten, "step")},
      PlanOptions{});
  ASSERT_OK(plan);
  ASSERT_OK_AND_ASSIGN(Arena arena, Arena::Create(context(), *plan));
  ASSERT_OK_AND_ASSIGN(
      DecodeMetaRing ring,
      DecodeMetaRing::ForArena(arena.view(), layout(), TestMetaLimits()));
  ASSERT_OK(Upload(ring, 1, kFull, kTwo));
  ASSERT_OK(stream_owner().Synchronize());
  ASSERT_OK_AND_ASSIGN(const BufferRef buffer,
                       arena.view().Find("decode_meta"));
  DecodeMetaHeader header;
  ASSERT_EQ(api().MemcpyDtoH(&header, buffer.base.value(), sizeof(header)),
            CUDA_SUCCESS);
  EXPECT_EQ(header.step, 1u);
  EXPECT_EQ(header.layout_id, layout().id());

  absl::StatusOr<WrittenDecodeMeta> written = Write(ring, 2, kDelta, kTwoLater);
  ASSERT_OK(written);
  ASSERT_OK(arena.Release());
  EXPECT_THAT(ring.Upload(*std::move(written), stream()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("arena was released")));
  EXPECT_THAT(ring.Acquire(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                       HasSubstr("arena was released")));
}

TEST_F(DecodeMetaRingTest, AnArenaWithoutTheBufferIsRefused) {
  absl::StatusOr<ArenaPlan> plan =
      PlanArena({::permafrost::testing::Sized("scratch", 5000,
                                              Lifetime::kPerLayer, "step")},
                PlanOptions{});
  ASSERT_OK(plan);
  ASSERT_OK_AND_ASSIGN(Arena arena, Arena::Create(context(), *plan));
  EXPECT_THAT(
      DecodeMetaRing::ForArena(arena.view(), layout(), TestMetaLimits()),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("decode_meta")));
}

}  // namespace
}  // namespace permafrost
