// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "permafrost/driver/device_ptr.h"

#include <gtest/gtest.h>

namespace permafrost {
namespace {

TEST(DevicePtrTest, DefaultIsNull) {
  EXPECT_TRUE(DevicePtr().is_null());
  EXPECT_FALSE(DevicePtr(1).is_null());
}

TEST(DevicePtrTest, OffsetsAndDifferencesAreInverse) {
  const DevicePtr base(0x7f0000000000);
  EXPECT_EQ((base + 4096).value(), CUdeviceptr{0x7f0000001000});
  EXPECT_EQ((base + 4096) - base, 4096);
  EXPECT_EQ(base - (base + 4096), -4096);
  EXPECT_EQ((base + 4096) + -4096, base);
}

TEST(DevicePtrTest, OrdersByAddressAboveTheSignBitToo) {
  EXPECT_LT(DevicePtr(1), DevicePtr(2));
  EXPECT_LT(DevicePtr(1), DevicePtr(0xffff000000000000));
}

TEST(DevicePtrTest, PrintsHexadecimal) {
  EXPECT_EQ(DevicePtr(0x7f001234abcd).ToString(), "0x7f001234abcd");
  EXPECT_EQ(DevicePtr().ToString(), "0x0");
}

}  // namespace
}  // namespace permafrost
