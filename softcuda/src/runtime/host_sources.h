// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_RUNTIME_HOST_SOURCES_H_
#define SOFTCUDA_RUNTIME_HOST_SOURCES_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "check/access_log.h"
#include "runtime/operation.h"

namespace softcuda::runtime {

/// The host memory that copies will read which are enqueued and have not run:
/// nobody but the device may change it until then, and nobody may free it.
///
/// A checksum is taken when a copy is enqueued, or its graph launched, and
/// compared when it runs. What operations write in between is theirs to write;
/// after a host function ran, which may write anything, nothing is said.
///
/// Threads: any.
/// Cost: while the hostcheck is on, a pass over the source at each end.
class HostSources {
 public:
  /// Never destroyed.
  static HostSources& Get();

  /// Notes the source of a copy, if it is host memory that the copy reads when
  /// it runs. The number to hand to Check, 0 for none.
  uint64_t Expect(const Operation& operation);
  /// Compares, and forgets the number.
  void Check(uint64_t number, const std::string& origin);
  /// Forgets the number: the copy will not run.
  void Drop(uint64_t number);

  /// Whether some copy is waited for.
  bool any();
  /// An operation wrote these bytes.
  void NoteWrites(const check::AccessSet& accesses);
  /// A host function ran.
  void NoteHostFunction();

  /// Reports copies whose source lies in [address, address + bytes), which
  /// `api` is about to take away.
  void NoteFree(const char* api, uint64_t address, uint64_t bytes);

  /// Reports a captured copy whose host side lies on the stack of the calling
  /// thread: a replay finds something else there.
  static void NoteCapture(const char* api, const Operation& operation);

 private:
  struct Source {
    std::vector<check::AccessRun> rows;
    uint64_t checksum = 0;
    bool may_change = false;
  };

  static uint64_t Checksum(const Source& source);

  std::mutex mutex_;
  uint64_t last_number_ = 0;
  std::map<uint64_t, Source> sources_;
};

}  // namespace softcuda::runtime

#endif  // SOFTCUDA_RUNTIME_HOST_SOURCES_H_
