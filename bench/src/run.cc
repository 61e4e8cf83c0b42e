// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "run.h"

#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "driver_probe.h"
#include "measure.h"
#include "model_weights.h"
#include "moe_step.h"
#include "permafrost/arena/arena.h"
#include "permafrost/arena/buffer_table.h"
#include "permafrost/arena/model_config.h"
#include "permafrost/capture/capture_all.h"
#include "permafrost/capture/capture_session.h"
#include "permafrost/capture/lane.h"
#include "permafrost/capture/warm_up.h"
#include "permafrost/driver/context.h"
#include "permafrost/driver/softcuda_control.h"
#include "permafrost/driver/status.h"
#include "plant.h"
#include "routing_inputs.h"
#include "verification.h"

namespace permafrost::bench {
namespace {

ShapeFigures ShapeOf(const ModelConfig& config) {
  return {.layers = config.num_layers,
          .hidden = config.hidden_size,
          .experts = config.num_experts,
          .distinct_experts = config.num_experts,
          .experts_per_token = config.experts_per_token,
          .expert_width = config.moe_intermediate_size};
}

// The machine's memory, all of it: a limit that no run can do without, while
// what is free at the moment says little.
int64_t HostMemoryBytes() {
  return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
}

ExitCode CodeOfDeviceError(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnavailable(status) ||
                 absl::IsUnimplemented(status)
             ? ExitCode::kNoDevice
             : ExitCode::kSomethingFound;
}

// One run. The members are in the order in which each needs those before it, so
// that a run that ends early is taken down in a working order too.
class Run {
 public:
  Run(const Options& options, std::FILE* out) : out_(out) {
    report_.options = options;
    report_.model = options.config;
  }

  void Execute();
  RunReport TakeReport() { return std::move(report_); }

 private:
  void Print(const std::string& text) {
    std::fputs(text.c_str(), out_);
    std::fflush(out_);
  }
  // Returns false, after noting why, when `status` is not OK.
  bool Succeeded(const absl::Status& status, ExitCode code_otherwise);
  void TakeDriverReports();
  void Found(std::string what) {
    report_.other_findings.push_back(std::move(what));
  }

  absl::Status Plan();
  absl::Status OpenDriver(ExitCode* code);
  void ExecuteOnDevice();
  absl::Status CheckMemory() const;
  absl::Status BuildStep();
  absl::Status WarmUpAndFreeze();
  absl::Status Capture();
  void AuditRefusedStep();
  absl::Status Verify();
  absl::Status Measure();
  void CheckAfterwards();
  void Release();
  void Judge();

  const Options& options() const { return report_.options; }
  std::vector<Bucket> Buckets() const;

  std::FILE* out_;
  RunReport report_;
  ModelConfig config_;
  ContextRef context_;
  int64_t live_handles_before_ = 0;
  int64_t live_bytes_before_ = 0;
  int64_t allocations_at_freeze_ = 0;
  std::optional<StepParts> parts_;
  std::optional<Arena> arena_;
  std::optional<FrozenArena> frozen_;
  std::optional<Lane> lane_;
  Step step_;
  std::optional<WarmSet> warm_set_;
  std::optional<GraphSet> graphs_;
};

bool Run::Succeeded(const absl::Status& status, ExitCode code_otherwise) {
  if (status.ok()) return true;
  report_.exit_code = code_otherwise;
  std::string reason(status.message());
  if (code_otherwise == ExitCode::kSomethingFound) {
    // What a checker saw says more than the error that followed from it.
    TakeDriverReports();
    if (!report_.other_findings.empty()) {
      reason = report_.other_findings.front();
    }
    Found(std::string(status.message()));
  }
  if (report_.failure.empty()) {
    report_.failure = reason.substr(0, reason.find('\n'));
  }
  return false;
}

void Run::TakeDriverReports() {
  const std::optional<SoftcudaControl> control =
      SoftcudaControl::Of(context_->driver());
  if (!control.has_value()) return;
  for (const std::string& text : control->TakeReports()) {
    Found(absl::StrCat("softcuda: ", text));
  }
}

std::vector<Bucket> Run::Buckets() const {
  std::vector<Bucket> buckets;
  for (int64_t rows : options().buckets) buckets.push_back(Bucket{rows});
  return buckets;
}

absl::Status Run::Plan() {
  PERMAFROST_ASSIGN_OR_RETURN(config_, LoadModelConfig(options().config));
  report_.model_type = config_.model_type;
  PERMAFROST_RETURN_IF_ERROR(CheckAgainstModel(options(), config_));
  report_.config_shape = ShapeOf(config_);
  report_.used_shape = report_.config_shape;
  report_.used_shape.layers = options().layers;
  if (options().layers < config_.num_layers) {
    report_.reduced_by.push_back(absl::StrCat("--layers ", options().layers,
                                              " of ", config_.num_layers));
  }
  if (options().distinct_experts > 0 &&
      options().distinct_experts < config_.num_experts) {
    report_.used_shape.distinct_experts = options().distinct_experts;
    report_.reduced_by.push_back(absl::StrCat("--distinct-experts ",
                                              options().distinct_experts,
                                              " of ", config_.num_experts));
  }
  PERMAFROST_ASSIGN_OR_RETURN(
      std::vector<BufferSize> sizes,
      ComputeBufferSizes(config_,
                         {.max_batch_tokens = options().buckets.back()}));
  PERMAFROST_ASSIGN_OR_RETURN(
      report_.plan,
      PlanArena(std::move(sizes), {.guard_bytes = options().guard_bytes}));
  PERMAFROST_RETURN_IF_ERROR(ValidatePlan(*report_.plan));
  PERMAFROST_ASSIGN_OR_RETURN(
      const WeightLayout weights,
      WeightLayout::For(WeightDimensionsOf(report_.used_shape)));
  report_.weight_bytes = weights.bytes;
  PERMAFROST_ASSIGN_OR_RETURN(
      report_.input_bytes,
      InputDimensionsOf(report_.used_shape, options().buckets.back())
          .TotalBytes());
  return absl::OkStatus();
}

absl::Status Run::OpenDriver(ExitCode* code) {
  *code = ExitCode::kBadInput;
  PERMAFROST_ASSIGN_OR_RETURN(const DriverChoice choice,
                              DriverChoice::FromEnvironment());
  absl::StatusOr<DriverRef> driver = Driver::Load(choice);
  if (!driver.ok()) {
    *code = CodeOfDriverError(choice, driver.status());
    return Annotate(driver.status(), "PERMAFROST_DRIVER");
  }
  *code = ExitCode::kNoDevice;
  const DriverRef counted = CountDeviceAllocations(*driver);
  PERMAFROST_ASSIGN_OR_RETURN(context_, Context::RetainPrimary(counted));
  DriverFigures figures;
  figures.kind = counted->kind();
  figures.path = counted->path();
  figures.version = counted->version();
  figures.selection_note = counted->selection_note();
  figures.compute_capability = context_->compute_capability();
  PERMAFROST_ASSIGN_OR_RETURN(figures.device, context_->DeviceName());
  report_.driver = std::move(figures);
  if (options().plant != Plant::kNone) {
    const PlantInfo& info = InfoOf(options().plant);
    if (FinderOf(info, counted->kind()) == nullptr) {
      *code = ExitCode::kBadInput;
      return absl::InvalidArgumentError(absl::StrCat(
          "--plant: got ", info.name, " on the driver ",
          DriverKindName(counted->kind()),
          ", where nothing can see it; accepted: PERMAFROST_DRIVER=soft"));
    }
  }
  return absl::OkStatus();
}

absl::Status Run::CheckMemory() const {
  PERMAFROST_ASSIGN_OR_RETURN(const int64_t free_bytes,
                              context_->FreeMemoryBytes());
  const int64_t arena_bytes = report_.plan->total_bytes();
  const int64_t outside_bytes = report_.weight_bytes + report_.input_bytes;
  if (arena_bytes > free_bytes || outside_bytes > free_bytes - arena_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "device memory: the arena needs ", arena_bytes,
        " bytes, weights and inputs ", outside_bytes, " bytes, the device has ",
        free_bytes,
        " bytes free; use fewer --layers, --distinct-experts or smaller "
        "--buckets"));
  }
  // softcuda's device memory is the host's.
  const int64_t copies = report_.is_gpu() ? 1 : 2;
  const int64_t host_bytes = HostMemoryBytes();
  if (report_.weight_bytes > host_bytes / copies) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "host memory: ", copies, " copies of the weights need ",
        report_.weight_bytes, " bytes each, the machine has ", host_bytes,
        " bytes; use fewer --layers or --distinct-experts"));
  }
  return absl::OkStatus();
}

absl::Status Run::BuildStep() {
  PERMAFROST_RETURN_IF_ERROR(CheckMemory());
  PERMAFROST_ASSIGN_OR_RETURN(arena_, Arena::Create(context_, *report_.plan));
  PERMAFROST_ASSIGN_OR_RETURN(lane_, Lane::Create(context_, "decode"));
  PERMAFROST_ASSIGN_OR_RETURN(
      parts_, StepParts::Create(context_, config_, report_.used_shape,
                                options().buckets.back(), options().seed,
                                options().plant));
  step_ = MakeMoeStep(*parts_);
  return absl::OkStatus();
}

absl::Status Run::WarmUpAndFreeze() {
  PERMAFROST_RETURN_IF_ERROR(parts_->inputs.Write(
      Routing::kBalanced, options().buckets.back(), lane_->stream()));
  PERMAFROST_ASSIGN_OR_RETURN(warm_set_,
                              WarmUp(*arena_, *lane_, step_, Buckets()));
  PERMAFROST_ASSIGN_OR_RETURN(frozen_, std::move(*arena_).Freeze());
  allocations_at_freeze_ = DeviceAllocationCalls();
  report_.fingerprint = frozen_->fingerprint();
  report_.epoch = frozen_->epoch();
  return absl::OkStatus();
}

absl::Status Run::Capture() {
  CaptureOptions capture;
  capture.externals = parts_->regions();
  capture.signatures = &parts_->kernels.signatures();
  capture.verify_capture_ran_nothing = true;
  absl::StatusOr<GraphSet> graphs =
      CaptureAll(*frozen_, *warm_set_, *lane_, capture);
  if (!graphs.ok()) {
    // Where no driver call failed, the recording was refused by its audit.
    if (!CuResultOf(graphs.status()).has_value()) AuditRefusedStep();
    return graphs.status();
  }
  graphs_ = *std::move(graphs);
  for (CapturedGraph* graph : graphs_->graphs()) {
    report_.audits.push_back(graph->audit());
  }
  return absl::OkStatus();
}

// A graph that was refused is gone, and with it its audit; the step is recorded
// once more so that the report can show what was found in it.
void Run::AuditRefusedStep() {
  const ArenaView view = frozen_->view();
  const Bucket bucket{options().buckets.front()};
  const absl::StatusOr<Graph> graph =
      CaptureStep(*lane_, CaptureMode::kThreadLocal, [&] {
        return step_(StepContext{view, lane_->stream(), bucket});
      });
  if (!graph.ok()) return;
  const std::vector<ExternalRegion> externals = parts_->regions();
  report_.audits.push_back(
      AuditGraph(context_->driver(), graph->get(),
                 {.arena = &view,
                  .externals = externals,
                  .signatures = &parts_->kernels.signatures()}));
}

absl::Status Run::Verify() {
  if (options().plant == Plant::kRemappedBuffer) {
    PERMAFROST_RETURN_IF_ERROR(RemapBehindArena(frozen_->view()));
  }
  if (options().plant == Plant::kChangedNodeParam) {
    PERMAFROST_RETURN_IF_ERROR(
        ChangeNodeParameter((*graphs_)[graphs_->size() - 1]));
  }
  PERMAFROST_ASSIGN_OR_RETURN(
      report_.verification,
      VerifyReplays(*frozen_, *graphs_, *parts_, step_, options().plant));
  return absl::OkStatus();
}

absl::Status Run::Measure() {
  const MeasurePlan plan = MeasurePlan::For(options(), report_.driver->kind);
  for (CapturedGraph* graph : graphs_->graphs()) {
    PERMAFROST_RETURN_IF_ERROR(parts_->inputs.Write(
        Routing::kBalanced, graph->bucket().rows, lane_->stream()));
    PERMAFROST_ASSIGN_OR_RETURN(
        BucketFigures figures,
        MeasureBucket(*graph, step_, frozen_->view(), plan));
    report_.buckets.push_back(figures);
  }
  return absl::OkStatus();
}

// The checks of the verifier once more, after everything else has run.
void Run::CheckAfterwards() {
  report_.allocations_after_freeze =
      DeviceAllocationCalls() - allocations_at_freeze_;
  if (report_.allocations_after_freeze != 0) {
    Found(absl::StrCat("device memory was asked for ",
                       report_.allocations_after_freeze,
                       " times after the freeze"));
  }
  if (const absl::StatusOr<ArenaEvidence> evidence = frozen_->ReadBack();
      evidence.ok()) {
    report_.fingerprint_after = evidence->fingerprint;
  } else {
    Found(std::string(evidence.status().message()));
  }
  if (const absl::Status stable = frozen_->VerifyStable(); !stable.ok()) {
    Found(std::string(stable.message()));
    report_.addresses_stable = false;
  }
  if (!graphs_.has_value()) return;
  report_.counters = graphs_->counters();
  for (CapturedGraph* graph : graphs_->graphs()) {
    if (const absl::Status same = graph->VerifyNodes(); !same.ok()) {
      Found(std::string(same.message()));
      report_.addresses_stable = false;
    }
  }
}

void Run::Release() {
  absl::Status status;
  if (graphs_.has_value()) status.Update(graphs_->Destroy());
  graphs_.reset();
  if (frozen_.has_value()) status.Update(frozen_->Release());
  frozen_.reset();
  if (arena_.has_value()) status.Update(arena_->Release());
  arena_.reset();
  warm_set_.reset();
  step_ = nullptr;
  if (parts_.has_value()) status.Update(parts_->Release());
  parts_.reset();
  lane_.reset();
  TakeDriverReports();
  if (!status.ok()) {
    // A context that a fault has ended takes nothing back.
    Found(absl::StrCat("release: ", status.message()));
    return;
  }
  const std::optional<SoftcudaControl> control =
      SoftcudaControl::Of(context_->driver());
  if (!control.has_value()) return;
  const int64_t handles = control->live_handles() - live_handles_before_;
  const int64_t bytes = control->live_bytes() - live_bytes_before_;
  if (handles != 0 || bytes != 0) {
    Found(absl::StrCat("release: ", handles, " driver objects and ", bytes,
                       " bytes of device memory are left"));
  }
}

void Run::ExecuteOnDevice() {
  const Context::Scope scope = context_->MakeCurrent();
  if (!Succeeded(scope.status(), ExitCode::kNoDevice)) return;
  if (const std::optional<SoftcudaControl> control =
          SoftcudaControl::Of(context_->driver())) {
    live_handles_before_ = control->live_handles();
    live_bytes_before_ = control->live_bytes();
  }
  absl::Status status = BuildStep();
  if (!Succeeded(status, CodeOfDeviceError(status))) return Release();
  Print(ArenaText(report_));
  if (!Succeeded(WarmUpAndFreeze(), ExitCode::kSomethingFound)) {
    return Release();
  }
  Print(FreezeText(report_));
  const bool captured = Succeeded(Capture(), ExitCode::kSomethingFound);
  Print(CaptureText(report_));
  if (captured && Succeeded(Verify(), ExitCode::kSomethingFound)) {
    report_.addresses_stable = report_.verification->addresses_stable;
    report_.results_stable = report_.verification->results_stable;
  }
  Print(VerificationText(report_));
  // Times of a graph that is not proven would only mislead.
  if (report_.addresses_stable && report_.results_stable) {
    if (!Succeeded(Measure(), ExitCode::kSomethingFound)) {
      report_.results_stable = false;
    }
    Print(TimingText(report_));
  }
  CheckAfterwards();
  Release();
}

void Run::Judge() {
  if (!report_.failure.empty()) return;
  if (!report_.addresses_stable) {
    report_.failure = "addresses are not proven stable";
  } else if (!report_.results_stable) {
    report_.failure = "results are not proven stable";
  } else if (report_.audit_error_count() > 0) {
    report_.failure = "the audit has findings";
  } else if (!report_.other_findings.empty()) {
    report_.failure = report_.other_findings.front();
  } else if (report_.fingerprint != report_.fingerprint_after) {
    report_.failure = "the address fingerprint has changed";
  } else {
    report_.exit_code = ExitCode::kAllProven;
  }
}

void Run::Execute() {
  if (!Succeeded(Plan(), ExitCode::kBadInput)) return;
  ExitCode code = ExitCode::kNoDevice;
  const absl::Status opened = OpenDriver(&code);
  if (!Succeeded(opened, code)) return;
  Print(HeaderText(report_));
  ExecuteOnDevice();
  Judge();
}

}  // namespace

RunReport RunReplayLatency(const Options& options, std::FILE* out) {
  Run run(options, out);
  run.Execute();
  return run.TakeReport();
}

}  // namespace permafrost::bench
