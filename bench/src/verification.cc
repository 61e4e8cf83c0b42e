// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "verification.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "permafrost/arena/moe_fp8_layout.h"
#include "permafrost/driver/status.h"
#include "permafrost/kernels/moe_layer.h"
#include "permafrost/kernels/oracle.h"
#include "routing_inputs.h"

namespace permafrost::bench {
namespace {

// Which replay of the schedule the fault skipped-replay leaves out.
constexpr int64_t kSkippedReplay = 2;

// A routing weight is one exponential and one division away from its logit.
constexpr double kWeightTolerance = 1e-5;

// What a perturbation of a layer's input can grow to at its output: it passes
// through the residual and through the experts, whose random weights keep the
// size of their input.
constexpr double kLayerGain = 4;

std::vector<std::byte> BytesOf(const void* data, size_t bytes) {
  std::vector<std::byte> copy(bytes);
  if (bytes > 0) std::memcpy(copy.data(), data, bytes);
  return copy;
}

ExpectedOutput Exactly(const std::vector<int32_t>& values) {
  ExpectedOutput expected;
  expected.bytes = BytesOf(values.data(), values.size() * sizeof(int32_t));
  return expected;
}

std::vector<uint16_t> ToBf16(const std::vector<float>& values) {
  std::vector<uint16_t> bits;
  bits.reserve(values.size());
  for (float value : values) bits.push_back(kernels::FloatToBf16(value));
  return bits;
}

// The rows after all layers. From the second layer on, the input of a layer is
// itself only known up to a tolerance.
ExpectedOutput ExpectedRows(const StepParts& parts, const HostInput& input,
                            int64_t rows) {
  std::vector<uint16_t> layer_in = input.hidden;
  ExpectedOutput expected;
  double input_tolerance = 0;
  for (size_t layer = 0; layer < input.logits.size(); ++layer) {
    kernels::MoeLayerResult result = kernels::RunMoeLayerOracle(
        parts.shape, parts.weights.host_layer(static_cast<int64_t>(layer)),
        input.logits[layer], layer_in, rows);
    expected.abs_tolerance = kLayerGain * input_tolerance;
    input_tolerance = expected.abs_tolerance + result.max_tolerance;
    expected.values = std::move(result.out);
    expected.tolerances = std::move(result.tolerance);
    layer_in = ToBf16(expected.values);
  }
  return expected;
}

// The outputs of one run and the oracle for them, in one order.
class MoeOutputs {
 public:
  static absl::StatusOr<MoeOutputs> Create(const ArenaView& arena,
                                           const StepParts& parts) {
    MoeOutputs outputs(parts);
    const std::string out_name =
        OutputBufferOf(parts.inputs.dimensions().layers);
    PERMAFROST_ASSIGN_OR_RETURN(const BufferRef out, arena.Find(out_name));
    PERMAFROST_ASSIGN_OR_RETURN(const BufferRef routing,
                                arena.Find("moe_routing"));
    PERMAFROST_ASSIGN_OR_RETURN(const BufferRef slab,
                                arena.Find("moe_fp8_scratch"));
    PERMAFROST_ASSIGN_OR_RETURN(
        outputs.slab_layout_,
        MoeFp8Layout::Stable(parts.config, parts.max_rows, parts.max_rows));
    const MoeRoutingLayout& tables = parts.routing_layout;
    const int64_t topk = parts.shape.topk;
    outputs.Add(out_name, out.base, ElementType::kBf16, parts.shape.hidden * 2);
    outputs.Add("moe_routing.topk_ids", routing.base + tables.topk_ids,
                ElementType::kI32, topk * 4);
    outputs.Add("moe_routing.topk_weights", routing.base + tables.topk_weights,
                ElementType::kF32, topk * 4);
    outputs.Add("moe_routing.inverse", routing.base + tables.inverse,
                ElementType::kI32, topk * 4);
    outputs.AddFixed("moe_routing.offsets", routing.base + tables.offsets,
                     (parts.shape.experts + 1) * 4);
    outputs.AddFixed("moe_fp8_scratch.total_tiles",
                     slab.base + outputs.slab_layout_.counter, 4);
    if (outputs.slab_layout_.has_small_list()) {
      outputs.AddFixed("moe_fp8_scratch.small_total_tiles",
                       slab.base + outputs.slab_layout_.small_counter, 4);
    }
    return outputs;
  }

  const std::vector<OutputRegion>& regions() const { return regions_; }

  std::vector<ExpectedOutput> Expect(Routing routing, int64_t rows) const {
    const HostInput input = parts_->inputs.OnHost(routing, rows);
    const kernels::MoeLayerShape& shape = parts_->shape;
    const kernels::TopKResult chosen =
        kernels::TopKOracle(input.logits.back(), rows, shape.experts,
                            shape.topk, shape.normalize_topk);
    const int64_t small_rows =
        slab_layout_.has_small_list() ? kernels::kDefaultSmallRows : 0;
    const kernels::WorklistResult lists = kernels::BuildWorklistOracle(
        chosen.ids, shape.experts, shape.hidden, small_rows);
    ExpectedOutput weights;
    weights.values.assign(chosen.weights.begin(), chosen.weights.end());
    weights.rel_tolerance = kWeightTolerance;

    std::vector<ExpectedOutput> expected;
    expected.push_back(ExpectedRows(*parts_, input, rows));
    expected.push_back(Exactly(chosen.ids));
    expected.push_back(std::move(weights));
    expected.push_back(Exactly(lists.inverse));
    expected.push_back(Exactly(lists.offsets));
    expected.push_back(Exactly({static_cast<int32_t>(lists.worklist.size())}));
    if (slab_layout_.has_small_list()) {
      expected.push_back(
          Exactly({static_cast<int32_t>(lists.small_worklist.size())}));
    }
    return expected;
  }

 private:
  explicit MoeOutputs(const StepParts& parts) : parts_(&parts) {}

  void Add(std::string name, DevicePtr base, ElementType element,
           int64_t row_bytes) {
    OutputRegion region;
    region.name = std::move(name);
    region.base = base;
    region.element = element;
    region.live_bytes = [row_bytes](Bucket bucket) {
      return bucket.rows * row_bytes;
    };
    regions_.push_back(std::move(region));
  }

  void AddFixed(std::string name, DevicePtr base, int64_t bytes) {
    OutputRegion region;
    region.name = std::move(name);
    region.base = base;
    region.element = ElementType::kI32;
    region.live_bytes = [bytes](Bucket) { return bytes; };
    regions_.push_back(std::move(region));
  }

  const StepParts* parts_;
  MoeFp8Layout slab_layout_;
  std::vector<OutputRegion> regions_;
};

std::vector<InputSet> InputSets(const StepParts& parts) {
  std::vector<InputSet> inputs;
  for (const Routing routing : kRoutings) {
    inputs.push_back({RoutingName(routing),
                      [&parts, routing](Bucket bucket, CUstream stream) {
                        return parts.inputs.Write(routing, bucket.rows, stream);
                      }});
  }
  return inputs;
}

// Nothing in the arena outlives a step, so all of it is scratch.
std::vector<ScratchRegion> WholeArena(const ArenaView& arena) {
  std::vector<ScratchRegion> regions;
  for (const PlannedBuffer& buffer : arena.plan().buffers()) {
    if (!buffer.is_present()) continue;
    regions.push_back(
        {buffer.name, arena.base() + buffer.offset_bytes, buffer.bytes});
  }
  return regions;
}

}  // namespace

absl::StatusOr<VerifyReport> VerifyReplays(const FrozenArena& arena,
                                           const GraphSet& graphs,
                                           const StepParts& parts,
                                           const Step& step, Plant plant) {
  const ArenaView view = arena.view();
  PERMAFROST_ASSIGN_OR_RETURN(const MoeOutputs outputs,
                              MoeOutputs::Create(view, parts));
  VerifyOptions options;
  options.inputs = InputSets(parts);
  options.outputs = outputs.regions();
  options.scratch = WholeArena(view);
  options.eager = step;
  options.oracle = [&outputs](Bucket bucket, const std::string& input)
      -> absl::StatusOr<std::vector<ExpectedOutput>> {
    for (const Routing routing : kRoutings) {
      if (input == RoutingName(routing)) {
        return outputs.Expect(routing, bucket.rows);
      }
    }
    return absl::InvalidArgumentError(
        absl::StrCat("oracle: no routing is called '", input, "'"));
  };
  if (plant == Plant::kSkippedReplay) {
    options.replay = [replay = int64_t{0}](CapturedGraph& graph) mutable {
      return replay++ == kSkippedReplay ? absl::OkStatus() : graph.Replay();
    };
  }
  return ReplayVerifier(arena, graphs.graphs(), std::move(options)).Run();
}

}  // namespace permafrost::bench
