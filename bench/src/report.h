// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_BENCH_REPORT_H_
#define PERMAFROST_BENCH_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exit_code.h"
#include "options.h"
#include "permafrost/arena/arena_plan.h"
#include "permafrost/capture/address_audit.h"
#include "permafrost/capture/capture_all.h"
#include "permafrost/capture/replay_verifier.h"
#include "permafrost/driver/driver.h"

namespace permafrost::bench {

/// Sorted samples, summed up; nullopt where there are too few to tell.
/// Units: nanoseconds.
struct Percentiles {
  std::optional<int64_t> p50;  ///< From 1 sample on.
  std::optional<int64_t> p90;  ///< From 10 samples on.
  std::optional<int64_t> p99;  ///< From 100 samples on.
};

/// The nearest-rank percentiles of `samples`.
Percentiles Summarize(std::vector<int64_t> samples);

struct DriverFigures {
  DriverKind kind = DriverKind::kCuda;
  std::string path;
  int version = 0;
  std::string device;
  int compute_capability = 0;
  std::string selection_note;
};

/// The sizes that a step is made of.
struct ShapeFigures {
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t experts = 0;
  int64_t distinct_experts = 0;
  int64_t experts_per_token = 0;
  int64_t expert_width = 0;
};

/// What one bucket's graph is and how long it took.
struct BucketFigures {
  int64_t rows = 0;
  int64_t nodes = 0;
  int64_t samples = 0;
  int64_t replays = 0;  ///< Of this graph, verification included.
  Percentiles eager_host_ns;
  Percentiles replay_host_ns;
  Percentiles replay_device_ns;
  Percentiles end_to_end_ns;
};

/// Everything that a run says, in the order in which it comes to know it. Text
/// and JSON are two printings of this.
struct RunReport {
  Options options;
  std::optional<DriverFigures> driver;
  std::string model;       ///< Name or path, as given.
  std::string model_type;  ///< Empty while the config has not been read.
  ShapeFigures config_shape;
  ShapeFigures used_shape;
  std::vector<std::string> reduced_by;
  int64_t weight_bytes = 0;
  int64_t input_bytes = 0;

  std::optional<ArenaPlan> plan;
  std::optional<uint64_t> fingerprint;
  std::optional<uint64_t> fingerprint_after;
  uint64_t epoch = 0;

  CaptureCounters counters;
  int64_t allocations_after_freeze = 0;

  /// One for each graph that was audited, refused ones included.
  std::vector<AuditReport> audits;
  std::optional<VerifyReport> verification;
  /// What was found outside of audit and verification: a capture refused, an
  /// arena that moved after the timed loop, a leak.
  std::vector<std::string> other_findings;
  std::vector<BucketFigures> buckets;

  bool addresses_stable = false;
  bool results_stable = false;
  ExitCode exit_code = ExitCode::kSomethingFound;
  std::string failure;  ///< Why the result is FAIL; empty for PASS.

  bool is_gpu() const {
    return driver.has_value() && driver->kind == DriverKind::kCuda;
  }
  int64_t audit_error_count() const;
};

/// One line that goes with every time on softcuda.
inline constexpr const char* kInterpreterTimeNote =
    "interpreter time, not a GPU figure";

/// Parts of the report as text, in the order of a run. Each ends in a newline.
std::string HeaderText(const RunReport& report);
std::string ArenaText(const RunReport& report);
std::string FreezeText(const RunReport& report);
std::string CaptureText(const RunReport& report);
std::string VerificationText(const RunReport& report);
std::string TimingText(const RunReport& report);
/// The verdicts; its last line is "result: PASS" or "result: FAIL (reason)".
std::string VerdictText(const RunReport& report);

/// The whole report as JSON text, schema permafrost.replay_latency/1.
std::string ReportJson(const RunReport& report);

}  // namespace permafrost::bench

#endif  // PERMAFROST_BENCH_REPORT_H_
