// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_SRC_OVERLAY_LIVE_RANGES_H_
#define PERMAFROST_ARENA_SRC_OVERLAY_LIVE_RANGES_H_

#include <vector>

#include "overlay/step_order.h"
#include "permafrost/arena/overlay.h"
#include "permafrost/arena/step_dag.h"

namespace permafrost {

/// `FindLives` for a step that is valid and whose order is known.
std::vector<BufferLife> LivesOf(const StepDag& step, const StepOrder& order);

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_SRC_OVERLAY_LIVE_RANGES_H_
