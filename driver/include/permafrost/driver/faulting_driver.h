// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_DRIVER_FAULTING_DRIVER_H_
#define PERMAFROST_DRIVER_FAULTING_DRIVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "permafrost/driver/driver.h"

namespace permafrost {

/// A driver that fails a chosen call, and counts every call.
///
/// It wraps any driver. A failed call does not reach the driver below: it
/// returns the chosen result and does nothing, so what a test finds afterwards
/// is what the code under test left behind.
///
/// Typical use, for a path of several steps:
///   for (int64_t n = 1;; ++n) {
///     faulting->FailCall(n);
///     RunThePath();
///     if (faulting->last_failed_call().empty()) break;  // no n-th call
///     faulting->Disarm();
///     ExpectNothingLeft();
///   }
///
/// One may be alive in a process, because entry points carry no user data.
///
/// Threads: counting and failing are safe from any thread and do not allocate
///   or lock; arm and disarm while no other thread makes driver calls.
class FaultingDriver {
 public:
  /// Aborts when another FaultingDriver is alive.
  static std::unique_ptr<FaultingDriver> Wrap(DriverRef base);

  ~FaultingDriver();
  FaultingDriver(const FaultingDriver&) = delete;
  FaultingDriver& operator=(const FaultingDriver&) = delete;

  /// The driver to hand to the code under test. When the FaultingDriver is
  /// gone its calls go straight to the driver below.
  const DriverRef& driver() const { return driver_; }

  /// Makes the `nth` call from now, 1 being the next, return `result`. Calls
  /// after it pass through again. With `entry`, as "cuMemMap", only calls of
  /// that entry point count and fail. Replaces what was armed before and
  /// clears `last_failed_call()`.
  void FailCall(int64_t nth, CUresult result = CUDA_ERROR_OUT_OF_MEMORY,
                absl::string_view entry = "");

  /// As FailCall, but every (matching) call from the `nth` on fails.
  void FailFrom(int64_t nth, CUresult result = CUDA_ERROR_OUT_OF_MEMORY,
                absl::string_view entry = "");

  /// Lets all calls pass again. `last_failed_call()` stays.
  void Disarm();

  /// Calls since the last `ResetCounts()`, failed ones included.
  int64_t calls() const;
  int64_t calls(absl::string_view entry) const;
  void ResetCounts();

  /// The entry point that failed last since it was armed; empty if none did.
  std::string last_failed_call() const;

 private:
  explicit FaultingDriver(DriverRef base);

  DriverRef driver_;
};

}  // namespace permafrost

#endif  // PERMAFROST_DRIVER_FAULTING_DRIVER_H_
