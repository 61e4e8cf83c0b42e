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

// The device's unit of mapping, when the plan's segments are multiples of it.
absl::StatusOr<size_t> SuitedGranularityBytes(const Context& context,
                                              const ArenaPlan& plan,
                                              const CUmemAllocationProp& prop) {
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

absl::Status SegmentMemory::Map(const ArenaPlan& plan,
                                MappingProperties properties) {
  properties_ = std::move(properties);
  const Context::Scope scope = context_->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  PERMAFROST_ASSIGN_OR_RETURN(
      const size_t granularity_bytes,
      SuitedGranularityBytes(*context_, plan, properties_.memory));
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
  for (const PlannedSegment& planned : plan.segments()) {
    Segment& segment = segments_.emplace_back();
    segment.label = absl::StrCat("arena ", SegmentLabel(planned), ", ",
                                 planned.bytes, " bytes");
    segment.address = base_ + planned.offset_bytes;
    segment.bytes = planned.bytes;
  }
  for (size_t i = 0; i < segments_.size(); ++i) {
    PERMAFROST_RETURN_IF_ERROR(BringUp(i));
  }
  return absl::OkStatus();
}

absl::Status SegmentMemory::BringUp(size_t index) {
  Segment& segment = segments_[index];
  const Context::Scope scope = context_->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  const DriverApi& api = context_->api();
  const size_t bytes = static_cast<size_t>(segment.bytes);
  if (!segment.has_handle) {
    PERMAFROST_RETURN_IF_ERROR(
        CuStatus(api.MemCreate(&segment.handle, bytes, &properties_.memory, 0),
                 "cuMemCreate", segment.label));
    segment.has_handle = true;
  }
  if (!segment.is_mapped) {
    PERMAFROST_RETURN_IF_ERROR(CuStatus(
        api.MemMap(segment.address.value(), bytes, 0, segment.handle, 0),
        "cuMemMap", segment.label));
    segment.is_mapped = true;
  }
  if (!segment.is_accessible) {
    PERMAFROST_RETURN_IF_ERROR(CuStatus(
        api.MemSetAccess(segment.address.value(), bytes,
                         properties_.access.data(), properties_.access.size()),
        "cuMemSetAccess", segment.label));
    segment.is_accessible = true;
  }
  return absl::OkStatus();
}

absl::Status SegmentMemory::Unmap(size_t index) {
  Segment& segment = segments_[index];
  if (!segment.is_mapped) return absl::OkStatus();
  const Context::Scope scope = context_->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(context_->api().MemUnmap(segment.address.value(),
                                        static_cast<size_t>(segment.bytes)),
               "cuMemUnmap", segment.label));
  segment.is_mapped = false;
  segment.is_accessible = false;
  return absl::OkStatus();
}

absl::Status SegmentMemory::TakeDown(size_t index) {
  PERMAFROST_RETURN_IF_ERROR(Unmap(index));
  Segment& segment = segments_[index];
  if (!segment.has_handle) return absl::OkStatus();
  const Context::Scope scope = context_->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(context_->api().MemRelease(segment.handle), "cuMemRelease",
               segment.label));
  segment.has_handle = false;
  return absl::OkStatus();
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
  PERMAFROST_RETURN_IF_ERROR(OpenStream());
  for (const PlannedBuffer& buffer : buffers) {
    if (BeginsZeroed(buffer)) PERMAFROST_RETURN_IF_ERROR(FillZeros(buffer));
  }
  return Annotate(EndTransfers(), "zero-fill of the arena");
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
  absl::Status first = stream_.Destroy();
  first.Update(staging_.Destroy());
  bool has_remains_left = false;
  for (size_t i = segments_.size(); i-- > 0;) {
    first.Update(DropKept(i));
    first.Update(TakeDown(i));
    has_remains_left |= has_remains(i);
  }
  if (!has_remains_left && reserved_bytes_ > 0) {
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

bool SegmentMemory::empty() const {
  return live_bytes() == 0 && reserved_bytes_ == 0 && host_bytes() == 0 &&
         !stream_;
}

int64_t SegmentMemory::live_bytes() const {
  int64_t bytes = allocated_bytes_;
  for (size_t i = 0; i < segments_.size(); ++i) bytes += live_bytes(i);
  return bytes;
}

int64_t SegmentMemory::live_bytes(size_t index) const {
  const Segment& segment = segments_[index];
  return segment.has_handle ? segment.bytes : 0;
}

int64_t SegmentMemory::host_bytes() const {
  int64_t bytes = staging_.bytes();
  for (const Segment& segment : segments_) bytes += segment.host_copy.bytes();
  return bytes;
}

}  // namespace permafrost::internal
