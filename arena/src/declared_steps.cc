// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/declared_steps.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "declared_step_rows.h"
#include "permafrost/arena/buffer_table.h"

namespace permafrost {
namespace {

using internal::kAdapterDelta;
using internal::kAdapterShrunk;
using internal::kAdapterSlots;
using internal::kDenseInput;
using internal::kMixerInput;
using internal::kSlabInput;
using internal::kTwoBitScratch;
using internal::RowKind;
using internal::RowPhase;
using internal::StepRow;

constexpr int kLayersInARow = 2;

std::vector<std::string> Names(absl::string_view list) {
  return absl::StrSplit(list, ' ', absl::SkipEmpty());
}

std::string Joined(absl::string_view a, absl::string_view b) {
  return absl::StrCat(a, " ", b);
}

/// Buffers by name and not by row, so that a projection's own operations can be
/// put together.
struct Use {
  std::string reads = {};
  std::string writes = {};
  std::string updates = {};
  std::string fills = {};
};

/// One sublayer: what is before the norm's consumer, and the consumer.
struct Sublayer {
  const char* name;
  absl::Span<const StepRow> norm;
  absl::Span<const StepRow> body;
};

class Declarer {
 public:
  Declarer(const ModelConfig& config, const ServingLimits& limits,
           StepPhase phase, StepStreams streams)
      : config_(config),
        limits_(limits),
        phase_(phase),
        has_side_stream_(streams == StepStreams::kForked) {
    for (const BufferRow& row : BufferTable()) {
      const bool is_absent =
          (row.gate != nullptr && row.gate(config, limits).has_value()) ||
          (row.is_ours && limits.rules == SizeRules::kSeed);
      if (!is_absent) present_.insert(row.name);
    }
    step_.name =
        absl::StrCat(config.model_type, " ",
                     phase == StepPhase::kDecode ? "decode" : "prefill",
                     has_side_stream_ ? " on two streams" : " on one stream");
    step_.origin = DagOrigin::kDeclared;
  }

  StepDag Declare() && {
    Add("", internal::EmbeddingRows());
    int layer = 0;
    for (const std::vector<Sublayer>& kind : LayerKinds()) {
      for (int i = 0; i < kLayersInARow; ++i, ++layer) {
        for (const Sublayer& sublayer : kind) {
          const std::string prefix =
              absl::StrCat("layer", layer, ".", sublayer.name, ".");
          Add(prefix, sublayer.norm);
          Add(prefix, sublayer.body);
          Add(prefix, internal::MixRows());
        }
      }
    }
    Add("", internal::HeadRows());
    return std::move(step_);
  }

 private:
  Sublayer MixerOf(LayerKind kind) const {
    const absl::Span<const StepRow> norm = internal::NormRows();
    switch (kind) {
      case LayerKind::kLinearAttention:
        return config_.gdn_value_heads > 0
                   ? Sublayer{"delta_net", norm, internal::DeltaNetRows()}
                   : Sublayer{"lightning", norm, internal::LightningRows()};
      case LayerKind::kMamba2:
        return {"mamba2", norm, internal::Mamba2Rows()};
      case LayerKind::kFeedForward:
        return {"dense", norm, internal::DenseRows()};
      case LayerKind::kExperts:
        return {"experts", internal::RouterNormRows(), internal::RoutedRows()};
      case LayerKind::kFullAttention:
      case LayerKind::kSlidingAttention:
        break;
    }
    return config_.kv_lora_rank > 0
               ? Sublayer{"latent", norm, internal::LatentAttentionRows()}
               : Sublayer{"attention", norm, internal::GroupedAttentionRows()};
  }

  /// Each kind of layer that the model has, by its sublayers.
  std::vector<std::vector<Sublayer>> LayerKinds() const {
    std::vector<LayerKind> kinds;
    for (const LayerKind kind : config_.layers) {
      // Sliding attention uses the same buffers as full attention.
      const LayerKind as_planned = kind == LayerKind::kSlidingAttention
                                       ? LayerKind::kFullAttention
                                       : kind;
      if (std::find(kinds.begin(), kinds.end(), as_planned) == kinds.end()) {
        kinds.push_back(as_planned);
      }
    }
    if (kinds.empty()) kinds.push_back(LayerKind::kFullAttention);
    const bool is_one_sublayer_each =
        std::any_of(kinds.begin(), kinds.end(), [](LayerKind kind) {
          return kind == LayerKind::kFeedForward || kind == LayerKind::kExperts;
        });
    std::vector<std::vector<Sublayer>> layers;
    for (const LayerKind kind : kinds) {
      const Sublayer mixer = MixerOf(kind);
      if (is_one_sublayer_each) {
        layers.push_back({mixer});
        continue;
      }
      if (!config_.is_moe() || config_.num_moe_layers < config_.num_layers) {
        layers.push_back({mixer, MixerOf(LayerKind::kFeedForward)});
      }
      if (config_.is_moe()) {
        layers.push_back({mixer, MixerOf(LayerKind::kExperts)});
      }
    }
    return layers;
  }

  void Add(const std::string& prefix, absl::Span<const StepRow> rows) {
    for (const StepRow& row : rows) {
      if (row.when != nullptr && !row.when(config_, limits_)) continue;
      const RowPhase other =
          phase_ == StepPhase::kDecode ? RowPhase::kPrefill : RowPhase::kDecode;
      if (row.phase == other) continue;
      joins_side_ = joins_side_ || row.joins_side;
      const std::string name = prefix + row.name;
      switch (row.kind) {
        case RowKind::kOp:
          AddOp(name, row.on_side,
                {row.reads, row.writes, row.updates, row.fills});
          break;
        case RowKind::kQuantize:
          AddOp(name, row.on_side, {.reads = row.reads, .writes = kMixerInput});
          break;
        case RowKind::kProjection:
          AddProjection(name, row, kMixerInput, /*is_input_ready=*/false);
          break;
        case RowKind::kReadyProjection:
          AddProjection(name, row, kMixerInput, /*is_input_ready=*/true);
          break;
        case RowKind::kSlabProjection:
          AddProjection(name, row, kSlabInput, /*is_input_ready=*/true);
          break;
        case RowKind::kDenseProjection:
          AddProjection(name, row, kDenseInput, /*is_input_ready=*/false);
          break;
      }
    }
  }

  void AddProjection(const std::string& name, const StepRow& row,
                     absl::string_view quantized, bool is_input_ready) {
    if (!is_input_ready) {
      AddOp(name + ".quantize", row.on_side,
            {.reads = row.reads, .writes = std::string(quantized)});
    }
    AddOp(name + ".expand", row.on_side,
          {.reads = row.reads, .writes = kTwoBitScratch});
    const bool is_quantized = AnyPresent(quantized) || AnyPresent("q2_act_q8");
    AddOp(name, row.on_side,
          {.reads = Joined(is_quantized ? "" : row.reads,
                           Joined(quantized, kTwoBitScratch)),
           .writes = row.writes,
           .fills = row.fills});
    AddOp(
        name + ".adapter_shrink", row.on_side,
        {.reads = Joined(row.reads, kAdapterSlots), .writes = kAdapterShrunk});
    AddOp(name + ".adapter_expand", row.on_side,
          {.reads = kAdapterShrunk, .writes = kAdapterDelta});
    if (AnyPresent(kAdapterDelta)) {
      AddOp(name + ".adapter_add", row.on_side,
            {.reads = kAdapterDelta, .updates = Joined(row.writes, row.fills)});
    }
  }

  bool AnyPresent(absl::string_view list) const {
    const std::vector<std::string> names = Names(list);
    return std::any_of(
        names.begin(), names.end(),
        [this](const std::string& name) { return present_.count(name) != 0; });
  }

  bool SharesProjectionScratch() const {
    return limits_.two_bit_weights || limits_.lora_rank > 0;
  }

  void AddOp(const std::string& name, bool on_side, const Use& use) {
    StepOp op = {.name = name};
    bool writes_any = false;
    const auto access = [&](const std::string& list, Access kind,
                            bool overwrites) {
      for (std::string& buffer : Names(list)) {
        if (present_.count(buffer) == 0) continue;
        writes_any = writes_any || kind != Access::kRead;
        op.accesses.push_back({.buffer = std::move(buffer),
                               .access = kind,
                               .overwrites = overwrites});
      }
    };
    access(use.reads, Access::kRead, true);
    access(use.updates, Access::kReadWrite, true);
    access(use.writes, Access::kWrite, true);
    access(use.fills, Access::kWrite, false);
    if (!writes_any) return;

    const int index = static_cast<int>(step_.ops.size());
    step_.ops.push_back(std::move(op));
    if (on_side && has_side_stream_ && !SharesProjectionScratch()) {
      if (!side_is_open_ && last_on_main_ >= 0) {
        step_.edges.push_back({.from = last_on_main_, .to = index});
      }
      if (last_on_side_ >= 0) {
        step_.edges.push_back({.from = last_on_side_, .to = index});
      }
      side_is_open_ = true;
      last_on_side_ = index;
      return;
    }
    if (last_on_main_ >= 0) {
      step_.edges.push_back({.from = last_on_main_, .to = index});
    }
    if (side_is_open_ && joins_side_) {
      step_.edges.push_back({.from = last_on_side_, .to = index});
      side_is_open_ = false;
    }
    joins_side_ = false;
    last_on_main_ = index;
  }

  const ModelConfig& config_;
  const ServingLimits& limits_;
  const StepPhase phase_;
  const bool has_side_stream_;
  std::set<std::string> present_;
  StepDag step_;
  int last_on_main_ = -1;
  int last_on_side_ = -1;
  bool side_is_open_ = false;
  /// The next operation of the main stream waits for the side stream.
  bool joins_side_ = false;
};

}  // namespace

StepDag DeclareStep(const ModelConfig& config, const ServingLimits& limits,
                    StepPhase phase, StepStreams streams) {
  return Declarer(config, limits, phase, streams).Declare();
}

}  // namespace permafrost
