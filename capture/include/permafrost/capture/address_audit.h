// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_CAPTURE_ADDRESS_AUDIT_H_
#define PERMAFROST_CAPTURE_ADDRESS_AUDIT_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "permafrost/arena/arena.h"
#include "permafrost/arena/external_region.h"
#include "permafrost/arena/kernel_signature.h"
#include "permafrost/arena/step_dag.h"
#include "permafrost/driver/device_ptr.h"
#include "permafrost/driver/driver.h"

namespace permafrost {

/// What an audit can find in a graph.
enum class FindingKind {
  kForeignAddress,   ///< Outside the arena and every declared region.
  kNotMapped,        ///< The driver knows no memory there: freed or unmapped.
  kOutOfRange,       ///< Starts in a buffer and passes its end, or in a gap.
  kNullAddress,      ///< NULL where the signature wants a buffer.
  kAccessViolation,  ///< Writes a read-only region, or reads a write-only one.
  kPageableHost,     ///< A copy names host memory that is not pinned.
  kAllocationNode,   ///< The graph allocates or frees memory at replay.
  kHostNode,         ///< The graph calls host code at replay.
  kUnsupportedNode,  ///< A node kind, or a form of copy, not audited here.
  kPossibleAddress,  ///< An opaque word that falls in or near known memory.
  kOpaqueParameter,  ///< Bytes that no signature classifies.
  kSignatureMismatch,  ///< Signature and driver disagree on the parameters.
  kEmptyGraph,         ///< Nothing was recorded.
  kUnreadable,         ///< A driver call failed: the node was not audited.
  kAsleep,             ///< The buffer or region gave its memory back.
};

/// "foreign address", "not mapped" and so on.
const char* FindingKindName(FindingKind kind);

/// Which findings are errors. By default all of them are.
class AuditPolicy {
 public:
  /// Findings of `kind` are still reported, but no longer errors. What could
  /// not be read (kUnreadable) stays an error whatever is allowed.
  AuditPolicy& Allow(FindingKind kind);
  bool IsError(FindingKind kind) const;

 private:
  uint32_t allowed_ = 0;
};

/// What a graph may name.
struct AuditScope {
  /// The arena, or null when only external regions are allowed.
  const ArenaView* arena = nullptr;
  /// Memory outside the arena that the caller answers for: weights, KV pool.
  absl::Span<const ExternalRegion> externals;
  /// Parameter meanings by kernel name; null is the empty set.
  const SignatureSet* signatures = nullptr;
  /// What this step does, observed on an arena without overlay. An audit has no
  /// use for it; a graph on an arena whose buffers share bytes is instantiated
  /// only where it agrees with this and the overlay is safe in it.
  const StepDag* observed = nullptr;
};

struct AuditFinding {
  FindingKind kind = FindingKind::kUnreadable;
  bool is_error = true;
  int64_t node_index = 0;  ///< In the order of cuGraphGetNodes; -1: the graph.
  std::string node;        ///< Kernel name, "memcpy", "memset" or the kind.
  std::string param;       ///< Parameter or field; empty for a whole node.
  std::string buffer;      ///< The nearest buffer or region; may be empty.
  DevicePtr address;
  std::string message;
};

/// Every byte seen is in exactly one class, so
/// `param_bytes == address_bytes + scalar_bytes + opaque_bytes`.
struct AuditCoverage {
  int64_t nodes = 0;
  int64_t kernel_nodes = 0;
  int64_t memcpy_nodes = 0;
  int64_t memset_nodes = 0;
  int64_t other_nodes = 0;  ///< Each of these is a finding.
  int64_t param_bytes = 0;
  int64_t address_bytes = 0;
  int64_t scalar_bytes = 0;
  int64_t opaque_bytes = 0;
};

/// One address that a node names, and the buffer or region it lies in.
struct NodeAddress {
  int64_t node_index = 0;
  std::string node;
  std::string param;
  DevicePtr address;
  std::string buffer;  ///< Empty for NULL and for addresses that are findings.
};

/// The parameters of all nodes of a graph as the driver gave them to the audit.
class GraphRecord;

struct AuditReport {
  std::vector<AuditFinding> findings;
  AuditCoverage coverage;
  std::vector<NodeAddress> addresses;
  /// The first driver call of the audit that failed; each is a finding too.
  absl::Status driver_status;
  /// For `CompareWithRecord`; never null.
  std::shared_ptr<const GraphRecord> record;

  int64_t error_count() const;

  /// OK, or FailedPrecondition that lists the findings that are errors (the
  /// driver's own Status when a read failed).
  absl::Status ToStatus() const;

  /// Coverage, then one line a finding.
  std::string ToText() const;
};

/// Reads every node of a graph, ours or not, and classifies every parameter
/// byte as address, scalar or opaque.
///
/// Kernel nodes are read through `func` or `kern`, and through parameter
/// pointers or an `extra` block; a kernel without a signature is all opaque,
/// and each 8-byte word of it that could be an address is a finding. Device
/// addresses of copies and fills are checked in the same way. A node of another
/// kind is a finding, never silence.
///
/// Capture: on a finished graph only; makes calls that would end a capture.
/// Threads: the graph must not change meanwhile (the driver's rule). A context
///   must be current when `scope.arena` is null.
/// Cost: a few driver calls per node and parameter.
AuditReport AuditGraph(const Driver& driver, CUgraph graph,
                       const AuditScope& scope, const AuditPolicy& policy = {});

/// Reads the parameters of every node again from the driver's graph and
/// compares each with the record.
///
/// @param compared_nodes  when not null, receives the number of nodes compared.
/// Errors: FailedPrecondition naming the node, the kernel, the parameter, and
///   the value then and now; the driver's when a read fails.
absl::Status CompareWithRecord(const Driver& driver, CUgraph graph,
                               const GraphRecord& record,
                               int64_t* compared_nodes = nullptr);

}  // namespace permafrost

#endif  // PERMAFROST_CAPTURE_ADDRESS_AUDIT_H_
