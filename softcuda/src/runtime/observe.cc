// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/observe.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "check/json.h"
#include "check/report.h"
#include "exec/launch.h"
#include "memory/address_space.h"
#include "runtime/host_sources.h"

namespace softcuda::runtime {
namespace {

using check::AccessClass;
using check::AccessRun;
using check::AccessSet;

// Host memory that the driver knows nothing of keeps its address as key; a
// physical byte has one with the top bit.
uint64_t KeyOf(const memory::Range& range, uint64_t address) {
  constexpr int kOffsetBits = 41;  // the device's reservation has 2 TiB
  return uint64_t{1} << 63 | range.block->id() << kOffsetBits |
         (address - range.begin);
}

struct Stretch {
  uint64_t begin;
  uint64_t end;
};

// The bytes of some classes, by address, each once.
std::vector<Stretch> Union(const check::OperationRecord& record,
                           bool (*belongs)(AccessClass)) {
  std::vector<Stretch> all;
  for (const AccessSet* set : {&record.early, &record.late}) {
    for (size_t c = 0; c < check::kAccessClasses; ++c) {
      if (!belongs(static_cast<AccessClass>(c))) continue;
      for (const AccessRun& run : set->runs[c]) {
        all.push_back({run.address, run.address + (run.end - run.begin)});
      }
    }
  }
  std::sort(all.begin(), all.end(), [](const Stretch& a, const Stretch& b) {
    return a.begin < b.begin;
  });
  size_t kept = 0;
  for (const Stretch& stretch : all) {
    if (kept > 0 && stretch.begin <= all[kept - 1].end) {
      all[kept - 1].end = std::max(all[kept - 1].end, stretch.end);
    } else {
      all[kept++] = stretch;
    }
  }
  all.resize(kept);
  return all;
}

// What was accessed of one buffer.
struct Share {
  std::string name;
  uint64_t buffer_bytes = 0;
  uint64_t bytes[2] = {0, 0};  // read, written
  uint64_t begin[2] = {0, 0};  // offsets
  uint64_t end[2] = {0, 0};
};

}  // namespace

bool WantsAccesses(uint64_t point) {
  return point != check::OperationOrder::kNone || HostSources::Get().any() ||
         check::Reporter::Get().access_log_enabled();
}

void AddAccess(const memory::Snapshot& snapshot, AccessClass access,
               uint64_t address, uint64_t bytes, uint32_t site,
               AccessSet* set) {
  while (bytes != 0) {
    const memory::Range* const range = snapshot.FindRange(address);
    uint64_t here = bytes;
    uint64_t key = address;
    if (range != nullptr) {
      here = std::min(bytes, range->end - address);
      key = KeyOf(*range, address);
    }
    set->Add(access, {key, key + here, address, site});
    address += here;
    bytes -= here;
  }
}

AccessSet SetOf(const check::AccessLog& log, const ptx::Kernel& kernel,
                const memory::Snapshot& snapshot) {
  AccessSet set;
  std::map<uint32_t, uint32_t> index_of_site;
  for (size_t c = 0; c < check::kAccessClasses; ++c) {
    const auto access = static_cast<AccessClass>(c);
    for (const AccessRun& run : log.Runs(access)) {
      uint32_t site = 0;
      if (run.site != 0) {
        const auto [it, is_new] = index_of_site.try_emplace(
            run.site, static_cast<uint32_t>(set.sites.size()));
        if (is_new) set.sites.push_back(exec::SiteOf(kernel, run.site));
        site = it->second;
      }
      AddAccess(snapshot, access, run.address, run.end - run.begin, site, &set);
    }
  }
  set.Normalize();
  return set;
}

void Observe(uint64_t point, check::OperationRecord record,
             const memory::Snapshot& snapshot) {
  if (HostSources::Get().any()) {
    HostSources::Get().NoteWrites(record.early);
    HostSources::Get().NoteWrites(record.late);
  }
  if (check::Reporter::Get().access_log_enabled()) {
    AccessLines::Get().Add(record, snapshot);
  }
  check::OperationOrder::Get().Finish(
      point, std::move(record),
      [&](uint64_t address, uint64_t bytes) {
        return snapshot.Describe(address, bytes);
      },
      check::Reporter::Get());
}

void NoteNewLife(uint64_t address) {
  if (!check::Reporter::Get().racecheck_enabled()) return;
  const auto snapshot = memory::AddressSpace::Get().copy_snapshot();
  const memory::Range* const range = snapshot->FindRange(address);
  if (range == nullptr) return;
  const uint64_t key = KeyOf(*range, range->begin);
  check::OperationOrder::Get().ForgetBytes(key,
                                           key + (range->end - range->begin));
}

AccessLines& AccessLines::Get() {
  static AccessLines* const lines = new AccessLines;
  return *lines;
}

void AccessLines::Add(const check::OperationRecord& record,
                      const memory::Snapshot& snapshot) {
  std::map<uint64_t, Share> shares;  // by the address of the buffer
  for (const int writes : {0, 1}) {
    for (Stretch stretch :
         Union(record, writes != 0 ? check::Writes : check::Reads)) {
      while (stretch.begin < stretch.end) {
        const memory::NamedRange buffer = snapshot.NameOf(stretch.begin);
        const uint64_t end = std::min(stretch.end, buffer.end);
        Share& share = shares[buffer.begin];
        share.name = buffer.name;
        share.buffer_bytes = buffer.end - buffer.begin;
        if (share.bytes[writes] == 0) {
          share.begin[writes] = stretch.begin - buffer.begin;
        }
        share.end[writes] = end - buffer.begin;
        share.bytes[writes] += end - stretch.begin;
        stretch.begin = end;
      }
    }
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  ++operations_;
  for (const auto& [address, share] : shares) {
    if (lines_.size() >= kKeptLines) return;
    std::string line =
        "{\"operation\":" + std::to_string(operations_) +
        ",\"origin\":" + check::JsonString(record.origin) +
        ",\"what\":" + check::JsonString(record.what) +
        ",\"kernel\":" + check::JsonString(record.kernel) +
        ",\"buffer\":" + check::JsonString(share.name) +
        ",\"buffer_bytes\":" + std::to_string(share.buffer_bytes);
    const char* const names[2] = {"read", "write"};
    for (const int writes : {0, 1}) {
      const std::string name = names[writes];
      line += ",\"" + name + "_bytes\":" + std::to_string(share.bytes[writes]) +
              ",\"" + name + "_begin\":" + std::to_string(share.begin[writes]) +
              ",\"" + name + "_end\":" + std::to_string(share.end[writes]);
    }
    lines_.push_back(line + "}");
  }
}

size_t AccessLines::TakeInto(char* buffer, size_t capacity) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string all;
  for (const std::string& line : lines_) {
    if (!all.empty()) all += '\n';
    all += line;
  }
  if (buffer == nullptr || capacity < all.size()) return all.size();
  std::memcpy(buffer, all.data(), all.size());
  if (capacity > all.size()) buffer[all.size()] = '\0';
  lines_.clear();
  return all.size();
}

}  // namespace softcuda::runtime
