// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_BUFFER_TABLE_H_
#define PERMAFROST_ARENA_BUFFER_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "permafrost/arena/model_config.h"
#include "permafrost/arena/serving_limits.h"

namespace permafrost {

/// How long the content of a buffer matters, which decides who may overwrite
/// it, what sleep keeps and what warm-up restores.
enum class Lifetime {
  kConstant,        ///< written once before the freeze, read ever after
  kHostWritten,     ///< written by the host before each step
  kPerStep,         ///< from one layer to the next within a step
  kPerLayer,        ///< within a layer; the next layer overwrites it
  kPersistentSlab,  ///< carved piece by piece, kept
  kInitOnce,        ///< initialised once; kernels leave it as they found it
  kState,           ///< carried from step to step
};

/// Who reads and writes a buffer.
enum class Toucher {
  kDevice,
  kHostWritesDeviceReads,
  kDeviceWritesHostReads,
};

/// What becomes of a buffer's content when the arena sleeps and wakes.
enum class SleepPolicy {
  kDiscard,  ///< undefined after waking; the next step writes it first
  kZero,     ///< zeros after waking
  kKeep,     ///< kept in pinned host memory
  kRestore,  ///< written anew by the engine's hook
  /// It does not sleep: others have registered the memory (a communicator's
  /// windows, IPC, RDMA) and hold on to its pages. Never overlaid either.
  kStay,
};

/// What a buffer holds; `kMixed` is a slab of regions of several types.
enum class ElementType { kF32, kBf16, kE4m3, kI32, kU64, kMixed };

/// The enumerator's name in words, as the tables print it ("per layer").
absl::string_view LifetimeName(Lifetime lifetime);
absl::string_view ToucherName(Toucher toucher);
absl::string_view ElementTypeName(ElementType element);
absl::string_view SleepPolicyName(SleepPolicy policy);

/// What a buffer of that lifetime does when its row does not say: scratch and
/// host-written buffers are discarded, all others are kept.
SleepPolicy DefaultSleepPolicy(Lifetime lifetime);

/// One buffer of the forward pass: all that is known of it before a model is.
///
/// A new buffer is a new row. Rows are plain data, so an engine can append its
/// own to a copy of `BufferTable()` and size them all together.
struct BufferRow {
  const char* name;     ///< unique within a table
  const char* meaning;  ///< one line, printed beside the figures
  ElementType element;
  /// The rows of the buffer are rounded up to a multiple of this, because a
  /// kernel that writes it works in blocks of so many rows. 1: no rounding.
  int64_t row_padding;
  /// Why this model has no such buffer; nullopt when it has one. A null
  /// function means that every model has it.
  std::optional<std::string> (*gate)(const ModelConfig&, const ServingLimits&);
  /// Size in bytes, row padding included. Called only where the gate is open.
  absl::StatusOr<int64_t> (*bytes)(const ModelConfig&, const ServingLimits&);
  Lifetime lifetime;
  Toucher toucher;
  /// Buffers of one tag lie in one segment of the arena.
  const char* tag;
  /// What a dense model keeps in this buffer, where that differs.
  std::optional<ElementType> dense_element = std::nullopt;
  /// What else shares its bytes by design, one use a word or two: a union that
  /// the size takes the largest part of. Null-terminated; null: none.
  const char* const* aliases = nullptr;
  /// The fields of `ServingLimits` that the size follows, separated by ", ":
  /// what to raise, or to set, where the buffer is too small. Empty: the model
  /// alone decides the size.
  const char* sized_by = "max_batch_tokens";
  /// Fewer rows never need more bytes. Where that is not so, because a kernel
  /// takes another variant for some batch, every number of rows from 1 to
  /// `max_batch_tokens` is asked for and the largest size is reserved.
  bool is_monotone = true;
  /// Size under `SizeRules::kSeed`; null: as `bytes`.
  absl::StatusOr<int64_t> (*seed_bytes)(const ModelConfig&,
                                        const ServingLimits&) = nullptr;
  /// What the original design keeps where the gate is closed: 0, or 256 for its
  /// placeholders.
  int64_t seed_gated_bytes = 0;
  /// The original design has no such buffer; absent under its rules.
  bool is_ours = false;
  std::optional<SleepPolicy> sleep = std::nullopt;
};

/// The buffers of a forward pass, in the order in which they are placed: those
/// of the original design, and ours.
absl::Span<const BufferRow> BufferTable();

/// The sequences that buffers of the decode batch are sized for: under our
/// rules those of the rung that a batch of `max_batch_size` is padded to (see
/// `PadToRung`), under the original's `max_batch_size` itself, and at least 32
/// under both. Units: rows.
int64_t DecodeRows(const ServingLimits& limits);

/// Where to turn when a buffer is too small, for the end of an error: names the
/// limits in `sized_by`, or the model's config where there are none.
std::string SizeRemedy(absl::string_view sized_by);

/// One row of the table, worked out for a model and its limits.
struct BufferSize {
  std::string name = {};
  /// 0 exactly where the gate is closed; under `SizeRules::kOurs` never a
  /// placeholder.
  int64_t bytes = 0;
  /// Why the buffer is absent; empty where it is present.
  std::string gate_reason = {};
  ElementType element = ElementType::kMixed;
  Lifetime lifetime = Lifetime::kPerLayer;
  Toucher toucher = Toucher::kDevice;
  std::string tag = {};
  std::string meaning = {};
  SleepPolicy sleep = SleepPolicy::kDiscard;
  /// See `BufferRow::sized_by`.
  std::string sized_by = "max_batch_tokens";
};

/// Works out every row of the table.
///
/// A pure function of its arguments: the same sizes on every machine. Under
/// `SizeRules::kSeed` a buffer that the original keeps as a placeholder has the
/// placeholder's bytes, and one that its formula makes 0 bytes long is absent.
/// Errors: kInvalidArgument for a limit that `CheckLimits` refuses, naming it;
///   for a negative figure in the config, a size beyond 2^63-1, a row of 0
///   bytes whose gate is open, or one that is not monotone beside more than
///   2^20 rows, naming the buffer.
/// Cost: one call of each formula; of one that is not monotone as many as there
///   are rows.
/// Threads: any. Capture: no driver call.
absl::StatusOr<std::vector<BufferSize>> ComputeBufferSizes(
    const ModelConfig& config, const ServingLimits& limits,
    absl::Span<const BufferRow> table = BufferTable());

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_BUFFER_TABLE_H_
