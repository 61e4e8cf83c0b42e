// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "moe_signatures.h"

#include <initializer_list>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "permafrost/driver/check.h"
#include "permafrost/driver/status.h"

namespace permafrost::kernels {
namespace {

// Builds a signature in the order of the entry point's parameters. Extents name
// their factors; the names are resolved once all parameters are there.
class SignatureBuilder {
 public:
  explicit SignatureBuilder(const char* kernel) { signature_.kernel = kernel; }

  SignatureBuilder& Pointer(const char* name, const char* role, Access access,
                            int64_t unit_bytes,
                            std::initializer_list<const char*> factors,
                            bool nullable = false) {
    ParamSpec param;
    param.name = name;
    param.size_bytes = 8;
    param.kind = ParamKind::kAddress;
    param.role = role;
    param.access = access;
    param.extent.unit_bytes = unit_bytes;
    param.nullable = nullable;
    Append(std::move(param));
    factors_.emplace_back(factors);
    return *this;
  }

  SignatureBuilder& Scalars(std::initializer_list<const char*> names) {
    for (const char* name : names) {
      ParamSpec param;
      param.name = name;
      param.size_bytes = 4;
      param.kind = ParamKind::kScalar;
      param.role = name;
      Append(std::move(param));
      factors_.emplace_back();
    }
    return *this;
  }

  KernelSignature Build() {
    for (size_t i = 0; i < factors_.size(); ++i) {
      for (const char* factor : factors_[i]) {
        signature_.params[i].extent.factor_params.push_back(IndexOf(factor));
      }
    }
    return std::move(signature_);
  }

 private:
  void Append(ParamSpec param) {
    // Parameters lie one after the other, each on a multiple of its size.
    end_bytes_ = (end_bytes_ + param.size_bytes - 1) / param.size_bytes *
                 param.size_bytes;
    param.offset_bytes = end_bytes_;
    end_bytes_ += param.size_bytes;
    signature_.params.push_back(std::move(param));
  }

  int IndexOf(absl::string_view name) const {
    for (size_t i = 0; i < signature_.params.size(); ++i) {
      if (signature_.params[i].name == name) return static_cast<int>(i);
    }
    PERMAFROST_CHECK(false, "an extent names a parameter that does not exist");
    return -1;
  }

  KernelSignature signature_;
  std::vector<std::vector<const char*>> factors_;
  int64_t end_bytes_ = 0;
};

// The lists are read by both GEMMs alike.
SignatureBuilder& Worklist(SignatureBuilder& builder, Access access) {
  return builder.Pointer("worklist", "worklist", access, 8, {"capacity_tiles"})
      .Pointer("total_tiles", "worklist counter", access, 4, {})
      .Pointer("small_worklist", "small worklist", access, 8,
               {"small_capacity_tiles"}, /*nullable=*/true)
      .Pointer("small_total_tiles", "small worklist counter", access, 4, {},
               /*nullable=*/true);
}

KernelSignature TopKSignature() {
  return SignatureBuilder("moe_topk")
      .Pointer("logits", "router logits", Access::kRead, 4, {"rows", "experts"})
      .Pointer("topk_ids", "routing", Access::kWrite, 4, {"rows", "topk"})
      .Pointer("topk_weights", "routing", Access::kWrite, 4, {"rows", "topk"})
      .Scalars({"rows", "experts", "topk", "normalize"})
      .Build();
}

KernelSignature BuildWorklistSignature() {
  SignatureBuilder builder("moe_build_worklist");
  builder
      .Pointer("topk_ids", "routing", Access::kRead, 4, {"rows", "topk"})
      // experts + 1 words, which is no product: to the end of the buffer.
      .Pointer("offsets", "routing", Access::kWrite, 0, {})
      .Pointer("sorted", "routing", Access::kWrite, 4, {"rows", "topk"})
      .Pointer("inverse", "routing", Access::kWrite, 4, {"rows", "topk"});
  return Worklist(builder, Access::kWrite)
      .Scalars({"rows", "topk", "experts", "width", "small_rows",
                "capacity_tiles", "small_capacity_tiles"})
      .Build();
}

KernelSignature QuantizeBf16Signature() {
  return SignatureBuilder("quantize_bf16")
      .Pointer("input", "activations", Access::kRead, 2, {"rows", "columns"})
      .Pointer("output", "quantised activations", Access::kWrite, 1,
               {"rows", "columns"})
      .Pointer("scales", "activation scales", Access::kWrite, 4,
               {"rows", "groups"})
      .Scalars({"rows", "columns", "groups"})
      .Build();
}

KernelSignature QuantizeF32Signature() {
  return SignatureBuilder("quantize_f32")
      .Pointer("input", "activations", Access::kRead, 4, {"rows", "columns"})
      .Pointer("live_rows", "routing", Access::kRead, 4, {})
      .Pointer("output", "quantised activations", Access::kWrite, 1,
               {"rows", "columns"})
      .Pointer("scales", "activation scales", Access::kWrite, 4,
               {"rows", "groups"})
      .Scalars({"rows", "columns", "groups"})
      .Build();
}

KernelSignature GateUpSignature() {
  SignatureBuilder builder("moe_gemm_gate_up");
  return Worklist(builder, Access::kRead)
      .Pointer("sorted", "routing", Access::kRead, 4, {"rows", "topk"})
      .Pointer("activation", "quantised activations", Access::kRead, 1,
               {"rows", "hidden"})
      .Pointer("activation_scale", "activation scales", Access::kRead, 4,
               {"rows", "hidden_groups"})
      .Pointer("gate", "weights", Access::kRead, 1,
               {"distinct_experts", "width", "hidden"})
      .Pointer("gate_scale", "weight scales", Access::kRead, 4,
               {"distinct_experts", "width_groups", "hidden_groups"})
      .Pointer("up", "weights", Access::kRead, 1,
               {"distinct_experts", "width", "hidden"})
      .Pointer("up_scale", "weight scales", Access::kRead, 4,
               {"distinct_experts", "width_groups", "hidden_groups"})
      .Pointer("gate_out", "gate projection", Access::kWrite, 4,
               {"rows", "topk", "width"})
      .Pointer("up_out", "up projection", Access::kWrite, 4,
               {"rows", "topk", "width"})
      .Scalars({"capacity_tiles", "small_capacity_tiles", "rows", "topk",
                "hidden", "width", "distinct_experts", "hidden_groups",
                "width_groups"})
      .Build();
}

KernelSignature DownSignature() {
  SignatureBuilder builder("moe_gemm_down");
  return Worklist(builder, Access::kRead)
      .Pointer("activation", "quantised activations", Access::kRead, 1,
               {"rows", "topk", "width"})
      .Pointer("activation_scale", "activation scales", Access::kRead, 4,
               {"rows", "topk", "width_groups"})
      .Pointer("down", "weights", Access::kRead, 1,
               {"distinct_experts", "hidden", "width"})
      .Pointer("down_scale", "weight scales", Access::kRead, 4,
               {"distinct_experts", "hidden_groups", "width_groups"})
      .Pointer("down_out", "down projection", Access::kWrite, 2,
               {"rows", "topk", "hidden"})
      .Scalars({"capacity_tiles", "small_capacity_tiles", "rows", "topk",
                "hidden", "width", "distinct_experts", "hidden_groups",
                "width_groups"})
      .Build();
}

KernelSignature SwiGluSignature() {
  return SignatureBuilder("moe_swiglu")
      .Pointer("gate", "gate projection", Access::kReadWrite, 4,
               {"rows", "topk", "width"})
      .Pointer("up", "up projection", Access::kRead, 4,
               {"rows", "topk", "width"})
      .Pointer("live_rows", "routing", Access::kRead, 4, {})
      .Scalars({"rows", "topk", "width"})
      .Build();
}

KernelSignature CombineSignature() {
  return SignatureBuilder("moe_combine")
      .Pointer("residual", "layer input", Access::kRead, 2, {"rows", "hidden"})
      .Pointer("down", "down projection", Access::kRead, 2,
               {"rows", "topk", "hidden"})
      .Pointer("inverse", "routing", Access::kRead, 4, {"rows", "topk"})
      .Pointer("weights", "routing", Access::kRead, 4, {"rows", "topk"})
      .Pointer("out", "layer output", Access::kWrite, 2, {"rows", "hidden"})
      .Scalars({"rows", "topk", "hidden"})
      .Build();
}

}  // namespace

absl::StatusOr<SignatureSet> MoeSignatures() {
  SignatureSet set;
  for (KernelSignature (*make)() :
       {TopKSignature, BuildWorklistSignature, QuantizeBf16Signature,
        QuantizeF32Signature, GateUpSignature, DownSignature, SwiGluSignature,
        CombineSignature}) {
    PERMAFROST_RETURN_IF_ERROR(set.Add(make()));
  }
  return set;
}

}  // namespace permafrost::kernels
