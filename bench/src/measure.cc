// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "measure.h"

#include <cuda.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "permafrost/driver/context.h"
#include "permafrost/driver/handles.h"
#include "permafrost/driver/status.h"

namespace permafrost::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kGpuSamples = 1000;
constexpr int64_t kGpuReplays = 20;
constexpr int64_t kSoftcudaSamples = 3;
// One device time takes many replays, so fewer of them have to do.
constexpr int64_t kMaxDeviceSamples = 100;
// Enough work to cover the enqueue of a start event.
constexpr int64_t kLeadingReplays = 4;

int64_t Nanoseconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(to - from)
      .count();
}

struct HostSamples {
  std::vector<int64_t> eager, replay, end_to_end;
};

absl::StatusOr<HostSamples> TimeOnHost(CapturedGraph& graph, const Step& eager,
                                       const StepContext& context,
                                       int64_t samples) {
  const DriverApi& api = graph.lane().context()->api();
  HostSamples times;
  times.eager.resize(static_cast<size_t>(samples));
  times.replay.resize(static_cast<size_t>(samples));
  times.end_to_end.resize(static_cast<size_t>(samples));
  for (size_t i = 0; i < times.eager.size(); ++i) {
    const Clock::time_point eager_start = Clock::now();
    PERMAFROST_RETURN_IF_ERROR(eager(context));
    const Clock::time_point eager_enqueued = Clock::now();
    PERMAFROST_RETURN_IF_ERROR(
        CuStatus(api.StreamSynchronize(context.stream), "cuStreamSynchronize"));

    const Clock::time_point start = Clock::now();
    PERMAFROST_RETURN_IF_ERROR(graph.Replay());
    const Clock::time_point enqueued = Clock::now();
    PERMAFROST_RETURN_IF_ERROR(
        CuStatus(api.StreamSynchronize(context.stream), "cuStreamSynchronize"));
    const Clock::time_point done = Clock::now();

    times.eager[i] = Nanoseconds(eager_start, eager_enqueued);
    times.replay[i] = Nanoseconds(start, enqueued);
    times.end_to_end[i] = Nanoseconds(start, done);
  }
  return times;
}

absl::StatusOr<std::vector<int64_t>> TimeOnDevice(CapturedGraph& graph,
                                                  int64_t samples,
                                                  int64_t replays) {
  const ContextRef& context = graph.lane().context();
  const DriverApi& api = context->api();
  CUstream stream = graph.lane().stream();
  PERMAFROST_ASSIGN_OR_RETURN(const Event start,
                              Event::Create(context, CU_EVENT_DEFAULT));
  PERMAFROST_ASSIGN_OR_RETURN(const Event end,
                              Event::Create(context, CU_EVENT_DEFAULT));
  std::vector<int64_t> times(static_cast<size_t>(samples));
  for (int64_t& time : times) {
    for (int64_t i = 0; i < kLeadingReplays; ++i) {
      PERMAFROST_RETURN_IF_ERROR(graph.Replay());
    }
    PERMAFROST_RETURN_IF_ERROR(
        CuStatus(api.EventRecord(start.get(), stream), "cuEventRecord"));
    for (int64_t i = 0; i < replays; ++i) {
      PERMAFROST_RETURN_IF_ERROR(graph.Replay());
    }
    PERMAFROST_RETURN_IF_ERROR(
        CuStatus(api.EventRecord(end.get(), stream), "cuEventRecord"));
    PERMAFROST_RETURN_IF_ERROR(
        CuStatus(api.EventSynchronize(end.get()), "cuEventSynchronize"));
    float milliseconds = 0;
    PERMAFROST_RETURN_IF_ERROR(
        CuStatus(api.EventElapsedTime(&milliseconds, start.get(), end.get()),
                 "cuEventElapsedTime"));
    time = std::llround(static_cast<double>(milliseconds) * 1e6 /
                        static_cast<double>(replays));
  }
  return times;
}

}  // namespace

MeasurePlan MeasurePlan::For(const Options& options, DriverKind kind) {
  const bool is_gpu = kind == DriverKind::kCuda;
  MeasurePlan plan;
  plan.samples = options.samples > 0
                     ? options.samples
                     : (is_gpu ? kGpuSamples : kSoftcudaSamples);
  if (is_gpu) {
    plan.replays = options.replays > 0 ? options.replays : kGpuReplays;
    plan.untimed_rounds = 1;
  }
  return plan;
}

absl::StatusOr<BucketFigures> MeasureBucket(CapturedGraph& graph,
                                            const Step& eager,
                                            const ArenaView& arena,
                                            const MeasurePlan& plan) {
  const Context::Scope scope = graph.lane().context()->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  const StepContext context{arena, graph.lane().stream(), graph.bucket()};
  PERMAFROST_RETURN_IF_ERROR(
      TimeOnHost(graph, eager, context, plan.untimed_rounds));
  PERMAFROST_ASSIGN_OR_RETURN(HostSamples host,
                              TimeOnHost(graph, eager, context, plan.samples));
  std::vector<int64_t> device;
  if (plan.replays > 0) {
    PERMAFROST_ASSIGN_OR_RETURN(
        device, TimeOnDevice(graph, std::min(plan.samples, kMaxDeviceSamples),
                             plan.replays));
  }
  BucketFigures figures;
  figures.rows = graph.bucket().rows;
  figures.nodes = graph.node_count();
  figures.samples = plan.samples;
  figures.replays = graph.replays();
  figures.eager_host_ns = Summarize(std::move(host.eager));
  figures.replay_host_ns = Summarize(std::move(host.replay));
  figures.end_to_end_ns = Summarize(std::move(host.end_to_end));
  figures.replay_device_ns = Summarize(std::move(device));
  return figures;
}

}  // namespace permafrost::bench
