// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "permafrost/capture/address_audit.h"
#include "permafrost/driver/status.h"

namespace permafrost {
namespace {

// A Status is read by people: beyond this many lines the report has the rest.
constexpr int64_t kMaxListedFindings = 8;

std::string FindingText(const AuditFinding& finding) {
  std::string text = absl::StrCat(FindingKindName(finding.kind), ": ");
  if (finding.node_index < 0) {
    absl::StrAppend(&text, "graph");
  } else {
    absl::StrAppend(&text, "node ", finding.node_index, " (", finding.node,
                    ")");
  }
  if (!finding.param.empty()) {
    absl::StrAppend(&text, ", parameter '", finding.param, "'");
  }
  if (!finding.address.is_null()) {
    absl::StrAppend(&text, ", address ", finding.address.ToString());
  }
  return absl::StrCat(text, ": ", finding.message);
}

}  // namespace

const char* FindingKindName(FindingKind kind) {
  switch (kind) {
    case FindingKind::kForeignAddress:
      return "foreign address";
    case FindingKind::kNotMapped:
      return "not mapped";
    case FindingKind::kOutOfRange:
      return "out of range";
    case FindingKind::kNullAddress:
      return "NULL address";
    case FindingKind::kAccessViolation:
      return "access violation";
    case FindingKind::kPageableHost:
      return "pageable host memory";
    case FindingKind::kAllocationNode:
      return "allocation node";
    case FindingKind::kHostNode:
      return "host node";
    case FindingKind::kUnsupportedNode:
      return "unsupported node";
    case FindingKind::kPossibleAddress:
      return "possible address";
    case FindingKind::kOpaqueParameter:
      return "opaque parameter";
    case FindingKind::kSignatureMismatch:
      return "signature mismatch";
    case FindingKind::kEmptyGraph:
      return "empty graph";
    case FindingKind::kAsleep:
      return "asleep";
    case FindingKind::kUnreadable:
      return "unreadable";
  }
  return "unknown";
}

AuditPolicy& AuditPolicy::Allow(FindingKind kind) {
  if (kind != FindingKind::kUnreadable) {
    allowed_ |= uint32_t{1} << static_cast<unsigned>(kind);
  }
  return *this;
}

bool AuditPolicy::IsError(FindingKind kind) const {
  return (allowed_ >> static_cast<unsigned>(kind) & 1) == 0;
}

int64_t AuditReport::error_count() const {
  return std::count_if(findings.begin(), findings.end(),
                       [](const AuditFinding& f) { return f.is_error; });
}

absl::Status AuditReport::ToStatus() const {
  if (!driver_status.ok()) return Annotate(driver_status, "address audit");
  const int64_t errors = error_count();
  if (errors == 0) return absl::OkStatus();
  std::string text =
      absl::StrCat("address audit: ", errors, " error", errors == 1 ? "" : "s");
  int64_t listed = 0;
  for (const AuditFinding& finding : findings) {
    if (!finding.is_error) continue;
    if (listed == kMaxListedFindings) {
      absl::StrAppend(&text, "; and ", errors - listed, " more");
      break;
    }
    absl::StrAppend(&text, listed == 0 ? ": " : "; ", FindingText(finding));
    ++listed;
  }
  return absl::FailedPreconditionError(text);
}

std::string AuditReport::ToText() const {
  std::string text = absl::StrCat(
      "audit: ", coverage.nodes, " nodes (", coverage.kernel_nodes,
      " kernels, ", coverage.memcpy_nodes, " copies, ", coverage.memset_nodes,
      " fills, ", coverage.other_nodes, " other), ", coverage.param_bytes,
      " parameter bytes (", coverage.address_bytes, " address, ",
      coverage.scalar_bytes, " scalar, ", coverage.opaque_bytes, " opaque), ",
      addresses.size(), " addresses, ", findings.size(), " findings, ",
      error_count(), " errors\n");
  for (const AuditFinding& finding : findings) {
    absl::StrAppend(&text, finding.is_error ? "  error: " : "  allowed: ",
                    FindingText(finding), "\n");
  }
  return text;
}

}  // namespace permafrost
