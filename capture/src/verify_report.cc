// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "permafrost/capture/replay_verifier.h"

namespace permafrost {

const char* VerifyFindingKindName(VerifyFindingKind kind) {
  switch (kind) {
    case VerifyFindingKind::kOracleMismatch:
      return "differs from the oracle";
    case VerifyFindingKind::kEagerMismatch:
      return "differs from the eager run";
    case VerifyFindingKind::kNotWritten:
      return "not written";
    case VerifyFindingKind::kAddressChanged:
      return "address changed";
    case VerifyFindingKind::kNodeChanged:
      return "node changed";
    case VerifyFindingKind::kGuardDamaged:
      return "guard damaged";
    case VerifyFindingKind::kCounterMismatch:
      return "replay counter";
    case VerifyFindingKind::kDriverReport:
      return "driver report";
    case VerifyFindingKind::kRunFailed:
      return "failed";
  }
  return "unknown";
}

std::string VerifyReport::ToText() const {
  std::string text =
      absl::StrCat("verification: ", replays, " replays and ", eager_runs,
                   " eager runs over inputs ", absl::StrJoin(inputs, ", "),
                   "; compared ", compared_bytes, " output bytes, ",
                   compared_nodes, " nodes, ", guard_bytes, " guard bytes\n");
  for (const VerifyFinding& finding : findings) {
    absl::StrAppend(&text, "  ", VerifyFindingKindName(finding.kind), ": ",
                    finding.message, "\n");
  }
  absl::StrAppend(&text, "addresses stable: ", addresses_stable ? "yes" : "no",
                  "\nresults stable: ", results_stable ? "yes" : "no", "\n");
  return text;
}

}  // namespace permafrost
