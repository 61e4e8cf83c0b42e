// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/capture/observed_step.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "node_record.h"
#include "permafrost/driver/checked_math.h"
#include "permafrost/driver/status.h"

namespace permafrost {
namespace {

/// Bytes of one buffer that a node uses, from the buffer's start.
struct Use {
  int op = 0;
  std::string buffer;
  int64_t begin = 0;
  int64_t end = 0;
  Access access = Access::kReadWrite;
};

/// The buffers of the arena and what lies where.
class Buffers {
 public:
  explicit Buffers(const ArenaView& view) {
    for (const PlannedBuffer& planned : view.plan().buffers()) {
      if (!planned.is_present()) continue;
      absl::StatusOr<BufferRef> buffer = view.Find(planned.name);
      if (buffer.ok()) buffers_.push_back(*std::move(buffer));
    }
  }

  /// All buffers that hold the address: one, or several where they share bytes.
  std::vector<const BufferRef*> Holding(DevicePtr address) const {
    std::vector<const BufferRef*> found;
    for (const BufferRef& buffer : buffers_) {
      if (buffer.base <= address && address < buffer.base + buffer.bytes) {
        found.push_back(&buffer);
      }
    }
    return found;
  }

 private:
  std::vector<BufferRef> buffers_;
};

/// One address that a node names, before anyone asks whose it is.
struct NamedAddress {
  DevicePtr address;
  std::string param;
  Access access = Access::kReadWrite;
  /// nullopt: all of the buffer it lies in.
  std::optional<int64_t> bytes;
};

/// Whether the audit put the signature's parts in place of the driver's.
bool SignatureApplies(const NodeRecord& node,
                      const KernelSignature& signature) {
  return std::all_of(signature.params.begin(), signature.params.end(),
                     [&](const ParamSpec& spec) {
                       return std::any_of(
                           node.parts.begin(), node.parts.end(),
                           [&](const NodePart& part) {
                             return part.name == spec.name &&
                                    part.offset_bytes == spec.offset_bytes &&
                                    part.size_bytes == spec.size_bytes &&
                                    part.kind == spec.kind;
                           });
                     });
}

/// The bytes that a parameter reaches; nullopt for the whole buffer.
std::optional<int64_t> ExtentBytes(const NodeRecord& node,
                                   const KernelSignature& signature,
                                   const ParamSpec& spec) {
  if (spec.extent.unit_bytes == 0) return std::nullopt;
  std::optional<int64_t> bytes = spec.extent.unit_bytes;
  for (const int factor : spec.extent.factor_params) {
    const ParamSpec& scalar = signature.params[static_cast<size_t>(factor)];
    if (scalar.size_bytes > 8) return std::nullopt;
    const uint64_t value = node.Value(scalar.offset_bytes, scalar.size_bytes);
    const int64_t bits = scalar.size_bytes * 8;
    if ((value >> (bits - 1) & 1) != 0) return std::nullopt;
    bytes = CheckedMul(*bytes, static_cast<int64_t>(value));
    if (!bytes) return std::nullopt;
  }
  return bytes;
}

// Words of undeclared bytes that may be addresses: any aligned one.
void AddWords(const NodeRecord& node, const NodePart& part,
              std::vector<NamedAddress>& out) {
  const int64_t end = part.offset_bytes + part.size_bytes;
  for (int64_t at = (part.offset_bytes + 7) / 8 * 8; at + 8 <= end; at += 8) {
    out.push_back({.address = DevicePtr(node.Value(at, 8)),
                   .param = part.name,
                   .access = Access::kReadWrite,
                   .bytes = std::nullopt});
  }
}

std::vector<NamedAddress> AddressesOfKernel(const NodeRecord& node,
                                            const SignatureSet* signatures) {
  std::vector<NamedAddress> addresses;
  const KernelSignature* signature =
      signatures == nullptr ? nullptr : signatures->Find(node.name);
  if (signature != nullptr && SignatureApplies(node, *signature)) {
    for (const ParamSpec& spec : signature->params) {
      if (spec.kind != ParamKind::kAddress) continue;
      addresses.push_back(
          {.address = DevicePtr(node.Value(spec.offset_bytes, 8)),
           .param = spec.name,
           .access = spec.access,
           .bytes = ExtentBytes(node, *signature, spec)});
    }
  }
  for (const NodePart& part : node.parts) {
    if (part.kind == ParamKind::kOpaque) AddWords(node, part, addresses);
  }
  return addresses;
}

std::vector<NamedAddress> AddressesOfCopy(const NodeRecord& node) {
  const bool is_one_row = node.Value("Height") <= 1 && node.Value("Depth") <= 1;
  const auto width = static_cast<int64_t>(node.Value("WidthInBytes"));
  std::vector<NamedAddress> addresses;
  const struct {
    const char* side;
    const char* type;
    const char* x;
    Access access;
  } sides[] = {{"src", "srcMemoryType", "srcXInBytes", Access::kRead},
               {"dst", "dstMemoryType", "dstXInBytes", Access::kWrite}};
  for (const auto& side : sides) {
    if (node.Value(side.type) == CU_MEMORYTYPE_HOST) continue;
    const auto x = static_cast<int64_t>(node.Value(side.x));
    addresses.push_back(
        {.address = DevicePtr(node.Value(side.side)) + x,
         .param = side.side,
         .access = is_one_row ? side.access : Access::kReadWrite,
         .bytes = is_one_row ? std::optional<int64_t>(width) : std::nullopt});
  }
  return addresses;
}

std::vector<NamedAddress> AddressesOfFill(const NodeRecord& node) {
  const bool is_one_row = node.Value("height") <= 1;
  const auto bytes =
      CheckedMul(static_cast<int64_t>(node.Value("width")),
                 static_cast<int64_t>(node.Value("elementSize")));
  return {{.address = DevicePtr(node.Value("dst")),
           .param = "dst",
           .access = is_one_row ? Access::kWrite : Access::kReadWrite,
           .bytes = is_one_row ? bytes : std::nullopt}};
}

absl::StatusOr<std::vector<NamedAddress>> AddressesOf(
    size_t index, const NodeRecord& node, const SignatureSet* signatures) {
  switch (node.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return AddressesOfKernel(node, signatures);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      if (node.image.empty()) break;
      return AddressesOfCopy(node);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      if (node.image.empty()) break;
      return AddressesOfFill(node);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return std::vector<NamedAddress>();
    default:
      break;
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "observed step: ", NodeLabel(index, node),
      ": what nodes of this kind use is not read; record kernels, copies and "
      "fills only"));
}

EdgeKind KindOf(const CUgraphEdgeData& data) {
  if (data.type != CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC) {
    return EdgeKind::kFull;
  }
  return data.from_port == CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER
             ? EdgeKind::kLaunchOrder
             : EdgeKind::kProgrammatic;
}

absl::StatusOr<std::vector<StepEdge>> ReadEdges(const Driver& driver,
                                                CUgraph graph,
                                                const GraphRecord& record) {
  const DriverApi& api = driver.api();
  size_t count = 0;
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(api.GraphGetEdges(graph, nullptr, nullptr, nullptr, &count),
               "cuGraphGetEdges"));
  std::vector<StepEdge> edges;
  if (count == 0) return edges;
  std::vector<CUgraphNode> from(count);
  std::vector<CUgraphNode> to(count);
  std::vector<CUgraphEdgeData> data(count);
  PERMAFROST_RETURN_IF_ERROR(CuStatus(
      api.GraphGetEdges(graph, from.data(), to.data(), data.data(), &count),
      "cuGraphGetEdges"));
  std::map<CUgraphNode, int> index;
  for (size_t i = 0; i < record.nodes.size(); ++i) {
    index[record.nodes[i].node] = static_cast<int>(i);
  }
  for (size_t i = 0; i < std::min(count, from.size()); ++i) {
    const auto from_node = index.find(from[i]);
    const auto to_node = index.find(to[i]);
    if (from_node == index.end() || to_node == index.end()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "observed step: edge ", i,
          " joins a node that the audit did not see; audit the graph again"));
    }
    edges.push_back({from_node->second, to_node->second, KindOf(data[i])});
  }
  return edges;
}

/// For each operation, all whose memory accesses come before its own.
std::vector<std::vector<bool>> Before(const StepDag& dag) {
  const size_t count = dag.ops.size();
  std::vector<std::vector<size_t>> into(count);
  for (const StepEdge& edge : dag.edges) {
    const bool orders_memory =
        edge.kind == EdgeKind::kFull ||
        (edge.kind == EdgeKind::kProgrammatic &&
         dag.ops[static_cast<size_t>(edge.to)].waits_on_grid_dependency);
    if (!orders_memory) continue;
    into[static_cast<size_t>(edge.to)].push_back(
        static_cast<size_t>(edge.from));
  }
  std::vector<std::vector<bool>> before(count, std::vector<bool>(count));
  for (size_t op = 0; op < count; ++op) {
    std::vector<size_t> open = {op};
    while (!open.empty()) {
      const size_t at = open.back();
      open.pop_back();
      for (const size_t from : into[at]) {
        if (before[op][from]) continue;
        before[op][from] = true;
        open.push_back(from);
      }
    }
  }
  return before;
}

/// A write overwrites when no operation that is not before it reads a byte
/// which it leaves as it was.
bool Overwrites(const Use& write, const std::vector<Use>& uses,
                const std::vector<std::vector<bool>>& before) {
  const auto op = static_cast<size_t>(write.op);
  return std::all_of(uses.begin(), uses.end(), [&](const Use& use) {
    if (use.access == Access::kWrite || use.buffer != write.buffer) return true;
    if (before[op][static_cast<size_t>(use.op)]) return true;
    // What the operation itself reads, it reads from before its own write.
    if (use.op == write.op) return false;
    return write.begin <= use.begin && use.end <= write.end;
  });
}

bool Reads(Access access) {
  return access == Access::kRead || access == Access::kReadWrite;
}
bool Writes(Access access) {
  return access == Access::kWrite || access == Access::kReadWrite;
}

/// One access for each buffer of an operation, however many of its parameters
/// name it.
void AddAccesses(const std::vector<Use>& uses, StepDag& dag) {
  const std::vector<std::vector<bool>> before = Before(dag);
  for (size_t op = 0; op < dag.ops.size(); ++op) {
    std::map<std::string, std::tuple<bool, bool, bool>> by_buffer;
    for (const Use& use : uses) {
      if (use.op != static_cast<int>(op)) continue;
      auto& [reads, writes, overwrites] = by_buffer[use.buffer];
      reads = reads || Reads(use.access);
      writes = writes || Writes(use.access);
      overwrites = overwrites || (use.access == Access::kWrite &&
                                  Overwrites(use, uses, before));
    }
    for (const auto& [buffer, what] : by_buffer) {
      const auto [reads, writes, overwrites] = what;
      dag.ops[op].accesses.push_back({.buffer = buffer,
                                      .access = reads && writes
                                                    ? Access::kReadWrite
                                                : writes ? Access::kWrite
                                                         : Access::kRead,
                                      .overwrites = overwrites && !reads});
    }
  }
}

/// Whether a node names exactly the buffers that its operation uses. Where
/// buffers share bytes an address counts for each of them that is used.
absl::Status CheckOp(const Buffers& buffers, const StepDag& step, size_t index,
                     const std::vector<NamedAddress>& addresses) {
  const StepOp& op = step.ops[index];
  std::set<std::string> used;
  for (const BufferAccess& access : op.accesses) used.insert(access.buffer);
  std::set<std::string> named_buffers;
  for (const NamedAddress& named : addresses) {
    const std::vector<const BufferRef*> holders =
        buffers.Holding(named.address);
    bool is_known = holders.empty();
    for (const BufferRef* holder : holders) {
      if (used.count(holder->name) == 0) continue;
      is_known = true;
      named_buffers.insert(holder->name);
    }
    if (is_known) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("observed step '", step.name, "': ", op.name, ": '",
                     named.param, "' lies in '", holders.front()->name,
                     "', which the operation does not use"));
  }
  for (const std::string& buffer : used) {
    if (named_buffers.count(buffer) != 0) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "observed step '", step.name, "': ", op.name, " names no address in '",
        buffer, "', which the operation uses"));
  }
  return absl::OkStatus();
}

using EdgeSet = std::set<std::tuple<int, int, EdgeKind>>;

EdgeSet ToSet(const std::vector<StepEdge>& edges) {
  EdgeSet set;
  for (const StepEdge& edge : edges) {
    set.insert({edge.from, edge.to, edge.kind});
  }
  return set;
}

/// An error for the first edge of `has` that `lacks` has not.
absl::Status CheckContained(const StepDag& step, const EdgeSet& has,
                            const EdgeSet& lacks, absl::string_view owner) {
  for (const auto& edge : has) {
    if (lacks.count(edge) != 0) continue;
    const auto [from, to, kind] = edge;
    return absl::FailedPreconditionError(
        absl::StrCat("observed step '", step.name, "': only ", owner,
                     " has the ", EdgeKindName(kind), " edge from ",
                     step.ops[static_cast<size_t>(from)].name, " to ",
                     step.ops[static_cast<size_t>(to)].name));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StepDag> ObserveStep(const Driver& driver, CUgraph graph,
                                    const AuditScope& scope,
                                    const AuditReport& report) {
  if (scope.arena == nullptr) {
    return absl::InvalidArgumentError(
        "observed step: got no arena, whose buffers the step would use");
  }
  const Buffers buffers(*scope.arena);
  StepDag dag;
  dag.name = "captured graph";
  dag.origin = DagOrigin::kObserved;
  std::vector<Use> uses;
  const std::vector<NodeRecord>& nodes = report.record->nodes;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const NodeRecord& node = nodes[i];
    StepOp op;
    op.name = NodeLabel(i, node);
    const KernelSignature* signature = scope.signatures == nullptr
                                           ? nullptr
                                           : scope.signatures->Find(node.name);
    op.waits_on_grid_dependency = node.type == CU_GRAPH_NODE_TYPE_KERNEL &&
                                  signature != nullptr &&
                                  signature->waits_on_grid_dependency;
    PERMAFROST_ASSIGN_OR_RETURN(const std::vector<NamedAddress> addresses,
                                AddressesOf(i, node, scope.signatures));
    for (const NamedAddress& named : addresses) {
      const std::vector<const BufferRef*> holders =
          buffers.Holding(named.address);
      if (holders.size() > 1) {
        return absl::FailedPreconditionError(absl::StrCat(
            "observed step: ", op.name, ": '", named.param, "' lies in both '",
            holders[0]->name, "' and '", holders[1]->name,
            "', which share bytes; observe the step on an arena without "
            "overlay"));
      }
      if (holders.empty()) continue;
      const BufferRef& buffer = *holders.front();
      const int64_t begin = named.address - buffer.base;
      const bool is_whole = !named.bytes.has_value();
      uses.push_back({.op = static_cast<int>(i),
                      .buffer = buffer.name,
                      .begin = is_whole ? 0 : begin,
                      .end = is_whole ? buffer.bytes
                                      : begin + std::min(*named.bytes,
                                                         buffer.bytes - begin),
                      .access = named.access});
    }
    dag.ops.push_back(std::move(op));
  }
  PERMAFROST_ASSIGN_OR_RETURN(dag.edges,
                              ReadEdges(driver, graph, *report.record));
  AddAccesses(uses, dag);
  return dag;
}

absl::Status CheckObserved(const Driver& driver, CUgraph graph,
                           const AuditScope& scope, const AuditReport& report,
                           const StepDag& step) {
  if (scope.arena == nullptr) {
    return absl::InvalidArgumentError(
        "observed step: got no arena, whose buffers the step would use");
  }
  const std::vector<NodeRecord>& nodes = report.record->nodes;
  if (nodes.size() != step.ops.size()) {
    return absl::FailedPreconditionError(
        absl::StrCat("observed step '", step.name, "' has ", step.ops.size(),
                     " operations and the graph has ", nodes.size(),
                     " nodes; observe this step again"));
  }
  const Buffers buffers(*scope.arena);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const std::string label = NodeLabel(i, nodes[i]);
    if (step.ops[i].name != label) {
      return absl::FailedPreconditionError(
          absl::StrCat("observed step '", step.name, "': operation ", i, " is ",
                       step.ops[i].name, " and the graph has ", label));
    }
    PERMAFROST_ASSIGN_OR_RETURN(const std::vector<NamedAddress> addresses,
                                AddressesOf(i, nodes[i], scope.signatures));
    PERMAFROST_RETURN_IF_ERROR(CheckOp(buffers, step, i, addresses));
  }
  PERMAFROST_ASSIGN_OR_RETURN(const std::vector<StepEdge> edges,
                              ReadEdges(driver, graph, *report.record));
  const EdgeSet then = ToSet(step.edges);
  const EdgeSet now = ToSet(edges);
  PERMAFROST_RETURN_IF_ERROR(CheckContained(step, then, now, "the step"));
  return CheckContained(step, now, then, "the graph");
}

}  // namespace permafrost
