// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/copy.h"

#include <bit>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "memory/address_space.h"
#include "runtime/state.h"

namespace softcuda::runtime {
namespace {

using memory::AddressSpace;

bool IsPinned(uint64_t address) {
  return AddressSpace::Get().IsHostPinned(std::bit_cast<const void*>(address));
}

// `a * b + c`, or false when that does not fit.
bool MulAdd(uint64_t a, uint64_t b, uint64_t c, uint64_t* out) {
  uint64_t product = 0;
  return !__builtin_mul_overflow(a, b, &product) &&
         !__builtin_add_overflow(product, c, out);
}

CUresult CheckBytes(uint64_t address, uint64_t bytes, bool write) {
  return AddressSpace::Get().call_snapshot()->CheckRange(address, bytes, write,
                                                         nullptr);
}

// Whether the side's address can be what the call takes it for, and whether the
// rows from it lie in memory that allows the access.
CUresult CheckSide(const CopyOp& copy, Side side, bool write, CopySide* place) {
  if (place->address == 0) return CUDA_ERROR_INVALID_VALUE;
  const bool in_device = AddressSpace::Get().InDeviceRange(place->address);
  const bool pinned = !in_device && IsPinned(place->address);
  if (side == Side::kHost && in_device) return CUDA_ERROR_INVALID_VALUE;
  if (side == Side::kDevice && !in_device && !pinned) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  place->pageable = !in_device && !pinned;
  uint64_t span = 0;
  if (!MulAdd(copy.slices - 1, place->slice_pitch, copy.width_bytes, &span) ||
      !MulAdd(copy.rows - 1, place->row_pitch, span, &span) ||
      __builtin_add_overflow(place->address, span, &span)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (place->pageable) return CUDA_SUCCESS;
  if (copy.rows == 1 && copy.slices == 1) {
    return CheckBytes(place->address, copy.width_bytes, write);
  }
  // First and last row: what lies between is checked when the copy runs.
  const uint64_t last = place->address +
                        (copy.slices - 1) * place->slice_pitch +
                        (copy.rows - 1) * place->row_pitch;
  const CUresult first = CheckBytes(place->address, copy.width_bytes, write);
  return first != CUDA_SUCCESS ? first
                               : CheckBytes(last, copy.width_bytes, write);
}

// What a query of a node answers: host memory as HOST, all else as DEVICE.
void DescribeSides(CopyOp* copy) {
  CUDA_MEMCPY3D& params = copy->params;
  if (SourceIsHost(*copy)) {
    params.srcMemoryType = CU_MEMORYTYPE_HOST;
    params.srcHost = std::bit_cast<const void*>(copy->source.address);
    params.srcDevice = 0;
  } else {
    params.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    params.srcDevice = copy->source.address;
    params.srcHost = nullptr;
  }
  if (TargetIsHost(*copy)) {
    params.dstMemoryType = CU_MEMORYTYPE_HOST;
    params.dstHost = std::bit_cast<void*>(copy->target.address);
    params.dstDevice = 0;
  } else {
    params.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    params.dstDevice = copy->target.address;
    params.dstHost = nullptr;
  }
}

struct SideParams {
  CUmemorytype type;
  uint64_t host;
  uint64_t device;
  size_t x_bytes;
  size_t y;
  size_t z;
  size_t pitch;
  size_t height;
};

// Where the side's first byte lies, and its pitches.
CUresult PlaceSide(const SideParams& params, uint64_t width, uint64_t rows,
                   uint64_t slices, Side* side, CopySide* place) {
  switch (params.type) {
    case CU_MEMORYTYPE_HOST:
      *side = Side::kHost;
      place->address = params.host;
      break;
    case CU_MEMORYTYPE_DEVICE:
      *side = Side::kDevice;
      place->address = params.device;
      break;
    case CU_MEMORYTYPE_UNIFIED:
      *side = Side::kEither;
      place->address = params.device;
      break;
    case CU_MEMORYTYPE_ARRAY:
      ReportUnsupported("copy", "arrays");
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (place->address == 0) return CUDA_ERROR_INVALID_VALUE;
  uint64_t row_end = 0;
  if (__builtin_add_overflow(uint64_t{params.x_bytes}, width, &row_end)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool has_rows = rows > 1 || slices > 1 || params.y > 0 || params.z > 0;
  place->row_pitch = params.pitch;
  if (place->row_pitch < row_end) {
    if (has_rows) return CUDA_ERROR_INVALID_VALUE;
    place->row_pitch = row_end;
  }
  uint64_t height = params.height;
  if (height < rows + params.y) {
    if (slices > 1 || params.z > 0) return CUDA_ERROR_INVALID_VALUE;
    height = rows + params.y;
  }
  uint64_t offset = 0;
  if (__builtin_mul_overflow(height, place->row_pitch, &place->slice_pitch) ||
      !MulAdd(params.z, place->slice_pitch, params.x_bytes, &offset) ||
      !MulAdd(params.y, place->row_pitch, offset, &offset) ||
      __builtin_add_overflow(place->address, offset, &place->address)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

}  // namespace

bool SourceIsHost(const CopyOp& copy) {
  return !AddressSpace::Get().InDeviceRange(copy.source.address);
}

bool TargetIsHost(const CopyOp& copy) {
  return !AddressSpace::Get().InDeviceRange(copy.target.address);
}

bool IsHostToHost(const CopyOp& copy) {
  return SourceIsHost(copy) && TargetIsHost(copy);
}

bool IsLinear(const CopyOp& copy) { return copy.rows == 1 && copy.slices == 1; }

CUresult MakeLinearCopy(uint64_t target, Side target_side, uint64_t source,
                        Side source_side, uint64_t bytes, CopyOp* copy) {
  *copy = CopyOp();
  copy->width_bytes = bytes;
  copy->source.address = source;
  copy->target.address = target;
  copy->source.row_pitch = copy->source.slice_pitch = bytes;
  copy->target.row_pitch = copy->target.slice_pitch = bytes;
  CUresult result = CheckSide(*copy, source_side, false, &copy->source);
  if (result != CUDA_SUCCESS) return result;
  result = CheckSide(*copy, target_side, true, &copy->target);
  if (result != CUDA_SUCCESS) return result;
  copy->params.WidthInBytes = bytes;
  copy->params.Height = 1;
  copy->params.Depth = 1;
  DescribeSides(copy);
  return CUDA_SUCCESS;
}

CUresult MakeCopy(const CUDA_MEMCPY3D& params, CopyOp* copy) {
  *copy = CopyOp();
  if (params.reserved0 != nullptr || params.reserved1 != nullptr ||
      params.srcLOD != 0 || params.dstLOD != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // Larger ones could not lie in an address space anyway.
  constexpr uint64_t kMaxExtent = uint64_t{1} << 47;
  for (const uint64_t extent :
       {params.WidthInBytes, params.Height, params.Depth, params.srcY,
        params.dstY, params.srcZ, params.dstZ, params.srcHeight,
        params.dstHeight, params.srcPitch, params.dstPitch, params.srcXInBytes,
        params.dstXInBytes}) {
    if (extent > kMaxExtent) return CUDA_ERROR_INVALID_VALUE;
  }
  copy->width_bytes = params.WidthInBytes;
  copy->rows = params.Height;
  copy->slices = params.Depth;
  if (copy->width_bytes == 0 || copy->rows == 0 || copy->slices == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Side source_side = Side::kEither;
  Side target_side = Side::kEither;
  const SideParams source = {
      params.srcMemoryType, std::bit_cast<uint64_t>(params.srcHost),
      params.srcDevice,     params.srcXInBytes,
      params.srcY,          params.srcZ,
      params.srcPitch,      params.srcHeight};
  const SideParams target = {
      params.dstMemoryType, std::bit_cast<uint64_t>(params.dstHost),
      params.dstDevice,     params.dstXInBytes,
      params.dstY,          params.dstZ,
      params.dstPitch,      params.dstHeight};
  CUresult result = PlaceSide(source, copy->width_bytes, copy->rows,
                              copy->slices, &source_side, &copy->source);
  if (result != CUDA_SUCCESS) return result;
  result = PlaceSide(target, copy->width_bytes, copy->rows, copy->slices,
                     &target_side, &copy->target);
  if (result != CUDA_SUCCESS) return result;
  result = CheckSide(*copy, source_side, false, &copy->source);
  if (result != CUDA_SUCCESS) return result;
  result = CheckSide(*copy, target_side, true, &copy->target);
  if (result != CUDA_SUCCESS) return result;
  copy->params = params;
  return CUDA_SUCCESS;
}

namespace {

CUresult CommitBytes(const char* api, uint64_t address, uint64_t bytes) {
  std::string why;
  if (AddressSpace::Get().call_snapshot()->Commit(address, bytes, &why)) {
    return CUDA_SUCCESS;
  }
  LogLine(std::string(api) + ": beyond " + why);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

// From the first byte to the last, gaps between rows included.
CUresult CommitSide(const char* api, const CopyOp& copy, const CopySide& side) {
  if (side.pageable) return CUDA_SUCCESS;
  return CommitBytes(api, side.address,
                     (copy.slices - 1) * side.slice_pitch +
                         (copy.rows - 1) * side.row_pitch + copy.width_bytes);
}

}  // namespace

CUresult CommitCopy(const char* api, const CopyOp& copy) {
  const CUresult result = CommitSide(api, copy, copy.target);
  return result != CUDA_SUCCESS ? result : CommitSide(api, copy, copy.source);
}

CUresult CommitMemset(const char* api, const MemsetOp& memset) {
  return CommitBytes(api, memset.address,
                     (memset.rows - 1) * memset.row_pitch +
                         memset.width_elements * memset.element_bytes);
}

void StageSource(CopyOp* copy) {
  auto staged = std::make_shared<std::vector<std::byte>>();
  staged->reserve(copy->width_bytes * copy->rows * copy->slices);
  for (uint64_t slice = 0; slice < copy->slices; ++slice) {
    for (uint64_t row = 0; row < copy->rows; ++row) {
      const auto* from = std::bit_cast<const std::byte*>(
          copy->source.address + slice * copy->source.slice_pitch +
          row * copy->source.row_pitch);
      staged->insert(staged->end(), from, from + copy->width_bytes);
    }
  }
  copy->staged = std::move(staged);
}

CUresult MakeMemset(const MemsetOp& asked, MemsetOp* memset) {
  *memset = asked;
  const uint32_t size = asked.element_bytes;
  if ((size != 1 && size != 2 && size != 4) || asked.address % size != 0 ||
      asked.width_elements == 0 || asked.rows == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  uint64_t width_bytes = 0;
  if (__builtin_mul_overflow(asked.width_elements, uint64_t{size},
                             &width_bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  uint64_t last = asked.address;
  if (asked.rows > 1) {
    if (asked.row_pitch < width_bytes || asked.row_pitch % size != 0 ||
        !MulAdd(asked.rows - 1, asked.row_pitch, asked.address, &last)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  const CUresult result = CheckBytes(asked.address, width_bytes, true);
  if (result != CUDA_SUCCESS || asked.rows == 1) return result;
  return CheckBytes(last, width_bytes, true);
}

bool MemsetTargetIsHost(const MemsetOp& memset) {
  return !AddressSpace::Get().InDeviceRange(memset.address);
}

}  // namespace softcuda::runtime
