// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "permafrost/driver/faulting_driver.h"

#include <array>
#include <atomic>
#include <limits>
#include <utility>

#include "permafrost/driver/check.h"

namespace permafrost {
namespace {

constexpr int kAnyEntry = -1;
constexpr int kNoEntry = -1;

// What every trampoline reads. Process-wide, because a driver function is a
// plain pointer that carries no object.
struct Shared {
  DriverApi base;
  std::atomic<bool> in_use{false};
  std::array<std::atomic<int64_t>, kEntryPointCount> counts{};

  std::atomic<bool> armed{false};
  std::atomic<bool> fail_all_after{false};
  std::atomic<int> entry{kAnyEntry};
  std::atomic<int> result{CUDA_SUCCESS};
  // Matching calls that still pass, the failing one included.
  std::atomic<int64_t> remaining{0};
  std::atomic<int> last_failed{kNoEntry};

  // Whether this call fails, after counting it.
  bool CountAndDecide(int called) {
    counts[static_cast<size_t>(called)].fetch_add(1, std::memory_order_relaxed);
    if (!armed.load(std::memory_order_acquire)) return false;
    const int wanted = entry.load(std::memory_order_relaxed);
    if (wanted != kAnyEntry && wanted != called) return false;
    const int64_t left = remaining.fetch_sub(1, std::memory_order_relaxed);
    const bool fails =
        left == 1 ||
        (left < 1 && fail_all_after.load(std::memory_order_relaxed));
    if (fails) last_failed.store(called, std::memory_order_relaxed);
    return fails;
  }
};

Shared& GetShared() {
  static Shared* const shared = new Shared;
  return *shared;
}

// Stands in for one entry point: a function of the same type for each.
template <EntryPoint kEntry, auto kMember, typename Function>
struct Trampoline;

template <EntryPoint kEntry, auto kMember, typename... Args>
struct Trampoline<kEntry, kMember, CUresult (*)(Args...)> {
  static CUresult Call(Args... args) {
    Shared& shared = GetShared();
    if (shared.CountAndDecide(static_cast<int>(kEntry))) {
      return static_cast<CUresult>(
          shared.result.load(std::memory_order_relaxed));
    }
    return (shared.base.*kMember)(args...);
  }
};

DriverApi TrampolineApi() {
  DriverApi api;
#define PERMAFROST_ENTRY_POINT(name, version)                   \
  api.name = &Trampoline<EntryPoint::k##name, &DriverApi::name, \
                         PFN_cu##name##_v##version>::Call;
#include "permafrost/driver/entry_points.inc"
#undef PERMAFROST_ENTRY_POINT
  return api;
}

int EntryIndex(absl::string_view name) {
  if (name.empty()) return kAnyEntry;
  for (int i = 0; i < kEntryPointCount; ++i) {
    if (name == EntryPointName(static_cast<EntryPoint>(i))) return i;
  }
  PERMAFROST_CHECK(false, "FaultingDriver: no such entry point");
}

void Arm(int64_t nth, CUresult result, absl::string_view entry,
         bool fail_all_after) {
  PERMAFROST_CHECK(nth >= 1, "FaultingDriver counts calls from 1");
  PERMAFROST_CHECK(result != CUDA_SUCCESS, "FaultingDriver needs an error");
  Shared& shared = GetShared();
  shared.armed.store(false, std::memory_order_release);
  shared.entry.store(EntryIndex(entry), std::memory_order_relaxed);
  shared.result.store(static_cast<int>(result), std::memory_order_relaxed);
  shared.remaining.store(nth, std::memory_order_relaxed);
  shared.fail_all_after.store(fail_all_after, std::memory_order_relaxed);
  shared.last_failed.store(kNoEntry, std::memory_order_relaxed);
  shared.armed.store(true, std::memory_order_release);
}

}  // namespace

FaultingDriver::FaultingDriver(DriverRef base) {
  Shared& shared = GetShared();
  shared.base = base->api();
  driver_ = Driver::WithApi(std::move(base), TrampolineApi());
  shared.last_failed.store(kNoEntry, std::memory_order_relaxed);
  ResetCounts();
}

std::unique_ptr<FaultingDriver> FaultingDriver::Wrap(DriverRef base) {
  PERMAFROST_CHECK(base != nullptr, "FaultingDriver needs a driver");
  PERMAFROST_CHECK(!GetShared().in_use.exchange(true),
                   "one FaultingDriver may be alive in a process");
  return std::unique_ptr<FaultingDriver>(new FaultingDriver(std::move(base)));
}

FaultingDriver::~FaultingDriver() {
  Disarm();
  // The table below stays: handles made through the trampolines may live on.
  GetShared().in_use.store(false);
}

void FaultingDriver::FailCall(int64_t nth, CUresult result,
                              absl::string_view entry) {
  Arm(nth, result, entry, /*fail_all_after=*/false);
}

void FaultingDriver::FailFrom(int64_t nth, CUresult result,
                              absl::string_view entry) {
  Arm(nth, result, entry, /*fail_all_after=*/true);
}

void FaultingDriver::Disarm() {
  GetShared().armed.store(false, std::memory_order_release);
}

int64_t FaultingDriver::calls() const {
  int64_t total = 0;
  for (const std::atomic<int64_t>& count : GetShared().counts) {
    total += count.load(std::memory_order_relaxed);
  }
  return total;
}

int64_t FaultingDriver::calls(absl::string_view entry) const {
  const int index = EntryIndex(entry);
  if (index == kAnyEntry) return calls();
  return GetShared().counts[static_cast<size_t>(index)].load(
      std::memory_order_relaxed);
}

void FaultingDriver::ResetCounts() {
  for (std::atomic<int64_t>& count : GetShared().counts) {
    count.store(0, std::memory_order_relaxed);
  }
}

std::string FaultingDriver::last_failed_call() const {
  const int entry = GetShared().last_failed.load(std::memory_order_relaxed);
  return entry == kNoEntry ? ""
                           : EntryPointName(static_cast<EntryPoint>(entry));
}

}  // namespace permafrost
