// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_CHECK_ACCESS_LOG_H_
#define SOFTCUDA_CHECK_ACCESS_LOG_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace softcuda::check {

/// How bytes were accessed. Strong accesses are those that others may do at
/// the same time: ld.relaxed, ld.volatile, st.release and the like.
enum class AccessClass : uint8_t {
  kRead,
  kWrite,
  kStrongRead,
  kStrongWrite,
  kAtomic,
};
inline constexpr size_t kAccessClasses = 5;

constexpr bool Writes(AccessClass c) {
  return c == AccessClass::kWrite || c == AccessClass::kStrongWrite ||
         c == AccessClass::kAtomic;
}
constexpr bool Reads(AccessClass c) {
  return c == AccessClass::kRead || c == AccessClass::kStrongRead ||
         c == AccessClass::kAtomic;
}
constexpr bool IsWeak(AccessClass c) {
  return c == AccessClass::kRead || c == AccessClass::kWrite;
}
/// Whether two accesses to one byte, which nothing orders, are a race.
constexpr bool Conflict(AccessClass a, AccessClass b) {
  return (Writes(a) || Writes(b)) && (IsWeak(a) || IsWeak(b));
}

/// Bytes that one instruction accessed, in a row.
struct AccessRun {
  uint64_t begin = 0;  ///< in the key space of the set that it is part of
  uint64_t end = 0;
  uint64_t address = 0;  ///< of `begin`, as the program knows it
  uint32_t site = 0;     ///< which instruction, 0 for none
};

/// Records which bytes a kernel accessed, and where first.
///
/// Units: bytes.
/// Threads: one at a time.
/// Cost: about 1.4 KiB for each class of access in each 4 KiB page touched.
class AccessLog {
 public:
  /// `site` is the caller's number of the instruction, from 1; numbers beyond
  /// 65535 are kept as 0, unknown.
  void Add(AccessClass access, uint64_t address, uint64_t bytes, uint32_t site);

  void MergeFrom(const AccessLog& other);
  bool empty() const { return pages_.empty(); }

  /// The bytes accessed in one way, in address order and disjoint; a run ends
  /// where the site changes. `begin` is the address.
  std::vector<AccessRun> Runs(AccessClass access) const;

 private:
  static constexpr uint64_t kPageBytes = 4096;
  static constexpr uint64_t kSiteBytes = 8;
  static constexpr size_t kWords = kPageBytes / 64;
  struct Plane {
    std::array<uint64_t, kWords> bits{};
    std::array<uint16_t, kPageBytes / kSiteBytes> sites{};
  };
  struct Page {
    std::array<std::unique_ptr<Plane>, kAccessClasses> planes;
  };

  Plane& PlaneOf(AccessClass access, uint64_t page_number);

  std::unordered_map<uint64_t, Page> pages_;
  uint64_t last_number_ = ~uint64_t{0};
  Page* last_ = nullptr;
};

/// Where an access is in the source.
struct AccessSite {
  std::string file;
  int line = 0;
};

/// What one operation accessed, ready to be compared with another's.
struct AccessSet {
  /// For each class, ordered by `begin` and disjoint.
  std::array<std::vector<AccessRun>, kAccessClasses> runs;
  /// What the runs' sites stand for; index 0 is unknown.
  std::vector<AccessSite> sites{1};

  bool empty() const;
  void Add(AccessClass access, const AccessRun& run) {
    runs[static_cast<size_t>(access)].push_back(run);
  }
  /// Orders the runs and cuts those that overlap. To be called after Add.
  void Normalize();
  /// Takes [begin, end) out of normalized runs.
  void Remove(uint64_t begin, uint64_t end);
  const AccessSite& SiteOf(const AccessRun& run) const {
    return sites[run.site < sites.size() ? run.site : 0];
  }
};

/// Two runs of different sets that share bytes, and which bytes.
struct AccessOverlap {
  AccessClass first_class = AccessClass::kRead;
  AccessClass second_class = AccessClass::kRead;
  AccessRun first;
  AccessRun second;
  uint64_t begin = 0;
  uint64_t end = 0;
};

/// Calls `visit` for overlaps that would be a race, until it returns false.
void FindConflicts(const AccessSet& first, const AccessSet& second,
                   const std::function<bool(const AccessOverlap&)>& visit);

}  // namespace softcuda::check

#endif  // SOFTCUDA_CHECK_ACCESS_LOG_H_
