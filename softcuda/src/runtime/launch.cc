// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "check/settings.h"
#include "exec/device_limits.h"
#include "runtime/answers.h"
#include "runtime/state.h"

namespace softcuda::runtime {
namespace {

CUresult Unsupported(const char* what) {
  ReportUnsupported("kernel attribute", what);
  return CUDA_ERROR_NOT_SUPPORTED;
}

bool InRange(uint32_t value, uint32_t limit) {
  return value >= 1 && value <= limit;
}

CUresult CheckShape(const Function& function, const LaunchShape& shape) {
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) {
    return CodeOf(Answer::kEmptyGridCode);
  }
  if (shape.block.x == 0 || shape.block.y == 0 || shape.block.z == 0) {
    return CodeOf(Answer::kEmptyBlockCode);
  }
  if (!InRange(shape.grid.x, kMaxGridDimX) ||
      !InRange(shape.grid.y, kMaxGridDimYz) ||
      !InRange(shape.grid.z, kMaxGridDimYz)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!InRange(shape.block.x, kMaxBlockDimXy) ||
      !InRange(shape.block.y, kMaxBlockDimXy) ||
      !InRange(shape.block.z, kMaxBlockDimZ)) {
    return CodeOf(Answer::kLargeBlockCode);
  }
  const uint64_t threads =
      uint64_t{shape.block.x} * shape.block.y * shape.block.z;
  if (threads > kMaxThreadsPerBlock) return CodeOf(Answer::kLargeBlockCode);
  if (threads > function.kernel->max_threads_per_block()) {
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  }
  if (int64_t{shape.dynamic_shared_bytes} >
      function.attributes.max_dynamic_shared_bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult CopyParams(const ptx::Kernel& kernel, void** params,
                    std::vector<std::byte>* out) {
  out->assign(kernel.param_bytes(), std::byte{0});
  if (kernel.params().empty()) return CUDA_SUCCESS;
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < kernel.params().size(); ++i) {
    if (params[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const ptx::ParamInfo& info = kernel.params()[i];
    std::memcpy(out->data() + info.offset, params[i], info.size);
  }
  return CUDA_SUCCESS;
}

// The buffer that CU_LAUNCH_PARAM_BUFFER_POINTER and _SIZE name.
CUresult CopyPackedParams(const ptx::Kernel& kernel, void** extra,
                          std::vector<std::byte>* out) {
  const void* buffer = nullptr;
  const size_t* buffer_bytes = nullptr;
  // Two settings exist; a list that goes on is not terminated.
  constexpr int kMaxSettings = 4;
  int setting = 0;
  while (extra[2 * setting] != CU_LAUNCH_PARAM_END) {
    if (setting == kMaxSettings) return CUDA_ERROR_INVALID_VALUE;
    void* const name = extra[2 * setting];
    void* const value = extra[2 * setting + 1];
    if (name == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      buffer = value;
    } else if (name == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      buffer_bytes = static_cast<const size_t*>(value);
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
    ++setting;
  }
  out->assign(kernel.param_bytes(), std::byte{0});
  if (kernel.param_bytes() == 0) return CUDA_SUCCESS;
  if (buffer == nullptr || buffer_bytes == nullptr ||
      *buffer_bytes < kernel.param_bytes()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::memcpy(out->data(), buffer, kernel.param_bytes());
  return CUDA_SUCCESS;
}

}  // namespace

CUresult MakeKernelOp(std::shared_ptr<Function> function, bool named_by_kernel,
                      const LaunchShape& shape, void** params, void** extra,
                      KernelOp* operation) {
  const CUresult result = CheckShape(*function, shape);
  if (result != CUDA_SUCCESS) return result;
  if (params != nullptr && extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  operation->grid = shape.grid;
  operation->block = shape.block;
  operation->dynamic_shared_bytes = shape.dynamic_shared_bytes;
  operation->named_by_kernel = named_by_kernel;
  operation->params_packed = extra != nullptr;
  const ptx::Kernel& kernel = *function->kernel;
  operation->function = std::move(function);
  return extra != nullptr ? CopyPackedParams(kernel, extra, &operation->params)
                          : CopyParams(kernel, params, &operation->params);
}

namespace {

// Whether all blocks can be on the device together, as they may wait for each
// other.
bool FitsAtOnce(const KernelOp& operation) {
  const uint64_t blocks =
      uint64_t{operation.grid.x} * operation.grid.y * operation.grid.z;
  const auto threads = static_cast<int>(operation.block.x * operation.block.y *
                                        operation.block.z);
  const int at_once =
      kMultiprocessors * MaxActiveBlocks(*operation.function, threads,
                                         operation.dynamic_shared_bytes);
  return blocks <= static_cast<uint64_t>(std::max(at_once, 0));
}

}  // namespace

CUresult ApplyLaunchAttributes(const CUlaunchAttribute* attributes,
                               size_t count, bool capturing,
                               KernelOp* operation) {
  constexpr size_t kMaxAttributes = 64;
  if (count > kMaxAttributes || (count > 0 && attributes == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) {
    const CUlaunchAttributeValue& value = attributes[i].value;
    switch (attributes[i].id) {
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        operation->cooperative = value.cooperative != 0;
        if (operation->cooperative && !FitsAtOnce(*operation)) {
          return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
        }
        break;
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        if (value.clusterDim.x != 1 || value.clusterDim.y != 1 ||
            value.clusterDim.z != 1) {
          return Unsupported("clusters");
        }
        break;
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        operation->programmatic_serialization =
            value.programmaticStreamSerializationAllowed != 0;
        break;
      case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        operation->priority = value.priority;
        break;
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
      case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
        return Unsupported("programmatic events");
      case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
        return capturing ? Unsupported("device-updatable nodes")
                         : CUDA_ERROR_INVALID_VALUE;
      // Hints: nothing that they could change is modelled.
      case CU_LAUNCH_ATTRIBUTE_IGNORE:
      case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

CUresult GetFunctionAttribute(const Function& function,
                              CUfunction_attribute attribute, int* value) {
  const ptx::Kernel& kernel = *function.kernel;
  const FunctionAttributes& set = function.attributes;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = static_cast<int>(kernel.max_threads_per_block());
      break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = static_cast<int>(kernel.static_shared_bytes());
      break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
      *value = 0;
      break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *value = static_cast<int>(kernel.local_bytes());
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = static_cast<int>(kernel.register_count());
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = check::Settings::Get().compute_capability();
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = set.max_dynamic_shared_bytes;
      break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = set.shared_carveout;
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
      *value = set.cluster_width;
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
      *value = set.cluster_height;
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      *value = set.cluster_depth;
      break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      *value = set.non_portable_cluster_size;
      break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      *value = set.cluster_scheduling_policy;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult SetFunctionAttribute(Function& function,
                              CUfunction_attribute attribute, int value) {
  FunctionAttributes& set = function.attributes;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: {
      const int64_t total =
          int64_t{value} + function.kernel->static_shared_bytes();
      if (value < 0 || total > int64_t{kMaxSharedBytes}) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      set.max_dynamic_shared_bytes = value;
      break;
    }
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
      set.shared_carveout = value;
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: {
      if (value < 0) return CUDA_ERROR_INVALID_VALUE;
      if (value > 1) return Unsupported("clusters");
      int* const member =
          attribute == CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH
              ? &set.cluster_width
          : attribute == CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT
              ? &set.cluster_height
              : &set.cluster_depth;
      *member = value;
      break;
    }
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      if (value != 0 && value != 1) return CUDA_ERROR_INVALID_VALUE;
      set.non_portable_cluster_size = value;
      break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      if (value < CU_CLUSTER_SCHEDULING_POLICY_DEFAULT ||
          value > CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      set.cluster_scheduling_policy = value;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

int MaxActiveBlocks(const Function& function, int block_threads,
                    size_t dynamic_shared_bytes) {
  const ptx::Kernel& kernel = *function.kernel;
  const int warps = (block_threads + 31) / 32;
  int blocks = std::min(kMaxBlocksPerMultiprocessor,
                        kMaxThreadsPerMultiprocessor / (warps * 32));
  const uint32_t registers = std::max(kernel.register_count(), 1u);
  // Registers are handed out to warps in units of 256.
  const uint32_t warp_registers = (registers * 32 + 255) / 256 * 256;
  blocks = std::min(blocks, kRegistersPerMultiprocessor /
                                static_cast<int>(warp_registers *
                                                 static_cast<uint32_t>(warps)));
  const uint64_t shared = uint64_t{kernel.static_shared_bytes()} +
                          dynamic_shared_bytes + kReservedSharedBytes;
  return std::min(blocks,
                  static_cast<int>(kSharedBytesPerMultiprocessor / shared));
}

}  // namespace softcuda::runtime
