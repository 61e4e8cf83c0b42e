// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "memory/physical_block.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <mutex>

#include "check/settings.h"

namespace softcuda::memory {
namespace {

std::atomic<uint64_t> last_block_id{0};

/// The memory file behind all blocks. It is sparse: a stretch costs nothing
/// until its pages are touched, so stretches are never handed out twice.
class BackingFile {
 public:
  static BackingFile& Get() {
    static BackingFile* const file = new BackingFile;
    return *file;
  }

  /// Adds a stretch and returns its offset, or -1.
  int64_t Extend(uint64_t bytes) {
    constexpr uint64_t kMostFileBytes = uint64_t{1} << 62;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (fd_ < 0 || bytes > kMostFileBytes - end_) return -1;
    const uint64_t offset = end_;
    if (ftruncate(fd_, static_cast<off_t>(end_ + bytes)) != 0) return -1;
    end_ += bytes;
    return static_cast<int64_t>(offset);
  }

  int fd() const { return fd_; }

 private:
  BackingFile() : fd_(memfd_create("softcuda-device-memory", MFD_CLOEXEC)) {}

  const int fd_;
  std::mutex mutex_;
  uint64_t end_ = 0;
};

uint64_t WholePages(uint64_t bytes) {
  static const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

}  // namespace

std::shared_ptr<PhysicalBlock> PhysicalBlock::Create(uint64_t bytes,
                                                     bool is_device) {
  const int64_t offset = BackingFile::Get().Extend(WholePages(bytes));
  if (offset < 0) return nullptr;
  std::shared_ptr<PhysicalBlock> block(new PhysicalBlock(bytes, offset));
  if (is_device) {
    block->commits_ = std::make_unique<CommitMap>(WholePages(bytes));
  }
  const int poison = check::Settings::Get().poison();
  if (poison < 0) return block;
  // Poison touches all of it.
  const bool fits = !is_device || block->commits_->Commit(0, bytes);
  return fits && block->FillWith(poison) ? block : nullptr;
}

bool PhysicalBlock::FillWith(int byte) const {
  void* const at =
      mmap(nullptr, WholePages(bytes_), PROT_READ | PROT_WRITE, MAP_SHARED,
           BackingFile::Get().fd(), static_cast<off_t>(file_offset_));
  if (at == MAP_FAILED) return false;
  std::memset(at, byte, bytes_);
  munmap(at, WholePages(bytes_));
  return true;
}

std::shared_ptr<PhysicalBlock> PhysicalBlock::CreateForForeignMemory(
    uint64_t bytes) {
  return std::shared_ptr<PhysicalBlock>(new PhysicalBlock(bytes, -1));
}

PhysicalBlock::PhysicalBlock(uint64_t bytes, int64_t file_offset)
    : id_(++last_block_id), bytes_(bytes), file_offset_(file_offset) {}

PhysicalBlock::~PhysicalBlock() {
  GiveBackPages();
  delete shadow_.load();
}

bool PhysicalBlock::MapAt(uint64_t address, uint64_t bytes) const {
  if (file_offset_ < 0) return false;
  void* const wanted =
      reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
  return mmap(wanted, bytes, PROT_READ | PROT_WRITE,
              MAP_SHARED | MAP_FIXED | MAP_NORESERVE, BackingFile::Get().fd(),
              static_cast<off_t>(file_offset_)) == wanted;
}

void PhysicalBlock::GiveBackPages() {
  if (file_offset_ < 0) return;
  if (commits_ != nullptr) commits_->Clear();
  // A host that cannot punch holes keeps the pages; nothing else changes.
  (void)fallocate(
      BackingFile::Get().fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
      static_cast<off_t>(file_offset_), static_cast<off_t>(WholePages(bytes_)));
}

InitShadow* PhysicalBlock::EnsureShadow(bool starts_undefined) {
  InitShadow* now = shadow();
  if (now != nullptr) return now;
  std::unique_ptr<InitShadow> made =
      InitShadow::Create(bytes_, starts_undefined);
  if (made == nullptr) return nullptr;
  if (shadow_.compare_exchange_strong(now, made.get(),
                                      std::memory_order_acq_rel)) {
    return made.release();
  }
  return now;
}

}  // namespace softcuda::memory
