// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_MOE_FP8_LAYOUT_H_
#define PERMAFROST_ARENA_MOE_FP8_LAYOUT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "permafrost/arena/model_config.h"

namespace permafrost {

/// Where the regions of the grouped FP8 MoE slab (`moe_fp8_scratch`) lie.
///
/// | region         | holds                                       | written by
/// |
/// |----------------|---------------------------------------------|------------|
/// | activation     | e4m3 rows of the running GEMM's input       | quantiser |
/// | scale          | f32, one per 128 values of a row            | quantiser |
/// | worklist       | 8-byte tile entries, 128 x 64 output each   | builder |
/// | counter        | i32 `total_tiles`                           | builder |
/// | small_worklist | entries of experts that have few rows       | builder |
/// | small_counter  | i32, live entries of the small list         | builder |
///
/// The builder stores every live entry and each counter on every call, zero
/// routes included; what lies at or past `total_tiles` is undefined and never
/// read. The small list exists for models of exactly 256 experts.
///
/// `ForRows` packs the regions for one number of rows, so the counter of a
/// small batch lies inside the activation region of a larger one: the builder
/// and the consumers of one graph must use one layout. `Stable` gives every
/// batch size the offsets of the largest; bucketed graphs use it. Units: every
/// offset in bytes from the slab's start, a multiple of 256. Threads: a value;
/// const access from any thread.
struct MoeFp8Layout {
  /// Packs the regions for `rows` token rows.
  ///
  /// `bytes` never falls as rows grow, so the slab of the largest batch holds
  /// every smaller layout.
  /// Errors: kInvalidArgument for rows below 0, a dense model, figures of the
  ///   config that are negative or contradictory, or a size beyond 2^63-1.
  static absl::StatusOr<MoeFp8Layout> ForRows(const ModelConfig& config,
                                              int64_t rows);

  /// The offsets of `ForRows(config, max_rows)`, for a step of `rows` rows.
  ///
  /// Errors: those of `ForRows`, and kInvalidArgument for rows above max_rows.
  static absl::StatusOr<MoeFp8Layout> Stable(const ModelConfig& config,
                                             int64_t max_rows, int64_t rows);

  bool has_small_list() const { return small_bytes > 0; }
  /// Entries that the worklist has room for.
  int64_t capacity_tiles() const;
  /// Entries that the small worklist has room for; 0 where there is none.
  int64_t small_capacity_tiles() const;
  /// A number that two layouts share exactly if all their offsets are equal
  /// (up to collisions of a 64-bit hash), whatever `rows` they are for. Kernels
  /// that hand the slab on to one another must have been given equal ids.
  uint64_t id() const;

  /// Token rows of the step, and the rows that the offsets are made for.
  int64_t rows = 0;
  int64_t max_rows = 0;

  int64_t activation = 0;  ///< always 0
  int64_t scale = 0;
  int64_t worklist = 0;
  int64_t counter = 0;
  /// 0 where the layout has no small list, as is `small_counter`.
  int64_t small_worklist = 0;
  int64_t small_counter = 0;
  int64_t small_bytes = 0;     ///< of the small worklist; 0 without one
  int64_t worklist_bytes = 0;  ///< of the worklist, up to `counter`
  int64_t bytes = 0;           ///< of the slab; ends with the last counter

  /// Whether the offsets are shared by every `rows` up to `max_rows`.
  bool stable = false;
};

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_MOE_FP8_LAYOUT_H_
