// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// From a fault in a handler to a report: who, where, at which source line.
#include <string>

#include "check/report.h"
#include "exec/block.h"
#include "exec/fault_report.h"
#include "exec/launch_state.h"
#include "exec/source_lines.h"
#include "exec/warp.h"
#include "memory/snapshot.h"
#include "ptx/module.h"

namespace softcuda::exec {
namespace {

std::string Plural(uint64_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

check::Report Describe(Warp& warp, const Inst& inst, uint32_t lane) {
  const LaunchState& state = warp.block->launch();
  const Launch& launch = state.launch();
  check::Report report;
  report.kernel = state.program().name;
  report.origin = launch.origin;
  const uint32_t thread = warp.index * kLanes + lane;
  report.thread[0] = thread % launch.block.x;
  report.thread[1] = thread / launch.block.x % launch.block.y;
  report.thread[2] = thread / launch.block.x / launch.block.y;
  for (int k = 0; k < 3; ++k) report.block[k] = warp.block->ctaid()[k];
  const SourceLine line = FindSourceLine(state.program(), inst.location);
  report.file = line.file;
  report.line = line.line;
  report.inlined_at = line.inlined_at;
  return report;
}

size_t IndexOf(const LaunchState& state, const Inst& inst) {
  return static_cast<size_t>(&inst - state.program().code.data());
}

std::string Triple(uint32_t index, const Dim3& size) {
  return "(" + std::to_string(index % size.x) + "," +
         std::to_string(index / size.x % size.y) + "," +
         std::to_string(index / size.x / size.y) + ")";
}

const char* Verb(check::AccessClass access) {
  switch (access) {
    case check::AccessClass::kRead:
    case check::AccessClass::kStrongRead:
      return "read";
    case check::AccessClass::kWrite:
    case check::AccessClass::kStrongWrite:
      return "write";
    case check::AccessClass::kAtomic:
      break;
  }
  return "atomic update";
}

std::string WindowText(const Warp& warp, FaultKind kind, uint64_t address) {
  const char* name = "parameter memory";
  uint64_t size = warp.param_bytes;
  if (kind == FaultKind::kShared) {
    name = "shared memory";
    size = warp.shared_bytes;
  } else if (kind == FaultKind::kLocal) {
    name = "local memory";
    size = warp.local_bytes;
  }
  return std::string(name) + "+" + std::to_string(address) + " (" +
         Plural(size, "byte") + " in all)";
}

}  // namespace

const Inst* Fault(Warp& warp, const Inst& inst, FaultKind kind, uint32_t lane,
                  uint64_t address, uint64_t bytes) {
  LaunchState& state = warp.block->launch();
  check::Report report = Describe(warp, inst, lane);
  report.check = "memcheck";
  report.address = address;
  report.bytes = bytes;
  CUresult result = CUDA_ERROR_ILLEGAL_ADDRESS;
  switch (kind) {
    case FaultKind::kRead:
      report.what = "read of " + Plural(bytes, "byte");
      report.where = state.snapshot().Describe(address, bytes);
      break;
    case FaultKind::kWrite:
      report.what = "write of " + Plural(bytes, "byte");
      report.where = state.snapshot().Describe(address, bytes);
      break;
    case FaultKind::kMisaligned:
      report.what = "misaligned access of " + Plural(bytes, "byte");
      report.where = state.snapshot().Describe(address, bytes);
      result = CUDA_ERROR_MISALIGNED_ADDRESS;
      break;
    case FaultKind::kMisalignedShared:
      report.what = "misaligned access of " + Plural(bytes, "byte");
      report.where = WindowText(warp, FaultKind::kShared, address);
      result = CUDA_ERROR_MISALIGNED_ADDRESS;
      break;
    case FaultKind::kShared:
    case FaultKind::kLocal:
    case FaultKind::kParam:
      report.what = "access of " + Plural(bytes, "byte");
      report.where = WindowText(warp, kind, address);
      break;
    case FaultKind::kTrap:
      report.check = "trap";
      report.what = "the kernel executed a trap";
      result = CUDA_ERROR_LAUNCH_FAILED;
      break;
    case FaultKind::kAssert:
      report.check = "assert";
      report.what = "a device-side assert failed";
      result = CUDA_ERROR_ASSERT;
      break;
    case FaultKind::kDiverged:
      report.check = "synccheck";
      report.what =
          "an instruction that all threads of a warp must reach together was "
          "reached by " +
          Plural(static_cast<uint64_t>(
                     __builtin_popcount(static_cast<uint32_t>(address))),
                 "thread") +
          " of " + std::to_string(__builtin_popcount(warp.live));
      report.address = 0;
      result = CUDA_ERROR_LAUNCH_FAILED;
      break;
    case FaultKind::kBarrier:
      report.check = "synccheck";
      report.what = "barrier " + std::to_string(bytes) +
                    ": a block has barriers 0 to 15, and a thread count must "
                    "be a positive multiple of 32";
      report.address = 0;
      report.bytes = 0;
      result = CUDA_ERROR_ILLEGAL_INSTRUCTION;
      break;
    case FaultKind::kDeadlock:
      report.check = "synccheck";
      report.what =
          "threads wait at a barrier that no other thread of the block will "
          "reach";
      result = CUDA_ERROR_LAUNCH_TIMEOUT;
      break;
    case FaultKind::kTimeout:
      report.check = "timeout";
      report.what = "a warp did not end within " + std::to_string(address) +
                    " instructions";
      report.address = 0;
      result = CUDA_ERROR_LAUNCH_TIMEOUT;
      break;
  }
  warp.block->set_faulted();
  state.RecordFault(warp.block->position(), result, std::move(report));
  return nullptr;
}

void ReportUndefined(Warp& warp, const Inst& inst, uint32_t lane,
                     uint64_t address, uint64_t bytes) {
  LaunchState& state = warp.block->launch();
  if (!state.FirstUndefinedRead(IndexOf(state, inst))) return;
  check::Report report = Describe(warp, inst, lane);
  report.check = "initcheck";
  report.what = "read of " + Plural(bytes, "undefined byte");
  report.address = address;
  report.bytes = bytes;
  report.where = state.snapshot().Describe(address, bytes);
  state.AddReport(std::move(report));
}

void ReportUndefinedShared(Warp& warp, const Inst& inst, uint32_t lane,
                           uint64_t address, uint64_t bytes) {
  LaunchState& state = warp.block->launch();
  if (!state.FirstUndefinedRead(IndexOf(state, inst))) return;
  check::Report report = Describe(warp, inst, lane);
  report.check = "initcheck";
  report.what = "read of " + Plural(bytes, "undefined byte");
  report.address = address;
  report.bytes = bytes;
  report.where = WindowText(warp, FaultKind::kShared, address);
  state.AddReport(std::move(report));
}

void ReportRace(Warp& warp, const Inst& inst, const Stamp& stamp,
                bool is_shared, uint64_t address, uint64_t bytes,
                const Stamp& previous) {
  LaunchState& state = warp.block->launch();
  check::Report report = Describe(warp, inst, stamp.lane);
  report.check = "racecheck";
  report.what = std::string(Verb(stamp.access)) +
                " that nothing orders behind a " + Verb(previous.access) +
                " by another " +
                (previous.block == stamp.block ? "warp" : "block");
  report.address = address;
  report.bytes = bytes;
  report.where = is_shared ? WindowText(warp, FaultKind::kShared, address)
                           : state.snapshot().Describe(address, bytes);
  report.previous =
      std::string(Verb(previous.access)) + " by block " +
      Triple(previous.block, state.launch().grid) + " thread " +
      Triple(previous.warp * kLanes + previous.lane, state.launch().block);
  const SourceLine line = FindSourceLine(
      state.program(), state.program().code[previous.inst - 1].location);
  if (!line.file.empty()) {
    report.previous += " (" + line.file + ":" + std::to_string(line.line) + ")";
  }
  state.AddReport(std::move(report));
}

void CheckMembers(Warp& warp, const Inst& inst, uint32_t mask,
                  const uint32_t* members) {
  LaunchState& state = warp.block->launch();
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(__builtin_ctz(rest));
    const uint32_t absent = members[lane] & warp.live & ~mask;
    if (absent == 0) continue;
    if (!state.FirstMissingMember(IndexOf(state, inst))) return;
    check::Report report = Describe(warp, inst, lane);
    report.check = "synccheck";
    report.what =
        "the member mask names " +
        Plural(static_cast<uint64_t>(__builtin_popcount(absent)), "thread") +
        " that are on another path";
    state.AddReport(std::move(report));
    return;
  }
}

const Inst* NextPath(Warp& warp) {
  while (!warp.paths.empty()) {
    const Path path = warp.paths.back();
    warp.paths.pop_back();
    const uint32_t mask = path.mask & warp.live;
    if (mask == 0) continue;
    warp.active = mask;
    warp.reconverge = path.reconverge;
    return path.pc;
  }
  warp.active = 0;
  warp.state = WarpState::kExited;
  return nullptr;
}

}  // namespace softcuda::exec
