// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "launch_checks.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "permafrost/driver/status.h"
#include "permafrost/kernels/worklist_entry.h"

namespace permafrost::kernels {
namespace {

static_assert(int64_t{kMaxRows} * kMaxTopK < kEntryRowLimit,
              "row_start of an entry holds every position");
static_assert(kMaxExperts <= kEntryExpertLimit,
              "expert of an entry holds every expert");
static_assert((kMaxWidth + kTileColumns - 1) / kTileColumns <=
                  kEntryColumnTileLimit,
              "n_tile of an entry holds every column tile");

// Checks the arguments of one launch and keeps the first complaint.
class ArgChecker {
 public:
  explicit ArgChecker(const char* kernel) : kernel_(kernel) {}

  ArgChecker& Address(const char* field, DevicePtr address,
                      int64_t alignment_bytes) {
    if (!status_.ok()) return *this;
    if (address.is_null()) {
      Refuse(field, "got a null address; give it memory");
    } else if (address.value() % static_cast<CUdeviceptr>(alignment_bytes) !=
               0) {
      Refuse(field, absl::StrCat("got address ", address.ToString(),
                                 ", which is no multiple of ", alignment_bytes,
                                 " bytes; align it, as arena buffers are"));
    }
    return *this;
  }

  ArgChecker& Null(const char* field, DevicePtr address, const char* why) {
    if (status_.ok() && !address.is_null()) {
      Refuse(field, absl::StrCat("got address ", address.ToString(),
                                 ", expected null; ", why));
    }
    return *this;
  }

  ArgChecker& Range(const char* field, int64_t value, int64_t low, int64_t high,
                    absl::string_view limit_is) {
    if (status_.ok() && (value < low || value > high)) {
      Refuse(field, absl::StrCat("got ", value, ", limit ", low, "..", high,
                                 " (", limit_is, ")"));
    }
    return *this;
  }

  ArgChecker& Width(const char* field, int64_t value) {
    Range(field, value, 1, kMaxWidth, "the kernels' largest matrix dimension");
    if (status_.ok() && value % kWidthMultiple != 0) {
      Refuse(field,
             absl::StrCat("got ", value, ", which is no multiple of ",
                          kWidthMultiple, "; pad the model's weights to one"));
    }
    return *this;
  }

  ArgChecker& Routing(int64_t rows, int64_t experts, int64_t topk) {
    Range("rows", rows, 1, kMaxRows, "the kernels' largest batch");
    Range("experts", experts, 1, kMaxExperts, "the kernels' largest router");
    Range("topk", topk, 1, std::min<int64_t>(kMaxTopK, experts),
          "experts, and the kernels' largest top-k");
    return *this;
  }

  ArgChecker& Shape(const MoeLayerShape& shape, int64_t rows) {
    Routing(rows, shape.experts, shape.topk);
    Width("hidden", shape.hidden);
    Width("expert_width", shape.expert_width);
    Range("distinct_experts", shape.distinct_experts, 1, shape.experts,
          "experts");
    return *this;
  }

  // `asked` bytes in a region of `held` bytes.
  ArgChecker& Fits(const char* region, int64_t asked, int64_t held) {
    if (status_.ok() && asked > held) {
      Refuse(region,
             absl::StrCat("got ", asked, " bytes to hold, limit ", held,
                          "; use the layout of this model and of at least this "
                          "many rows"));
    }
    return *this;
  }

  ArgChecker& RowsOf(const char* field, int64_t rows, int64_t layout_rows) {
    return Range(field, rows, 0, layout_rows, "the rows of that layout");
  }

  ArgChecker& Require(bool holds, const char* field, absl::string_view text) {
    if (status_.ok() && !holds) Refuse(field, text);
    return *this;
  }

  const absl::Status& status() const { return status_; }

 private:
  void Refuse(const char* field, absl::string_view text) {
    status_ = absl::InvalidArgumentError(
        absl::StrCat(kernel_, ": ", field, ": ", text));
  }

  const char* kernel_;
  absl::Status status_;
};

constexpr int64_t kWordBytes = 4;
constexpr int64_t kEntryBytes = 8;

void CheckSlab(ArgChecker& check, const MoeFp8Layout& layout, DevicePtr slab,
               int64_t rows) {
  check.Require(layout.bytes > 0, "layout",
                "got an empty layout; make one with MoeFp8Layout");
  check.RowsOf("rows", rows, layout.rows);
  check.Address("slab", slab, 256);
}

void CheckRoutingBlock(ArgChecker& check, const MoeRoutingLayout& routing,
                       DevicePtr base, const MoeFp8Layout& layout, int64_t rows,
                       int64_t experts, int64_t topk) {
  check.Require(routing.bytes > 0, "routing_layout",
                "got an empty layout; make one with MoeRoutingLayout");
  check.RowsOf("routing_layout.rows", rows, routing.rows);
  // Either the routing of this bucket, or of the largest, at fixed offsets.
  check.Require(
      routing.rows == layout.rows || routing.rows == layout.max_rows,
      "routing_layout.rows",
      absl::StrCat("got ", routing.rows, ", but the slab's layout is for ",
                   layout.rows, " of at most ", layout.max_rows,
                   " rows; make both for one bucket"));
  check.Address("routing", base, 256);
  const int64_t pairs_bytes = rows * topk * kWordBytes;
  check.Fits("routing_layout.topk_ids", pairs_bytes,
             routing.topk_weights - routing.topk_ids);
  check.Fits("routing_layout.topk_weights", pairs_bytes,
             routing.offsets - routing.topk_weights);
  check.Fits("routing_layout.offsets", (experts + 1) * kWordBytes,
             routing.sorted - routing.offsets);
  check.Fits("routing_layout.sorted", pairs_bytes,
             routing.inverse - routing.sorted);
  check.Fits("routing_layout.inverse", pairs_bytes,
             routing.bytes - routing.inverse);
}

void CheckLists(ArgChecker& check, const MoeFp8Layout& layout, int64_t rows,
                int64_t experts, int64_t topk, int64_t width) {
  check.Fits("layout.worklist",
             BigTilesBound(rows * topk, experts, width) * kEntryBytes,
             layout.capacity_tiles() * kEntryBytes);
  if (layout.has_small_list()) {
    check.Fits("layout.small_worklist",
               SmallTilesBound(rows * topk, experts, width) * kEntryBytes,
               layout.small_capacity_tiles() * kEntryBytes);
  }
}

// The list must have been built in this layout and for this GEMM.
void CheckBuilt(ArgChecker& check, const BuiltWorklist& built,
                const MoeFp8Layout& layout, DevicePtr slab,
                const MoeLayerShape& shape, int64_t rows, int64_t width) {
  check.Require(built.layout_id == layout.id(), "layout",
                "got another one than the worklist was built in; give builder "
                "and GEMM of a graph one layout");
  check.Require(
      built.slab == slab, "slab",
      absl::StrCat("got ", slab.ToString(), ", but the worklist was built in ",
                   built.slab.ToString(), "; build it in this slab"));
  check.Require(built.rows == rows, "rows",
                absl::StrCat("got ", rows, ", but the worklist was built for ",
                             built.rows, "; build it for this batch"));
  check.Require(built.experts == shape.experts && built.topk == shape.topk,
                "shape",
                absl::StrCat("got ", shape.experts, " experts, top-",
                             shape.topk, ", but the worklist was built for ",
                             built.experts, ", top-", built.topk));
  check.Require(
      built.width == width, "worklist.width",
      absl::StrCat("got a list for ", built.width, " columns, this GEMM has ",
                   width, "; build the list again for it"));
}

}  // namespace

int64_t BigTilesBound(int64_t ids, int64_t experts, int64_t width) {
  return (ids / kTileRows + std::min(experts, ids)) *
         ((width + kTileColumns - 1) / kTileColumns);
}

int64_t SmallTilesBound(int64_t ids, int64_t experts, int64_t width) {
  return std::min(experts, ids) * ((width + kTileColumns - 1) / kTileColumns);
}

absl::Status CheckTopK(const TopKArgs& args) {
  ArgChecker check("moe_topk");
  check.Routing(args.rows, args.experts, args.topk);
  check.Address("logits", args.logits, 4);
  check.Address("topk_ids", args.topk_ids, 4);
  check.Address("topk_weights", args.topk_weights, 4);
  return check.status();
}

absl::Status CheckBuildWorklist(const WorklistArgs& args) {
  ArgChecker check("moe_build_worklist");
  check.Routing(args.rows, args.experts, args.topk);
  check.Range("width", args.width, 1, kMaxWidth,
              "the kernels' largest matrix dimension");
  check.Range("small_rows", args.small_rows, 0, kTileRows, "rows of a tile");
  if (!check.status().ok()) return check.status();
  CheckSlab(check, args.layout, args.slab, args.rows);
  CheckRoutingBlock(check, args.routing_layout, args.routing, args.layout,
                    args.rows, args.experts, args.topk);
  CheckLists(check, args.layout, args.rows, args.experts, args.topk,
             args.width);
  return check.status();
}

absl::Status CheckQuantize(const char* kernel, const QuantizeArgs& args,
                           bool has_live_rows) {
  ArgChecker check(kernel);
  check.Range("rows", args.rows, 1, int64_t{kMaxRows} * kMaxTopK,
              "the kernels' largest number of routed rows");
  check.Width("columns", args.columns);
  check.Address("input", args.input, 16);
  check.Address("output", args.output, 16);
  check.Address("scales", args.scales, 4);
  if (has_live_rows) {
    check.Address("live_rows", args.live_rows, 4);
  } else {
    check.Null("live_rows", args.live_rows,
               "every row of the bf16 form is live");
  }
  return check.status();
}

absl::Status CheckGateUp(const GateUpArgs& args) {
  ArgChecker check("moe_gemm_gate_up");
  const MoeLayerShape& shape = args.shape;
  check.Shape(shape, args.rows);
  if (!check.status().ok()) return check.status();
  CheckSlab(check, args.layout, args.slab, args.rows);
  CheckRoutingBlock(check, args.routing_layout, args.routing, args.layout,
                    args.rows, shape.experts, shape.topk);
  CheckBuilt(check, args.worklist, args.layout, args.slab, shape, args.rows,
             shape.expert_width);
  CheckLists(check, args.layout, args.rows, shape.experts, shape.topk,
             shape.expert_width);
  check.Fits("layout.activation", args.rows * shape.hidden,
             args.layout.scale - args.layout.activation);
  check.Fits("layout.scale", args.rows * QuantGroups(shape.hidden) * kWordBytes,
             args.layout.worklist - args.layout.scale);
  check.Address("gate", args.gate, 16);
  check.Address("gate_scale", args.gate_scale, 4);
  check.Address("up", args.up, 16);
  check.Address("up_scale", args.up_scale, 4);
  check.Address("gate_out", args.gate_out, 4);
  check.Address("up_out", args.up_out, 4);
  return check.status();
}

absl::Status CheckDown(const DownArgs& args) {
  ArgChecker check("moe_gemm_down");
  const MoeLayerShape& shape = args.shape;
  check.Shape(shape, args.rows);
  if (!check.status().ok()) return check.status();
  CheckSlab(check, args.layout, args.slab, args.rows);
  CheckBuilt(check, args.worklist, args.layout, args.slab, shape, args.rows,
             shape.hidden);
  CheckLists(check, args.layout, args.rows, shape.experts, shape.topk,
             shape.hidden);
  const int64_t pairs = args.rows * shape.topk;
  check.Fits("layout.activation", pairs * shape.expert_width,
             args.layout.scale - args.layout.activation);
  check.Fits("layout.scale",
             pairs * QuantGroups(shape.expert_width) * kWordBytes,
             args.layout.worklist - args.layout.scale);
  check.Address("down", args.down, 16);
  check.Address("down_scale", args.down_scale, 4);
  check.Address("down_out", args.down_out, 2);
  return check.status();
}

absl::Status CheckSwiGlu(const SwiGluArgs& args) {
  ArgChecker check("moe_swiglu");
  check.Routing(args.rows, kMaxExperts, args.topk);
  check.Width("width", args.width);
  check.Address("gate", args.gate, 16);
  check.Address("up", args.up, 16);
  check.Address("live_rows", args.live_rows, 4);
  return check.status();
}

absl::Status CheckCombine(const CombineArgs& args) {
  ArgChecker check("moe_combine");
  check.Routing(args.rows, kMaxExperts, args.topk);
  check.Width("hidden", args.hidden);
  check.Address("residual", args.residual, 16);
  check.Address("down", args.down, 16);
  check.Address("inverse", args.inverse, 4);
  check.Address("weights", args.weights, 4);
  check.Address("out", args.out, 16);
  return check.status();
}

}  // namespace permafrost::kernels
