// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "report.h"

namespace permafrost::bench {
namespace {

using Json = nlohmann::ordered_json;

// As text: a JSON reader that keeps numbers as doubles would round it.
Json Hex(const std::optional<uint64_t>& value) {
  if (!value.has_value()) return nullptr;
  return absl::StrCat("0x", absl::Hex(*value, absl::kZeroPad16));
}

Json OrNull(const std::optional<int64_t>& value) {
  return value.has_value() ? Json(*value) : Json(nullptr);
}

Json PercentilesJson(const Percentiles& percentiles) {
  return {{"p50", OrNull(percentiles.p50)},
          {"p90", OrNull(percentiles.p90)},
          {"p99", OrNull(percentiles.p99)}};
}

Json DriverJson(const std::optional<DriverFigures>& driver) {
  if (!driver.has_value()) return nullptr;
  return {{"kind", DriverKindName(driver->kind)},
          {"path", driver->path},
          {"version", driver->version},
          {"device", driver->device},
          {"compute_capability", driver->compute_capability},
          {"selection_note", driver->selection_note}};
}

Json ShapeJson(const ShapeFigures& shape) {
  return {{"layers", shape.layers},
          {"hidden", shape.hidden},
          {"experts", shape.experts},
          {"distinct_experts", shape.distinct_experts},
          {"experts_per_token", shape.experts_per_token},
          {"expert_width", shape.expert_width}};
}

Json ArenaJson(const RunReport& report) {
  if (!report.plan.has_value()) return nullptr;
  Json buffers = Json::array();
  for (const PlannedBuffer& buffer : report.plan->buffers()) {
    buffers.push_back({{"name", buffer.name},
                       {"offset_bytes", buffer.offset_bytes},
                       {"bytes", buffer.bytes},
                       {"gate_reason", buffer.gate_reason}});
  }
  return {{"bytes", report.plan->total_bytes()},
          {"buffer_bytes", report.plan->buffer_bytes()},
          {"guard_bytes", report.plan->options().guard_bytes},
          {"buffers", std::move(buffers)},
          {"fingerprint", Hex(report.fingerprint)},
          {"fingerprint_after", Hex(report.fingerprint_after)},
          {"epoch", report.epoch}};
}

Json CountersJson(const RunReport& report) {
  return {{"captures", report.counters.captures},
          {"replays", report.counters.replays},
          {"fallbacks", report.counters.fallbacks},
          {"recaptures", report.counters.recaptures},
          {"allocations_after_freeze", report.allocations_after_freeze}};
}

Json AuditJson(const RunReport& report) {
  AuditCoverage sum;
  Json findings = Json::array();
  for (const AuditReport& audit : report.audits) {
    sum.nodes += audit.coverage.nodes;
    sum.kernel_nodes += audit.coverage.kernel_nodes;
    sum.memcpy_nodes += audit.coverage.memcpy_nodes;
    sum.memset_nodes += audit.coverage.memset_nodes;
    sum.other_nodes += audit.coverage.other_nodes;
    sum.param_bytes += audit.coverage.param_bytes;
    sum.address_bytes += audit.coverage.address_bytes;
    sum.scalar_bytes += audit.coverage.scalar_bytes;
    sum.opaque_bytes += audit.coverage.opaque_bytes;
    for (const AuditFinding& finding : audit.findings) {
      findings.push_back({{"kind", FindingKindName(finding.kind)},
                          {"is_error", finding.is_error},
                          {"node_index", finding.node_index},
                          {"node", finding.node},
                          {"param", finding.param},
                          {"buffer", finding.buffer},
                          {"address", finding.address.ToString()},
                          {"message", finding.message}});
    }
  }
  return {
      {"graphs", report.audits.size()},   {"nodes", sum.nodes},
      {"kernel_nodes", sum.kernel_nodes}, {"memcpy_nodes", sum.memcpy_nodes},
      {"memset_nodes", sum.memset_nodes}, {"other_nodes", sum.other_nodes},
      {"param_bytes", sum.param_bytes},   {"address_bytes", sum.address_bytes},
      {"scalar_bytes", sum.scalar_bytes}, {"opaque_bytes", sum.opaque_bytes},
      {"findings", std::move(findings)}};
}

Json VerificationJson(const RunReport& report) {
  const VerifyReport verify = report.verification.value_or(VerifyReport{});
  Json findings = Json::array();
  for (const VerifyFinding& finding : verify.findings) {
    findings.push_back({{"kind", VerifyFindingKindName(finding.kind)},
                        {"replay", finding.replay},
                        {"rows", finding.rows},
                        {"input", finding.input},
                        {"buffer", finding.buffer},
                        {"message", finding.message}});
  }
  for (const std::string& finding : report.other_findings) {
    findings.push_back({{"kind", "run"}, {"message", finding}});
  }
  return {{"addresses_stable", report.addresses_stable},
          {"results_stable", report.results_stable},
          {"audit_findings", report.audit_error_count()},
          {"inputs", verify.inputs},
          {"compared_bytes", verify.compared_bytes},
          {"compared_nodes", verify.compared_nodes},
          {"compared_guard_bytes", verify.guard_bytes},
          {"replays", verify.replays},
          {"eager_runs", verify.eager_runs},
          {"first_difference", verify.first_difference},
          {"findings", std::move(findings)}};
}

Json BucketJson(const BucketFigures& bucket) {
  return {{"rows", bucket.rows},
          {"nodes", bucket.nodes},
          {"samples", bucket.samples},
          {"replays", bucket.replays},
          {"eager_host_ns", PercentilesJson(bucket.eager_host_ns)},
          {"replay_host_ns", PercentilesJson(bucket.replay_host_ns)},
          {"replay_device_ns", PercentilesJson(bucket.replay_device_ns)},
          {"end_to_end_ns", PercentilesJson(bucket.end_to_end_ns)}};
}

}  // namespace

std::string ReportJson(const RunReport& report) {
  const bool is_gpu = report.is_gpu();
  Json buckets = Json::array();
  for (const BucketFigures& bucket : report.buckets) {
    buckets.push_back(BucketJson(bucket));
  }
  const Json json = {{"schema", "permafrost.replay_latency/1"},
                     {"result", report.failure.empty() ? "PASS" : "FAIL"},
                     {"reason", report.failure},
                     {"exit_code", static_cast<int>(report.exit_code)},
                     {"driver", DriverJson(report.driver)},
                     {"timing_is_gpu", is_gpu},
                     {"timing_note", is_gpu || !report.driver.has_value()
                                         ? Json(nullptr)
                                         : Json(kInterpreterTimeNote)},
                     {"model", report.model},
                     {"model_type", report.model_type},
                     {"shape",
                      {{"config", ShapeJson(report.config_shape)},
                       {"used", ShapeJson(report.used_shape)},
                       {"reduced_by", report.reduced_by}}},
                     {"weights",
                      {{"values", "random"},
                       {"seed", report.options.seed},
                       {"bytes", report.weight_bytes}}},
                     {"plant", report.options.plant == Plant::kNone
                                   ? Json(nullptr)
                                   : Json(InfoOf(report.options.plant).name)},
                     {"arena", ArenaJson(report)},
                     {"counters", CountersJson(report)},
                     {"audit", AuditJson(report)},
                     {"verification", VerificationJson(report)},
                     {"buckets", std::move(buckets)}};
  // Names and paths come from outside and need not be UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace permafrost::bench
