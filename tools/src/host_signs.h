// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_TOOLS_HOST_SIGNS_H_
#define PERMAFROST_TOOLS_HOST_SIGNS_H_

#include <string>

namespace permafrost::tool {

/// What a machine shows of NVIDIA's driver without loading it: enough to tell a
/// missing driver from one that a container or a permission hides.
struct HostSigns {
  /// The first line of /proc/driver/nvidia/version; empty where no kernel
  /// module runs.
  std::string kernel_module = {};
  bool has_control_node = false;       ///< /dev/nvidiactl is there.
  bool may_open_control_node = false;  ///< and this user may read and write it.
};

/// @param root  put before the paths; "" for the machine itself.
HostSigns ReadHostSigns(const std::string& root = "");

}  // namespace permafrost::tool

#endif  // PERMAFROST_TOOLS_HOST_SIGNS_H_
