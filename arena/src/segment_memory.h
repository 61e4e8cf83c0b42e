// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_ARENA_SRC_SEGMENT_MEMORY_H_
#define PERMAFROST_ARENA_SRC_SEGMENT_MEMORY_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "mapping_properties.h"
#include "permafrost/arena/arena_plan.h"
#include "permafrost/arena/sleep.h"
#include "permafrost/driver/context.h"
#include "permafrost/driver/device_ptr.h"
#include "permafrost/driver/handles.h"

namespace permafrost::internal {

// What an arena holds of the driver, and the way back out of it.
//
// Each step records what it took at once, and each undo strikes its record only
// when the driver accepted it. So whatever failed, the records say what is
// left, and GiveBack() can be called until nothing is. The destructor gives
// nothing back: a memory that is not empty has to be kept by someone.
//
// Segments are numbered as in the plan. Steps on one segment do only what is
// still to do, so that a step that failed half-way is finished by the next.
//
// Threads: externally synchronised.
class SegmentMemory {
 public:
  explicit SegmentMemory(ContextRef context) : context_(std::move(context)) {}
  SegmentMemory(SegmentMemory&&) = default;
  SegmentMemory& operator=(SegmentMemory&&) = default;

  // Reserves addresses for the plan and maps one memory handle a segment, all
  // accessible as `properties` say. Refuses a plan that the device's
  // granularity does not suit.
  absl::Status Map(const ArenaPlan& plan, MappingProperties properties);

  // Takes the whole plan from one cuMemAlloc.
  absl::Status Allocate(const ArenaPlan& plan);

  // Zeroes the buffers of the plan that are promised to begin so, and waits.
  absl::Status ZeroFill(const ArenaPlan& plan);

  // Waits for all work of the context, after which nothing uses the memory.
  // Fails while a stream captures.
  absl::Status Quiesce() const;

  // Gives back what is held, in reverse order of taking; goes on after an
  // error, and returns the first. Does nothing when empty.
  absl::Status GiveBack();

  // Copies what the segment's buffers hold to pinned host memory, waits, and
  // notes a checksum for each. For segments that keep their contents.
  absl::Status Save(const ArenaPlan& plan, size_t index);

  // Unmaps the segment; its handle, and so its contents, stay.
  absl::Status Unmap(size_t index);

  // Unmaps the segment and gives its memory back.
  absl::Status TakeDown(size_t index);

  // Makes, maps and opens the segment's memory at its addresses.
  absl::Status BringUp(size_t index);

  // Gives the segment's buffers what they are to hold after waking: what was
  // kept, zeros, or what `hooks`, by buffer name, write. Waits for it.
  absl::Status Refill(const ArenaPlan& plan, size_t index,
                      const std::map<std::string, RestoreHook>& hooks);

  // Reads kept buffers back from the device. kDataLoss naming the first whose
  // checksum is not the one noted when it was saved.
  absl::Status VerifyKept(const ArenaPlan& plan, size_t index);

  // Frees the host copy of the segment, if there is one.
  absl::Status DropKept(size_t index);

  // Waits for and ends what Save, Refill and VerifyKept work with.
  absl::Status EndTransfers();

  // Nothing of the driver is held: no memory, no addresses, no stream.
  bool empty() const;

  // Physical device memory that is held. Units: bytes.
  int64_t live_bytes() const;
  int64_t live_bytes(size_t index) const;
  // Memory of the segment can be used: it is there, mapped and accessible.
  bool is_up(size_t index) const { return segments_[index].is_accessible; }
  bool is_mapped(size_t index) const { return segments_[index].is_mapped; }
  // Something of the segment is there, if only what an undo could not end.
  bool has_remains(size_t index) const {
    return segments_[index].has_handle || segments_[index].is_mapped;
  }
  // Pinned host memory that is held. Units: bytes.
  int64_t host_bytes() const;

  // The address of the plan's offset 0.
  DevicePtr base() const { return base_; }

  // Whether the memory is mapped by segment, and not one allocation.
  bool is_mapped_by_segment() const { return is_mapped_by_segment_; }

 private:
  // One buffer's part of a segment's host copy.
  struct KeptBuffer {
    size_t buffer = 0;  // of the plan
    int64_t offset_bytes = 0;
    uint64_t hash = 0;
  };

  struct Segment {
    std::string label;
    DevicePtr address;
    int64_t bytes = 0;
    CUmemGenericAllocationHandle handle = 0;
    bool has_handle = false;
    bool is_mapped = false;
    bool is_accessible = false;
    PinnedBuffer host_copy;
    std::vector<KeptBuffer> kept;
  };

  absl::Status OpenStream();
  absl::Status FillZeros(const PlannedBuffer& buffer);
  absl::Status RunHook(const PlannedBuffer& buffer, const RestoreHook& hook);
  absl::Status CopyKeptBack(const ArenaPlan& plan, const Segment& segment);

  ContextRef context_;
  DevicePtr base_;
  bool is_mapped_by_segment_ = false;
  MappingProperties properties_;
  int64_t reserved_bytes_ = 0;
  int64_t allocated_bytes_ = 0;
  std::vector<Segment> segments_;
  // A stream of its own: the legacy stream would wait for the engine's.
  Stream stream_;
  // Where kept buffers are read back to, piece by piece.
  PinnedBuffer staging_;
};

// kFailedPrecondition while a blocking stream of the context captures. Asking
// breaks no capture; a capture on a non-blocking stream cannot be seen so.
absl::Status RefuseDuringCapture(const Context& context);

}  // namespace permafrost::internal

#endif  // PERMAFROST_ARENA_SRC_SEGMENT_MEMORY_H_
