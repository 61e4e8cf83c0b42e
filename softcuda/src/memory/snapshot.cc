// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "memory/snapshot.h"

#include <algorithm>
#include <utility>

namespace softcuda::memory {
namespace {

// The last entry that starts at or before `address`, or end.
template <typename T>
typename std::vector<T>::const_iterator LastAtOrBefore(
    const std::vector<T>& sorted, uint64_t address) {
  auto it = std::upper_bound(
      sorted.begin(), sorted.end(), address,
      [](uint64_t a, const T& entry) { return a < entry.begin; });
  return it == sorted.begin() ? sorted.end() : std::prev(it);
}

}  // namespace

Snapshot::Snapshot(Tables tables) : tables_(std::move(tables)) {
  segments_.reserve(tables_.ranges.size() + tables_.pieces->size());
  for (size_t i = 0; i < tables_.ranges.size(); ++i) AddSegments(i);
}

void Snapshot::AddSegments(size_t range_index) {
  const Range& range = tables_.ranges[range_index];
  const Pieces& pieces = *tables_.pieces;
  uint64_t at = range.begin;
  auto piece = std::upper_bound(
      pieces.begin(), pieces.end(), range.begin,
      [](uint64_t address, const Piece& p) { return address < p.end; });
  for (; piece != pieces.end() && piece->begin < range.end; ++piece) {
    if (at < piece->begin) {
      segments_.push_back({at, piece->begin, range.access, range_index});
      at = piece->begin;
    }
    const uint64_t end = std::min(piece->end, range.end);
    segments_.push_back(
        {at, end, Both(range.access, piece->access), range_index});
    at = end;
  }
  if (at < range.end) {
    segments_.push_back({at, range.end, range.access, range_index});
  }
}

bool Snapshot::Resolve(uint64_t address, Interval* out) const {
  const auto it = LastAtOrBefore(segments_, address);
  if (it == segments_.end() || address >= it->end) return false;
  const Range& range = tables_.ranges[it->range];
  uint64_t begin = it->begin;
  uint64_t end = it->end;
  if (CommitMap* const commits = range.block->commits()) {
    const uint64_t offset = address - range.begin;
    if (!commits->Commit(offset, 1)) return false;
    uint64_t run_begin = 0;
    uint64_t run_end = 0;
    commits->FindRun(offset, &run_begin, &run_end);
    begin = std::max(begin, range.begin + run_begin);
    end = std::min(end, range.begin + run_end);
  }
  out->begin = begin;
  out->end = end;
  out->access = it->access;
  out->shadow = range.block->shadow();
  out->shadow_offset = begin - range.begin;
  return true;
}

bool Snapshot::Commit(uint64_t address, uint64_t bytes,
                      std::string* why) const {
  while (bytes != 0) {
    const Range* const range = FindRange(address);
    if (range == nullptr) return true;
    const uint64_t here = std::min(bytes, range->end - address);
    CommitMap* const commits = range->block->commits();
    if (commits != nullptr && !commits->Commit(address - range->begin, here)) {
      if (why != nullptr) *why = CommitBudget::Get().Refusal(here);
      return false;
    }
    address += here;
    bytes -= here;
  }
  return true;
}

const Range* Snapshot::FindRange(uint64_t address) const {
  const auto it = LastAtOrBefore(tables_.ranges, address);
  if (it == tables_.ranges.end() || address >= it->end) return nullptr;
  return &*it;
}

CUresult Snapshot::CheckRange(uint64_t address, uint64_t bytes, bool write,
                              std::string* why) const {
  uint64_t at = address;
  uint64_t left = bytes;
  while (left != 0) {
    const Range* const range = FindRange(at);
    if (range == nullptr || !Allows(range->access, write)) {
      if (why != nullptr) *why = Describe(at, left);
      return CUDA_ERROR_INVALID_VALUE;
    }
    const uint64_t here = std::min(left, range->end - at);
    at += here;
    left -= here;
  }
  return CUDA_SUCCESS;
}

void Snapshot::NoteWrite(uint64_t address, uint64_t bytes) const {
  while (bytes != 0) {
    const Range* const range = FindRange(address);
    if (range == nullptr) return;
    const uint64_t here = std::min(bytes, range->end - address);
    if (InitShadow* const shadow = range->block->shadow()) {
      shadow->MarkDefined(address - range->begin, here);
    }
    address += here;
    bytes -= here;
  }
}

void Snapshot::NoteCopy(uint64_t to, uint64_t from, uint64_t bytes) const {
  // Chunks end where either side's range does; from the back when the copy
  // moves bytes up within reach of itself, as memmove would.
  const bool backwards = from < to && to - from < bytes;
  while (bytes != 0) {
    const uint64_t probe = backwards ? bytes - 1 : 0;
    const Range* const target = FindRange(to + probe);
    const Range* const source = FindRange(from + probe);
    if (target == nullptr) return;
    uint64_t here = bytes;
    if (backwards) {
      here = std::min(here, to + bytes - std::max(to, target->begin));
      if (source != nullptr) {
        here = std::min(here, from + bytes - std::max(from, source->begin));
      }
    } else {
      here = std::min(here, target->end - to);
      if (source != nullptr) here = std::min(here, source->end - from);
    }
    const uint64_t at = backwards ? bytes - here : 0;
    if (InitShadow* const shadow = target->block->shadow()) {
      shadow->CopyFrom(source == nullptr ? nullptr : source->block->shadow(),
                       source == nullptr ? 0 : from + at - source->begin,
                       to + at - target->begin, here);
    } else if (source != nullptr && source->block->shadow() != nullptr &&
               source->block->shadow()->AnyUndefined(
                   from + at - source->begin, here) != InitShadow::npos) {
      if (InitShadow* const made =
              target->block->EnsureShadow(/*starts_undefined=*/false)) {
        made->CopyFrom(source->block->shadow(), from + at - source->begin,
                       to + at - target->begin, here);
      }
    }
    bytes -= here;
    if (!backwards) {
      to += here;
      from += here;
    }
  }
}

uint64_t Snapshot::FindUndefined(uint64_t address, uint64_t bytes) const {
  while (bytes != 0) {
    const Range* const range = FindRange(address);
    if (range == nullptr) return InitShadow::npos;
    const uint64_t here = std::min(bytes, range->end - address);
    if (const InitShadow* const shadow = range->block->shadow()) {
      const uint64_t found = shadow->AnyUndefined(address - range->begin, here);
      if (found != InitShadow::npos) return range->begin + found;
    }
    address += here;
    bytes -= here;
  }
  return InitShadow::npos;
}

}  // namespace softcuda::memory
