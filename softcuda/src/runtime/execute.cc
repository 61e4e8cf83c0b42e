// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "check/report.h"
#include "check/settings.h"
#include "exec/launch.h"
#include "memory/address_space.h"
#include "runtime/copy.h"
#include "runtime/error_names.h"
#include "runtime/observe.h"
#include "runtime/operation.h"
#include "runtime/state.h"

// What the executor's threads do. No lock is held here.
namespace softcuda::runtime {
namespace {

using memory::AddressSpace;
using memory::Snapshot;

using check::AccessClass;

// Collects what a copy or memset accesses, and tells it when it is over.
class Observation {
 public:
  Observation(const char* what, const std::string& origin, uint64_t point,
              const Snapshot& snapshot)
      : point_(point), snapshot_(snapshot), wanted_(WantsAccesses(point)) {
    record_.what = what;
    record_.origin = origin;
  }
  ~Observation() {
    if (!wanted_) return;
    record_.early.Normalize();
    Observe(point_, std::move(record_), snapshot_);
  }
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;

  void Add(AccessClass access, uint64_t address, uint64_t bytes) {
    if (wanted_)
      AddAccess(snapshot_, access, address, bytes, 0, &record_.early);
  }

 private:
  uint64_t point_;
  const Snapshot& snapshot_;
  bool wanted_;
  check::OperationRecord record_;
};

std::byte* At(uint64_t address) { return std::bit_cast<std::byte*>(address); }

void ReportFault(const std::string& what, const std::string& why,
                 uint64_t address, uint64_t bytes, const std::string& origin) {
  check::Report report;
  report.check = "memcheck";
  report.what = what;
  report.address = address;
  report.bytes = bytes;
  report.where = why;
  report.origin = origin;
  check::Reporter::Get().Add(std::move(report));
}

CUresult RunKernel(const KernelOp& operation, uint64_t seed,
                   const std::string& origin, uint64_t point) {
  Runtime& runtime = TheRuntime();
  if (!runtime.execution_enabled) return CUDA_SUCCESS;
  exec::Launch launch;
  launch.kernel = operation.function->kernel;
  launch.keep_alive = operation.function;
  launch.grid = operation.grid;
  launch.block = operation.block;
  launch.dynamic_shared_bytes = operation.dynamic_shared_bytes;
  launch.params = operation.params;
  launch.origin = origin;
  launch.seed = seed;
  launch.step_limit = check::Settings::Get().step_limit();
  const auto snapshot = AddressSpace::Get().snapshot(operation.device);
  exec::LaunchAccesses accesses;
  if (WantsAccesses(point)) launch.accesses = &accesses;
  const CUresult result = exec::Run(launch, *snapshot, check::Reporter::Get());
  if (launch.accesses != nullptr) {
    const ptx::Kernel& kernel = *launch.kernel;
    check::OperationRecord record;
    record.kernel = kernel.name();
    record.what = "kernel " + record.kernel;
    record.origin = origin;
    record.early = SetOf(accesses.early, kernel, *snapshot);
    record.late = SetOf(accesses.late, kernel, *snapshot);
    record.waited = accesses.waited;
    Observe(point, std::move(record), *snapshot);
  }
  if (result == CUDA_SUCCESS) {
    ++runtime.kernels_executed;
    return CUDA_SUCCESS;
  }
  return IsStickyCode(result) ? result : CUDA_ERROR_LAUNCH_FAILED;
}

// The rows of a side, as (address, bytes) calls; joined where they touch.
template <typename Visit>
bool ForEachRow(const CopyOp& copy, const Visit& visit) {
  const bool joined =
      copy.slices == 1 &&
      (copy.rows == 1 || (copy.source.row_pitch == copy.width_bytes &&
                          copy.target.row_pitch == copy.width_bytes));
  if (joined) {
    return visit(copy.source.address, copy.target.address,
                 copy.width_bytes * copy.rows);
  }
  for (uint64_t slice = 0; slice < copy.slices; ++slice) {
    for (uint64_t row = 0; row < copy.rows; ++row) {
      const uint64_t from = copy.source.address +
                            slice * copy.source.slice_pitch +
                            row * copy.source.row_pitch;
      const uint64_t to = copy.target.address +
                          slice * copy.target.slice_pitch +
                          row * copy.target.row_pitch;
      if (!visit(from, to, copy.width_bytes)) return false;
    }
  }
  return true;
}

CUresult RunCopy(const CopyOp& copy, const std::string& origin,
                 uint64_t point) {
  const auto snapshot = AddressSpace::Get().copy_snapshot();
  Observation observation("copy", origin, point, *snapshot);
  const std::byte* staged =
      copy.staged == nullptr ? nullptr : copy.staged->data();
  std::string why;
  const bool done =
      ForEachRow(copy, [&](uint64_t from, uint64_t to, uint64_t bytes) {
        const bool check_source = staged == nullptr && !copy.source.pageable;
        if (check_source &&
            snapshot->CheckRange(from, bytes, false, &why) != CUDA_SUCCESS) {
          ReportFault("copy reads " + std::to_string(bytes) + " bytes", why,
                      from, bytes, origin);
          return false;
        }
        if (!copy.target.pageable &&
            snapshot->CheckRange(to, bytes, true, &why) != CUDA_SUCCESS) {
          ReportFault("copy writes " + std::to_string(bytes) + " bytes", why,
                      to, bytes, origin);
          return false;
        }
        if (!snapshot->Commit(to, bytes, &why) ||
            (check_source && !snapshot->Commit(from, bytes, &why))) {
          ReportFault("copy of " + std::to_string(bytes) + " bytes",
                      "beyond " + why, to, bytes, origin);
          return false;
        }
        if (staged == nullptr) {
          observation.Add(AccessClass::kRead, from, bytes);
        }
        observation.Add(AccessClass::kWrite, to, bytes);
        const std::byte* source = staged != nullptr ? staged : At(from);
        if (staged != nullptr) staged += bytes;
        std::memmove(At(to), source, bytes);
        if (copy.target.pageable) return true;
        if (check_source) {
          snapshot->NoteCopy(to, from, bytes);
        } else {
          snapshot->NoteWrite(to, bytes);
        }
        return true;
      });
  return done ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

void Fill(std::byte* target, const MemsetOp& memset) {
  switch (memset.element_bytes) {
    case 1:
      std::memset(target, static_cast<int>(memset.value & 0xFF),
                  memset.width_elements);
      break;
    case 2:
      std::fill_n(std::bit_cast<uint16_t*>(target), memset.width_elements,
                  static_cast<uint16_t>(memset.value));
      break;
    default:
      std::fill_n(std::bit_cast<uint32_t*>(target), memset.width_elements,
                  memset.value);
  }
}

CUresult RunMemset(const MemsetOp& memset, const std::string& origin,
                   uint64_t point) {
  const auto snapshot = AddressSpace::Get().copy_snapshot();
  Observation observation("memset", origin, point, *snapshot);
  const uint64_t bytes = memset.width_elements * memset.element_bytes;
  std::string why;
  for (uint64_t row = 0; row < memset.rows; ++row) {
    const uint64_t address = memset.address + row * memset.row_pitch;
    if (snapshot->CheckRange(address, bytes, true, &why) != CUDA_SUCCESS) {
      ReportFault("memset writes " + std::to_string(bytes) + " bytes", why,
                  address, bytes, origin);
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    if (!snapshot->Commit(address, bytes, &why)) {
      ReportFault("memset writes " + std::to_string(bytes) + " bytes",
                  "beyond " + why, address, bytes, origin);
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    observation.Add(AccessClass::kWrite, address, bytes);
    Fill(At(address), memset);
    snapshot->NoteWrite(address, bytes);
  }
  return CUDA_SUCCESS;
}

template <typename T>
bool IsSatisfied(const WordOp& word) {
  const T now = std::atomic_ref<T>(*std::bit_cast<T*>(word.address)).load();
  const T value = static_cast<T>(word.value);
  switch (word.wait_kind) {
    case CU_STREAM_WAIT_VALUE_EQ:
      return now == value;
    case CU_STREAM_WAIT_VALUE_AND:
      return (now & value) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
      return static_cast<T>(~(now | value)) != 0;
    default:
      return static_cast<std::make_signed_t<T>>(now - value) >= 0;
  }
}

template <typename T>
void StoreWord(const WordOp& word) {
  std::atomic_ref<T>(*std::bit_cast<T*>(word.address))
      .store(static_cast<T>(word.value));
}

// A wait ends with the context, too.
CUresult RunMemOps(const MemOpsOp& operation, const std::string& origin) {
  constexpr auto kPause = std::chrono::microseconds(50);
  for (const WordOp& word : operation.words) {
    const auto snapshot = AddressSpace::Get().copy_snapshot();
    std::string why;
    if (snapshot->CheckRange(word.address, word.bytes, !word.is_wait, &why) !=
            CUDA_SUCCESS ||
        !snapshot->Commit(word.address, word.bytes, &why)) {
      ReportFault("stream operation on a word", why, word.address, word.bytes,
                  origin);
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    if (!word.is_wait) {
      word.bytes == 8 ? StoreWord<uint64_t>(word) : StoreWord<uint32_t>(word);
      snapshot->NoteWrite(word.address, word.bytes);
      continue;
    }
    while (TheRuntime().sticky.load() == CUDA_SUCCESS &&
           !(word.bytes == 8 ? IsSatisfied<uint64_t>(word)
                             : IsSatisfied<uint32_t>(word))) {
      std::this_thread::sleep_for(kPause);
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult RunOperation(const Operation& operation, uint64_t seed,
                      const std::string& origin, uint64_t point) {
  if (const auto* kernel = std::get_if<KernelOp>(&operation)) {
    return RunKernel(*kernel, seed, origin, point);
  }
  if (const auto* copy = std::get_if<CopyOp>(&operation)) {
    return RunCopy(*copy, origin, point);
  }
  if (const auto* memset = std::get_if<MemsetOp>(&operation)) {
    return RunMemset(*memset, origin, point);
  }
  if (const auto* words = std::get_if<MemOpsOp>(&operation)) {
    return RunMemOps(*words, origin);
  }
  if (const auto* alloc = std::get_if<MemAllocOp>(&operation)) {
    AddressSpace::Get().StartLife(alloc->address, alloc->serial);
    NoteNewLife(alloc->address);
  }
  if (const auto* free = std::get_if<MemFreeOp>(&operation)) {
    AddressSpace::Get().EndLife(free->address, free->serial);
  }
  return CUDA_SUCCESS;
}

void RunHostOperation(const HostOp& operation, CUresult status) {
  if (operation.callback != nullptr) {
    operation.callback(operation.callback_stream, status, operation.user_data);
  } else if (status == CUDA_SUCCESS) {
    operation.function(operation.user_data);
  }
}

}  // namespace softcuda::runtime
