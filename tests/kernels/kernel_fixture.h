// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// What the kernel tests share: loaded kernels, device arrays with poison, and
// one test body run eagerly, captured, and replayed.

#ifndef PERMAFROST_TESTS_KERNELS_KERNEL_FIXTURE_H_
#define PERMAFROST_TESTS_KERNELS_KERNEL_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "permafrost/arena/model_config.h"
#include "permafrost/driver/handles.h"
#include "permafrost/kernels/moe_kernels.h"
#include "soft_driver.h"
#include "status_matchers.h"

namespace permafrost::kernels::testing {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// How a test's launches reach the device.
enum class LaunchMode { kEager, kCaptured, kReplayed3 };

std::string LaunchModeName(LaunchMode mode);

/// Sets device memory and waits: the default stream, which memset runs on,
/// orders nothing with the tests' non-blocking stream.
absl::Status FillDevice(const Context& context, DevicePtr base, uint8_t byte,
                        int64_t bytes);
/// The same for a copy from host memory.
absl::Status CopyToDevice(const Context& context, DevicePtr base,
                          const void* from, int64_t bytes);

/// An array in device memory.
template <typename T>
class DeviceArray {
 public:
  static absl::StatusOr<DeviceArray> Create(const ContextRef& context,
                                            int64_t count) {
    DeviceArray array;
    PERMAFROST_ASSIGN_OR_RETURN(
        array.buffer_, DeviceBuffer::Allocate(
                           context, count * static_cast<int64_t>(sizeof(T))));
    array.count_ = count;
    return array;
  }

  DevicePtr ptr() const { return buffer_.ptr(); }
  int64_t count() const { return count_; }
  int64_t bytes() const { return count_ * static_cast<int64_t>(sizeof(T)); }

  absl::Status Upload(absl::Span<const T> values) const {
    return CopyToDevice(*buffer_.context(), ptr(), values.data(),
                        static_cast<int64_t>(values.size() * sizeof(T)));
  }

  absl::StatusOr<std::vector<T>> Download() const {
    const Context::Scope scope = buffer_.context()->MakeCurrent();
    PERMAFROST_RETURN_IF_ERROR(scope.status());
    std::vector<T> values(static_cast<size_t>(count_));
    PERMAFROST_RETURN_IF_ERROR(CuStatus(
        buffer_.context()->api().MemcpyDtoH(values.data(), ptr().value(),
                                            static_cast<size_t>(bytes())),
        "cuMemcpyDtoH"));
    return values;
  }

  absl::Status Fill(uint8_t byte) const {
    return FillDevice(*buffer_.context(), ptr(), byte, bytes());
  }

 private:
  DeviceBuffer buffer_;
  int64_t count_ = 0;
};

/// A test with loaded kernels and a stream. Every such test runs with
/// softcuda's initcheck on, and fails when a checker reports anything that the
/// test did not take with `TakeReports`.
class KernelTest : public ::permafrost::testing::DriverTest {
 protected:
  void SetUp() override;
  void TearDown() override;

  const MoeKernels& kernels() const { return *kernels_; }
  CUstream stream() const { return stream_.get(); }
  absl::Status Synchronize() const { return stream_.Synchronize(); }

  /// Reports since the test began or since the last call; the test owns them.
  std::vector<std::string> TakeReports();

  /// Writes `byte` over an array and then declares it undefined, so that
  /// reading it before it is written is seen by initcheck on softcuda and shows
  /// as nonsense elsewhere.
  template <typename T>
  absl::Status Poison(const DeviceArray<T>& array, uint8_t byte = 0xa5) {
    PERMAFROST_RETURN_IF_ERROR(array.Fill(byte));
    MarkUndefined(array.ptr(), array.bytes());
    return absl::OkStatus();
  }
  void MarkUndefined(DevicePtr base, int64_t bytes);

  /// Runs what `enqueue` enqueues: at once; or captured and launched once; or
  /// captured and launched three times. `prepare` runs before each execution,
  /// `check` after it, both with the stream drained.
  absl::Status Run(LaunchMode mode,
                   const std::function<absl::Status(CUstream)>& enqueue,
                   const std::function<absl::Status()>& prepare,
                   const std::function<void()>& check);

 private:
  std::unique_ptr<MoeKernels> kernels_;
  Stream stream_;
};

/// The same body in each mode: INSTANTIATE with `AllModes()`.
class KernelModeTest : public KernelTest,
                       public ::testing::WithParamInterface<LaunchMode> {};

inline auto AllModes() {
  return ::testing::Values(LaunchMode::kEager, LaunchMode::kCaptured,
                           LaunchMode::kReplayed3);
}
inline std::string ModeParamName(
    const ::testing::TestParamInfo<LaunchMode>& info) {
  return LaunchModeName(info.param);
}

/// A model with just what the MoE layouts and buffers need.
ModelConfig TinyMoeConfig(int64_t hidden, int64_t expert_width, int64_t experts,
                          int64_t topk);

/// Reproducible pseudo-random test data.
class TestData {
 public:
  explicit TestData(uint32_t seed) : engine_(seed) {}

  /// Uniform in [0, limit).
  int64_t Below(int64_t limit) {
    return static_cast<int64_t>(engine_() % static_cast<uint64_t>(limit));
  }
  /// Uniform in [-1, 1), with 16 bits.
  float Unit() { return static_cast<float>(Below(65536) - 32768) / 32768.0F; }

  std::vector<float> Floats(int64_t count, float magnitude);
  std::vector<uint16_t> Bf16s(int64_t count, float magnitude);
  /// Finite e4m3 values of up to 14 in magnitude.
  std::vector<uint8_t> E4m3s(int64_t count);
  /// Positive scales around `magnitude`.
  std::vector<float> Scales(int64_t count, float magnitude);
  /// Distinct experts for each row.
  std::vector<int32_t> TopKIds(int64_t rows, int64_t experts, int64_t topk);

 private:
  std::mt19937 engine_;
};

}  // namespace permafrost::kernels::testing

#endif  // PERMAFROST_TESTS_KERNELS_KERNEL_FIXTURE_H_
