// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/capture/replay_verifier.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "output_compare.h"
#include "permafrost/driver/guarded_call.h"
#include "permafrost/driver/softcuda_control.h"
#include "permafrost/driver/status.h"
#include "replay_poison.h"

namespace permafrost {
namespace {

using OutputBytes = std::vector<std::vector<std::byte>>;

// What one bucket and input must give, from two sources.
struct Reference {
  std::vector<ExpectedOutput> expected;
  OutputBytes eager;
};

class VerifyRun {
 public:
  VerifyRun(const FrozenArena& arena, const std::vector<CapturedGraph*>& graphs,
            const VerifyOptions& options, std::vector<ScheduledReplay> schedule)
      : arena_(arena),
        view_(arena.view()),
        graphs_(graphs),
        options_(options),
        schedule_(std::move(schedule)),
        lane_(graphs.front()->lane()) {
    if (options_.use_softcuda_checks) {
      softcuda_ = SoftcudaControl::Of(lane_.context()->driver());
    }
  }

  VerifyReport Run() {
    for (const InputSet& input : options_.inputs) {
      report_.inputs.push_back(input.name);
    }
    if (softcuda_) softcuda_->EnableInitcheck(true);
    CheckStatus(Start());
    for (size_t i = 0; i < schedule_.size() && !stopped_; ++i) {
      replay_ = static_cast<int64_t>(i);
      now_ = schedule_[i];
      CheckStatus(VerifyOne());
    }
    if (softcuda_) softcuda_->EnableInitcheck(false);
    Conclude();
    return std::move(report_);
  }

 private:
  CapturedGraph& graph() const { return *graphs_[now_.graph]; }
  Bucket bucket() const { return graph().bucket(); }
  const InputSet& input() const { return options_.inputs[now_.input]; }

  absl::Status Start() {
    TakeDriverReports("before the first replay");
    CheckArena();
    PERMAFROST_ASSIGN_OR_RETURN(guards_, GuardGaps::Find(view_));
    return absl::OkStatus();
  }

  // One replay and all that is compared after it. An error is of the run, not
  // of what is verified.
  absl::Status VerifyOne() {
    const PoisonPattern pattern = now_.pattern;
    PERMAFROST_RETURN_IF_ERROR(Poison(kReplayPoison, pattern));
    PERMAFROST_RETURN_IF_ERROR(guards_.Fill(lane_));
    PERMAFROST_RETURN_IF_ERROR(lane_.Drain());
    MarkUndefined();
    PERMAFROST_RETURN_IF_ERROR(WriteInput());

    PERMAFROST_ASSIGN_OR_RETURN(const int64_t count_before, ReadCounter());
    PERMAFROST_RETURN_IF_ERROR(GuardedCall("the replay", [&] {
      return options_.replay ? options_.replay(graph()) : graph().Replay();
    }));
    const absl::Status drained = lane_.Drain();
    ++report_.replays;
    TakeDriverReports("in the replay");
    PERMAFROST_RETURN_IF_ERROR(drained);

    PERMAFROST_ASSIGN_OR_RETURN(const OutputBytes got, ReadOutputs());
    PERMAFROST_RETURN_IF_ERROR(CheckGuards());
    PERMAFROST_RETURN_IF_ERROR(CheckCounter(count_before));
    CheckArena();
    CheckNodes();
    if (stopped_) return absl::OkStatus();
    PERMAFROST_ASSIGN_OR_RETURN(const Reference* reference, FindReference());
    return CompareOutputs(got, *reference);
  }

  absl::Status Poison(uint16_t outputs, PoisonPattern scratch) {
    if (scratch != PoisonPattern::kLeavePrevious) {
      for (const ScratchRegion& region : options_.scratch) {
        PERMAFROST_RETURN_IF_ERROR(FillPattern(lane_, region.base, region.bytes,
                                               ScratchFill(scratch)));
      }
    }
    for (const OutputRegion& output : options_.outputs) {
      PERMAFROST_RETURN_IF_ERROR(FillPattern(
          lane_, output.base, output.live_bytes(bucket()), outputs));
    }
    return absl::OkStatus();
  }

  // The fills have run: a fill defines the bytes it writes.
  void MarkUndefined() {
    if (!softcuda_) return;
    for (const ScratchRegion& region : options_.scratch) {
      if (region.bytes > 0) softcuda_->MarkUndefined(region.base, region.bytes);
    }
    for (const OutputRegion& output : options_.outputs) {
      const int64_t bytes = output.live_bytes(bucket());
      if (bytes > 0) softcuda_->MarkUndefined(output.base, bytes);
    }
  }

  absl::Status WriteInput() {
    const absl::Status status = GuardedCall("the input's write", [&] {
      return input().write(bucket(), lane_.stream());
    });
    absl::Status drained = lane_.Drain();
    if (!status.ok()) {
      return Annotate(status,
                      absl::StrCat("writing input '", input().name, "'"));
    }
    return drained;
  }

  absl::StatusOr<OutputBytes> ReadOutputs() {
    const DriverApi& api = lane_.context()->api();
    OutputBytes outputs;
    for (const OutputRegion& output : options_.outputs) {
      outputs.emplace_back(static_cast<size_t>(output.live_bytes(bucket())));
    }
    absl::Status status;
    for (size_t i = 0; i < outputs.size() && status.ok(); ++i) {
      if (outputs[i].empty()) continue;
      status =
          CuStatus(api.MemcpyDtoHAsync(outputs[i].data(),
                                       options_.outputs[i].base.value(),
                                       outputs[i].size(), lane_.stream()),
                   "cuMemcpyDtoHAsync",
                   absl::StrCat("reading '", options_.outputs[i].name, "'"));
    }
    // The copies write into `outputs` until then.
    const absl::Status settled = lane_.Settle();
    PERMAFROST_RETURN_IF_ERROR(status);
    PERMAFROST_RETURN_IF_ERROR(settled);
    return outputs;
  }

  absl::StatusOr<int64_t> ReadCounter() {
    if (!options_.replay_counter) return 0;
    return options_.replay_counter();
  }

  // The oracle's and the eager run's outputs, made at the first use of a pair.
  // The eager run comes after the replay it judges, so that it cannot leave
  // anything the replay could live on.
  absl::StatusOr<const Reference*> FindReference() {
    const std::pair<int64_t, size_t> key(bucket().rows, now_.input);
    const auto found = references_.find(key);
    if (found != references_.end()) return &found->second;

    Reference reference;
    PERMAFROST_ASSIGN_OR_RETURN(reference.expected, AskOracle());
    PERMAFROST_RETURN_IF_ERROR(
        Poison(kEagerPoison, now_.pattern == PoisonPattern::kLargeFinite
                                 ? PoisonPattern::kOnes
                                 : PoisonPattern::kLargeFinite));
    PERMAFROST_RETURN_IF_ERROR(WriteInput());
    absl::Status status = GuardedCall("the step", [&] {
      return options_.eager(StepContext{view_, lane_.stream(), bucket()});
    });
    const absl::Status drained = lane_.Drain();
    ++report_.eager_runs;
    TakeDriverReports("in the eager run");
    if (status.ok()) status = drained;
    if (!status.ok()) return Annotate(status, "eager run");
    PERMAFROST_ASSIGN_OR_RETURN(reference.eager, ReadOutputs());
    return &references_.emplace(key, std::move(reference)).first->second;
  }

  absl::StatusOr<std::vector<ExpectedOutput>> AskOracle() {
    absl::StatusOr<std::vector<ExpectedOutput>> expected =
        absl::UnknownError("not asked");
    const absl::Status status = GuardedCall("the oracle", [&] {
      expected = options_.oracle(bucket(), input().name);
      return expected.status();
    });
    if (!status.ok()) return Annotate(status, "oracle");
    if (expected->size() != options_.outputs.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("oracle: gave ", expected->size(),
                       " outputs, options name ", options_.outputs.size()));
    }
    for (size_t i = 0; i < expected->size(); ++i) {
      PERMAFROST_RETURN_IF_ERROR(CheckExpectedShape(
          options_.outputs[i], options_.outputs[i].live_bytes(bucket()),
          (*expected)[i]));
    }
    return expected;
  }

  absl::Status CompareOutputs(const OutputBytes& got,
                              const Reference& reference) {
    for (size_t i = 0; i < got.size(); ++i) {
      const OutputRegion& output = options_.outputs[i];
      report_.compared_bytes += static_cast<int64_t>(got[i].size());
      if (!got[i].empty() &&
          HoldsPattern(got[i], 0, got[i].size(), kReplayPoison)) {
        Add(VerifyFindingKind::kNotWritten, output.name,
            absl::StrCat("poison still there: the replay did not write '",
                         output.name, "' (", got[i].size(), " bytes)"));
        continue;
      }
      Report(VerifyFindingKind::kOracleMismatch, output, got[i],
             CompareWithExpected(output.element, got[i], reference.expected[i]),
             "the oracle");
      Report(VerifyFindingKind::kEagerMismatch, output, got[i],
             CompareBits(output.element, got[i], reference.eager[i]),
             "the eager run");
    }
    return absl::OkStatus();
  }

  void Report(VerifyFindingKind kind, const OutputRegion& output,
              absl::Span<const std::byte> got,
              const std::optional<OutputDifference>& difference,
              absl::string_view source) {
    if (!difference) return;
    const auto begin = static_cast<size_t>(difference->offset_bytes);
    const auto end = begin + static_cast<size_t>(difference->element_bytes);
    const bool poison = IsNumeric(output.element) &&
                        HoldsPattern(got, begin, end, kReplayPoison);
    Add(kind, output.name,
        absl::StrCat(
            "'", output.name, "'",
            absl::StrFormat("+0x%x", difference->offset_bytes), ": got ",
            difference->got,
            poison ? " (poison still there: the replay did not write it)" : "",
            ", expected ", difference->expected, " from ", source, "; ",
            difference->differing_elements, " of ", difference->elements,
            " elements differ"));
  }

  absl::Status CheckGuards() {
    PERMAFROST_ASSIGN_OR_RETURN(const std::vector<GuardGaps::Damage> damages,
                                guards_.Check(lane_));
    report_.guard_bytes += guards_.total_bytes();
    for (const GuardGaps::Damage& damage : damages) {
      Add(VerifyFindingKind::kGuardDamaged, damage.buffer,
          absl::StrCat("byte ", damage.bytes_past_end, " past the end of '",
                       damage.buffer, "' was written: got ",
                       absl::StrFormat("0x%02x", damage.value)));
    }
    return absl::OkStatus();
  }

  absl::Status CheckCounter(int64_t before) {
    if (!options_.replay_counter) return absl::OkStatus();
    PERMAFROST_ASSIGN_OR_RETURN(const int64_t after, ReadCounter());
    if (after != before + 1) {
      Add(VerifyFindingKind::kCounterMismatch, "",
          absl::StrCat("the replay counter went from ", before, " to ", after,
                       ", expected ", before + 1));
    }
    return absl::OkStatus();
  }

  // Memory that is not what was frozen ends the run: what a replay does to it
  // says nothing, and may be a fault.
  void CheckArena() {
    const absl::Status status = arena_.VerifyStable();
    if (status.ok()) {
      ++arena_checks_;
      return;
    }
    Add(VerifyFindingKind::kAddressChanged, "", std::string(status.message()));
    stopped_ = true;
  }

  // The executable graph is a snapshot, so a changed node does not end the run.
  // Each graph is reported once.
  void CheckNodes() {
    const absl::Status status = graph().VerifyNodes(&report_.compared_nodes);
    if (status.ok() || !changed_graphs_.insert(now_.graph).second) return;
    Add(VerifyFindingKind::kNodeChanged, "", std::string(status.message()));
  }

  void TakeDriverReports(absl::string_view when) {
    if (!softcuda_) return;
    for (const std::string& text : softcuda_->TakeReports()) {
      Add(VerifyFindingKind::kDriverReport, "", absl::StrCat(when, ": ", text));
    }
  }

  void CheckStatus(const absl::Status& status) {
    if (status.ok()) return;
    run_failed_ = true;
    stopped_ = true;
    Add(VerifyFindingKind::kRunFailed, "", std::string(status.message()));
  }

  void Add(VerifyFindingKind kind, absl::string_view buffer,
           std::string message) {
    VerifyFinding finding;
    finding.kind = kind;
    finding.replay = replay_;
    finding.buffer = std::string(buffer);
    if (replay_ >= 0) {
      finding.rows = bucket().rows;
      finding.input = input().name;
      finding.message =
          absl::StrCat("replay ", replay_, " (", finding.rows, " rows, input '",
                       finding.input, "', scratch ",
                       PoisonPatternName(now_.pattern), "): ", message);
    } else {
      finding.message = std::move(message);
    }
    if (report_.first_difference.empty()) {
      report_.first_difference = finding.message;
    }
    report_.findings.push_back(std::move(finding));
    if (static_cast<int64_t>(report_.findings.size()) >=
        options_.max_findings) {
      stopped_ = true;
    }
  }

  void Conclude() {
    bool addresses = !run_failed_ && report_.replays > 0 &&
                     arena_checks_ > report_.replays &&
                     report_.compared_nodes > 0;
    bool results = !stopped_ && report_.compared_bytes > 0 &&
                   report_.replays == static_cast<int64_t>(schedule_.size());
    for (const VerifyFinding& finding : report_.findings) {
      switch (finding.kind) {
        case VerifyFindingKind::kAddressChanged:
        case VerifyFindingKind::kNodeChanged:
          addresses = false;
          break;
        default:
          results = false;
      }
    }
    report_.addresses_stable = addresses;
    report_.results_stable = results;
  }

  const FrozenArena& arena_;
  const ArenaView view_;
  const std::vector<CapturedGraph*>& graphs_;
  const VerifyOptions& options_;
  const std::vector<ScheduledReplay> schedule_;
  const Lane lane_;
  std::optional<SoftcudaControl> softcuda_;
  GuardGaps guards_;
  std::map<std::pair<int64_t, size_t>, Reference> references_;
  std::set<size_t> changed_graphs_;
  VerifyReport report_;
  int64_t replay_ = -1;
  ScheduledReplay now_;
  int64_t arena_checks_ = 0;
  bool stopped_ = false;
  bool run_failed_ = false;
};

absl::Status CheckRegion(absl::string_view what, const std::string& name,
                         DevicePtr base, int64_t bytes) {
  if (base.is_null() || base.value() % 2 != 0 || bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "verifier: ", what, " '", name, "' is at ", base.ToString(), " with ",
        bytes, " bytes; a region has an even address and no negative size"));
  }
  return absl::OkStatus();
}

absl::Status CheckCallbacks(const VerifyOptions& options) {
  if (options.inputs.empty() || options.outputs.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "verifier: got ", options.inputs.size(), " inputs and ",
        options.outputs.size(), " outputs; at least one of each is needed"));
  }
  if (options.oracle == nullptr || options.eager == nullptr) {
    return absl::InvalidArgumentError(
        "verifier: needs an oracle and an eager step; results are compared "
        "with both");
  }
  for (const InputSet& input : options.inputs) {
    if (input.write == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "verifier: input '", input.name, "' has no function to write it"));
    }
  }
  for (const OutputRegion& output : options.outputs) {
    if (output.live_bytes == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "verifier: output '", output.name, "' does not say its live bytes"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckGraphs(const std::vector<CapturedGraph*>& graphs,
                         const VerifyOptions& options) {
  if (graphs.empty()) {
    return absl::InvalidArgumentError("verifier: got no graph to replay");
  }
  for (const CapturedGraph* graph : graphs) {
    if (graph->lane() != graphs.front()->lane()) {
      return absl::InvalidArgumentError(
          absl::StrCat("verifier: ", graph->label(), " and ",
                       graphs.front()->label(), " are of different lanes"));
    }
    for (const OutputRegion& output : options.outputs) {
      PERMAFROST_RETURN_IF_ERROR(
          CheckRegion("output", output.name, output.base,
                      output.live_bytes(graph->bucket())));
    }
  }
  for (const ScratchRegion& region : options.scratch) {
    PERMAFROST_RETURN_IF_ERROR(
        CheckRegion("scratch", region.name, region.base, region.bytes));
  }
  for (const ScheduledReplay& entry : options.schedule) {
    if (entry.graph >= graphs.size() || entry.input >= options.inputs.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("verifier: the schedule names graph ", entry.graph,
                       " of ", graphs.size(), " and input ", entry.input,
                       " of ", options.inputs.size()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<ScheduledReplay> MakeReplaySchedule(absl::Span<const int64_t> rows,
                                                size_t input_count) {
  std::vector<ScheduledReplay> schedule;
  if (rows.empty() || input_count == 0) return schedule;

  constexpr PoisonPattern kFills[] = {
      PoisonPattern::kZeros, PoisonPattern::kOnes, PoisonPattern::kLargeFinite,
      PoisonPattern::kNan};
  // Shifted by one each round, or every second graph would see every second
  // pattern only.
  size_t fills = 0;
  const auto next_fill = [&] {
    const size_t n = fills++;
    return kFills[(n + n / std::size(kFills)) % std::size(kFills)];
  };

  const auto largest = static_cast<size_t>(
      std::max_element(rows.begin(), rows.end()) - rows.begin());
  std::vector<size_t> others;
  for (size_t g = 0; g < rows.size(); ++g) {
    if (g != largest) others.push_back(g);
  }
  if (others.empty()) others.push_back(largest);

  for (size_t i = 0; i < input_count; ++i) {
    for (const size_t other : others) {
      schedule.push_back({largest, i, next_fill()});
      schedule.push_back({other, (i + 1) % input_count, next_fill()});
    }
  }
  for (size_t n = 0; n < std::max(input_count, others.size()); ++n) {
    schedule.push_back({largest, 0, next_fill()});
    schedule.push_back({others[n % others.size()], n % input_count,
                        PoisonPattern::kLeavePrevious});
  }
  return schedule;
}

ReplayVerifier::ReplayVerifier(const FrozenArena& arena,
                               std::vector<CapturedGraph*> graphs,
                               VerifyOptions options)
    : arena_(arena), graphs_(std::move(graphs)), options_(std::move(options)) {}

absl::StatusOr<VerifyReport> ReplayVerifier::Run() {
  PERMAFROST_RETURN_IF_ERROR(CheckCallbacks(options_));
  PERMAFROST_RETURN_IF_ERROR(CheckGraphs(graphs_, options_));
  const Lane& lane = graphs_.front()->lane();
  const Lane::Use use(lane);
  const Context::Scope scope = lane.context()->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());

  std::vector<ScheduledReplay> schedule = options_.schedule;
  if (schedule.empty()) {
    std::vector<int64_t> rows;
    for (const CapturedGraph* graph : graphs_) {
      rows.push_back(graph->bucket().rows);
    }
    schedule = MakeReplaySchedule(rows, options_.inputs.size());
  }
  return VerifyRun(arena_, graphs_, options_, std::move(schedule)).Run();
}

}  // namespace permafrost
