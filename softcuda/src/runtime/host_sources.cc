// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/host_sources.h"

#include <pthread.h>

#include <bit>
#include <cstddef>
#include <cstring>
#include <utility>

#include "check/report.h"
#include "check/settings.h"
#include "runtime/copy.h"

namespace softcuda::runtime {
namespace {

std::string Bytes(uint64_t count) {
  return std::to_string(count) + (count == 1 ? " byte" : " bytes");
}

}  // namespace

HostSources& HostSources::Get() {
  static HostSources* const sources = new HostSources;
  return *sources;
}

uint64_t HostSources::Checksum(const Source& source) {
  uint64_t sum = 0xcbf29ce484222325;
  for (const check::AccessRun& row : source.rows) {
    const auto* at = std::bit_cast<const std::byte*>(row.begin);
    uint64_t left = row.end - row.begin;
    while (left != 0) {
      uint64_t word = 0;
      const uint64_t here = left < sizeof word ? left : sizeof word;
      std::memcpy(&word, at, here);
      sum = (sum ^ word) * 0x9e3779b97f4a7c15;
      sum ^= sum >> 29;
      at += here;
      left -= here;
    }
  }
  return sum;
}

uint64_t HostSources::Expect(const Operation& operation) {
  const auto* copy = std::get_if<CopyOp>(&operation);
  if (!check::Settings::Get().hostcheck() || copy == nullptr ||
      copy->staged != nullptr || !SourceIsHost(*copy)) {
    return 0;
  }
  Source source;
  for (uint64_t slice = 0; slice < copy->slices; ++slice) {
    for (uint64_t row = 0; row < copy->rows; ++row) {
      const uint64_t at = copy->source.address +
                          slice * copy->source.slice_pitch +
                          row * copy->source.row_pitch;
      source.rows.push_back({at, at + copy->width_bytes, at, 0});
    }
  }
  source.checksum = Checksum(source);
  const std::lock_guard<std::mutex> lock(mutex_);
  sources_.emplace(++last_number_, std::move(source));
  return last_number_;
}

void HostSources::Check(uint64_t number, const std::string& origin) {
  if (number == 0) return;
  Source source;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = sources_.find(number);
    if (found == sources_.end()) return;
    source = std::move(found->second);
    sources_.erase(found);
  }
  if (source.may_change || Checksum(source) == source.checksum) return;
  check::Report report;
  report.check = "hostcheck";
  report.what =
      "the host changed the source of a copy between the call that enqueued "
      "it and its execution";
  report.address = source.rows.front().begin;
  report.bytes = source.rows.back().end - source.rows.front().begin;
  report.where = "host memory, " + Bytes(report.bytes);
  report.origin = origin;
  check::Reporter::Get().Add(std::move(report));
}

void HostSources::Drop(uint64_t number) {
  if (number == 0) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  sources_.erase(number);
}

bool HostSources::any() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return !sources_.empty();
}

void HostSources::NoteWrites(const check::AccessSet& accesses) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [number, source] : sources_) {
    for (size_t c = 0; c < check::kAccessClasses && !source.may_change; ++c) {
      if (!check::Writes(static_cast<check::AccessClass>(c))) continue;
      for (const check::AccessRun& run : accesses.runs[c]) {
        const uint64_t end = run.address + (run.end - run.begin);
        for (const check::AccessRun& row : source.rows) {
          if (run.address < row.end && row.begin < end) {
            source.may_change = true;
          }
        }
      }
    }
  }
}

void HostSources::NoteHostFunction() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [number, source] : sources_) source.may_change = true;
}

void HostSources::NoteFree(const char* api, uint64_t address, uint64_t bytes) {
  bool reads = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [number, source] : sources_) {
      for (const check::AccessRun& row : source.rows) {
        reads = reads || (row.begin < address + bytes && address < row.end);
      }
    }
  }
  if (!reads) return;
  check::Report report;
  report.check = "hostcheck";
  report.what =
      std::string(api) + " of memory that a copy in a queue has yet to read";
  report.address = address;
  report.bytes = bytes;
  report.where = "pinned host memory, " + Bytes(bytes);
  check::Reporter::Get().Add(std::move(report));
}

void HostSources::NoteCapture(const char* api, const Operation& operation) {
  const auto* copy = std::get_if<CopyOp>(&operation);
  if (!check::Settings::Get().hostcheck() || copy == nullptr) return;
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  void* base = nullptr;
  size_t bytes = 0;
  const bool known = pthread_attr_getstack(&attributes, &base, &bytes) == 0;
  pthread_attr_destroy(&attributes);
  if (!known) return;
  for (const CopySide* side : {&copy->source, &copy->target}) {
    if (!side->pageable ||
        side->address - std::bit_cast<uint64_t>(base) >= bytes) {
      continue;
    }
    check::Report report;
    report.check = "hostcheck";
    report.what = std::string(api) +
                  ": the node keeps an address on the stack of the thread that "
                  "captures it";
    report.address = side->address;
    report.bytes = copy->width_bytes;
    report.where = "stack, " + Bytes(copy->width_bytes);
    check::Reporter::Get().Add(std::move(report));
  }
}

}  // namespace softcuda::runtime
