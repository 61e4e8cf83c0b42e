// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_KERNELS_MOE_KERNELS_H_
#define PERMAFROST_KERNELS_MOE_KERNELS_H_

#include <cuda.h>

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "permafrost/arena/kernel_signature.h"
#include "permafrost/arena/moe_fp8_layout.h"
#include "permafrost/arena/moe_routing_layout.h"
#include "permafrost/driver/context.h"
#include "permafrost/driver/device_ptr.h"
#include "permafrost/driver/handles.h"
#include "permafrost/kernels/moe_limits.h"

namespace permafrost::kernels {

class MoeKernels;

namespace planted {
enum class PlantedKernelFault;
absl::StatusOr<MoeKernels> LoadWithFault(ContextRef context,
                                         PlantedKernelFault fault);
}  // namespace planted

/// The figures of one MoE layer that its kernels need.
///
/// `hidden` and `expert_width` are multiples of 16; neither need be a multiple
/// of 128, the last quantisation group of a row may be shorter.
struct MoeLayerShape {
  int64_t hidden = 0;
  int64_t expert_width = 0;
  int64_t experts = 0;
  int64_t topk = 0;
  /// Weight matrices that exist: expert e uses matrix e % distinct_experts. An
  /// engine has one for each expert; benchmarks and tests may keep fewer.
  int64_t distinct_experts = 0;
  bool normalize_topk = false;
};

/// Arguments of moe_topk.
struct TopKArgs {
  DevicePtr logits;        ///< f32 [rows][experts]
  DevicePtr topk_ids;      ///< i32 [rows][topk]
  DevicePtr topk_weights;  ///< f32 [rows][topk]
  int64_t rows = 0;
  int64_t experts = 0;
  int64_t topk = 0;
  bool normalize = false;
};

/// Arguments of moe_build_worklist: where in the slab and in the routing block
/// it works follows from their layouts.
struct WorklistArgs {
  MoeFp8Layout layout;
  DevicePtr slab;
  MoeRoutingLayout routing_layout;
  DevicePtr routing;
  int64_t rows = 0;
  int64_t experts = 0;
  int64_t topk = 0;
  /// Columns of the GEMM that will read the list.
  int64_t width = 0;
  /// An expert with at most this many rows goes to the small list, where the
  /// layout has one; 0 sends all to the big list. At most 128.
  int64_t small_rows = kDefaultSmallRows;
};

/// What a worklist was built for. A GEMM is given one and refuses a list that
/// was built in another layout, slab or shape.
struct BuiltWorklist {
  uint64_t layout_id = 0;
  DevicePtr slab;
  int64_t rows = 0;
  int64_t experts = 0;
  int64_t topk = 0;
  int64_t width = 0;
};

/// The description of the list that a builder call with these arguments makes.
BuiltWorklist DescribeWorklist(const WorklistArgs& args);

/// Arguments of the quantisers.
struct QuantizeArgs {
  DevicePtr input;   ///< bf16 or f32 [rows][columns]
  DevicePtr output;  ///< e4m3 [rows][columns]
  DevicePtr scales;  ///< f32 [rows][ceil(columns / 128)]
  /// f32 form only: i32, the rows that are live; `rows` is then the capacity.
  DevicePtr live_rows;
  int64_t rows = 0;
  int64_t columns = 0;
};

/// Arguments of moe_gemm_gate_up. Its input rows are the quantised rows in the
/// slab's activation region.
struct GateUpArgs {
  MoeFp8Layout layout;
  DevicePtr slab;
  MoeRoutingLayout routing_layout;
  DevicePtr routing;
  BuiltWorklist worklist;
  MoeLayerShape shape;
  int64_t rows = 0;
  DevicePtr gate;        ///< e4m3 [distinct][expert_width][hidden]
  DevicePtr gate_scale;  ///< f32 [distinct][ceil(width/128)][ceil(hidden/128)]
  DevicePtr up;
  DevicePtr up_scale;
  DevicePtr gate_out;  ///< f32 [rows * topk][expert_width]
  DevicePtr up_out;
};

/// Arguments of moe_gemm_down. Its input rows are the quantised positions in
/// the slab's activation region.
struct DownArgs {
  MoeFp8Layout layout;
  DevicePtr slab;
  BuiltWorklist worklist;
  MoeLayerShape shape;
  int64_t rows = 0;
  DevicePtr down;        ///< e4m3 [distinct][hidden][expert_width]
  DevicePtr down_scale;  ///< f32 [distinct][ceil(hidden/128)][ceil(width/128)]
  DevicePtr down_out;    ///< bf16 [rows * topk][hidden]
};

/// Arguments of moe_swiglu: gate = silu(gate) * up.
struct SwiGluArgs {
  DevicePtr gate;       ///< f32 [rows * topk][width], in and out
  DevicePtr up;         ///< f32 [rows * topk][width]
  DevicePtr live_rows;  ///< i32, the positions that are live
  int64_t rows = 0;
  int64_t topk = 0;
  int64_t width = 0;
};

/// Arguments of moe_combine.
struct CombineArgs {
  DevicePtr residual;  ///< bf16 [rows][hidden]
  DevicePtr down;      ///< bf16 [rows * topk][hidden]
  DevicePtr inverse;   ///< i32 [rows][topk]
  DevicePtr weights;   ///< f32 [rows][topk]
  DevicePtr out;       ///< bf16 [rows][hidden]; may be residual
  int64_t rows = 0;
  int64_t topk = 0;
  int64_t hidden = 0;
};

/// The MoE kernels, loaded onto a device.
///
/// What each kernel computes, reads, writes and re-initialises is said at its
/// body in kernels/src/device; the same is in `signatures()` for machines.
///
/// A launcher checks its arguments on the host and then makes one kernel
/// launch. Grid and block follow from the shapes and the device, never from
/// data, so a captured launch is right for every routing.
/// Units: rows, experts, widths in elements.
/// Capture: launchers are safe on a capturing stream. `Load` is not: call it
///   before.
/// Threads: const methods are safe from any thread.
/// Errors: launchers return kInvalidArgument naming kernel and field, before
///   anything is enqueued; a driver's refusal carries its CUresult.
/// Cost: a launcher makes three driver calls.
class MoeKernels {
 public:
  /// Loads the image, resolves and loads every function, and sets the dynamic
  /// shared memory that the builder may use.
  ///
  /// Errors: kUnimplemented naming the device's architecture and those of the
  ///   image, when the image has no code for it.
  static absl::StatusOr<MoeKernels> Load(ContextRef context);

  MoeKernels(MoeKernels&&) = default;
  MoeKernels& operator=(MoeKernels&&) = default;

  /// Every kernel's parameters: address or scalar, role, access, extent.
  const SignatureSet& signatures() const { return signatures_; }

  const ContextRef& context() const { return context_; }

  absl::Status TopK(CUstream stream, const TopKArgs& args) const;
  absl::Status BuildWorklist(CUstream stream, const WorklistArgs& args) const;
  absl::Status QuantizeBf16(CUstream stream, const QuantizeArgs& args) const;
  absl::Status QuantizeF32(CUstream stream, const QuantizeArgs& args) const;
  absl::Status GroupedGemmGateUp(CUstream stream, const GateUpArgs& args) const;
  absl::Status GroupedGemmDown(CUstream stream, const DownArgs& args) const;
  absl::Status SwiGlu(CUstream stream, const SwiGluArgs& args) const;
  absl::Status Combine(CUstream stream, const CombineArgs& args) const;

 private:
  friend absl::StatusOr<MoeKernels> planted::LoadWithFault(
      ContextRef context, planted::PlantedKernelFault fault);

  enum Kernel {
    kTopK,
    kBuildWorklist,
    kQuantizeBf16,
    kQuantizeF32,
    kGateUp,
    kDown,
    kSwiGlu,
    kCombine,
    kKernelCount
  };

  MoeKernels() = default;

  /// Loads the shipped image, and takes the kernels that `replaced` names from
  /// `replacement` instead.
  static absl::StatusOr<MoeKernels> LoadReplacing(
      ContextRef context, const unsigned char* replacement,
      absl::Span<const absl::string_view> replaced);

  /// Threads of the builder's block for a shape.
  int BuildThreads(int64_t ids, int64_t experts) const;

  absl::Status Launch(Kernel kernel, CUstream stream, int64_t grid_x,
                      int64_t grid_y, int threads, int64_t shared_bytes,
                      void** params) const;

  ContextRef context_;
  Module image_;
  Module replacement_;
  std::array<CUfunction, kKernelCount> functions_ = {};
  SignatureSet signatures_;
  int multiprocessors_ = 0;
  int64_t max_shared_bytes_ = 0;
};

}  // namespace permafrost::kernels

#endif  // PERMAFROST_KERNELS_MOE_KERNELS_H_
