// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "permafrost/driver/device_ptr.h"

#include "absl/strings/str_cat.h"

namespace permafrost {

std::string DevicePtr::ToString() const {
  return absl::StrCat("0x", absl::Hex(value_));
}

}  // namespace permafrost
