// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_DRIVER_DEVICE_PTR_H_
#define PERMAFROST_DRIVER_DEVICE_PTR_H_

#include <cuda.h>

#include <compare>
#include <cstdint>
#include <string>
#include <utility>

namespace permafrost {

/// An address in device memory.
///
/// A type of its own, so that a device address is never passed where a host
/// pointer, a size or an offset is meant. It owns nothing and can be copied
/// freely. The default value is the null address.
///
/// Units: offsets and differences are bytes, and may be negative.
class DevicePtr {
 public:
  constexpr DevicePtr() = default;
  explicit constexpr DevicePtr(CUdeviceptr value) : value_(value) {}

  /// The address as the driver takes it.
  constexpr CUdeviceptr value() const { return value_; }
  constexpr bool is_null() const { return value_ == 0; }

  /// The address `bytes` further on.
  constexpr DevicePtr operator+(int64_t bytes) const {
    return DevicePtr(value_ + static_cast<CUdeviceptr>(bytes));
  }

  /// The distance in bytes from `other` to this address.
  constexpr int64_t operator-(DevicePtr other) const {
    return static_cast<int64_t>(value_ - other.value_);
  }

  constexpr auto operator<=>(const DevicePtr&) const = default;

  /// The address in hexadecimal: "0x7f0012345600".
  std::string ToString() const;

  template <typename H>
  friend H AbslHashValue(H h, DevicePtr ptr) {
    return H::combine(std::move(h), ptr.value_);
  }

 private:
  CUdeviceptr value_ = 0;
};

}  // namespace permafrost

#endif  // PERMAFROST_DRIVER_DEVICE_PTR_H_
