// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_MEMORY_SNAPSHOT_H_
#define SOFTCUDA_MEMORY_SNAPSHOT_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "memory/access.h"
#include "memory/init_shadow.h"
#include "memory/physical_block.h"
#include "memory/regions.h"

namespace softcuda::memory {

/// The largest span around an address for which one answer holds: inside one
/// range of memory and, in an NVTX heap, inside one named region or gap.
struct Interval {
  uint64_t begin = 1;  ///< a fresh interval contains nothing
  uint64_t end = 0;
  Access access = Access::kNone;
  InitShadow* shadow = nullptr;  ///< null: every byte is defined
  uint64_t shadow_offset = 0;    ///< where `begin` is in the shadow

  bool Contains(uint64_t address, uint64_t bytes) const {
    return begin <= address && address < end && bytes <= end - address;
  }
};

/// An allocation, mapping, pinned buffer or module global. In a snapshot,
/// `access` is what the snapshot's viewer may do.
struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
  RangeKind kind = RangeKind::kDeviceAlloc;
  Access access = Access::kReadWrite;
  /// Why `access` is none: "no peer access"; null without a reason.
  const char* closed_because = nullptr;
  int device = 0;  ///< that the memory is on
  std::shared_ptr<PhysicalBlock> block;
  uint64_t buffer_id = 0;   ///< CU_POINTER_ATTRIBUTE_BUFFER_ID
  bool registered = false;  ///< pinned memory that the program brought
  std::string name;         ///< of a module global; else empty

  uint64_t bytes() const { return end - begin; }
};

/// A reserved stretch of addresses (cuMemAddressReserve).
struct Reservation {
  uint64_t begin = 0;
  uint64_t end = 0;
};

/// A stretch of addresses whose owner is gone; kept for reports.
struct FreedRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  std::string what;  ///< "device allocation 7"
  std::string by{};  ///< the call that freed it; empty where none did
};

/// A buffer's name and where it lies.
struct NamedRange {
  std::string name;
  uint64_t begin = 0;
  uint64_t end = 0;
};

/// All that can be asked about addresses at one point of time. Immutable:
/// reading needs no lock, and the answers of one snapshot agree for ever. It
/// keeps shadows alive but not the memory: AddressSpace frees memory only while
/// nothing runs.
///
/// Threads: any.
/// Cost: Resolve is one binary search; making one is linear in ranges, regions
///   and remembered frees.
class Snapshot {
 public:
  struct Tables {
    std::vector<Range> ranges;              ///< disjoint, in address order
    std::vector<Reservation> reservations;  ///< disjoint, in address order
    std::vector<FreedRange> freed;          ///< disjoint, in address order
    std::shared_ptr<const Pieces> pieces;   ///< never null
  };

  explicit Snapshot(Tables tables);

  /// Finds what holds around `address`. False, and `*out` as it was, where no
  /// memory is, and where the host has none left for it. True says nothing
  /// about access: look at `out->access`. All of the interval is committed.
  bool Resolve(uint64_t address, Interval* out) const;

  /// Says in words what [address, address + bytes) is, for reports:
  /// "moe_fp8_scratch+0x1200 (69206016 bytes)", "64 bytes past the end of
  /// 'expert_gate_out' (4096 bytes) and 192 bytes before 'expert_up_out'",
  /// "0x10 bytes into freed device allocation 7 (4096 bytes)". The first byte
  /// behind a thing is 1 byte past its end.
  std::string Describe(uint64_t address, uint64_t bytes) const;

  /// The buffer around an address: a named region, a gap of a heap, or else
  /// the range. Outside of all, the byte alone, as "host memory".
  NamedRange NameOf(uint64_t address) const;

  /// What the program allocated, mapped or pinned on a device, and all
  /// reservations, which are on none.
  std::vector<NamedRange> LiveMemory(int device) const;

  /// Whether a copy or memset that the host issues may touch these bytes:
  /// CUDA_SUCCESS, or CUDA_ERROR_INVALID_VALUE with the reason in `*why`
  /// (which may be null). NVTX regions are not looked at, as a driver knows
  /// nothing of them; a span may run over several mappings without a hole.
  CUresult CheckRange(uint64_t address, uint64_t bytes, bool write,
                      std::string* why) const;

  /// Commits host memory for these bytes. False, with the reason in `*why`
  /// (which may be null), when the budget does not allow it. Bytes outside any
  /// range count as committed.
  bool Commit(uint64_t address, uint64_t bytes, std::string* why) const;

  /// Tells that the host wrote these bytes: they are defined now.
  void NoteWrite(uint64_t address, uint64_t bytes) const;

  /// Tells that the driver copied these bytes: undefined ones stay undefined
  /// at the destination. Bytes outside any range count as defined.
  void NoteCopy(uint64_t to, uint64_t from, uint64_t bytes) const;

  /// The address of the first undefined byte, or InitShadow::npos.
  uint64_t FindUndefined(uint64_t address, uint64_t bytes) const;

  /// The range that contains the address, or null.
  const Range* FindRange(uint64_t address) const;

  /// The region table this was made from, to see whether it is current.
  const std::shared_ptr<const Pieces>& pieces() const { return tables_.pieces; }

 private:
  struct Segment {
    uint64_t begin;
    uint64_t end;
    Access access;
    size_t range;
  };

  void AddSegments(size_t range_index);
  std::string DescribePiece(const Piece& piece, uint64_t address,
                            uint64_t bytes) const;
  std::string DescribeGap(const Piece& gap, uint64_t address) const;
  std::string DescribeOutside(uint64_t address) const;

  Tables tables_;
  std::vector<Segment> segments_;
};

}  // namespace softcuda::memory

#endif  // SOFTCUDA_MEMORY_SNAPSHOT_H_
