// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "check/access_log.h"

#include <algorithm>
#include <utility>

namespace softcuda::check {

AccessLog::Plane& AccessLog::PlaneOf(AccessClass access, uint64_t page_number) {
  if (page_number != last_number_) {
    last_ = &pages_[page_number];
    last_number_ = page_number;
  }
  std::unique_ptr<Plane>& plane = last_->planes[static_cast<size_t>(access)];
  if (plane == nullptr) plane = std::make_unique<Plane>();
  return *plane;
}

void AccessLog::Add(AccessClass access, uint64_t address, uint64_t bytes,
                    uint32_t site) {
  const auto kept_site = static_cast<uint16_t>(site > 0xffff ? 0 : site);
  while (bytes != 0) {
    const uint64_t offset = address % kPageBytes;
    const uint64_t here = std::min(bytes, kPageBytes - offset);
    Plane& plane = PlaneOf(access, address / kPageBytes);
    for (uint64_t at = offset; at < offset + here;) {
      const uint64_t bit = at % 64;
      const uint64_t count = std::min(64 - bit, offset + here - at);
      plane.bits[at / 64] |= (~uint64_t{0} >> (64 - count)) << bit;
      at += count;
    }
    for (uint64_t k = offset / kSiteBytes;
         k <= (offset + here - 1) / kSiteBytes; ++k) {
      if (plane.sites[k] == 0) plane.sites[k] = kept_site;
    }
    address += here;
    bytes -= here;
  }
}

void AccessLog::MergeFrom(const AccessLog& other) {
  for (const auto& [number, page] : other.pages_) {
    for (size_t c = 0; c < kAccessClasses; ++c) {
      const Plane* const from = page.planes[c].get();
      if (from == nullptr) continue;
      Plane& to = PlaneOf(static_cast<AccessClass>(c), number);
      for (size_t k = 0; k < to.bits.size(); ++k) to.bits[k] |= from->bits[k];
      for (size_t k = 0; k < to.sites.size(); ++k) {
        if (to.sites[k] == 0) to.sites[k] = from->sites[k];
      }
    }
  }
}

std::vector<AccessRun> AccessLog::Runs(AccessClass access) const {
  std::vector<std::pair<uint64_t, const Plane*>> planes;
  for (const auto& [number, page] : pages_) {
    const Plane* const plane = page.planes[static_cast<size_t>(access)].get();
    if (plane != nullptr) planes.emplace_back(number, plane);
  }
  std::sort(planes.begin(), planes.end());
  std::vector<AccessRun> runs;
  for (const auto& [number, plane] : planes) {
    const uint64_t base = number * kPageBytes;
    for (uint64_t granule = 0; granule < plane->sites.size(); ++granule) {
      const uint64_t at = granule * kSiteBytes;
      uint64_t bits = plane->bits[at / 64] >> (at % 64) & 0xff;
      const uint32_t site = plane->sites[granule];
      for (uint64_t begin = base + at; bits != 0;) {
        const auto skip = static_cast<uint64_t>(__builtin_ctzll(bits));
        bits >>= skip;
        begin += skip;
        const auto count = static_cast<uint64_t>(__builtin_ctzll(~bits));
        bits >>= count;
        if (!runs.empty() && runs.back().end == begin &&
            runs.back().site == site) {
          runs.back().end += count;
        } else {
          runs.push_back({begin, begin + count, begin, site});
        }
        begin += count;
      }
    }
  }
  return runs;
}

bool AccessSet::empty() const {
  return std::all_of(runs.begin(), runs.end(),
                     [](const auto& of_class) { return of_class.empty(); });
}

void AccessSet::Normalize() {
  for (std::vector<AccessRun>& of_class : runs) {
    std::sort(of_class.begin(), of_class.end(),
              [](const AccessRun& a, const AccessRun& b) {
                return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
              });
    size_t kept = 0;
    uint64_t end = 0;
    for (AccessRun run : of_class) {
      if (run.end <= end) continue;
      if (run.begin < end) {
        run.address += end - run.begin;
        run.begin = end;
      }
      end = run.end;
      of_class[kept++] = run;
    }
    of_class.resize(kept);
  }
}

void AccessSet::Remove(uint64_t begin, uint64_t end) {
  for (std::vector<AccessRun>& of_class : runs) {
    std::vector<AccessRun> left;
    for (const AccessRun& run : of_class) {
      if (run.end <= begin || end <= run.begin) {
        left.push_back(run);
        continue;
      }
      if (run.begin < begin) {
        left.push_back({run.begin, begin, run.address, run.site});
      }
      if (end < run.end) {
        left.push_back(
            {end, run.end, run.address + (end - run.begin), run.site});
      }
    }
    of_class = std::move(left);
  }
}

void FindConflicts(const AccessSet& first, const AccessSet& second,
                   const std::function<bool(const AccessOverlap&)>& visit) {
  for (size_t a = 0; a < kAccessClasses; ++a) {
    for (size_t b = 0; b < kAccessClasses; ++b) {
      const auto first_class = static_cast<AccessClass>(a);
      const auto second_class = static_cast<AccessClass>(b);
      if (!Conflict(first_class, second_class)) continue;
      auto x = first.runs[a].begin();
      auto y = second.runs[b].begin();
      while (x != first.runs[a].end() && y != second.runs[b].end()) {
        const uint64_t begin = std::max(x->begin, y->begin);
        const uint64_t end = std::min(x->end, y->end);
        if (begin < end &&
            !visit({first_class, second_class, *x, *y, begin, end})) {
          return;
        }
        if (x->end < y->end) {
          ++x;
        } else {
          ++y;
        }
      }
    }
  }
}

}  // namespace softcuda::check
