// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_ARENA_PLAN_H_
#define PERMAFROST_ARENA_ARENA_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "permafrost/arena/buffer_table.h"
#include "permafrost/driver/device_ptr.h"

namespace permafrost {

/// Every buffer of a plan starts on a multiple of this. Units: bytes.
inline constexpr int64_t kBufferAlignmentBytes = 256;

/// Whether buffers may share bytes.
enum class Overlay {
  kOff,  ///< each has its own range
  kOn,   ///< those that a plan lists as sharing may overlap
};

/// What a plan is made with, beside the sizes.
struct PlanOptions {
  /// Segments start and end on multiples of this: the unit in which a device
  /// maps memory. A positive multiple of 256.
  int64_t granularity_bytes = int64_t{2} << 20;
  /// Bytes that belong to nobody after each buffer, so that a write past its
  /// end hits no neighbour and a checker can tell. 0, or a multiple of 256.
  int64_t guard_bytes = 0;
  /// Says what the plan is. `PlanArena` makes one with `kOff`, and
  /// `PlanArenaWithOverlay` (overlay.h) one with `kOn`.
  Overlay overlay = Overlay::kOff;
};

/// One buffer and its place.
struct PlannedBuffer {
  std::string name = {};
  /// From the arena's start, a multiple of 256; 0 for an absent buffer.
  int64_t offset_bytes = 0;
  /// 0 exactly for an absent buffer.
  int64_t bytes = 0;
  /// Why the buffer is absent; empty where it is present.
  std::string gate_reason = {};
  ElementType element = ElementType::kMixed;
  Lifetime lifetime = Lifetime::kPerLayer;
  Toucher toucher = Toucher::kDevice;
  std::string tag = {};
  std::string meaning = {};
  /// See `BufferRow::sized_by`.
  std::string sized_by = "max_batch_tokens";
  /// The buffers that may have bytes, or the guard, in common with this one;
  /// sorted. Each of them lists this one as well.
  std::vector<std::string> shares_with = {};
  SleepPolicy sleep = SleepPolicy::kDiscard;

  bool is_present() const { return bytes > 0; }
};

/// The buffers of one tag and one sleep policy, and the memory that is mapped
/// and unmapped for them as a whole.
struct PlannedSegment {
  std::string tag = {};
  int64_t offset_bytes = 0;  ///< a multiple of the granularity
  int64_t bytes = 0;         ///< a multiple of the granularity
  SleepPolicy sleep = SleepPolicy::kDiscard;
};

/// "segment 'kv' (keep)", as messages name it.
std::string SegmentLabel(const PlannedSegment& segment);

/// What the bytes of one segment are spent on; the three parts are all of it.
struct SegmentBytes {
  int64_t buffer_bytes = 0;
  int64_t guard_bytes = 0;
  int64_t rounding_bytes = 0;
};

/// Where every buffer lies, before there is any memory.
///
/// Units: bytes. Threads: immutable; const access from any thread.
class ArenaPlan {
 public:
  /// A plan of parts that came from elsewhere: another planner, a file, a test
  /// with a fault in it. Nothing is checked here; `ValidatePlan` does that.
  static ArenaPlan FromParts(std::vector<PlannedBuffer> buffers,
                             std::vector<PlannedSegment> segments,
                             int64_t total_bytes, const PlanOptions& options);

  /// All buffers in the order of the table, absent ones included.
  const std::vector<PlannedBuffer>& buffers() const { return buffers_; }
  const std::vector<PlannedSegment>& segments() const { return segments_; }
  const PlanOptions& options() const { return options_; }

  /// Address space and memory that the arena takes.
  int64_t total_bytes() const { return total_bytes_; }
  /// The part of it that buffers hold; a byte that several share counts once.
  int64_t buffer_bytes() const;
  /// What they would hold if none shared.
  int64_t unshared_buffer_bytes() const;
  /// The part of it that guards take and no buffer: without overlay one after
  /// each present buffer.
  int64_t guard_total_bytes() const;
  /// The rest: what starting on 256 bytes and on the granularity costs.
  int64_t rounding_bytes() const;

  /// The same for one segment of this plan.
  SegmentBytes BytesOf(const PlannedSegment& segment) const;

  /// The segment that a present buffer lies in: that of its tag and policy.
  /// Null when there is none, which no valid plan has.
  const PlannedSegment* SegmentOf(const PlannedBuffer& buffer) const;

  /// The buffer of that name, absent ones included; null when there is none.
  const PlannedBuffer* Find(absl::string_view name) const;

  /// A table for people: name, offset, bytes, lifetime and meaning of each
  /// buffer, the reason of each absent one, then segments and totals.
  std::string ToTable() const;

 private:
  ArenaPlan() = default;

  std::vector<PlannedBuffer> buffers_;
  std::vector<PlannedSegment> segments_;
  PlanOptions options_;
  int64_t total_bytes_ = 0;
};

/// Places the buffers: one segment for each pair of tag and sleep policy, in
/// order of first appearance, and within it one buffer after the other in the
/// order given.
///
/// A pure function of its arguments: the same offsets on every machine.
/// Errors: kInvalidArgument for options outside what `PlanOptions` says or with
///   overlay on, an empty or repeated name, negative bytes, a buffer of 0 bytes
///   without a reason or of more with one, no present buffer at all, or a total
///   beyond 2^63-1.
/// Threads: any. Capture: no driver call.
absl::StatusOr<ArenaPlan> PlanArena(std::vector<BufferSize> sizes,
                                    const PlanOptions& options);

/// Checks a plan by rules alone, sharing no code with the planner: alignment,
/// no two buffers over the same byte or each other's guard unless overlay is on
/// and each lists the other, a whole guard after each, every buffer inside the
/// segment of its tag and sleep policy, segments on the granularity, apart from
/// each other and inside the total, absent buffers with a reason and no place.
///
/// Errors: kInvalidArgument naming the buffers or the segment and the offsets.
/// Threads: any. Capture: no driver call.
absl::Status ValidatePlan(const ArenaPlan& plan);

/// One named range of device memory.
struct AddressedRange {
  absl::string_view name = {};
  DevicePtr address = {};
  int64_t bytes = 0;
};

/// A 64-bit FNV-1a hash of the ranges, in the order given.
///
/// Each range is hashed as the length of its name, the name, the address and
/// the bytes, numbers as 8 bytes with the lowest first, after the number of
/// ranges: no two lists share an encoding, and every machine gives the same
/// value. Threads: any.
uint64_t AddressFingerprint(absl::Span<const AddressedRange> ranges);

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_ARENA_PLAN_H_
