// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_RUNTIME_OBSERVE_H_
#define SOFTCUDA_RUNTIME_OBSERVE_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "check/access_log.h"
#include "check/operation_order.h"
#include "memory/snapshot.h"
#include "ptx/module.h"

// What operations access: for the racecheck between them, and for whoever asks
// through the control ABI.
namespace softcuda::runtime {

/// Whether an operation at this point must tell its accesses.
bool WantsAccesses(uint64_t point);

/// Adds bytes that were accessed in a row. Aliases of one physical byte come
/// out as one key.
void AddAccess(const memory::Snapshot& snapshot, check::AccessClass access,
               uint64_t address, uint64_t bytes, uint32_t site,
               check::AccessSet* set);

/// A kernel's accesses, ordered, with the source lines of their sites.
check::AccessSet SetOf(const check::AccessLog& log, const ptx::Kernel& kernel,
                       const memory::Snapshot& snapshot);

/// Hands an operation's accesses to those who want them.
void Observe(uint64_t point, check::OperationRecord record,
             const memory::Snapshot& snapshot);

/// A stream reached an allocation at an address where another one may have
/// been.
void NoteNewLife(uint64_t address);

/// The accesses of operations as JSON lines, one for each operation and buffer.
///
/// Threads: any.
class AccessLines {
 public:
  static constexpr size_t kKeptLines = 100000;

  /// Never destroyed.
  static AccessLines& Get();

  void Add(const check::OperationRecord& record,
           const memory::Snapshot& snapshot);
  /// As softcuda_take_accesses.
  size_t TakeInto(char* buffer, size_t capacity);

 private:
  std::mutex mutex_;
  uint64_t operations_ = 0;
  std::vector<std::string> lines_;
};

}  // namespace softcuda::runtime

#endif  // SOFTCUDA_RUNTIME_OBSERVE_H_
