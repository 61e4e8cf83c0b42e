// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// What the tests of uploads share: a block on the device, a stream that can be
// held back, and the kernel that echoes.

#ifndef PERMAFROST_TESTS_ARENA_MEMORY_DECODE_META_FIXTURE_H_
#define PERMAFROST_TESTS_ARENA_MEMORY_DECODE_META_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "permafrost/arena/captured_decode_meta.h"
#include "permafrost/arena/decode_meta_ring.h"
#include "permafrost/driver/context.h"
#include "permafrost/driver/faulting_driver.h"
#include "permafrost/driver/handles.h"
#include "tests/arena/decode_batch_fixture.h"
#include "tests/arena/memory/echo_kernel.h"
#include "tests/support/soft_driver.h"
#include "tests/support/status_matchers.h"

namespace permafrost::testing {

/// Holds the work behind it in a stream until it is opened.
class Gate {
 public:
  Gate() = default;
  ~Gate() { Open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  CUresult Enqueue(const DriverApi& api, CUstream stream) {
    return api.LaunchHostFunc(
        stream, [](void* gate) { static_cast<Gate*>(gate)->Wait(); }, this);
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    opened_.notify_all();
  }

 private:
  void Wait() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [this] { return is_open_; });
  }

  std::mutex mutex_;
  std::condition_variable opened_;
  bool is_open_ = false;
};

class DecodeMetaUploadTest : public DriverTest {
 protected:
  static constexpr DecodeMetaMode kFull = DecodeMetaMode::kFull;
  static constexpr DecodeMetaMode kDelta = DecodeMetaMode::kDelta;
  static constexpr int kFill = 0xcd;

  void SetUp() override {
    DriverTest::SetUp();
    if (HasFatalFailure()) return;
    faulting_ = FaultingDriver::Wrap(driver());
    ASSERT_OK_AND_ASSIGN(context_, Context::RetainPrimary(faulting_->driver()));
    scope_.emplace(*DriverTest::context());
    ASSERT_OK(scope_->status());
    ASSERT_OK_AND_ASSIGN(
        layout_, DecodeMetaLayout::ForBatch(4, {.max_blocks = kTestMaxBlocks}));
    ASSERT_OK_AND_ASSIGN(kernel_, EchoKernel::Load(DriverTest::context()));
    ASSERT_OK_AND_ASSIGN(stream_, Stream::Create(DriverTest::context()));
    // A page behind the block shows what writes beyond it.
    ASSERT_OK_AND_ASSIGN(device_,
                         DeviceBuffer::Allocate(DriverTest::context(),
                                                layout_.full_bytes + 512));
    ASSERT_EQ(
        api().MemsetD8Async(device_.ptr().value(), kFill,
                            static_cast<size_t>(device_.bytes()), stream()),
        CUDA_SUCCESS);
    ASSERT_OK(stream_.Synchronize());
    bytes_before_ = LiveBytes();
    handles_before_ = LiveHandles();
    faulting().ResetCounts();
  }

  void TearDown() override {
    if (faulting_ != nullptr) faulting_->Disarm();
    if (stream_) {
      EXPECT_OK(stream_.Synchronize());
    }
    ExpectNothingLeft();
    device_ = {};
    stream_ = {};
    kernel_.reset();
    scope_.reset();
  }

  // Through the faulting driver; hides DriverTest's.
  const ContextRef& context() const { return context_; }
  FaultingDriver& faulting() { return *faulting_; }
  const DecodeMetaLayout& layout() const { return layout_; }
  CUstream stream() const { return stream_.get(); }
  Stream& stream_owner() { return stream_; }
  DecodeMetaBlock block() const { return {device_.ptr(), layout_.full_bytes}; }

  absl::StatusOr<DecodeMetaRing> MakeRing(int slots = 2) {
    return DecodeMetaRing::Create(context(), layout(), TestMetaLimits(),
                                  block(), slots);
  }
  absl::StatusOr<CapturedDecodeMeta> MakeCaptured(DecodeMetaMode mode) {
    return CapturedDecodeMeta::Create(context(), layout(), TestMetaLimits(),
                                      block(), mode);
  }

  /// Acquires and writes.
  template <typename Ring>
  absl::StatusOr<WrittenDecodeMeta> Write(
      Ring& ring, uint64_t step, DecodeMetaMode mode,
      const std::vector<TestSequence>& sequences) {
    PERMAFROST_ASSIGN_OR_RETURN(DecodeMetaSlot slot, ring.Acquire());
    TestBatch batch(step, layout().rows, sequences);
    return std::move(slot).Write(batch.View(), mode);
  }
  /// Acquires, writes, uploads; returns what the device has to echo.
  absl::StatusOr<StepEcho> Upload(DecodeMetaRing& ring, uint64_t step,
                                  DecodeMetaMode mode,
                                  const std::vector<TestSequence>& sequences) {
    PERMAFROST_ASSIGN_OR_RETURN(WrittenDecodeMeta written,
                                Write(ring, step, mode, sequences));
    const StepEcho echo = written.echo();
    PERMAFROST_RETURN_IF_ERROR(ring.Upload(std::move(written), stream()));
    return echo;
  }

  absl::Status LaunchEcho() const {
    return kernel_->Launch(stream(), device_.ptr(), layout_.full_bytes,
                           device_.ptr() + layout_.full_bytes + 256);
  }
  /// Waits for the stream and reads what the kernel wrote last.
  StepEcho ReadEcho() const {
    StepEcho echo;
    EXPECT_OK(stream_.Synchronize());
    EXPECT_EQ(api().MemcpyDtoH(
                  &echo, (device_.ptr() + layout_.full_bytes + 256).value(),
                  sizeof(echo)),
              CUDA_SUCCESS);
    return echo;
  }
  StepEcho RunStep() const {
    EXPECT_OK(LaunchEcho());
    return ReadEcho();
  }

  /// Waits for the stream and reads the block and 256 bytes behind it.
  std::vector<std::byte> ReadBlock() const {
    std::vector<std::byte> bytes(static_cast<size_t>(layout_.full_bytes) + 256);
    EXPECT_OK(stream_.Synchronize());
    EXPECT_EQ(
        api().MemcpyDtoH(bytes.data(), device_.ptr().value(), bytes.size()),
        CUDA_SUCCESS);
    return bytes;
  }
  std::vector<int32_t> ReadWords(int64_t offset, int64_t count) const {
    std::vector<int32_t> words(static_cast<size_t>(count));
    EXPECT_OK(stream_.Synchronize());
    EXPECT_EQ(api().MemcpyDtoH(words.data(), (device_.ptr() + offset).value(),
                               words.size() * 4),
              CUDA_SUCCESS);
    return words;
  }

  // What softcuda holds for this process; 0 on NVIDIA's driver, which does not
  // tell.
  int64_t LiveBytes() const { return soft() ? soft()->live_bytes() : 0; }
  int64_t LiveHandles() const { return soft() ? soft()->live_handles() : 0; }
  void ExpectNothingLeft() const {
    EXPECT_EQ(LiveBytes(), bytes_before_);
    EXPECT_EQ(LiveHandles(), handles_before_);
  }

 private:
  std::unique_ptr<FaultingDriver> faulting_;
  ContextRef context_;
  std::optional<Context::Scope> scope_;
  DecodeMetaLayout layout_;
  std::optional<EchoKernel> kernel_;
  Stream stream_;
  DeviceBuffer device_;
  int64_t bytes_before_ = 0;
  int64_t handles_before_ = 0;
};

}  // namespace permafrost::testing

#endif  // PERMAFROST_TESTS_ARENA_MEMORY_DECODE_META_FIXTURE_H_
