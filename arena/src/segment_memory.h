// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_ARENA_SRC_SEGMENT_MEMORY_H_
#define PERMAFROST_ARENA_SRC_SEGMENT_MEMORY_H_

#include <cuda.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "permafrost/arena/arena_plan.h"
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
// Threads: externally synchronised.
class SegmentMemory {
 public:
  explicit SegmentMemory(ContextRef context) : context_(std::move(context)) {}
  SegmentMemory(SegmentMemory&&) = default;
  SegmentMemory& operator=(SegmentMemory&&) = default;

  // Reserves addresses for the plan and maps one memory handle a segment, all
  // accessible to the device. Refuses a plan that the device's granularity does
  // not suit.
  absl::Status Map(const ArenaPlan& plan);

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

  // Nothing of the driver is held: no memory, no addresses, no stream.
  bool empty() const;

  // Physical memory that is held. Units: bytes.
  int64_t live_bytes() const;

  // The address of the plan's offset 0.
  DevicePtr base() const { return base_; }

  // Whether the memory is mapped by segment, and not one allocation.
  bool is_mapped_by_segment() const { return is_mapped_by_segment_; }

 private:
  struct Segment {
    std::string tag;
    DevicePtr address;
    int64_t bytes = 0;
    CUmemGenericAllocationHandle handle = 0;
    bool has_handle = false;
    bool is_mapped = false;
  };

  absl::Status MapSegment(const PlannedSegment& planned);
  absl::Status GiveBackSegment(Segment& segment);

  ContextRef context_;
  DevicePtr base_;
  bool is_mapped_by_segment_ = false;
  int64_t reserved_bytes_ = 0;
  int64_t allocated_bytes_ = 0;
  std::vector<Segment> segments_;
  Stream fill_stream_;
};

// kFailedPrecondition while a blocking stream of the context captures. Asking
// breaks no capture; a capture on a non-blocking stream cannot be seen so.
absl::Status RefuseDuringCapture(const Context& context);

}  // namespace permafrost::internal

#endif  // PERMAFROST_ARENA_SRC_SEGMENT_MEMORY_H_
