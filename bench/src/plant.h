// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_BENCH_PLANT_H_
#define PERMAFROST_BENCH_PLANT_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "permafrost/arena/arena.h"
#include "permafrost/capture/captured_graph.h"
#include "permafrost/driver/driver.h"

namespace permafrost::bench {

/// A fault that can be put into a run, to show that the part that should find
/// it does.
enum class Plant {
  kNone,
  kBuilderSkipsTotal,
  kConsumerReadsPastTotal,
  kWritePastBuffer,
  kAllocInCapture,
  kForeignAddress,
  kSkippedReplay,
  kRemappedBuffer,
  kChangedNodeParam,
};

/// One planted fault and who answers for it.
struct PlantInfo {
  Plant plant;
  const char* name;   ///< As `--plant` takes it.
  const char* fault;  ///< What is wrong in the run.
  const char* soft_finder;
  /// Null: nothing on a real driver sees it.
  const char* cuda_finder;
};

/// All faults, in the order in which `--plant=help` lists them.
absl::Span<const PlantInfo> Plants();

/// The fault of that name; nullopt when there is none.
std::optional<Plant> FindPlant(absl::string_view name);

/// What is known of a fault other than kNone.
const PlantInfo& InfoOf(Plant plant);

/// The part that must find the fault on a driver of that kind; null where
/// nothing can.
const char* FinderOf(const PlantInfo& info, DriverKind kind);

/// Puts other physical memory behind the last segment of the arena, at the same
/// addresses, without telling the arena. The arena's own release still works,
/// because its address range stays mapped until then.
///
/// Errors: the driver's.
absl::Status RemapBehindArena(const ArenaView& arena);

/// Moves the first address parameter of the last kernel node by 256 bytes, in
/// the driver's graph.
///
/// Errors: NotFound for a graph without such a parameter; the driver's.
absl::Status ChangeNodeParameter(const CapturedGraph& graph);

}  // namespace permafrost::bench

#endif  // PERMAFROST_BENCH_PLANT_H_
