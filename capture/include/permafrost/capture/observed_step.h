// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_CAPTURE_OBSERVED_STEP_H_
#define PERMAFROST_CAPTURE_OBSERVED_STEP_H_

#include <cuda.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "permafrost/arena/step_dag.h"
#include "permafrost/capture/address_audit.h"
#include "permafrost/driver/driver.h"

namespace permafrost {

/// Turns a captured graph into the step that it is: one operation a node, its
/// uses of the arena's buffers, and the graph's own edges. What it says is
/// `observed`: nobody's word is taken but the driver's and the signatures'.
///
/// A kernel with a signature uses what its address parameters name, for as many
/// bytes as their extents say. A kernel without one, or whose parameters the
/// signature does not match, reads and writes all of every buffer that one of
/// its words names. Copies and fills use the bytes of their one row; a copy or
/// fill of several rows uses all of the buffer. Memory outside the arena is
/// left out: it is no buffer of the plan.
///
/// A write counts as overwriting exactly where it covers every byte of the
/// buffer that an operation which is not before it reads. Everything else keeps
/// the old content alive.
///
/// @param scope  `scope.arena` must not be null. Buffers of its plan must not
///   share bytes: an address in shared bytes would name several. Observe on an
///   arena without overlay, and hold the graph of the overlaid one against the
///   result with `CheckObserved`.
/// @param report  of `AuditGraph` on this graph in this scope.
/// Capture: on a finished graph only. Threads: as `AuditGraph`.
/// Errors: kInvalidArgument for a null arena; kFailedPrecondition for an
///   address that several buffers hold, naming them, and for a node of a kind
///   that is not read, naming the node; the driver's when a read fails.
/// Cost: one or two driver calls, then quadratic in the uses of one buffer.
absl::StatusOr<StepDag> ObserveStep(const Driver& driver, CUgraph graph,
                                    const AuditScope& scope,
                                    const AuditReport& report);

/// Whether a graph does what `step`, which was observed on another arena, says:
/// the same nodes in the driver's order, the same edges, and every address of a
/// node inside one of the buffers that the operation uses.
///
/// Errors: kFailedPrecondition naming the node or the edge and what differs;
/// the
///   driver's when a read fails.
absl::Status CheckObserved(const Driver& driver, CUgraph graph,
                           const AuditScope& scope, const AuditReport& report,
                           const StepDag& step);

}  // namespace permafrost

#endif  // PERMAFROST_CAPTURE_OBSERVED_STEP_H_
