// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "permafrost/driver/driver_api.h"

namespace permafrost {

const char* EntryPointName(EntryPoint entry) {
  switch (entry) {
#define PERMAFROST_ENTRY_POINT(name, version) \
  case EntryPoint::k##name:                   \
    return "cu" #name;
#include "permafrost/driver/entry_points.inc"
#undef PERMAFROST_ENTRY_POINT
    case EntryPoint::kCount:
      break;
  }
  return "";
}

}  // namespace permafrost
