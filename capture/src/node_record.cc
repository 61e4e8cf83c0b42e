// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "node_record.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "permafrost/capture/address_audit.h"
#include "permafrost/driver/check.h"
#include "permafrost/driver/status.h"

namespace permafrost {
namespace {

// A kernel may not have more parameter bytes than this (CUDA 12.1 and later).
constexpr size_t kMaxParamBytes = 32764;

void AppendField(NodeRecord& record, absl::string_view name, ParamKind kind,
                 uint64_t value) {
  const size_t offset = record.image.size();
  record.image.resize(offset + sizeof(value));
  std::memcpy(record.image.data() + offset, &value, sizeof(value));
  record.parts.push_back(NodePart{std::string(name),
                                  static_cast<int64_t>(offset),
                                  int64_t{sizeof(value)}, kind});
}

struct ParamRange {
  size_t offset = 0;
  size_t size = 0;
};

// The parameters that the driver knows of a function.
absl::StatusOr<std::vector<ParamRange>> ListParams(const DriverApi& api,
                                                   CUfunction function,
                                                   const std::string& name) {
  std::vector<ParamRange> params;
  while (true) {
    ParamRange param;
    const CUresult result = api.FuncGetParamInfo(function, params.size(),
                                                 &param.offset, &param.size);
    // There is no call that gives the count: the first bad index ends the list.
    if (result == CUDA_ERROR_INVALID_VALUE) return params;
    PERMAFROST_RETURN_IF_ERROR(
        CuStatus(result, "cuFuncGetParamInfo", absl::StrCat("kernel ", name)));
    if (param.offset > kMaxParamBytes || param.size > kMaxParamBytes ||
        params.size() > kMaxParamBytes) {
      return absl::InternalError(
          absl::StrCat("cuFuncGetParamInfo of kernel ", name, ": parameter ",
                       params.size(), " lies at ", param.offset, " with ",
                       param.size, " bytes, limit ", kMaxParamBytes));
    }
    params.push_back(param);
  }
}

// The block of parameter bytes of a launch in the `extra` form.
absl::Status ReadExtra(void* const* extra, const std::byte** buffer,
                       size_t* bytes) {
  for (size_t i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      *buffer = static_cast<const std::byte*>(extra[i + 1]);
    } else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      *bytes = *static_cast<const size_t*>(extra[i + 1]);
    } else {
      return absl::UnimplementedError(
          "kernel node: its 'extra' list has an entry of an unknown kind");
    }
  }
  return absl::OkStatus();
}

absl::Status CopyParams(const CUDA_KERNEL_NODE_PARAMS& node,
                        const std::vector<ParamRange>& params,
                        NodeRecord& record) {
  const std::byte* block = nullptr;
  size_t block_bytes = 0;
  if (node.kernelParams == nullptr && node.extra != nullptr) {
    PERMAFROST_RETURN_IF_ERROR(ReadExtra(node.extra, &block, &block_bytes));
  }
  size_t end = 0;
  for (const ParamRange& param : params) {
    end = std::max(end, param.offset + param.size);
  }
  record.image.resize(end);
  record.param_bytes = static_cast<int64_t>(end);
  for (size_t i = 0; i < params.size(); ++i) {
    const auto [offset, size] = params[i];
    const void* source = nullptr;
    if (node.kernelParams != nullptr) {
      source = node.kernelParams[i];
    } else if (block != nullptr && offset + size <= block_bytes) {
      source = block + offset;
    }
    if (source == nullptr) {
      return absl::InternalError(absl::StrCat("kernel node of ", record.name,
                                              ": the driver gave no value for "
                                              "parameter ",
                                              i, " of ", params.size()));
    }
    std::memcpy(record.image.data() + offset, source, size);
    record.parts.push_back(
        NodePart{absl::StrCat("param ", i), static_cast<int64_t>(offset),
                 static_cast<int64_t>(size), ParamKind::kOpaque});
  }
  return absl::OkStatus();
}

absl::Status ReadKernel(const DriverApi& api, NodeRecord& record) {
  CUDA_KERNEL_NODE_PARAMS node = {};
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(api.GraphKernelNodeGetParams(record.node, &node),
               "cuGraphKernelNodeGetParams"));
  CUfunction function = node.func;
  if (function == nullptr && node.kern != nullptr) {
    PERMAFROST_RETURN_IF_ERROR(CuStatus(
        api.KernelGetFunction(&function, node.kern), "cuKernelGetFunction"));
  }
  const char* name = nullptr;
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(api.FuncGetName(&name, function), "cuFuncGetName"));
  record.name = name;
  PERMAFROST_ASSIGN_OR_RETURN(const std::vector<ParamRange> params,
                              ListParams(api, function, record.name));
  PERMAFROST_RETURN_IF_ERROR(CopyParams(node, params, record));
  AppendField(record, "gridDimX", ParamKind::kScalar, node.gridDimX);
  AppendField(record, "gridDimY", ParamKind::kScalar, node.gridDimY);
  AppendField(record, "gridDimZ", ParamKind::kScalar, node.gridDimZ);
  AppendField(record, "blockDimX", ParamKind::kScalar, node.blockDimX);
  AppendField(record, "blockDimY", ParamKind::kScalar, node.blockDimY);
  AppendField(record, "blockDimZ", ParamKind::kScalar, node.blockDimZ);
  AppendField(record, "sharedMemBytes", ParamKind::kScalar,
              node.sharedMemBytes);
  return absl::OkStatus();
}

uint64_t HostAddress(const void* host) {
  return reinterpret_cast<uintptr_t>(host);
}

// The place that one side of a copy names, whichever field it is in.
uint64_t CopyAddress(CUmemorytype type, const void* host, CUdeviceptr device) {
  switch (type) {
    case CU_MEMORYTYPE_HOST:
      return HostAddress(host);
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED:
      return device;
    case CU_MEMORYTYPE_ARRAY:
      break;
  }
  return 0;
}

absl::Status ReadMemcpy(const DriverApi& api, NodeRecord& record) {
  CUDA_MEMCPY3D copy = {};
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(api.GraphMemcpyNodeGetParams(record.node, &copy),
               "cuGraphMemcpyNodeGetParams"));
  AppendField(record, "src", ParamKind::kAddress,
              CopyAddress(copy.srcMemoryType, copy.srcHost, copy.srcDevice));
  AppendField(record, "dst", ParamKind::kAddress,
              CopyAddress(copy.dstMemoryType, copy.dstHost, copy.dstDevice));
  AppendField(record, "srcMemoryType", ParamKind::kScalar, copy.srcMemoryType);
  AppendField(record, "dstMemoryType", ParamKind::kScalar, copy.dstMemoryType);
  AppendField(record, "srcXInBytes", ParamKind::kScalar, copy.srcXInBytes);
  AppendField(record, "srcY", ParamKind::kScalar, copy.srcY);
  AppendField(record, "srcZ", ParamKind::kScalar, copy.srcZ);
  AppendField(record, "srcPitch", ParamKind::kScalar, copy.srcPitch);
  AppendField(record, "srcHeight", ParamKind::kScalar, copy.srcHeight);
  AppendField(record, "dstXInBytes", ParamKind::kScalar, copy.dstXInBytes);
  AppendField(record, "dstY", ParamKind::kScalar, copy.dstY);
  AppendField(record, "dstZ", ParamKind::kScalar, copy.dstZ);
  AppendField(record, "dstPitch", ParamKind::kScalar, copy.dstPitch);
  AppendField(record, "dstHeight", ParamKind::kScalar, copy.dstHeight);
  AppendField(record, "WidthInBytes", ParamKind::kScalar, copy.WidthInBytes);
  AppendField(record, "Height", ParamKind::kScalar, copy.Height);
  AppendField(record, "Depth", ParamKind::kScalar, copy.Depth);
  record.param_bytes = static_cast<int64_t>(record.image.size());
  return absl::OkStatus();
}

absl::Status ReadMemset(const DriverApi& api, NodeRecord& record) {
  CUDA_MEMSET_NODE_PARAMS fill = {};
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(api.GraphMemsetNodeGetParams(record.node, &fill),
               "cuGraphMemsetNodeGetParams"));
  AppendField(record, "dst", ParamKind::kAddress, fill.dst);
  AppendField(record, "value", ParamKind::kScalar, fill.value);
  AppendField(record, "elementSize", ParamKind::kScalar, fill.elementSize);
  AppendField(record, "width", ParamKind::kScalar, fill.width);
  AppendField(record, "height", ParamKind::kScalar, fill.height);
  AppendField(record, "pitch", ParamKind::kScalar, fill.pitch);
  record.param_bytes = static_cast<int64_t>(record.image.size());
  return absl::OkStatus();
}

absl::Status CompareNode(size_t index, const NodeRecord& then,
                         const NodeRecord& now) {
  if (then.type != now.type || then.name != now.name) {
    return absl::FailedPreconditionError(
        absl::StrCat(NodeLabel(index, then), ": was ", then.name,
                     " at audit and is ", now.name, " now"));
  }
  if (then.image.size() != now.image.size()) {
    return absl::FailedPreconditionError(absl::StrCat(
        NodeLabel(index, then), ": had ", then.param_bytes,
        " parameter bytes at audit and has ", now.param_bytes, " now"));
  }
  for (const NodePart& part : then.parts) {
    const auto begin = static_cast<std::ptrdiff_t>(part.offset_bytes);
    const auto end = begin + static_cast<std::ptrdiff_t>(part.size_bytes);
    if (std::equal(then.image.begin() + begin, then.image.begin() + end,
                   now.image.begin() + begin)) {
      continue;
    }
    return absl::FailedPreconditionError(absl::StrCat(
        NodeLabel(index, then), ": ", ParamKindName(part.kind), " '", part.name,
        "' was ", then.ValueText(part), " at audit and is ",
        now.ValueText(part),
        " now; a graph's parameters must not change after its audit"));
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t NodeRecord::Value(int64_t offset_bytes, int64_t size_bytes) const {
  PERMAFROST_CHECK(
      offset_bytes >= 0 && size_bytes >= 0 && size_bytes <= 8 &&
          offset_bytes + size_bytes <= static_cast<int64_t>(image.size()),
      "value outside a node's image");
  uint64_t value = 0;
  std::memcpy(&value, image.data() + offset_bytes,
              static_cast<size_t>(size_bytes));
  return value;
}

uint64_t NodeRecord::Value(absl::string_view part) const {
  const auto found =
      std::find_if(parts.begin(), parts.end(),
                   [&](const NodePart& p) { return p.name == part; });
  PERMAFROST_CHECK(found != parts.end(), "node has no part of that name");
  return Value(found->offset_bytes, found->size_bytes);
}

std::string NodeRecord::ValueText(const NodePart& part) const {
  if (part.size_bytes <= 8) {
    return absl::StrFormat("0x%x", Value(part.offset_bytes, part.size_bytes));
  }
  std::string text = "bytes";
  for (int64_t i = 0; i < part.size_bytes; ++i) {
    if (i == 32) return absl::StrCat(text, " ...");
    absl::StrAppendFormat(&text, " %02x", Value(part.offset_bytes + i, 1));
  }
  return text;
}

absl::StatusOr<std::vector<CUgraphNode>> ListNodes(const Driver& driver,
                                                   CUgraph graph) {
  size_t count = 0;
  PERMAFROST_RETURN_IF_ERROR(CuStatus(
      driver.api().GraphGetNodes(graph, nullptr, &count), "cuGraphGetNodes"));
  std::vector<CUgraphNode> nodes(count);
  if (count == 0) return nodes;
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(driver.api().GraphGetNodes(graph, nodes.data(), &count),
               "cuGraphGetNodes"));
  nodes.resize(std::min(count, nodes.size()));
  return nodes;
}

absl::StatusOr<NodeRecord> ReadNode(const Driver& driver, CUgraphNode node) {
  const DriverApi& api = driver.api();
  NodeRecord record;
  record.node = node;
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(api.GraphNodeGetType(node, &record.type), "cuGraphNodeGetType"));
  record.name = NodeTypeName(record.type);
  absl::Status status;
  switch (record.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      status = ReadKernel(api, record);
      break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      status = ReadMemcpy(api, record);
      break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      status = ReadMemset(api, record);
      break;
    default:
      break;
  }
  if (!status.ok()) return status;
  return record;
}

std::string NodeLabel(size_t index, const NodeRecord& node) {
  return absl::StrCat("node ", index, " (", node.name, ")");
}

const char* NodeTypeName(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return "kernel";
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return "memcpy";
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return "memset";
    case CU_GRAPH_NODE_TYPE_HOST:
      return "host";
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return "child_graph";
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return "empty";
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return "wait_event";
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return "event_record";
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
      return "semaphore_signal";
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      return "semaphore_wait";
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return "mem_alloc";
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return "mem_free";
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return "batch_mem_op";
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return "conditional";
    default:
      return "unknown";
  }
}

absl::Status CompareWithRecord(const Driver& driver, CUgraph graph,
                               const GraphRecord& record,
                               int64_t* compared_nodes) {
  PERMAFROST_ASSIGN_OR_RETURN(const std::vector<CUgraphNode> nodes,
                              ListNodes(driver, graph));
  if (nodes.size() != record.nodes.size()) {
    return absl::FailedPreconditionError(
        absl::StrCat("graph: had ", record.nodes.size(),
                     " nodes at audit and has ", nodes.size(), " now"));
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    const NodeRecord& then = record.nodes[i];
    if (nodes[i] != then.node) {
      return absl::FailedPreconditionError(absl::StrCat(
          NodeLabel(i, then), ": is another node now than at audit"));
    }
    PERMAFROST_ASSIGN_OR_RETURN(const NodeRecord now,
                                ReadNode(driver, nodes[i]));
    PERMAFROST_RETURN_IF_ERROR(CompareNode(i, then, now));
    if (compared_nodes != nullptr) ++*compared_nodes;
  }
  return absl::OkStatus();
}

}  // namespace permafrost
