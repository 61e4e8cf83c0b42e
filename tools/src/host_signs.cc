// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "host_signs.h"

#include <unistd.h>

#include <fstream>

namespace permafrost::tool {

HostSigns ReadHostSigns(const std::string& root) {
  HostSigns signs;
  std::ifstream version(root + "/proc/driver/nvidia/version");
  std::getline(version, signs.kernel_module);
  const std::string node = root + "/dev/nvidiactl";
  signs.has_control_node = access(node.c_str(), F_OK) == 0;
  signs.may_open_control_node = access(node.c_str(), R_OK | W_OK) == 0;
  return signs;
}

}  // namespace permafrost::tool
