// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_CAPTURE_REPLAY_VERIFIER_H_
#define PERMAFROST_CAPTURE_REPLAY_VERIFIER_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "permafrost/arena/arena.h"
#include "permafrost/arena/buffer_table.h"
#include "permafrost/capture/captured_graph.h"
#include "permafrost/capture/step.h"
#include "permafrost/driver/device_ptr.h"

namespace permafrost {

/// What scratch memory holds when a replay starts. Outputs always start as a
/// pattern that no result can equal by chance.
enum class PoisonPattern {
  kZeros,
  kOnes,          ///< 0xFF in every byte.
  kLargeFinite,   ///< 0x7F in every byte: large floats, large counters.
  kNan,           ///< Quiet NaN, read as f32 or as bf16.
  kLeavePrevious  ///< What the replay before left, from a larger batch.
};

/// "0x00", "0xFF", "0x7F", "NaN" or "previous batch".
const char* PoisonPatternName(PoisonPattern pattern);

/// One kind of input: balanced, skewed, empty.
struct InputSet {
  std::string name;
  /// Writes the input of a bucket into device memory, on `stream` or drained.
  /// Called before every replay and every eager run, with the same effect.
  std::function<absl::Status(Bucket bucket, CUstream stream)> write;
};

/// Memory that a replay must define.
struct OutputRegion {
  std::string name;
  DevicePtr base;
  ElementType element = ElementType::kF32;  ///< kF32 and kBf16 are numbers.
  /// Bytes that the step defines for a bucket, from `base` on.
  std::function<int64_t(Bucket bucket)> live_bytes;
};

/// Memory whose contents no replay may depend on.
struct ScratchRegion {
  std::string name;
  DevicePtr base;
  int64_t bytes = 0;
};

/// What an output must hold, computed without the code under test.
struct ExpectedOutput {
  /// For kF32 and kBf16, one value an element; `|got - want|` may be
  /// `abs_tolerance + rel_tolerance * |want|`.
  std::vector<float> values;
  double abs_tolerance = 0;
  double rel_tolerance = 0;
  /// Empty, or what each value's own error may be on top of that: one bound for
  /// all elements would hide small errors beside large values.
  std::vector<float> tolerances;
  /// For every other element type, compared exactly.
  std::vector<std::byte> bytes;
};

/// One replay of the schedule.
struct ScheduledReplay {
  size_t graph = 0;
  size_t input = 0;
  PoisonPattern pattern = PoisonPattern::kZeros;
};

/// The default schedule: the buckets interleaved with the largest one (A B A
/// C), every bucket with every input, the patterns going round; then the
/// largest bucket followed by a smaller one over what it left (shrinking), with
/// every input.
///
/// @param rows  rows of each graph, in the order of the graphs.
std::vector<ScheduledReplay> MakeReplaySchedule(absl::Span<const int64_t> rows,
                                                size_t input_count);

struct VerifyOptions {
  std::vector<InputSet> inputs;
  std::vector<OutputRegion> outputs;
  std::vector<ScratchRegion> scratch;
  /// The expected outputs of one bucket and input, in the order of `outputs`.
  /// Called once for each pair, before its first replay is judged.
  std::function<absl::StatusOr<std::vector<ExpectedOutput>>(
      Bucket bucket, const std::string& input)>
      oracle;
  /// The step to run eagerly; its outputs must equal a replay's bit for bit.
  Step eager;
  /// Empty means `MakeReplaySchedule`.
  std::vector<ScheduledReplay> schedule;
  /// Stands in for `CapturedGraph::Replay`, so that a test can leave it out or
  /// do something else as well. Empty means `Replay`.
  std::function<absl::Status(CapturedGraph& graph)> replay;
  /// Optional: reads, drained, a device counter that each replay raises by one.
  std::function<absl::StatusOr<int64_t>()> replay_counter;
  /// On softcuda, marks scratch and outputs undefined before each replay and
  /// turns its checkers' reports into findings. No effect on a real driver.
  bool use_softcuda_checks = true;
  /// Verification ends after this many findings.
  int64_t max_findings = 8;
};

enum class VerifyFindingKind {
  kOracleMismatch,   ///< The result is not the oracle's.
  kEagerMismatch,    ///< The result is not the eager run's, bit for bit.
  kNotWritten,       ///< The poison is still there.
  kAddressChanged,   ///< A buffer is not where, or not what, it was at freeze.
  kNodeChanged,      ///< A node's parameters are not the audited ones.
  kGuardDamaged,     ///< The gap behind a buffer was written to.
  kCounterMismatch,  ///< The replay counter did not advance by one.
  kDriverReport,     ///< A checker of softcuda reported something.
  kRunFailed,        ///< A driver call, the step or a callback failed.
};

const char* VerifyFindingKindName(VerifyFindingKind kind);

struct VerifyFinding {
  VerifyFindingKind kind = VerifyFindingKind::kRunFailed;
  int64_t replay =
      0;  ///< Number in the schedule, from 0; -1: before the first.
  int64_t rows = 0;
  std::string input;
  std::string buffer;  ///< Buffer, or empty.
  std::string message;
};

/// The verdicts. `results_stable` is true only after the whole schedule ran
/// without a finding about results; `addresses_stable` only when every replay
/// that ran was followed by clean checks of the arena and of the nodes.
struct VerifyReport {
  bool addresses_stable = false;
  bool results_stable = false;
  std::vector<std::string> inputs;
  int64_t compared_bytes = 0;  ///< Output bytes compared with oracle and eager.
  int64_t compared_nodes = 0;
  int64_t guard_bytes = 0;  ///< Gap bytes compared, over all replays.
  int64_t replays = 0;
  int64_t eager_runs = 0;
  /// Buffer, offset, replay, input, bucket, got and expected; empty when none.
  std::string first_difference;
  std::vector<VerifyFinding> findings;

  std::string ToText() const;
};

/// Replays graphs in a way that shows whether each replay did its work, did it
/// on the frozen memory, and depended on its inputs alone.
///
/// For each replay of the schedule: poison outputs and scratch (and guard gaps,
/// and mark them undefined on softcuda), write the input, replay, drain; then
/// compare every output with the oracle, and bit for bit with an eager run of
/// the same step over differently poisoned memory; read back the arena's
/// mappings and every node's parameters, and compare both with the record made
/// at freeze and at capture; check the gaps behind the buffers. A result is
/// never compared with an earlier replay's, so a graph that is wrong every time
/// in the same way does not pass.
///
/// Capture: not while anything captures.
/// Threads: one; all graphs on one lane.
class ReplayVerifier {
 public:
  /// @param graphs  of one lane, on `arena`; both outlive the verifier.
  ReplayVerifier(const FrozenArena& arena, std::vector<CapturedGraph*> graphs,
                 VerifyOptions options);

  /// Errors: InvalidArgument naming the option that cannot work: no graph, no
  ///   input, no output, no oracle, no eager step, graphs of several lanes, a
  ///   region without an address, a schedule that names what is not there.
  ///   Whatever goes wrong during the run is a finding, not an error.
  absl::StatusOr<VerifyReport> Run();

 private:
  const FrozenArena& arena_;
  std::vector<CapturedGraph*> graphs_;
  VerifyOptions options_;
};

}  // namespace permafrost

#endif  // PERMAFROST_CAPTURE_REPLAY_VERIFIER_H_
