// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_DRIVER_CONTEXT_H_
#define PERMAFROST_DRIVER_CONTEXT_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "permafrost/driver/driver.h"

namespace permafrost {

/// A device's primary context, retained for as long as the object lives.
///
/// Every owner of driver objects holds one of these, so that the context
/// outlives what was made in it, and makes it current around its calls. It is
/// the context the CUDA runtime uses too, so memory and streams of an engine
/// that uses the runtime belong to the same one.
///
/// Threads: immutable; every method is safe from any thread.
class Context {
 public:
  /// Retains the primary context of device `ordinal`. It is not made current.
  /// Errors: kInvalidArgument for an ordinal out of range, naming the limit.
  static absl::StatusOr<std::shared_ptr<const Context>> RetainPrimary(
      DriverRef driver, int ordinal = 0);

  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Driver& driver() const { return *driver_; }
  const DriverRef& driver_ref() const { return driver_; }
  const DriverApi& api() const { return driver_->api(); }

  CUcontext get() const { return context_; }
  CUdevice device() const { return device_; }
  int ordinal() const { return ordinal_; }

  /// The device's architecture as major * 10 + minor: 90 is sm_90.
  int compute_capability() const { return compute_capability_; }

  /// The device's name as the driver gives it.
  absl::StatusOr<std::string> DeviceName() const;

  /// The device's memory, in bytes.
  absl::StatusOr<int64_t> TotalMemoryBytes() const;

  /// The device's memory that is free now, in bytes. Other processes and other
  /// threads change it at any time.
  /// Capture: unsafe while a stream captures; the driver may refuse it.
  absl::StatusOr<int64_t> FreeMemoryBytes() const;

  /// One of the driver's CU_DEVICE_ATTRIBUTE_* values.
  absl::StatusOr<int> DeviceAttribute(CUdevice_attribute attribute) const;

  /// Makes a context current on this thread for as long as the scope lives,
  /// and puts the one before back. Scopes nest.
  ///
  /// Capture: legal. Cost: two driver calls, well under a microsecond.
  /// Threads: a scope ends on the thread it began on.
  class [[nodiscard]] Scope {
   public:
    explicit Scope(const Context& context);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    /// Whether the context is current. When it is not, calls made in the scope
    /// would reach another context, so every user of a scope asks.
    const absl::Status& status() const { return status_; }

   private:
    const DriverApi& api_;
    absl::Status status_;
  };

  Scope MakeCurrent() const { return Scope(*this); }

 private:
  Context() = default;

  DriverRef driver_;
  CUcontext context_ = nullptr;
  CUdevice device_ = 0;
  int ordinal_ = 0;
  int compute_capability_ = 0;
};

/// How the rest of the library holds a context.
using ContextRef = std::shared_ptr<const Context>;

}  // namespace permafrost

#endif  // PERMAFROST_DRIVER_CONTEXT_H_
