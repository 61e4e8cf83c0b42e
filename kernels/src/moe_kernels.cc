// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "permafrost/kernels/moe_kernels.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "integer_math.h"
#include "launch_checks.h"
#include "moe_signatures.h"
#include "permafrost/driver/status.h"
#include "permafrost/kernels/image.h"

namespace permafrost::kernels {
namespace {

// In the order of MoeKernels::Kernel.
constexpr std::array<const char*, 8> kNames = {
    "moe_topk",         "moe_build_worklist", "quantize_bf16", "quantize_f32",
    "moe_gemm_gate_up", "moe_gemm_down",      "moe_swiglu",    "moe_combine"};

// Blocks of a GEMM for each multiprocessor: as many as its registers let run
// at once.
constexpr int64_t kGateUpBlocks = 1;
constexpr int64_t kDownBlocks = 2;
constexpr int64_t kSwiGluBlocks = 8;

// The launchers' checks bound every value that goes through here.
int32_t Scalar(int64_t value) { return static_cast<int32_t>(value); }

// The kernel's parameters as cuLaunchKernel takes them: the address of each.
template <typename... Values>
class Params {
 public:
  explicit Params(Values... values) : values_(values...) {
    std::apply(
        [this](Values&... value) {
          size_t at = 0;
          ((addresses_[at++] = &value), ...);
        },
        values_);
  }
  Params(const Params&) = delete;
  Params& operator=(const Params&) = delete;
  void** get() { return addresses_.data(); }

 private:
  std::tuple<Values...> values_;
  std::array<void*, sizeof...(Values)> addresses_;
};

// The lists of a layout as a GEMM and the builder take them; null addresses
// where there is no small list.
struct Lists {
  Lists(const MoeFp8Layout& layout, DevicePtr slab)
      : worklist((slab + layout.worklist).value()),
        total_tiles((slab + layout.counter).value()),
        capacity_tiles(Scalar(layout.capacity_tiles())) {
    if (layout.has_small_list()) {
      small_worklist = (slab + layout.small_worklist).value();
      small_total_tiles = (slab + layout.small_counter).value();
      small_capacity_tiles = Scalar(layout.small_capacity_tiles());
    }
  }

  CUdeviceptr worklist;
  CUdeviceptr total_tiles;
  CUdeviceptr small_worklist = 0;
  CUdeviceptr small_total_tiles = 0;
  int32_t capacity_tiles;
  int32_t small_capacity_tiles = 0;
};

// Tiles that both lists of a GEMM can have together.
int64_t TilesBound(const MoeFp8Layout& layout, int64_t rows,
                   const MoeLayerShape& shape, int64_t width) {
  const int64_t ids = rows * shape.topk;
  return BigTilesBound(ids, shape.experts, width) +
         (layout.has_small_list() ? SmallTilesBound(ids, shape.experts, width)
                                  : 0);
}

}  // namespace

BuiltWorklist DescribeWorklist(const WorklistArgs& args) {
  return {.layout_id = args.layout.id(),
          .slab = args.slab,
          .rows = args.rows,
          .experts = args.experts,
          .topk = args.topk,
          .width = args.width};
}

absl::StatusOr<MoeKernels> MoeKernels::Load(ContextRef context) {
  return LoadReplacing(std::move(context), nullptr, {});
}

absl::StatusOr<MoeKernels> MoeKernels::LoadReplacing(
    ContextRef context, const unsigned char* replacement,
    absl::Span<const absl::string_view> replaced) {
  static_assert(kNames.size() == kKernelCount);
  const Context::Scope scope = context->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());

  MoeKernels kernels;
  kernels.context_ = context;
  absl::StatusOr<Module> image = Module::Load(context, MoeImage().data());
  if (!image.ok()) {
    return Annotate(image.status(),
                    absl::IsUnimplemented(image.status())
                        ? "the MoE kernels have code for sm_80, sm_89, sm_90, "
                          "sm_100 and sm_120, and PTX for compute_80 and "
                          "compute_90"
                        : "loading the MoE kernels");
  }
  kernels.image_ = *std::move(image);
  if (replacement != nullptr) {
    PERMAFROST_ASSIGN_OR_RETURN(kernels.replacement_,
                                Module::Load(context, replacement));
  }
  for (size_t i = 0; i < kNames.size(); ++i) {
    const bool is_replaced = std::find(replaced.begin(), replaced.end(),
                                       kNames[i]) != replaced.end();
    const Module& module = is_replaced ? kernels.replacement_ : kernels.image_;
    PERMAFROST_ASSIGN_OR_RETURN(kernels.functions_[i],
                                module.Function(kNames[i]));
  }

  PERMAFROST_ASSIGN_OR_RETURN(
      kernels.multiprocessors_,
      context->DeviceAttribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  PERMAFROST_ASSIGN_OR_RETURN(
      const int shared_limit_bytes,
      context->DeviceAttribute(
          CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  kernels.max_shared_bytes_ = std::min<int64_t>(
      shared_limit_bytes, BuildSharedBytes(kBuildMaxThreads, kMaxExperts));
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(context->api().FuncSetAttribute(
                   kernels.functions_[kBuildWorklist],
                   CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                   Scalar(kernels.max_shared_bytes_)),
               "cuFuncSetAttribute",
               absl::StrCat("dynamic shared memory of moe_build_worklist, ",
                            kernels.max_shared_bytes_, " bytes")));
  PERMAFROST_ASSIGN_OR_RETURN(kernels.signatures_, MoeSignatures());
  return kernels;
}

int MoeKernels::BuildThreads(int64_t ids, int64_t experts) const {
  if (experts <= 256 && ids <= 2048) return kBuildThreads;
  // Each warp has a histogram of its own, so a device with less shared memory
  // gets fewer warps; the result is the same.
  int threads = kBuildMaxThreads;
  while (threads > kBuildThreads &&
         BuildSharedBytes(threads, experts) > max_shared_bytes_) {
    threads /= 2;
  }
  return threads;
}

absl::Status MoeKernels::Launch(Kernel kernel, CUstream stream, int64_t grid_x,
                                int64_t grid_y, int threads,
                                int64_t shared_bytes, void** params) const {
  const Context::Scope scope = context_->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  const CUresult result = context_->api().LaunchKernel(
      functions_[kernel], static_cast<unsigned>(grid_x),
      static_cast<unsigned>(grid_y), 1, static_cast<unsigned>(threads), 1, 1,
      static_cast<unsigned>(shared_bytes), stream, params, nullptr);
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  return CuStatus(result, "cuLaunchKernel", kNames[kernel]);
}

absl::Status MoeKernels::TopK(CUstream stream, const TopKArgs& args) const {
  PERMAFROST_RETURN_IF_ERROR(CheckTopK(args));
  Params params(args.logits.value(), args.topk_ids.value(),
                args.topk_weights.value(), Scalar(args.rows),
                Scalar(args.experts), Scalar(args.topk),
                args.normalize ? 1 : 0);
  return Launch(kTopK, stream, CeilDiv(args.rows, kTopKThreads / 32), 1,
                kTopKThreads, 0, params.get());
}

absl::Status MoeKernels::BuildWorklist(CUstream stream,
                                       const WorklistArgs& args) const {
  PERMAFROST_RETURN_IF_ERROR(CheckBuildWorklist(args));
  const Lists lists(args.layout, args.slab);
  const MoeRoutingLayout& routing = args.routing_layout;
  const int64_t small_rows = args.layout.has_small_list() ? args.small_rows : 0;
  Params params((args.routing + routing.topk_ids).value(),
                (args.routing + routing.offsets).value(),
                (args.routing + routing.sorted).value(),
                (args.routing + routing.inverse).value(), lists.worklist,
                lists.total_tiles, lists.small_worklist,
                lists.small_total_tiles, Scalar(args.rows), Scalar(args.topk),
                Scalar(args.experts), Scalar(args.width), Scalar(small_rows),
                lists.capacity_tiles, lists.small_capacity_tiles);
  const int threads = BuildThreads(args.rows * args.topk, args.experts);
  return Launch(kBuildWorklist, stream, 1, 1, threads,
                BuildSharedBytes(threads, args.experts), params.get());
}

absl::Status MoeKernels::QuantizeBf16(CUstream stream,
                                      const QuantizeArgs& args) const {
  PERMAFROST_RETURN_IF_ERROR(
      CheckQuantize(kNames[kQuantizeBf16], args, /*has_live_rows=*/false));
  Params params(args.input.value(), args.output.value(), args.scales.value(),
                Scalar(args.rows), Scalar(args.columns),
                Scalar(QuantGroups(args.columns)));
  const int64_t warps = args.rows * CeilDiv(args.columns, kQuantizeWarpColumns);
  return Launch(kQuantizeBf16, stream, CeilDiv(warps, kQuantizeThreads / 32), 1,
                kQuantizeThreads, 0, params.get());
}

absl::Status MoeKernels::QuantizeF32(CUstream stream,
                                     const QuantizeArgs& args) const {
  PERMAFROST_RETURN_IF_ERROR(
      CheckQuantize(kNames[kQuantizeF32], args, /*has_live_rows=*/true));
  Params params(args.input.value(), args.live_rows.value(), args.output.value(),
                args.scales.value(), Scalar(args.rows), Scalar(args.columns),
                Scalar(QuantGroups(args.columns)));
  const int64_t warps = args.rows * CeilDiv(args.columns, kQuantizeWarpColumns);
  return Launch(kQuantizeF32, stream, CeilDiv(warps, kQuantizeThreads / 32), 1,
                kQuantizeThreads, 0, params.get());
}

absl::Status MoeKernels::GroupedGemmGateUp(CUstream stream,
                                           const GateUpArgs& args) const {
  PERMAFROST_RETURN_IF_ERROR(CheckGateUp(args));
  const MoeLayerShape& shape = args.shape;
  const Lists lists(args.layout, args.slab);
  Params params(lists.worklist, lists.total_tiles, lists.small_worklist,
                lists.small_total_tiles,
                (args.routing + args.routing_layout.sorted).value(),
                (args.slab + args.layout.activation).value(),
                (args.slab + args.layout.scale).value(), args.gate.value(),
                args.gate_scale.value(), args.up.value(), args.up_scale.value(),
                args.gate_out.value(), args.up_out.value(),
                lists.capacity_tiles, lists.small_capacity_tiles,
                Scalar(args.rows), Scalar(shape.topk), Scalar(shape.hidden),
                Scalar(shape.expert_width), Scalar(shape.distinct_experts),
                Scalar(QuantGroups(shape.hidden)),
                Scalar(QuantGroups(shape.expert_width)));
  const int64_t blocks =
      std::min(multiprocessors_ * kGateUpBlocks,
               TilesBound(args.layout, args.rows, shape, shape.expert_width));
  return Launch(kGateUp, stream, blocks, 1, kGateUpThreads, 0, params.get());
}

absl::Status MoeKernels::GroupedGemmDown(CUstream stream,
                                         const DownArgs& args) const {
  PERMAFROST_RETURN_IF_ERROR(CheckDown(args));
  const MoeLayerShape& shape = args.shape;
  const Lists lists(args.layout, args.slab);
  Params params(
      lists.worklist, lists.total_tiles, lists.small_worklist,
      lists.small_total_tiles, (args.slab + args.layout.activation).value(),
      (args.slab + args.layout.scale).value(), args.down.value(),
      args.down_scale.value(), args.down_out.value(), lists.capacity_tiles,
      lists.small_capacity_tiles, Scalar(args.rows), Scalar(shape.topk),
      Scalar(shape.hidden), Scalar(shape.expert_width),
      Scalar(shape.distinct_experts), Scalar(QuantGroups(shape.hidden)),
      Scalar(QuantGroups(shape.expert_width)));
  const int64_t blocks =
      std::min(multiprocessors_ * kDownBlocks,
               TilesBound(args.layout, args.rows, shape, shape.hidden));
  return Launch(kDown, stream, blocks, 1, kDownThreads, 0, params.get());
}

absl::Status MoeKernels::SwiGlu(CUstream stream, const SwiGluArgs& args) const {
  PERMAFROST_RETURN_IF_ERROR(CheckSwiGlu(args));
  Params params(args.gate.value(), args.up.value(), args.live_rows.value(),
                Scalar(args.rows), Scalar(args.topk), Scalar(args.width));
  const int64_t blocks =
      std::min(multiprocessors_ * kSwiGluBlocks,
               CeilDiv(args.rows * args.topk * args.width / 4, kSwiGluThreads));
  return Launch(kSwiGlu, stream, blocks, 1, kSwiGluThreads, 0, params.get());
}

absl::Status MoeKernels::Combine(CUstream stream,
                                 const CombineArgs& args) const {
  PERMAFROST_RETURN_IF_ERROR(CheckCombine(args));
  Params params(args.residual.value(), args.down.value(), args.inverse.value(),
                args.weights.value(), args.out.value(), Scalar(args.rows),
                Scalar(args.topk), Scalar(args.hidden));
  return Launch(kCombine, stream, CeilDiv(args.hidden, kCombineBlockColumns),
                args.rows, kCombineThreads, 0, params.get());
}

}  // namespace permafrost::kernels
