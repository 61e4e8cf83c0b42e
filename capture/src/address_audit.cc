// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/capture/address_audit.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "memory_scope.h"
#include "node_record.h"
#include "permafrost/driver/checked_math.h"
#include "permafrost/driver/status.h"

namespace permafrost {
namespace {

// How one parameter uses the memory behind its address.
struct AddressUse {
  absl::string_view param;
  DevicePtr address;
  Access access = Access::kNone;
  // Bytes reached; absent: to the end of the buffer.
  std::optional<int64_t> extent_bytes;
  bool nullable = false;
};

class Auditor {
 public:
  Auditor(const Driver& driver, const AuditScope& scope,
          const AuditPolicy& policy)
      : driver_(driver),
        memory_(scope),
        signatures_(scope.signatures),
        policy_(policy),
        record_(std::make_shared<GraphRecord>()) {}

  // `current` tells whether the arena's context could be made current; the
  // answers of another one would be about other memory.
  AuditReport Run(CUgraph graph, const absl::Status& current) {
    const absl::StatusOr<std::vector<CUgraphNode>> nodes =
        current.ok() ? ListNodes(driver_, graph) : current;
    if (!nodes.ok()) {
      Unreadable(nodes.status());
    } else if (nodes->empty()) {
      Add(FindingKind::kEmptyGraph, "", "", DevicePtr(),
          "the graph has no nodes: the step recorded nothing on its stream");
    } else {
      for (const CUgraphNode node : *nodes) AuditNode(node);
    }
    report_.coverage.nodes = static_cast<int64_t>(record_->nodes.size());
    report_.record = std::move(record_);
    return std::move(report_);
  }

 private:
  void AuditNode(CUgraphNode node) {
    node_index_ = static_cast<int64_t>(record_->nodes.size());
    absl::StatusOr<NodeRecord> read = ReadNode(driver_, node);
    if (!read.ok()) {
      NodeRecord unread;
      unread.node = node;
      unread.name = "unread";
      node_ = &record_->nodes.emplace_back(std::move(unread));
      ++report_.coverage.other_nodes;
      Unreadable(read.status());
      return;
    }
    node_ = &record_->nodes.emplace_back(*std::move(read));
    switch (node_->type) {
      case CU_GRAPH_NODE_TYPE_KERNEL:
        ++report_.coverage.kernel_nodes;
        AuditKernel();
        break;
      case CU_GRAPH_NODE_TYPE_MEMCPY:
        ++report_.coverage.memcpy_nodes;
        AuditMemcpy();
        break;
      case CU_GRAPH_NODE_TYPE_MEMSET:
        ++report_.coverage.memset_nodes;
        AuditMemset();
        break;
      default:
        ++report_.coverage.other_nodes;
        AuditOther();
    }
    CountBytes();
  }

  void AuditOther() {
    switch (node_->type) {
      case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      case CU_GRAPH_NODE_TYPE_MEM_FREE:
        Add(FindingKind::kAllocationNode, "", "", DevicePtr(),
            "memory of the graph's own comes and goes with each replay; put "
            "the buffer into the plan");
        break;
      case CU_GRAPH_NODE_TYPE_HOST:
        Add(FindingKind::kHostNode, "", "", DevicePtr(),
            "host code runs in the middle of each replay; do that work before "
            "or after the replay");
        break;
      default:
        Add(FindingKind::kUnsupportedNode, "", "", DevicePtr(),
            "nodes of this kind are not audited; record kernels, copies and "
            "fills only");
    }
  }

  void AuditKernel() {
    const KernelSignature* signature =
        signatures_ == nullptr ? nullptr : signatures_->Find(node_->name);
    if (signature != nullptr && MatchesDriver(*signature)) {
      ApplySignature(*signature);
      for (size_t i = 0; i < signature->params.size(); ++i) {
        if (signature->params[i].kind == ParamKind::kAddress) {
          AuditKernelAddress(*signature, signature->params[i]);
        }
      }
    }
    for (const NodePart& part : node_->parts) {
      if (part.kind == ParamKind::kOpaque) AuditOpaque(part);
    }
  }

  // Every declared parameter must lie inside one that the driver knows.
  bool MatchesDriver(const KernelSignature& signature) {
    bool matches = true;
    for (const ParamSpec& spec : signature.params) {
      const bool inside = std::any_of(
          node_->parts.begin(), node_->parts.end(), [&](const NodePart& part) {
            return part.offset_bytes < node_->param_bytes &&
                   spec.offset_bytes >= part.offset_bytes &&
                   spec.offset_bytes + spec.size_bytes <=
                       part.offset_bytes + part.size_bytes;
          });
      if (inside) continue;
      matches = false;
      Add(FindingKind::kSignatureMismatch, spec.name, "", DevicePtr(),
          absl::StrCat("the signature puts it at bytes ", spec.offset_bytes,
                       " to ", spec.offset_bytes + spec.size_bytes,
                       ", where the driver's ", node_->param_bytes,
                       " parameter bytes have no such parameter; all of the "
                       "kernel's parameters are treated as opaque"));
    }
    return matches;
  }

  // Replaces the driver's nameless parameters by the declared ones. Bytes that
  // the signature does not mention stay opaque.
  void ApplySignature(const KernelSignature& signature) {
    std::vector<NodePart> parts;
    for (const NodePart& part : node_->parts) {
      if (part.offset_bytes >= node_->param_bytes) {
        parts.push_back(part);
        continue;
      }
      int64_t next = part.offset_bytes;
      const int64_t end = part.offset_bytes + part.size_bytes;
      for (const ParamSpec* spec : SortedInside(signature, next, end)) {
        if (spec->offset_bytes > next) {
          parts.push_back(NodePart{part.name, next, spec->offset_bytes - next,
                                   ParamKind::kOpaque});
        }
        parts.push_back(NodePart{spec->name, spec->offset_bytes,
                                 spec->size_bytes, spec->kind});
        next = spec->offset_bytes + spec->size_bytes;
      }
      if (next < end) {
        parts.push_back(
            NodePart{part.name, next, end - next, ParamKind::kOpaque});
      }
    }
    node_->parts = std::move(parts);
  }

  static std::vector<const ParamSpec*> SortedInside(
      const KernelSignature& signature, int64_t begin, int64_t end) {
    std::vector<const ParamSpec*> inside;
    for (const ParamSpec& spec : signature.params) {
      if (spec.offset_bytes >= begin && spec.offset_bytes < end) {
        inside.push_back(&spec);
      }
    }
    std::sort(inside.begin(), inside.end(),
              [](const ParamSpec* a, const ParamSpec* b) {
                return a->offset_bytes < b->offset_bytes;
              });
    return inside;
  }

  void AuditKernelAddress(const KernelSignature& signature,
                          const ParamSpec& spec) {
    AddressUse use;
    use.param = spec.name;
    use.address = DevicePtr(node_->Value(spec.offset_bytes, spec.size_bytes));
    use.access = spec.access;
    use.nullable = spec.nullable;
    if (spec.extent.unit_bytes > 0) {
      std::optional<int64_t> extent = spec.extent.unit_bytes;
      for (const int factor : spec.extent.factor_params) {
        const ParamSpec& scalar = signature.params[static_cast<size_t>(factor)];
        const std::optional<int64_t> value = ScalarValue(scalar);
        if (!extent || !value) {
          extent = std::nullopt;
          break;
        }
        extent = CheckedMul(*extent, *value);
      }
      if (!extent) {
        Add(FindingKind::kOutOfRange, spec.name,
            memory_.Locate(use.address).name, use.address,
            "the bytes it reaches, by the scalar parameters of its extent, are "
            "negative or beyond 2^63-1");
        return;
      }
      use.extent_bytes = extent;
    }
    AuditDeviceAddress(use);
  }

  // Negative values give nullopt: a size is never negative.
  std::optional<int64_t> ScalarValue(const ParamSpec& spec) const {
    if (spec.size_bytes > 8) return std::nullopt;
    const uint64_t raw = node_->Value(spec.offset_bytes, spec.size_bytes);
    const int64_t bits = spec.size_bytes * 8;
    const bool negative = ((raw >> (bits - 1)) & 1) != 0;
    if (negative) return std::nullopt;
    return static_cast<int64_t>(raw);
  }

  void AuditOpaque(const NodePart& part) {
    Add(FindingKind::kOpaqueParameter, part.name, "", DevicePtr(),
        absl::StrCat(part.size_bytes,
                     " bytes that no kernel signature classifies; declare the "
                     "kernel's parameters in a KernelSignature"));
    const int64_t end = part.offset_bytes + part.size_bytes;
    for (int64_t at = (part.offset_bytes + 7) / 8 * 8; at + 8 <= end; at += 8) {
      const DevicePtr word(node_->Value(at, 8));
      if (word.is_null()) continue;
      absl::StatusOr<bool> known = memory_.IsNear(word);
      if (!*known) known = IsMapped(driver_, word);
      if (!known.ok()) {
        Unreadable(known.status());
      } else if (*known) {
        const Place place = memory_.Locate(word);
        Add(FindingKind::kPossibleAddress, part.name, place.name, word,
            absl::StrCat("the word at parameter byte ", at,
                         " may be an address (", place.description,
                         "); nothing checks it"));
      }
    }
  }

  void AuditMemset() {
    AddressUse use;
    use.param = "dst";
    use.address = DevicePtr(node_->Value("dst"));
    use.access = Access::kWrite;
    const uint64_t row =
        SaturatingMul(node_->Value("width"), node_->Value("elementSize"));
    SetPitchedExtent(use, row, node_->Value("height"), node_->Value("pitch"));
    AuditDeviceAddress(use);
  }

  void AuditMemcpy() {
    if (node_->Value("Depth") > 1) {
      Add(FindingKind::kUnsupportedNode, "Depth", "", DevicePtr(),
          absl::StrCat("a copy of depth ", node_->Value("Depth"),
                       " is not audited; copy one plane at a time"));
      return;
    }
    AuditCopySide("src", Access::kRead);
    AuditCopySide("dst", Access::kWrite);
  }

  void AuditCopySide(const std::string& side, Access access) {
    const auto type =
        static_cast<CUmemorytype>(node_->Value(side + "MemoryType"));
    const uint64_t pitch = node_->Value(side + "Pitch");
    AddressUse use;
    use.param = side == "src" ? "src" : "dst";
    use.address =
        DevicePtr(node_->Value(side) + node_->Value(side + "XInBytes") +
                  node_->Value(side + "Y") * pitch);
    use.access = access;
    SetPitchedExtent(use, node_->Value("WidthInBytes"), node_->Value("Height"),
                     pitch);
    if (node_->Value(side + "Z") != 0 || type == CU_MEMORYTYPE_ARRAY) {
      Add(FindingKind::kUnsupportedNode, use.param, "", use.address,
          "copies of arrays and from inside a volume are not audited");
      return;
    }
    if (type == CU_MEMORYTYPE_DEVICE) {
      AuditDeviceAddress(use);
      return;
    }
    // What is declared is judged as declared, wherever the memory is.
    const Place place = memory_.Locate(use.address);
    if (type == CU_MEMORYTYPE_UNIFIED &&
        place.kind != Place::Kind::kElsewhere) {
      AuditDeviceAddress(use);
      return;
    }
    const absl::StatusOr<bool> pinned =
        IsPinnedHost(driver_, use.address.value());
    if (!pinned.ok()) {
      Unreadable(pinned.status());
    } else if (*pinned) {
      Resolve(use, "");
    } else if (type == CU_MEMORYTYPE_UNIFIED) {
      AuditUnifiedElsewhere(use);
    } else {
      AddPageable(use);
    }
  }

  // A copy by plain addresses: the driver says what is behind one.
  void AuditUnifiedElsewhere(const AddressUse& use) {
    const absl::StatusOr<bool> mapped = IsMapped(driver_, use.address);
    if (!mapped.ok()) {
      Unreadable(mapped.status());
    } else if (*mapped) {
      AuditDeviceAddress(use);
    } else {
      AddPageable(use);
    }
  }

  void AddPageable(const AddressUse& use) {
    Add(FindingKind::kPageableHost, use.param, "", use.address,
        "the copy names host memory that is not pinned: each replay would "
        "touch whatever is there then; use a pinned buffer that outlives the "
        "graph");
  }

  static uint64_t SaturatingMul(uint64_t a, uint64_t b) {
    uint64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
  }

  // Bytes from the first to the last of `height` rows.
  static void SetPitchedExtent(AddressUse& use, uint64_t row_bytes,
                               uint64_t height, uint64_t pitch) {
    uint64_t extent = height > 1 ? SaturatingMul(height - 1, pitch) : 0;
    if (__builtin_add_overflow(extent, row_bytes, &extent) ||
        extent > static_cast<uint64_t>(INT64_MAX)) {
      extent = static_cast<uint64_t>(INT64_MAX);
    }
    use.extent_bytes = static_cast<int64_t>(extent);
  }

  void AuditDeviceAddress(const AddressUse& use) {
    if (use.address.is_null()) {
      Resolve(use, "");
      if (use.nullable) return;
      Add(FindingKind::kNullAddress, use.param, "", use.address,
          "NULL where a buffer is needed; is the buffer gated off for this "
          "model?");
      return;
    }
    const Place place = memory_.Locate(use.address);
    if (place.kind == Place::Kind::kElsewhere) {
      Resolve(use, "");
      AddElsewhere(use, place);
      return;
    }
    if (place.kind == Place::Kind::kArenaGap) {
      Resolve(use, "");
      Add(FindingKind::kOutOfRange, use.param, place.name, use.address,
          absl::StrCat("the address lies in the arena between buffers, ",
                       place.description));
      return;
    }
    Resolve(use, place.name);
    if (use.extent_bytes && *use.extent_bytes > place.bytes_behind) {
      Add(FindingKind::kOutOfRange, use.param, place.name, use.address,
          absl::StrCat("reaches ", *use.extent_bytes, " bytes from ",
                       place.description, ", where ", place.bytes_behind,
                       " bytes are left; limit passed by ",
                       *use.extent_bytes - place.bytes_behind, " bytes"));
    }
    AuditAccess(use, place);
    if (place.is_asleep) {
      Add(FindingKind::kAsleep, use.param, place.name, use.address,
          absl::StrCat("the address lies in ", place.description,
                       ", which is asleep; wake it before the capture"));
      return;
    }
    AuditMapped(use, place);
  }

  void AddElsewhere(const AddressUse& use, const Place& place) {
    const absl::StatusOr<bool> mapped = IsMapped(driver_, use.address);
    if (!mapped.ok()) {
      Unreadable(mapped.status());
    } else if (*mapped) {
      Add(FindingKind::kForeignAddress, use.param, place.name, use.address,
          absl::StrCat("the address is outside the arena and every declared "
                       "region (",
                       place.description,
                       "); put the buffer into the plan or declare the memory "
                       "as an external region"));
    } else {
      Add(FindingKind::kNotMapped, use.param, place.name, use.address,
          absl::StrCat("the driver has no memory there and nothing declares "
                       "it (",
                       place.description, "): freed, or never allocated"));
    }
  }

  void AuditAccess(const AddressUse& use, const Place& place) {
    const bool writes =
        use.access == Access::kWrite || use.access == Access::kReadWrite;
    const bool reads =
        use.access == Access::kRead || use.access == Access::kReadWrite;
    const bool may_write =
        place.access == Access::kWrite || place.access == Access::kReadWrite;
    const bool may_read =
        place.access == Access::kRead || place.access == Access::kReadWrite;
    if ((writes && !may_write) || (reads && !may_read)) {
      Add(FindingKind::kAccessViolation, use.param, place.name, use.address,
          absl::StrCat("access is ", AccessName(use.access), ", and region '",
                       place.name, "' allows ", AccessName(place.access)));
    }
  }

  void AuditMapped(const AddressUse& use, const Place& place) {
    const absl::StatusOr<bool> mapped = IsMapped(driver_, use.address);
    if (!mapped.ok()) {
      Unreadable(mapped.status());
    } else if (!*mapped) {
      Add(FindingKind::kNotMapped, use.param, place.name, use.address,
          absl::StrCat("the driver has no memory at ", place.description,
                       ": unmapped or freed since the plan was made real"));
    }
  }

  void Resolve(const AddressUse& use, const std::string& buffer) {
    report_.addresses.push_back(NodeAddress{
        node_index_, node_->name, std::string(use.param), use.address, buffer});
  }

  void CountBytes() {
    AuditCoverage& coverage = report_.coverage;
    for (const NodePart& part : node_->parts) {
      if (part.offset_bytes >= node_->param_bytes) continue;
      coverage.param_bytes += part.size_bytes;
      switch (part.kind) {
        case ParamKind::kAddress:
          coverage.address_bytes += part.size_bytes;
          break;
        case ParamKind::kScalar:
          coverage.scalar_bytes += part.size_bytes;
          break;
        case ParamKind::kOpaque:
          coverage.opaque_bytes += part.size_bytes;
          break;
      }
    }
  }

  void Unreadable(const absl::Status& status) {
    if (report_.driver_status.ok()) report_.driver_status = status;
    Add(FindingKind::kUnreadable, "", "", DevicePtr(),
        std::string(status.message()));
  }

  void Add(FindingKind kind, absl::string_view param, std::string buffer,
           DevicePtr address, std::string message) {
    AuditFinding finding;
    finding.kind = kind;
    finding.is_error = policy_.IsError(kind);
    finding.node_index = node_index_;
    finding.node = node_ == nullptr ? "" : node_->name;
    finding.param = std::string(param);
    finding.buffer = std::move(buffer);
    finding.address = address;
    finding.message = std::move(message);
    report_.findings.push_back(std::move(finding));
  }

  const Driver& driver_;
  const MemoryScope memory_;
  const SignatureSet* signatures_;
  const AuditPolicy& policy_;
  AuditReport report_;
  std::shared_ptr<GraphRecord> record_;
  NodeRecord* node_ = nullptr;  // the one being audited, in the record
  int64_t node_index_ = -1;
};

}  // namespace

AuditReport AuditGraph(const Driver& driver, CUgraph graph,
                       const AuditScope& scope, const AuditPolicy& policy) {
  Auditor auditor(driver, scope, policy);
  if (scope.arena == nullptr) return auditor.Run(graph, absl::OkStatus());
  // The copy keeps the context alive for the scope.
  const ContextRef context = scope.arena->context();
  const Context::Scope current = context->MakeCurrent();
  return auditor.Run(graph, current.status());
}

}  // namespace permafrost
