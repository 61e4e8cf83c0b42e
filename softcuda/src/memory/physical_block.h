// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_MEMORY_PHYSICAL_BLOCK_H_
#define SOFTCUDA_MEMORY_PHYSICAL_BLOCK_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "memory/commit.h"
#include "memory/init_shadow.h"

namespace softcuda::memory {

/// One physical allocation: pages of the backing file that can be mapped at
/// any number of addresses, and the record of which of their bytes are
/// undefined.
///
/// All blocks share one memory file, so their number is not limited by file
/// descriptors; each has its own stretch of it, never used again, and pages
/// exist only once touched.
/// Threads: shadow functions any; the rest is called under the address space's
///   lock.
class PhysicalBlock {
 public:
  /// A block of zeros, or of the byte that the setting poison says, at least
  /// `bytes` long. Null when the host refuses. What is touched of a device's
  /// block counts against the host memory budget; poison touches all of it.
  static std::shared_ptr<PhysicalBlock> Create(uint64_t bytes,
                                               bool is_device = true);

  /// A block that stands for memory the program brought (cuMemHostRegister):
  /// it has an identity, but no pages of its own.
  static std::shared_ptr<PhysicalBlock> CreateForForeignMemory(uint64_t bytes);

  ~PhysicalBlock();
  PhysicalBlock(const PhysicalBlock&) = delete;
  PhysicalBlock& operator=(const PhysicalBlock&) = delete;

  /// CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID: 1, 2, ... and never used again.
  uint64_t id() const { return id_; }
  uint64_t bytes() const { return bytes_; }

  /// Maps the first `bytes` bytes at `address`, over whatever is there. Both
  /// in whole host pages. False when the host refuses; then the old mapping
  /// may be gone.
  bool MapAt(uint64_t address, uint64_t bytes) const;

  /// Gives the pages back to the host, for good. Mappings that are left read
  /// zeros.
  void GiveBackPages();

  /// Null for memory that does not count against the budget.
  CommitMap* commits() const { return commits_.get(); }

  /// Null while no byte was ever undefined.
  InitShadow* shadow() const { return shadow_.load(std::memory_order_acquire); }

  /// Makes the shadow if there is none, and returns it; null when the host
  /// refuses. `starts_undefined` matters only when it is made.
  InitShadow* EnsureShadow(bool starts_undefined);

  /// Writes every byte, through a mapping of its own. False when the host
  /// refuses.
  bool FillWith(int byte) const;

 private:
  PhysicalBlock(uint64_t bytes, int64_t file_offset);

  const uint64_t id_;
  const uint64_t bytes_;
  int64_t file_offset_;  // -1: no pages
  std::unique_ptr<CommitMap> commits_;
  std::atomic<InitShadow*> shadow_{nullptr};
};

}  // namespace softcuda::memory

#endif  // SOFTCUDA_MEMORY_PHYSICAL_BLOCK_H_
