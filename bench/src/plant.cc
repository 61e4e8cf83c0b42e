// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "plant.h"

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "permafrost/driver/check.h"
#include "permafrost/driver/context.h"
#include "permafrost/driver/status.h"

namespace permafrost::bench {
namespace {

constexpr PlantInfo kPlants[] = {
    {Plant::kBuilderSkipsTotal, "builder-skips-total",
     "the worklist builder stores no total_tiles when no row is routed",
     "replay verifier: total_tiles is not the oracle's",
     "replay verifier: total_tiles is not the oracle's"},
    {Plant::kConsumerReadsPastTotal, "consumer-reads-past-total",
     "a consumer of the worklist reads one entry past total_tiles",
     "softcuda initcheck: the tail of the list is undefined", nullptr},
    {Plant::kWritePastBuffer, "write-past-buffer",
     "a kernel writes one byte past the end of its buffer",
     "softcuda memcheck: the byte belongs to no NVTX region",
     "replay verifier: the canary behind the buffer is damaged"},
    {Plant::kAllocInCapture, "alloc-in-capture",
     "the step allocates device memory while it is captured",
     "capture session: the call is named",
     "capture session: the call is named"},
    {Plant::kForeignAddress, "foreign-address",
     "the graph names memory that is neither arena nor declared",
     "address audit: node, parameter and address are named",
     "address audit: node, parameter and address are named"},
    {Plant::kSkippedReplay, "skipped-replay", "one replay is never launched",
     "replay verifier: the poison is still in an output",
     "replay verifier: the poison is still in an output"},
    {Plant::kRemappedBuffer, "remapped-buffer",
     "other physical memory is mapped at a buffer's address",
     "frozen arena: the driver's block id has changed",
     "frozen arena: the driver's block id has changed"},
    {Plant::kChangedNodeParam, "changed-node-param",
     "an address in a captured node is changed",
     "node check: node, parameter, then and now are named",
     "node check: node, parameter, then and now are named"},
};

absl::StatusOr<uint64_t> MappingAttribute(const Context& context,
                                          CUpointer_attribute attribute,
                                          DevicePtr address) {
  uint64_t value = 0;
  PERMAFROST_RETURN_IF_ERROR(CuStatus(
      context.api().PointerGetAttribute(&value, attribute, address.value()),
      "cuPointerGetAttribute", "finding the mapping to replace"));
  return value;
}

absl::StatusOr<CUfunction> FunctionOf(const DriverApi& api,
                                      const CUDA_KERNEL_NODE_PARAMS& params) {
  if (params.func != nullptr) return params.func;
  CUfunction function = nullptr;
  PERMAFROST_RETURN_IF_ERROR(CuStatus(
      api.KernelGetFunction(&function, params.kern), "cuKernelGetFunction"));
  return function;
}

// Sets the parameter that holds `address` to the address 256 bytes further on.
// Returns whether the node has such a parameter.
absl::StatusOr<bool> MoveAddress(const DriverApi& api, CUgraphNode node,
                                 DevicePtr address) {
  CUDA_KERNEL_NODE_PARAMS params;
  std::memset(&params, 0, sizeof(params));
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(api.GraphKernelNodeGetParams(node, &params),
               "cuGraphKernelNodeGetParams"));
  if (params.kernelParams == nullptr) return false;
  PERMAFROST_ASSIGN_OR_RETURN(CUfunction function, FunctionOf(api, params));

  std::vector<void*> values;
  uint64_t moved = (address + kBufferAlignmentBytes).value();
  bool found = false;
  size_t offset = 0;
  size_t size = 0;
  while (api.FuncGetParamInfo(function, values.size(), &offset, &size) ==
         CUDA_SUCCESS) {
    void* value = params.kernelParams[values.size()];
    if (!found && size == sizeof(moved) &&
        std::memcmp(value, &address, sizeof(moved)) == 0) {
      value = &moved;
      found = true;
    }
    values.push_back(value);
  }
  if (!found) return false;
  params.kernelParams = values.data();
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(api.GraphKernelNodeSetParams(node, &params),
               "cuGraphKernelNodeSetParams"));
  return true;
}

}  // namespace

absl::Span<const PlantInfo> Plants() { return kPlants; }

std::optional<Plant> FindPlant(absl::string_view name) {
  for (const PlantInfo& info : kPlants) {
    if (name == info.name) return info.plant;
  }
  return std::nullopt;
}

const PlantInfo& InfoOf(Plant plant) {
  for (const PlantInfo& info : kPlants) {
    if (plant == info.plant) return info;
  }
  PERMAFROST_CHECK(false, "every plant but kNone has a row in kPlants");
  return kPlants[0];
}

const char* FinderOf(const PlantInfo& info, DriverKind kind) {
  return kind == DriverKind::kSoftcuda ? info.soft_finder : info.cuda_finder;
}

absl::Status RemapBehindArena(const ArenaView& arena) {
  const Context& context = *arena.context();
  const DriverApi& api = context.api();
  const Context::Scope scope = context.MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());

  const PlannedSegment& segment = arena.plan().segments().back();
  const DevicePtr inside = arena.base() + segment.offset_bytes;
  PERMAFROST_ASSIGN_OR_RETURN(
      const uint64_t base,
      MappingAttribute(context, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR,
                       inside));
  PERMAFROST_ASSIGN_OR_RETURN(
      const uint64_t bytes,
      MappingAttribute(context, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, inside));

  CUmemAllocationProp prop;
  std::memset(&prop, 0, sizeof(prop));
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = context.device();
  CUmemAccessDesc access;
  std::memset(&access, 0, sizeof(access));
  access.location = prop.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

  CUmemGenericAllocationHandle memory = 0;
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(api.MemCreate(&memory, bytes, &prop, 0), "cuMemCreate"));
  absl::Status status = CuStatus(api.MemUnmap(base, bytes), "cuMemUnmap");
  status.Update(CuStatus(api.MemMap(base, bytes, 0, memory, 0), "cuMemMap"));
  status.Update(
      CuStatus(api.MemSetAccess(base, bytes, &access, 1), "cuMemSetAccess"));
  // The mapping keeps the memory alive, so nothing is left to be released.
  status.Update(CuStatus(api.MemRelease(memory), "cuMemRelease"));
  return status;
}

absl::Status ChangeNodeParameter(const CapturedGraph& graph) {
  const ContextRef& context = graph.lane().context();
  const DriverApi& api = context->api();
  const Context::Scope scope = context->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());

  size_t count = 0;
  PERMAFROST_RETURN_IF_ERROR(CuStatus(
      api.GraphGetNodes(graph.graph(), nullptr, &count), "cuGraphGetNodes"));
  std::vector<CUgraphNode> nodes(count);
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(api.GraphGetNodes(graph.graph(), nodes.data(), &count),
               "cuGraphGetNodes"));
  const std::vector<NodeAddress>& addresses = graph.audit().addresses;
  for (auto named = addresses.rbegin(); named != addresses.rend(); ++named) {
    CUgraphNode node = nodes[static_cast<size_t>(named->node_index)];
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    PERMAFROST_RETURN_IF_ERROR(
        CuStatus(api.GraphNodeGetType(node, &type), "cuGraphNodeGetType"));
    if (type != CU_GRAPH_NODE_TYPE_KERNEL || named->address.is_null()) continue;
    PERMAFROST_ASSIGN_OR_RETURN(const bool moved,
                                MoveAddress(api, node, named->address));
    if (moved) return absl::OkStatus();
  }
  return absl::NotFoundError(absl::StrCat(
      graph.label(), ": no kernel node has an address that could be changed"));
}

}  // namespace permafrost::bench
