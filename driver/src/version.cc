// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/driver/version.h"

namespace permafrost {

const char* LibraryVersion() { return PERMAFROST_VERSION; }

}  // namespace permafrost
