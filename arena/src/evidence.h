// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_ARENA_SRC_EVIDENCE_H_
#define PERMAFROST_ARENA_SRC_EVIDENCE_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "permafrost/arena/arena.h"
#include "permafrost/arena/arena_plan.h"
#include "permafrost/driver/context.h"
#include "permafrost/driver/device_ptr.h"

namespace permafrost::internal {

// How the arena got its memory, which decides what the driver can be asked.
enum class MemorySource { kSegmentMappings, kOneAllocation };

// Asks the driver what lies at base + offset of each present buffer of the
// segments, given by their numbers in the plan.
absl::StatusOr<ArenaEvidence> ReadEvidence(const Context& context,
                                           const ArenaPlan& plan,
                                           DevicePtr base, MemorySource source,
                                           absl::Span<const size_t> segments);

// OK when each buffer of `evidence` is mapped, at its planned place.
absl::Status CheckComplete(const ArenaEvidence& evidence, const ArenaPlan& plan,
                           DevicePtr base);

// OK when both say the same of every buffer of `now`. The lists are of one
// plan, in one order; `now` may leave buffers out.
absl::Status CompareEvidence(const ArenaEvidence& recorded,
                             const ArenaEvidence& now);

}  // namespace permafrost::internal

#endif  // PERMAFROST_ARENA_SRC_EVIDENCE_H_
