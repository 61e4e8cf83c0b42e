// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "segment_memory.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "permafrost/driver/status.h"

namespace permafrost::internal {
namespace {

CUmemAllocationProp DeviceMemory(const Context& context) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = context.device();
  return prop;
}

// The device's unit of mapping, when the plan's segments are multiples of it.
absl::StatusOr<size_t> SuitedGranularityBytes(const Context& context,
                                              const ArenaPlan& plan) {
  const CUmemAllocationProp prop = DeviceMemory(context);
  size_t device_bytes = 0;
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(context.api().MemGetAllocationGranularity(
                   &device_bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
               "cuMemGetAllocationGranularity"));
  const int64_t plan_bytes = plan.options().granularity_bytes;
  if (device_bytes == 0 ||
      static_cast<size_t>(plan_bytes) % device_bytes != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "arena granularity: the plan has ", plan_bytes,
        " bytes, which is no multiple of the device's ", device_bytes,
        "; plan again with PlanOptions::granularity_bytes = ", device_bytes));
  }
  return device_bytes;
}

bool BeginsZeroed(const PlannedBuffer& buffer) {
  return buffer.is_present() && (buffer.lifetime == Lifetime::kConstant ||
                                 buffer.lifetime == Lifetime::kInitOnce);
}

}  // namespace

absl::Status RefuseDuringCapture(const Context& context) {
  const Context::Scope scope = context.MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  // Null is the legacy stream, which no blocking capture tolerates beside it.
  const CUresult result = context.api().StreamIsCapturing(nullptr, &capture);
  if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) {
    return Annotate(CuStatus(result, "cuStreamIsCapturing"),
                    "a stream of the context captures, and arena memory "
                    "cannot change then; end the capture first");
  }
  return CuStatus(result, "cuStreamIsCapturing");
}

absl::Status SegmentMemory::Map(const ArenaPlan& plan) {
  const Context::Scope scope = context_->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  PERMAFROST_ASSIGN_OR_RETURN(const size_t granularity_bytes,
                              SuitedGranularityBytes(*context_, plan));
  is_mapped_by_segment_ = true;
  CUdeviceptr base = 0;
  PERMAFROST_RETURN_IF_ERROR(CuStatus(
      context_->api().MemAddressReserve(&base,
                                        static_cast<size_t>(plan.total_bytes()),
                                        granularity_bytes, 0, 0),
      "cuMemAddressReserve",
      absl::StrCat("arena addresses, ", plan.total_bytes(), " bytes")));
  base_ = DevicePtr(base);
  reserved_bytes_ = plan.total_bytes();
  segments_.reserve(plan.segments().size());
  for (const PlannedSegment& segment : plan.segments()) {
    PERMAFROST_RETURN_IF_ERROR(MapSegment(segment));
  }
  return absl::OkStatus();
}

absl::Status SegmentMemory::MapSegment(const PlannedSegment& planned) {
  const DriverApi& api = context_->api();
  const std::string what = absl::StrCat("arena segment '", planned.tag, "', ",
                                        planned.bytes, " bytes");
  const size_t bytes = static_cast<size_t>(planned.bytes);
  Segment& segment = segments_.emplace_back();
  segment.tag = planned.tag;
  segment.address = base_ + planned.offset_bytes;
  segment.bytes = planned.bytes;

  const CUmemAllocationProp prop = DeviceMemory(*context_);
  PERMAFROST_RETURN_IF_ERROR(CuStatus(
      api.MemCreate(&segment.handle, bytes, &prop, 0), "cuMemCreate", what));
  segment.has_handle = true;
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(api.MemMap(segment.address.value(), bytes, 0, segment.handle, 0),
               "cuMemMap", what));
  segment.is_mapped = true;

  CUmemAccessDesc access{};
  access.location = prop.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return CuStatus(api.MemSetAccess(segment.address.value(), bytes, &access, 1),
                  "cuMemSetAccess", what);
}

absl::Status SegmentMemory::Allocate(const ArenaPlan& plan) {
  const Context::Scope scope = context_->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  CUdeviceptr base = 0;
  PERMAFROST_RETURN_IF_ERROR(CuStatus(
      context_->api().MemAlloc(&base, static_cast<size_t>(plan.total_bytes())),
      "cuMemAlloc",
      absl::StrCat("arena memory, ", plan.total_bytes(), " bytes")));
  base_ = DevicePtr(base);
  allocated_bytes_ = plan.total_bytes();
  return absl::OkStatus();
}

absl::Status SegmentMemory::ZeroFill(const ArenaPlan& plan) {
  const std::vector<PlannedBuffer>& buffers = plan.buffers();
  if (std::none_of(buffers.begin(), buffers.end(), BeginsZeroed)) {
    return absl::OkStatus();
  }
  // A stream of its own: the legacy stream would wait for the engine's.
  PERMAFROST_ASSIGN_OR_RETURN(fill_stream_, Stream::Create(context_));
  {
    const Context::Scope scope = context_->MakeCurrent();
    PERMAFROST_RETURN_IF_ERROR(scope.status());
    for (const PlannedBuffer& buffer : buffers) {
      if (!BeginsZeroed(buffer)) continue;
      PERMAFROST_RETURN_IF_ERROR(CuStatus(
          context_->api().MemsetD8Async((base_ + buffer.offset_bytes).value(),
                                        0, static_cast<size_t>(buffer.bytes),
                                        fill_stream_.get()),
          "cuMemsetD8Async",
          absl::StrCat("zero-fill of buffer '", buffer.name, "'")));
    }
  }
  PERMAFROST_RETURN_IF_ERROR(
      Annotate(fill_stream_.Synchronize(), "zero-fill of the arena"));
  return fill_stream_.Destroy();
}

absl::Status SegmentMemory::Quiesce() const {
  PERMAFROST_RETURN_IF_ERROR(RefuseDuringCapture(*context_));
  const Context::Scope scope = context_->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  return CuStatus(context_->api().CtxSynchronize(), "cuCtxSynchronize",
                  "waiting for work that may use the arena");
}

absl::Status SegmentMemory::GiveBack() {
  if (empty()) return absl::OkStatus();
  const Context::Scope scope = context_->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  const DriverApi& api = context_->api();
  absl::Status first = fill_stream_.Destroy();
  for (size_t i = segments_.size(); i-- > 0;) {
    const absl::Status status = GiveBackSegment(segments_[i]);
    first.Update(status);
    if (status.ok()) {
      segments_.erase(segments_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  if (segments_.empty() && reserved_bytes_ > 0) {
    const absl::Status status = CuStatus(
        api.MemAddressFree(base_.value(), static_cast<size_t>(reserved_bytes_)),
        "cuMemAddressFree",
        absl::StrCat("arena addresses, ", reserved_bytes_, " bytes"));
    if (status.ok()) reserved_bytes_ = 0;
    first.Update(status);
  }
  if (allocated_bytes_ > 0) {
    const absl::Status status =
        CuStatus(api.MemFree(base_.value()), "cuMemFree",
                 absl::StrCat("arena memory, ", allocated_bytes_, " bytes"));
    if (status.ok()) allocated_bytes_ = 0;
    first.Update(status);
  }
  return first;
}

absl::Status SegmentMemory::GiveBackSegment(Segment& segment) {
  const DriverApi& api = context_->api();
  const std::string what = absl::StrCat("arena segment '", segment.tag, "', ",
                                        segment.bytes, " bytes");
  if (segment.is_mapped) {
    PERMAFROST_RETURN_IF_ERROR(
        CuStatus(api.MemUnmap(segment.address.value(),
                              static_cast<size_t>(segment.bytes)),
                 "cuMemUnmap", what));
    segment.is_mapped = false;
  }
  if (segment.has_handle) {
    PERMAFROST_RETURN_IF_ERROR(
        CuStatus(api.MemRelease(segment.handle), "cuMemRelease", what));
    segment.has_handle = false;
  }
  return absl::OkStatus();
}

bool SegmentMemory::empty() const {
  return segments_.empty() && reserved_bytes_ == 0 && allocated_bytes_ == 0 &&
         !fill_stream_;
}

int64_t SegmentMemory::live_bytes() const {
  int64_t bytes = allocated_bytes_;
  for (const Segment& segment : segments_) {
    if (segment.has_handle) bytes += segment.bytes;
  }
  return bytes;
}

}  // namespace permafrost::internal
