// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// The half of SegmentMemory that moves contents: out to the host before
// memory goes, and back in when it returns.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "permafrost/arena/content_hash.h"
#include "permafrost/driver/guarded_call.h"
#include "permafrost/driver/status.h"
#include "segment_memory.h"

namespace permafrost::internal {
namespace {

// Kept buffers are hashed in pieces of so many bytes, on both occasions.
constexpr int64_t kPieceBytes = int64_t{4} << 20;

int64_t PieceAt(int64_t at, int64_t bytes) {
  return std::min(kPieceBytes, bytes - at);
}

}  // namespace

absl::Status SegmentMemory::OpenStream() {
  if (stream_) return absl::OkStatus();
  PERMAFROST_ASSIGN_OR_RETURN(stream_, Stream::Create(context_));
  return absl::OkStatus();
}

absl::Status SegmentMemory::EndTransfers() {
  // Memory that a copy may still reach must not go before the copy is done.
  if (stream_) PERMAFROST_RETURN_IF_ERROR(stream_.Synchronize());
  PERMAFROST_RETURN_IF_ERROR(stream_.Destroy());
  return staging_.Destroy();
}

absl::Status SegmentMemory::FillZeros(const PlannedBuffer& buffer) {
  const Context::Scope scope = context_->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  return CuStatus(context_->api().MemsetD8Async(
                      (base_ + buffer.offset_bytes).value(), 0,
                      static_cast<size_t>(buffer.bytes), stream_.get()),
                  "cuMemsetD8Async",
                  absl::StrCat("zero-fill of buffer '", buffer.name, "'"));
}

absl::Status SegmentMemory::Save(const ArenaPlan& plan, size_t index) {
  PERMAFROST_RETURN_IF_ERROR(DropKept(index));
  Segment& segment = segments_[index];
  int64_t total_bytes = 0;
  for (size_t i = 0; i < plan.buffers().size(); ++i) {
    const PlannedBuffer& buffer = plan.buffers()[i];
    if (!buffer.is_present()) continue;
    if (plan.SegmentOf(buffer) != &plan.segments()[index]) continue;
    segment.kept.push_back(KeptBuffer{i, total_bytes, 0});
    total_bytes += buffer.bytes;
  }
  absl::StatusOr<PinnedBuffer> copy =
      PinnedBuffer::Allocate(context_, total_bytes);
  if (!copy.ok()) {
    return Annotate(copy.status(),
                    absl::StrCat("host copy of ", segment.label));
  }
  segment.host_copy = *std::move(copy);
  PERMAFROST_RETURN_IF_ERROR(OpenStream());
  {
    const Context::Scope scope = context_->MakeCurrent();
    PERMAFROST_RETURN_IF_ERROR(scope.status());
    for (const KeptBuffer& kept : segment.kept) {
      const PlannedBuffer& buffer = plan.buffers()[kept.buffer];
      PERMAFROST_RETURN_IF_ERROR(
          CuStatus(context_->api().MemcpyDtoHAsync(
                       segment.host_copy.data() + kept.offset_bytes,
                       (base_ + buffer.offset_bytes).value(),
                       static_cast<size_t>(buffer.bytes), stream_.get()),
                   "cuMemcpyDtoHAsync",
                   absl::StrCat("host copy of buffer '", buffer.name, "'")));
    }
  }
  PERMAFROST_RETURN_IF_ERROR(Annotate(
      stream_.Synchronize(), absl::StrCat("host copy of ", segment.label)));
  for (KeptBuffer& kept : segment.kept) {
    const int64_t bytes = plan.buffers()[kept.buffer].bytes;
    ContentHash hash;
    for (int64_t at = 0; at < bytes; at += kPieceBytes) {
      hash.Add(segment.host_copy.data() + kept.offset_bytes + at,
               static_cast<size_t>(PieceAt(at, bytes)));
    }
    kept.hash = hash.value();
  }
  return absl::OkStatus();
}

absl::Status SegmentMemory::Refill(
    const ArenaPlan& plan, size_t index,
    const std::map<std::string, RestoreHook>& hooks) {
  const PlannedSegment& planned = plan.segments()[index];
  if (planned.sleep == SleepPolicy::kDiscard) return absl::OkStatus();
  PERMAFROST_RETURN_IF_ERROR(OpenStream());
  if (planned.sleep == SleepPolicy::kKeep) {
    PERMAFROST_RETURN_IF_ERROR(CopyKeptBack(plan, segments_[index]));
  } else {
    for (const PlannedBuffer& buffer : plan.buffers()) {
      if (!buffer.is_present() || plan.SegmentOf(buffer) != &planned) continue;
      PERMAFROST_RETURN_IF_ERROR(planned.sleep == SleepPolicy::kZero
                                     ? FillZeros(buffer)
                                     : RunHook(buffer, hooks.at(buffer.name)));
    }
  }
  return Annotate(stream_.Synchronize(),
                  absl::StrCat("contents of ", segments_[index].label));
}

absl::Status SegmentMemory::CopyKeptBack(const ArenaPlan& plan,
                                         const Segment& segment) {
  const Context::Scope scope = context_->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  for (const KeptBuffer& kept : segment.kept) {
    const PlannedBuffer& buffer = plan.buffers()[kept.buffer];
    PERMAFROST_RETURN_IF_ERROR(
        CuStatus(context_->api().MemcpyHtoDAsync(
                     (base_ + buffer.offset_bytes).value(),
                     segment.host_copy.data() + kept.offset_bytes,
                     static_cast<size_t>(buffer.bytes), stream_.get()),
                 "cuMemcpyHtoDAsync",
                 absl::StrCat("contents of buffer '", buffer.name, "'")));
  }
  return absl::OkStatus();
}

absl::Status SegmentMemory::RunHook(const PlannedBuffer& buffer,
                                    const RestoreHook& hook) {
  const std::string what =
      absl::StrCat("restore hook of buffer '", buffer.name, "'");
  const BufferRef place = {buffer.name, base_ + buffer.offset_bytes,
                           buffer.bytes};
  return Annotate(GuardedCall("it", [&] { return hook(place, stream_.get()); }),
                  what);
}

absl::Status SegmentMemory::VerifyKept(const ArenaPlan& plan, size_t index) {
  const Segment& segment = segments_[index];
  if (segment.kept.empty()) return absl::OkStatus();
  PERMAFROST_RETURN_IF_ERROR(OpenStream());
  if (!staging_) {
    PERMAFROST_ASSIGN_OR_RETURN(staging_,
                                PinnedBuffer::Allocate(context_, kPieceBytes));
  }
  const Context::Scope scope = context_->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  for (const KeptBuffer& kept : segment.kept) {
    const PlannedBuffer& buffer = plan.buffers()[kept.buffer];
    ContentHash hash;
    for (int64_t at = 0; at < buffer.bytes; at += kPieceBytes) {
      const auto bytes = static_cast<size_t>(PieceAt(at, buffer.bytes));
      const std::string what =
          absl::StrCat("checksum of buffer '", buffer.name, "'");
      PERMAFROST_RETURN_IF_ERROR(CuStatus(
          context_->api().MemcpyDtoHAsync(
              staging_.data(), (base_ + buffer.offset_bytes + at).value(),
              bytes, stream_.get()),
          "cuMemcpyDtoHAsync", what));
      PERMAFROST_RETURN_IF_ERROR(Annotate(stream_.Synchronize(), what));
      hash.Add(staging_.data(), bytes);
    }
    if (hash.value() != kept.hash) {
      return absl::DataLossError(absl::StrFormat(
          "buffer '%s': its %d bytes have the checksum %016x after waking, and "
          "had %016x when they were kept; something wrote to the host copy or "
          "to the memory",
          buffer.name, buffer.bytes, hash.value(), kept.hash));
    }
  }
  return absl::OkStatus();
}

absl::Status SegmentMemory::DropKept(size_t index) {
  Segment& segment = segments_[index];
  segment.kept.clear();
  return segment.host_copy.Destroy();
}

}  // namespace permafrost::internal
