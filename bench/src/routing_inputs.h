// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_BENCH_ROUTING_INPUTS_H_
#define PERMAFROST_BENCH_ROUTING_INPUTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "permafrost/arena/external_region.h"
#include "permafrost/driver/context.h"
#include "permafrost/driver/device_ptr.h"
#include "permafrost/driver/handles.h"

namespace permafrost::bench {

/// How the rows of a batch are spread over the experts. In this order each one
/// routes to fewer tiles than the one before it (the list must shrink to show a
/// stale tail).
enum class Routing {
  kBalanced,   ///< Rows take turns over all experts.
  kSkewed,     ///< Nine rows in ten choose the same experts.
  kShrinking,  ///< Only the first half of the rows is routed at all.
  kEmpty,      ///< No row is routed: every logit is -infinity.
};

inline constexpr Routing kRoutings[] = {Routing::kBalanced, Routing::kSkewed,
                                        Routing::kShrinking, Routing::kEmpty};

/// "balanced", "skewed", "shrinking" or "empty".
const char* RoutingName(Routing routing);

/// The sizes of an input.
struct InputDimensions {
  int64_t layers = 0;
  int64_t max_rows = 0;
  int64_t hidden = 0;
  int64_t experts = 0;
  int64_t experts_per_token = 0;

  /// Bytes of the hidden rows and of the logits of all layers.
  absl::StatusOr<int64_t> TotalBytes() const;
};

/// One batch on the host.
struct HostInput {
  std::vector<uint16_t> hidden;            ///< bf16 [rows][hidden]
  std::vector<std::vector<float>> logits;  ///< of each layer, [rows][experts]
};

/// A batch of `rows` rows; a pure function of its arguments.
HostInput MakeInput(const InputDimensions& dimensions, Routing routing,
                    int64_t rows, uint64_t seed);

/// The device memory that a captured step reads its inputs from. It lies
/// outside the arena, as an engine's would.
class RoutingInputs {
 public:
  static absl::StatusOr<RoutingInputs> Create(const ContextRef& context,
                                              const InputDimensions& dimensions,
                                              uint64_t seed);

  /// bf16 [rows][hidden], what the first layer starts from.
  DevicePtr hidden_rows() const { return hidden_.ptr(); }

  /// f32 [rows][experts] of that layer.
  DevicePtr logits(int64_t layer) const;

  /// Writes a batch on `stream` and waits for it.
  absl::Status Write(Routing routing, int64_t rows, CUstream stream) const;

  /// The same batch on the host, for the oracle.
  HostInput OnHost(Routing routing, int64_t rows) const {
    return MakeInput(dimensions_, routing, rows, seed_);
  }

  const InputDimensions& dimensions() const { return dimensions_; }
  std::vector<ExternalRegion> regions() const;
  absl::Status Release();

 private:
  RoutingInputs(const InputDimensions& dimensions, uint64_t seed)
      : dimensions_(dimensions), seed_(seed) {}

  InputDimensions dimensions_;
  uint64_t seed_;
  DeviceBuffer hidden_;
  DeviceBuffer logits_;
};

}  // namespace permafrost::bench

#endif  // PERMAFROST_BENCH_ROUTING_INPUTS_H_
