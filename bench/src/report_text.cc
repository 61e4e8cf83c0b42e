// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "report.h"

namespace permafrost::bench {
namespace {

const char* YesNo(bool value) { return value ? "yes" : "no"; }

std::string ShapeText(const ShapeFigures& shape) {
  return absl::StrFormat(
      "%d layer%s, hidden %d, %d experts (%d distinct), top-%d, expert width "
      "%d",
      shape.layers, shape.layers == 1 ? "" : "s", shape.hidden, shape.experts,
      shape.distinct_experts, shape.experts_per_token, shape.expert_width);
}

std::string MicrosText(const std::optional<int64_t>& nanoseconds) {
  if (!nanoseconds.has_value()) return "-";
  return absl::StrFormat("%.1f", static_cast<double>(*nanoseconds) / 1000.0);
}

std::string PercentilesText(const Percentiles& percentiles) {
  return absl::StrCat(MicrosText(percentiles.p50), " / ",
                      MicrosText(percentiles.p90), " / ",
                      MicrosText(percentiles.p99));
}

}  // namespace

std::string HeaderText(const RunReport& report) {
  std::string text;
  if (report.driver.has_value()) {
    const DriverFigures& driver = *report.driver;
    absl::StrAppendFormat(&text, "driver: %s %d.%d (%s)\n",
                          DriverKindName(driver.kind), driver.version / 1000,
                          driver.version % 1000 / 10, driver.path);
    absl::StrAppendFormat(&text, "device: %s, sm_%d\n", driver.device,
                          driver.compute_capability);
    if (!driver.selection_note.empty()) {
      absl::StrAppend(&text, "driver choice: ", driver.selection_note, "\n");
    }
  }
  absl::StrAppend(
      &text, "model: ", report.model, " (", report.model_type, ")\n",
      "shape of the config: ", ShapeText(report.config_shape), "\n",
      "shape used: ", ShapeText(report.used_shape), "\n", "reduced by: ",
      report.reduced_by.empty() ? "nothing"
                                : absl::StrJoin(report.reduced_by, "; "),
      "\n");
  absl::StrAppendFormat(
      &text,
      "step: the routed MoE path of the layer (attention and shared experts "
      "are not run)\nweights: random e4m3, seed %d, %d bytes; inputs: %d "
      "bytes; both declared to the audit as external regions\n",
      report.options.seed, report.weight_bytes, report.input_bytes);
  if (report.options.plant != Plant::kNone) {
    const PlantInfo& info = InfoOf(report.options.plant);
    absl::StrAppend(&text, "planted fault: ", info.name, ": ", info.fault,
                    "\n");
    if (report.driver.has_value()) {
      const char* const finder = FinderOf(info, report.driver->kind);
      absl::StrAppend(&text, "must be found by: ",
                      finder == nullptr ? "nothing on this driver" : finder,
                      "\n");
    }
  }
  return text;
}

std::string ArenaText(const RunReport& report) {
  std::string text = absl::StrCat("\narena\n", report.plan->ToTable());
  if (!text.ends_with('\n')) text += '\n';
  return text;
}

std::string FreezeText(const RunReport& report) {
  return absl::StrFormat("address fingerprint: 0x%016x, epoch %d\n",
                         report.fingerprint.value_or(0), report.epoch);
}

std::string CaptureText(const RunReport& report) {
  std::string text = "\ncapture and audit\n";
  for (size_t i = 0; i < report.audits.size(); ++i) {
    absl::StrAppend(&text, "graph of ", report.options.buckets[i],
                    " rows: ", report.audits[i].ToText());
    if (!text.ends_with('\n')) text += '\n';
  }
  return text;
}

std::string VerificationText(const RunReport& report) {
  std::string text = "\nverification\n";
  if (report.verification.has_value()) {
    absl::StrAppend(&text, report.verification->ToText());
    if (!text.ends_with('\n')) text += '\n';
  } else {
    absl::StrAppend(&text, "not reached\n");
  }
  return text;
}

std::string TimingText(const RunReport& report) {
  const bool is_gpu = report.is_gpu();
  std::string text = "\ntimes in microseconds, p50 / p90 / p99";
  absl::StrAppend(&text, is_gpu ? "" : " (", is_gpu ? "" : kInterpreterTimeNote,
                  is_gpu ? "\n" : ")\n");
  for (const BucketFigures& bucket : report.buckets) {
    absl::StrAppendFormat(&text, "%d rows: %d nodes, %d samples, %d replays\n",
                          bucket.rows, bucket.nodes, bucket.samples,
                          bucket.replays);
    if (bucket.samples == 0) continue;
    const struct {
      const char* name;
      const Percentiles& percentiles;
    } lines[] = {{"eager, host enqueue", bucket.eager_host_ns},
                 {"replay, host enqueue", bucket.replay_host_ns},
                 {"replay, device", bucket.replay_device_ns},
                 {"replay, end to end", bucket.end_to_end_ns}};
    for (const auto& line : lines) {
      const std::string times = PercentilesText(line.percentiles);
      absl::StrAppendFormat(&text, "  %-22s %-32s%s\n", line.name, times,
                            is_gpu ? "" : kInterpreterTimeNote);
    }
  }
  return text;
}

std::string VerdictText(const RunReport& report) {
  std::string text = "\n";
  if (report.driver.has_value()) {
    const CaptureCounters& counters = report.counters;
    absl::StrAppendFormat(
        &text,
        "counters: %d captures, %d replays, %d fallbacks, %d recaptures, %d "
        "device allocations after freeze\n",
        counters.captures, counters.replays, counters.fallbacks,
        counters.recaptures, report.allocations_after_freeze);
    if (report.fingerprint_after.has_value()) {
      absl::StrAppendFormat(&text, "address fingerprint after: 0x%016x\n",
                            *report.fingerprint_after);
    }
    for (const std::string& finding : report.other_findings) {
      absl::StrAppend(&text, "finding: ", finding, "\n");
    }
    absl::StrAppend(&text, "addresses stable: ", YesNo(report.addresses_stable),
                    "\n", "results stable: ", YesNo(report.results_stable),
                    "\n");
  }
  absl::StrAppend(&text,
                  report.failure.empty()
                      ? "result: PASS\n"
                      : absl::StrCat("result: FAIL (", report.failure, ")\n"));
  return text;
}

}  // namespace permafrost::bench
