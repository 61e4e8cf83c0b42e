// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "permafrost/arena/arena_plan.h"

namespace permafrost {
namespace {

std::vector<AddressedRange> Two() {
  return {{"hidden_states", DevicePtr(0x700000000000), 8388608},
          {"moe_output", DevicePtr(0x700000800000), 4096}};
}

TEST(AddressFingerprintTest, EqualsValuesWorkedOutElsewhere) {
  // FNV-1a over the documented encoding, computed by an independent program.
  EXPECT_EQ(AddressFingerprint({}), 0xa8c7f832281a39c5u);
  EXPECT_EQ(AddressFingerprint(Two()), 0x3e8953c14263f196u);
}

TEST(AddressFingerprintTest, ChangesWithEveryPartOfEveryRange) {
  std::set<uint64_t> seen = {AddressFingerprint(Two())};
  const auto expect_new = [&seen](const std::vector<AddressedRange>& ranges) {
    EXPECT_TRUE(seen.insert(AddressFingerprint(ranges)).second);
  };
  for (size_t i = 0; i < Two().size(); ++i) {
    std::vector<AddressedRange> changed = Two();
    changed[i].name = "other";
    expect_new(changed);
    changed = Two();
    changed[i].address = changed[i].address + 1;
    expect_new(changed);
    changed = Two();
    changed[i].bytes += 1;
    expect_new(changed);
    changed = Two();
    changed.erase(changed.begin() + static_cast<std::ptrdiff_t>(i));
    expect_new(changed);
  }
  std::vector<AddressedRange> reversed = Two();
  std::reverse(reversed.begin(), reversed.end());
  expect_new(reversed);
}

TEST(AddressFingerprintTest, NameAndNumbersDoNotRunIntoEachOther) {
  // Without lengths these would be the same bytes.
  const absl::string_view long_name("ab\1\0\0\0\0\0\0\0", 10);
  const std::vector<AddressedRange> name_holds_number = {
      {long_name, DevicePtr(1), 1}};
  const std::vector<AddressedRange> number_follows = {{"ab", DevicePtr(1), 1}};
  EXPECT_NE(AddressFingerprint(name_holds_number),
            AddressFingerprint(number_follows));
  EXPECT_NE(
      AddressFingerprint({{{"ab", DevicePtr(0), 0}, {"c", DevicePtr(0), 0}}}),
      AddressFingerprint({{{"a", DevicePtr(0), 0}, {"bc", DevicePtr(0), 0}}}));
}

}  // namespace
}  // namespace permafrost
