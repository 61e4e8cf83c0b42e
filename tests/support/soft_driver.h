// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// The driver and the context that tests run on: what PERMAFROST_DRIVER says,
// which is softcuda where there is no GPU.

#ifndef PERMAFROST_TESTS_SUPPORT_SOFT_DRIVER_H_
#define PERMAFROST_TESTS_SUPPORT_SOFT_DRIVER_H_

#include <gtest/gtest.h>

#include <optional>

#include "absl/status/statusor.h"
#include "permafrost/driver/context.h"
#include "permafrost/driver/driver.h"
#include "permafrost/driver/softcuda_control.h"
#include "permafrost/driver/status.h"

namespace permafrost::testing {

/// The process's driver, loaded at the first call.
inline const absl::StatusOr<DriverRef>& TestDriver() {
  static const auto* const driver =
      new absl::StatusOr<DriverRef>([]() -> absl::StatusOr<DriverRef> {
        PERMAFROST_ASSIGN_OR_RETURN(const DriverChoice choice,
                                    DriverChoice::FromEnvironment());
        return Driver::Load(choice);
      }());
  return *driver;
}

/// A test with a driver and device 0's context. Fails, rather than skips, when
/// there is none: a suite that ran nothing must not pass.
class DriverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(TestDriver().ok()) << TestDriver().status();
    driver_ = *TestDriver();
    soft_ = SoftcudaControl::Of(*driver_);
    absl::StatusOr<ContextRef> context = Context::RetainPrimary(driver_);
    ASSERT_TRUE(context.ok()) << context.status();
    context_ = *context;
  }

  const DriverRef& driver() const { return driver_; }
  const DriverApi& api() const { return driver_->api(); }
  const ContextRef& context() const { return context_; }

  /// softcuda's controls; nullopt on NVIDIA's driver.
  const std::optional<SoftcudaControl>& soft() const { return soft_; }

 private:
  DriverRef driver_;
  ContextRef context_;
  std::optional<SoftcudaControl> soft_;
};

}  // namespace permafrost::testing

// For a test that only softcuda can run: skips it on NVIDIA's driver.
#define PERMAFROST_NEEDS_SOFTCUDA()                     \
  if (!soft().has_value())                              \
  GTEST_SKIP() << "needs softcuda's controls, runs on " \
               << ::permafrost::DriverKindName(driver()->kind())

#endif  // PERMAFROST_TESTS_SUPPORT_SOFT_DRIVER_H_
