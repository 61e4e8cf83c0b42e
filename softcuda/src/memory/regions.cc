// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "memory/regions.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <iterator>
#include <utility>

#include "check/report.h"

namespace softcuda::memory {
namespace {

std::string Span(uint64_t base, uint64_t bytes) {
  char text[64];
  std::snprintf(text, sizeof text, "0x%" PRIx64 " (%" PRIu64 " bytes)", base,
                bytes);
  return text;
}

bool IsSpan(uint64_t base, uint64_t bytes) {
  return base != 0 && bytes != 0 && bytes <= ~uint64_t{0} - base;
}

void Complain(std::string what) {
  check::Report report;
  report.check = "misuse";
  report.what = std::move(what);
  check::Reporter::Get().Add(std::move(report));
}

// The entry of a map by base address that overlaps the span, or end.
template <typename Map>
typename Map::const_iterator FindOverlap(const Map& map, uint64_t base,
                                         uint64_t bytes) {
  auto it = map.upper_bound(base);
  if (it != map.begin()) {
    const auto before = std::prev(it);
    if (base - before->first < before->second.bytes) return before;
  }
  return it != map.end() && it->first - base < bytes ? it : map.end();
}

}  // namespace

RegionTable::RegionTable() : pieces_(std::make_shared<Pieces>()) {
  process_wide_.name = "process-wide";
  process_wide_.usage = Usage::kLayout;
}

std::optional<uint64_t> RegionTable::RegisterHeap(std::string name,
                                                  uint64_t base, uint64_t bytes,
                                                  Usage usage) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string what = "NVTX heap '" + name + "' at " + Span(base, bytes);
  if (!IsSpan(base, bytes)) {
    Complain(what + " is empty or leaves the address space");
    return std::nullopt;
  }
  if (const auto it = FindOverlap(heaps_, base, bytes); it != heaps_.end()) {
    Complain(what + " overlaps heap '" + it->second.name + "' at " +
             Span(it->first, it->second.bytes));
    return std::nullopt;
  }
  const auto it = FindOverlap(process_wide_.regions, base, bytes);
  if (it != process_wide_.regions.end()) {
    Complain(what + " overlaps process-wide region '" + it->second.name +
             "' at " + Span(it->first, it->second.bytes));
    return std::nullopt;
  }
  Heap& heap = heaps_[base];
  heap.name = std::move(name);
  heap.bytes = bytes;
  heap.usage = usage;
  stale_ = true;
  return base;
}

bool RegionTable::UnregisterHeap(uint64_t heap) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (heaps_.erase(heap) == 0) return false;
  stale_ = true;
  return true;
}

bool RegionTable::ResetHeap(uint64_t heap) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Heap* const found = FindHeapLocked(heap);
  if (found == nullptr) return false;
  found->regions.clear();
  stale_ = true;
  return true;
}

RegionTable::Heap* RegionTable::FindHeapLocked(uint64_t heap) {
  if (heap == kProcessWide) return &process_wide_;
  const auto it = heaps_.find(heap);
  return it == heaps_.end() ? nullptr : &it->second;
}

RegionTable::Heap* RegionTable::HeapOfRegionLocked(uint64_t base) {
  if (process_wide_.regions.count(base) != 0) return &process_wide_;
  auto it = heaps_.upper_bound(base);
  if (it == heaps_.begin()) return nullptr;
  --it;
  return it->second.regions.count(base) != 0 ? &it->second : nullptr;
}

std::optional<std::string> RegionTable::ObjectionLocked(const Heap& heap,
                                                        uint64_t heap_id,
                                                        uint64_t base,
                                                        uint64_t bytes) const {
  if (!IsSpan(base, bytes)) return "is empty or leaves the address space";
  if (heap_id == kProcessWide) {
    const auto it = FindOverlap(heaps_, base, bytes);
    if (it != heaps_.end()) {
      return "overlaps heap '" + it->second.name + "' at " +
             Span(it->first, it->second.bytes) + ": register it there";
    }
  } else if (base < heap_id || base - heap_id >= heap.bytes ||
             bytes > heap.bytes - (base - heap_id)) {
    return "leaves heap '" + heap.name + "' at " + Span(heap_id, heap.bytes);
  }
  const auto it = FindOverlap(heap.regions, base, bytes);
  if (it != heap.regions.end()) {
    return "overlaps region '" + it->second.name + "' at " +
           Span(it->first, it->second.bytes);
  }
  return std::nullopt;
}

bool RegionTable::AddRegion(uint64_t heap, uint64_t base, uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string what = "NVTX region at " + Span(base, bytes) + " ";
  Heap* const found = FindHeapLocked(heap);
  if (found == nullptr) {
    Complain(what + "names an unknown heap");
    return false;
  }
  if (auto objection = ObjectionLocked(*found, heap, base, bytes)) {
    Complain(what + *objection);
    return false;
  }
  found->regions[base].bytes = bytes;
  stale_ = true;
  return true;
}

bool RegionTable::ResizeRegion(uint64_t base, uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Heap* const heap = HeapOfRegionLocked(base);
  if (heap == nullptr) return false;
  auto node = heap->regions.extract(base);
  uint64_t heap_id = kProcessWide;
  if (heap != &process_wide_) {
    heap_id = std::prev(heaps_.upper_bound(base))->first;
  }
  const auto objection = ObjectionLocked(*heap, heap_id, base, bytes);
  if (objection) {
    Complain("NVTX region '" + node.mapped().name + "' resized to " +
             Span(base, bytes) + " " + *objection);
  } else {
    node.mapped().bytes = bytes;
  }
  heap->regions.insert(std::move(node));
  if (!objection) stale_ = true;
  return !objection;
}

bool RegionTable::RemoveRegion(uint64_t base) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Heap* const heap = HeapOfRegionLocked(base);
  if (heap == nullptr) return false;
  heap->regions.erase(base);
  stale_ = true;
  return true;
}

bool RegionTable::NameRegion(uint64_t base, std::string name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Heap* const heap = HeapOfRegionLocked(base);
  if (heap == nullptr) return false;
  heap->regions[base].name = std::move(name);
  stale_ = true;
  return true;
}

bool RegionTable::SetRegionAccess(uint64_t base, std::optional<Access> access) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Heap* const heap = HeapOfRegionLocked(base);
  if (heap == nullptr) return false;
  heap->regions[base].access = access.value_or(Access::kReadWrite);
  stale_ = true;
  return true;
}

std::shared_ptr<const Pieces> RegionTable::pieces() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!stale_) return pieces_;
  auto pieces = std::make_shared<Pieces>();
  const auto add_region = [&](uint64_t base, const Region& region) {
    std::string name = region.name.empty()
                           ? "region at " + Span(base, region.bytes)
                           : region.name;
    pieces->push_back({base, base + region.bytes, region.access,
                       /*is_gap=*/false, std::move(name)});
  };
  for (const auto& entry : heaps_) {
    const Heap& heap = entry.second;
    const bool has_gaps =
        heap.usage == Usage::kSubAllocator && !heap.regions.empty();
    uint64_t at = entry.first;
    const auto add_gap_until = [&](uint64_t end) {
      if (has_gaps && at < end) {
        pieces->push_back({at, end, Access::kNone, /*is_gap=*/true, heap.name});
      }
    };
    for (const auto& [base, region] : heap.regions) {
      add_gap_until(base);
      add_region(base, region);
      at = base + region.bytes;
    }
    add_gap_until(entry.first + heap.bytes);
  }
  for (const auto& [base, region] : process_wide_.regions) {
    add_region(base, region);
  }
  std::sort(pieces->begin(), pieces->end(),
            [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  pieces_ = std::move(pieces);
  stale_ = false;
  return pieces_;
}

int64_t RegionTable::heap_count() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int64_t>(heaps_.size());
}

}  // namespace softcuda::memory
