// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Streams, events and host functions: assertions 58 to 66. The gate holds work
// back, so that what must not have run yet has not.
#include <atomic>

#include "contract_api.h"

namespace permafrost::contract {
namespace {

using StreamContract = ContractTest;

TEST_F(StreamContract, A058_EventThatWasNeverRecordedIsComplete) {
  EXPECT_CU_OK(cu.EventQuery(NewEvent()));
}

TEST_F(StreamContract, A059_QueriesTellWhetherWorkIsDone) {
  const CUstream stream = NewStream(kNonBlocking);
  const CUevent event = NewEvent();
  uint32_t* const gate = NewPinnedWords(1);
  ASSERT_CU_OK(LaunchGate(stream, gate));
  ASSERT_CU_OK(cu.EventRecord(event, stream));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cu.StreamQuery(stream));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cu.EventQuery(event));
  OpenGate(gate);
  ASSERT_CU_OK(cu.StreamSynchronize(stream));
  EXPECT_CU_OK(cu.StreamQuery(stream));
  EXPECT_CU_OK(cu.EventQuery(event));
}

TEST_F(StreamContract, A060_LegacyStreamWaitsForBlockingStreams) {
  const CUstream stream = NewStream(kBlocking);
  const CUdeviceptr words = NewWords(1);
  uint32_t* const gate = NewPinnedWords(1);
  ASSERT_CU_OK(LaunchGate(stream, gate));
  ASSERT_CU_OK(LaunchFill(nullptr, words, 1, 1));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cu.StreamQuery(CU_STREAM_LEGACY));
  OpenGate(gate);
  EXPECT_CU_OK(cu.StreamSynchronize(nullptr));
}

TEST_F(StreamContract, A060_LegacyStreamDoesNotWaitForNonBlockingStreams) {
  const CUstream stream = NewStream(kNonBlocking);
  const CUdeviceptr words = NewWords(1);
  uint32_t* const gate = NewPinnedWords(1);
  ASSERT_CU_OK(LaunchGate(stream, gate));
  ASSERT_CU_OK(LaunchFill(nullptr, words, 1, 1));
  EXPECT_CU_OK(cu.StreamSynchronize(nullptr));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cu.StreamQuery(stream));
  OpenGate(gate);
}

TEST_F(StreamContract, A061_WaitOrdersBehindWhatWasRecorded) {
  const CUstream first = NewStream(kNonBlocking);
  const CUstream second = NewStream(kNonBlocking);
  const CUevent event = NewEvent();
  const CUdeviceptr words = NewWords(64);
  uint32_t* const early = NewPinnedWords(1);
  uint32_t* const late = NewPinnedWords(1);
  ASSERT_CU_OK(LaunchGate(first, early));
  ASSERT_CU_OK(LaunchFill(first, words, 1, 64));
  ASSERT_CU_OK(cu.EventRecord(event, first));
  ASSERT_CU_OK(LaunchGate(first, late));
  ASSERT_CU_OK(cu.StreamWaitEvent(second, event, 0));
  ASSERT_CU_OK(LaunchAdd(second, words, 1, 64));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cu.StreamQuery(second));
  OpenGate(early);
  // What came later in the first stream does not hold the second one.
  EXPECT_CU_OK(cu.StreamSynchronize(second));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cu.StreamQuery(first));
  OpenGate(late);
  EXPECT_EQ(Read(words, 64), std::vector<uint32_t>(64, 2));
}

TEST_F(StreamContract, A062_RecordingAgainDoesNotMoveAnEarlierWait) {
  const CUstream first = NewStream(kNonBlocking);
  const CUstream second = NewStream(kNonBlocking);
  const CUstream third = NewStream(kNonBlocking);
  const CUevent event = NewEvent();
  uint32_t* const gate = NewPinnedWords(1);
  const CUdeviceptr words = NewWords(1);
  ASSERT_CU_OK(cu.EventRecord(event, first));
  ASSERT_CU_OK(cu.StreamWaitEvent(second, event, 0));
  ASSERT_CU_OK(LaunchGate(third, gate));
  ASSERT_CU_OK(cu.EventRecord(event, third));
  ASSERT_CU_OK(LaunchFill(second, words, 1, 1));
  EXPECT_CU_OK(cu.StreamSynchronize(second));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cu.EventQuery(event));
  OpenGate(gate);
}

TEST_F(StreamContract, A063_WaitForNoEventIsRefused) {
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE,
            cu.StreamWaitEvent(NewStream(kNonBlocking), nullptr, 0));
}

TEST_F(StreamContract, A064_ElapsedTime) {
  const CUstream stream = NewStream(kNonBlocking);
  const CUevent start = NewEvent();
  const CUevent end = NewEvent();
  const CUevent untimed = NewEvent(CU_EVENT_DISABLE_TIMING);
  float milliseconds = -1;
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE,
            cu.EventElapsedTime(&milliseconds, start, end));
  ASSERT_CU_OK(cu.EventRecord(start, stream));
  ASSERT_CU_OK(cu.EventRecord(untimed, stream));
  ASSERT_CU_OK(cu.EventRecord(end, stream));
  ASSERT_CU_OK(cu.StreamSynchronize(stream));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE,
            cu.EventElapsedTime(&milliseconds, start, untimed));
  EXPECT_CU_OK(cu.EventElapsedTime(&milliseconds, start, end));
  EXPECT_GE(milliseconds, 0);
}

TEST_F(StreamContract, A065_ExternalFlagsBelongToCaptures) {
  const CUstream stream = NewStream(kNonBlocking);
  const CUevent event = NewEvent();
  EXPECT_CU_FAILS(
      cu.EventRecordWithFlags(event, stream, CU_EVENT_RECORD_EXTERNAL));
  EXPECT_CU_FAILS(cu.StreamWaitEvent(stream, event, CU_EVENT_WAIT_EXTERNAL));
}

struct HostRecord {
  std::atomic<uint32_t>* word;
  uint32_t seen = 0;
};

void ReadThenWrite(void* data) {
  auto* record = static_cast<HostRecord*>(data);
  record->seen = record->word->load();
  record->word->store(100);
}

TEST_F(StreamContract, A066_HostFunctionsKeepTheStreamsOrder) {
  const CUstream stream = NewStream(kNonBlocking);
  uint32_t* const pinned = NewPinnedWords(1);
  const auto address = reinterpret_cast<CUdeviceptr>(pinned);
  HostRecord record = {reinterpret_cast<std::atomic<uint32_t>*>(pinned)};
  ASSERT_CU_OK(LaunchFill(stream, address, 7, 1));
  ASSERT_CU_OK(cu.LaunchHostFunc(stream, ReadThenWrite, &record));
  ASSERT_CU_OK(LaunchAdd(stream, address, 1, 1));
  ASSERT_CU_OK(cu.StreamSynchronize(stream));
  EXPECT_EQ(record.seen, 7u);
  EXPECT_EQ(*pinned, 101u);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cu.LaunchHostFunc(stream, nullptr, nullptr));
}

}  // namespace
}  // namespace permafrost::contract
