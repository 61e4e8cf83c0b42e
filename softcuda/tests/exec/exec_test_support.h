// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_TESTS_EXEC_EXEC_TEST_SUPPORT_H_
#define SOFTCUDA_TESTS_EXEC_EXEC_TEST_SUPPORT_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "check/report.h"
#include "exec/launch.h"
#include "memory/address_space.h"
#include "ptx/module.h"

namespace softcuda::testing {

/// Device memory that frees itself.
class DeviceMemory {
 public:
  explicit DeviceMemory(uint64_t bytes) : bytes_(bytes) {
    EXPECT_EQ(memory::AddressSpace::Get().Allocate(bytes, &address_),
              CUDA_SUCCESS);
  }
  template <class T>
  explicit DeviceMemory(const std::vector<T>& values)
      : DeviceMemory(values.size() * sizeof(T)) {
    std::memcpy(data(), values.data(), bytes_);
  }
  ~DeviceMemory() { memory::AddressSpace::Get().Free(address_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  uint64_t address() const { return address_; }
  void* data() const { return reinterpret_cast<void*>(address_); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data());
  }
  template <class T>
  std::vector<T> Read() const {
    std::vector<T> values(bytes_ / sizeof(T));
    std::memcpy(values.data(), data(), values.size() * sizeof(T));
    return values;
  }

 private:
  uint64_t address_ = 0;
  uint64_t bytes_ = 0;
};

/// What a test says of a launch beyond its kernel and arguments.
struct LaunchShape {
  exec::Dim3 grid = {};
  exec::Dim3 block = {32, 1, 1};
  uint32_t dynamic_shared_bytes = 0;
  uint64_t seed = 0;
  uint64_t step_limit = 0;
};

/// A loaded module and the reports of what ran from it.
class Loaded {
 public:
  Loaded(const void* image, size_t bytes, int capability = 90) {
    module_ = ptx::LoadImage(image, bytes, capability, &error_);
    reporter_.set_quiet(true);
  }
  explicit Loaded(std::string_view text) : Loaded(text.data(), text.size()) {}

  explicit operator bool() const { return module_ != nullptr; }
  const ptx::LoadError& error() const { return error_; }
  const ptx::Module& module() const { return *module_; }
  check::Reporter& reporter() { return reporter_; }
  /// All reports so far as one text; forgets them.
  std::string TakeReports() {
    std::string all;
    for (const std::string& text : reporter_.TakeTexts()) all += text + "\n";
    return all;
  }

  template <class... Args>
  CUresult Run(const std::string& kernel, const LaunchShape& shape,
               const Args&... args) {
    exec::Launch launch;
    if (module_ != nullptr) launch.kernel = module_->Find(kernel);
    if (launch.kernel == nullptr) {
      ADD_FAILURE() << "no kernel " << kernel << ": " << error_.message;
      return CUDA_ERROR_NOT_FOUND;
    }
    launch.grid = shape.grid;
    launch.block = shape.block;
    launch.dynamic_shared_bytes = shape.dynamic_shared_bytes;
    launch.seed = shape.seed;
    launch.step_limit = shape.step_limit;
    launch.origin = "test launch";
    launch.params.resize(launch.kernel->param_bytes());
    size_t index = 0;
    (SetParam(&launch, index++, args), ...);
    return exec::Run(launch, *memory::AddressSpace::Get().snapshot(),
                     reporter_);
  }

 private:
  template <class T>
  static void SetParam(exec::Launch* launch, size_t index, const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto& params = launch->kernel->params();
    ASSERT_LT(index, params.size());
    ASSERT_EQ(params[index].size, sizeof(T));
    std::memcpy(launch->params.data() + params[index].offset, &value,
                sizeof(T));
  }

  ptx::LoadError error_;
  std::shared_ptr<const ptx::Module> module_;
  check::Reporter reporter_;
};

/// The first lines of every PTX text of these tests.
inline std::string Ptx(std::string_view body) {
  return ".version 9.0\n.target sm_90\n.address_size 64\n" + std::string(body);
}

}  // namespace softcuda::testing

#endif  // SOFTCUDA_TESTS_EXEC_EXEC_TEST_SUPPORT_H_
