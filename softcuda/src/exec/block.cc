// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/block.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "exec/align.h"
#include "exec/device_limits.h"

namespace softcuda::exec {
namespace {

constexpr int64_t kSlice = 1 << 16;
// Turns of a block before another one gets to run. Long blocks that wait for
// nobody should not be switched often.
constexpr int kRounds = 16;
constexpr int64_t kSeededSlice = 2048;
// A warp that sleeps does not burn steps; this makes it reach the step limit.
constexpr uint64_t kSleepSteps = 100;
// Never zero, so that memory nobody wrote does not look like a good start.
constexpr int kSharedPoison = 0xCB;

uint64_t RegisterStride(const Program& program) {
  return AlignUp(std::max<uint64_t>(program.register_bytes, 64), 64);
}

}  // namespace

uint64_t Block::BytesNeeded(const LaunchState& launch) {
  const Program& program = launch.program();
  const uint64_t warps = (launch.threads() + kLanes - 1) / kLanes;
  return warps * (RegisterStride(program) + sizeof(Warp) +
                  uint64_t{kLanes} * program.local_bytes) +
         program.static_shared_bytes + launch.launch().dynamic_shared_bytes;
}

Block::Bytes Block::Allocate(uint64_t bytes) {
  return Bytes(static_cast<std::byte*>(::operator new (
      std::max<uint64_t>(bytes, 1), std::align_val_t{kAlignment})));
}

Block::Block(LaunchState& launch)
    : launch_(launch),
      program_(launch.program()),
      shared_bytes_(program_.static_shared_bytes +
                    launch.launch().dynamic_shared_bytes) {
  const uint32_t warps = (launch.threads() + kLanes - 1) / kLanes;
  const uint64_t stride = RegisterStride(program_);
  const uint64_t local_bytes = uint64_t{kLanes} * program_.local_bytes;
  registers_ = Allocate(stride * warps);
  shared_ = Allocate(shared_bytes_);
  local_ = Allocate(local_bytes * warps);
  std::memset(registers_.get(), 0, stride * warps);
  std::memset(local_.get(), kSharedPoison, local_bytes * warps);
  if (launch.watch() != nullptr || launch.initcheck()) {
    watch_ = std::make_unique<BlockWatch>(launch, launch.watch(),
                                          launch.initcheck(), shared_bytes_);
  }
  const bool notes_shared = watch_ != nullptr && watch_->watches_shared();
  warps_.resize(warps);
  order_.resize(warps);
  for (uint32_t k = 0; k < warps; ++k) {
    Warp& warp = warps_[k];
    warp.index = k;
    warp.block = this;
    warp.registers = registers_.get() + k * stride;
    warp.shared = shared_.get();
    warp.shared_bytes = shared_bytes_;
    warp.shared_plain_bytes = notes_shared ? 0 : shared_bytes_;
    warp.watch = watch_.get();
    warp.local = local_.get() + k * local_bytes;
    warp.local_bytes = program_.local_bytes;
    warp.params = launch.launch().params.data();
    warp.param_bytes = program_.param_bytes;
    const uint32_t threads = launch.threads() - k * kLanes;
    warp.threads = threads >= kLanes ? 0xffffffffU : (1U << threads) - 1;
    order_[k] = k;
    InitializeRegisters(warp);
  }
}

void Block::SetRegister32(Warp& warp, uint32_t slot, uint32_t value) {
  auto* lanes = reinterpret_cast<uint32_t*>(warp.registers + slot);
  std::fill(lanes, lanes + kLanes, value);
}

void Block::SetRegister64(Warp& warp, uint32_t slot, uint64_t value) {
  auto* lanes = reinterpret_cast<uint64_t*>(warp.registers + slot);
  std::fill(lanes, lanes + kLanes, value);
}

void Block::InitializeRegisters(Warp& warp) {
  *reinterpret_cast<uint32_t*>(warp.registers) = 0xffffffffU;
  for (const ConstantSlot& constant : program_.constants) {
    if (constant.bytes == 8) {
      SetRegister64(warp, constant.slot, constant.value);
    } else if (constant.bytes == 4) {
      SetRegister32(warp, constant.slot, static_cast<uint32_t>(constant.value));
    } else if (constant.bytes == 2) {
      auto* lanes = reinterpret_cast<uint16_t*>(warp.registers + constant.slot);
      std::fill(lanes, lanes + kLanes, static_cast<uint16_t>(constant.value));
    } else {
      std::memcpy(warp.registers + constant.slot, &constant.value, 4);
    }
  }
  for (const SpecialSlot& special : program_.specials) {
    SetSpecial(warp, special);
  }
}

void Block::SetSpecial(Warp& warp, const SpecialSlot& special) {
  const Launch& launch = launch_.launch();
  auto* lanes = reinterpret_cast<uint32_t*>(warp.registers + special.slot);
  const auto all = [&](uint32_t value) {
    SetRegister32(warp, special.slot, value);
  };
  const auto each = [&](auto value_of) {
    for (uint32_t l = 0; l < kLanes; ++l) lanes[l] = value_of(l);
  };
  const auto linear = [&](uint32_t l) { return warp.index * kLanes + l; };
  switch (special.special) {
    case Special::kTidX:
      return each([&](uint32_t l) { return linear(l) % launch.block.x; });
    case Special::kTidY:
      return each([&](uint32_t l) {
        return linear(l) / launch.block.x % launch.block.y;
      });
    case Special::kTidZ:
      return each([&](uint32_t l) {
        return linear(l) / launch.block.x / launch.block.y;
      });
    case Special::kNtidX:
      return all(launch.block.x);
    case Special::kNtidY:
      return all(launch.block.y);
    case Special::kNtidZ:
      return all(launch.block.z);
    case Special::kCtaidX:
      return all(ctaid_[0]);
    case Special::kCtaidY:
      return all(ctaid_[1]);
    case Special::kCtaidZ:
      return all(ctaid_[2]);
    case Special::kNctaidX:
      return all(launch.grid.x);
    case Special::kNctaidY:
      return all(launch.grid.y);
    case Special::kNctaidZ:
      return all(launch.grid.z);
    case Special::kLaneId:
      return each([](uint32_t l) { return l; });
    case Special::kWarpId:
      return all(warp.index);
    case Special::kNwarpId:
      return all(static_cast<uint32_t>(warps_.size()));
    case Special::kSmId:
      return all(
          static_cast<uint32_t>(launch_.BlockAt(position_) % kMultiprocessors));
    case Special::kNsmId:
      return all(kMultiprocessors);
    case Special::kGridId:
      return all(1);
    case Special::kGridId64:
      return SetRegister64(warp, special.slot, 1);
    case Special::kLanemaskEq:
      return each([](uint32_t l) { return 1U << l; });
    case Special::kLanemaskLe:
      return each([](uint32_t l) { return (2U << l) - 1; });
    case Special::kLanemaskLt:
      return each([](uint32_t l) { return (1U << l) - 1; });
    case Special::kLanemaskGe:
      return each([](uint32_t l) { return ~((1U << l) - 1); });
    case Special::kLanemaskGt:
      return each([](uint32_t l) { return ~((2U << l) - 1); });
    case Special::kDynamicSharedBytes:
      return all(launch.dynamic_shared_bytes);
    case Special::kTotalSharedBytes:
      return all(shared_bytes_);
  }
}

void Block::Start(uint64_t position) {
  position_ = position;
  const Launch& launch = launch_.launch();
  const uint64_t index = launch_.BlockAt(position);
  ctaid_[0] = static_cast<uint32_t>(index % launch.grid.x);
  ctaid_[1] = static_cast<uint32_t>(index / launch.grid.x % launch.grid.y);
  ctaid_[2] = static_cast<uint32_t>(index / launch.grid.x / launch.grid.y);
  faulted_ = false;
  random_ = launch.seed != 0 ? MixBits(launch.seed, index + 16) : 0;
  live_warps_ = static_cast<uint32_t>(warps_.size());
  std::memset(shared_.get(), kSharedPoison, shared_bytes_);
  for (Barrier& barrier : barriers_) barrier = Barrier();
  if (watch_ != nullptr) watch_->Start(index);
  for (Warp& warp : warps_) {
    warp.active = warp.threads;
    warp.live = warp.threads;
    warp.reconverge = nullptr;
    warp.pc = program_.code.data();
    warp.state = WarpState::kReady;
    warp.turn_over = false;
    warp.steps = 0;
    warp.paths.clear();
    warp.copies.clear();
    warp.copy_group = 0;
    warp.waited_for_grid = false;
    for (const SpecialSlot& special : program_.specials) {
      switch (special.special) {
        case Special::kCtaidX:
        case Special::kCtaidY:
        case Special::kCtaidZ:
        case Special::kSmId:
          SetSpecial(warp, special);
          break;
        default:
          break;
      }
    }
  }
}

bool Block::RunWarp(Warp& warp, int64_t slice) {
  warp.slice = slice;
  warp.turn = slice;
  warp.turn_over = false;
  warp.polls = 0;
  const Inst* inst = warp.pc;
  do {
    uint32_t guard;
    std::memcpy(&guard, warp.registers + inst->guard, sizeof(guard));
    inst = inst->fn(warp, *inst, warp.active & (guard ^ inst->invert));
  } while (inst != nullptr);
  warp.steps += static_cast<uint64_t>(warp.turn - warp.slice);
  if (warp.turn_over) warp.steps += kSleepSteps;
  return !faulted_;
}

void Block::OnStopped(Warp& warp) {
  switch (warp.state) {
    case WarpState::kReady:
      if (warp.steps > launch_.step_limit()) {
        Fault(warp, *warp.pc, FaultKind::kTimeout, 0, warp.steps, 0);
      }
      break;
    case WarpState::kBarrier:
      Arrive(warp);
      break;
    case WarpState::kExited:
      --live_warps_;
      CompleteBarriers();
      break;
  }
}

Block::Outcome Block::Run() {
  for (int round = 0; round < kRounds; ++round) {
    bool ran = false;
    bool all_waited = true;
    int64_t slice = kSlice;
    if (random_ != 0) {
      for (size_t k = order_.size(); k > 1; --k) {
        random_ = MixBits(random_, k);
        std::swap(order_[k - 1], order_[random_ % k]);
      }
    }
    for (const uint32_t index : order_) {
      Warp& warp = warps_[index];
      if (warp.state != WarpState::kReady) continue;
      if (random_ != 0) {
        random_ = MixBits(random_, 1);
        slice = 1 + static_cast<int64_t>(random_ % kSeededSlice);
      }
      ran = true;
      if (!RunWarp(warp, slice)) return Outcome::kFinished;
      all_waited = all_waited && warp.turn_over;
      OnStopped(warp);
      if (faulted_) return Outcome::kFinished;
    }
    if (live_warps_ == 0) return Outcome::kFinished;
    if (!ran) {
      ReportDeadlock();
      return Outcome::kFinished;
    }
    if (all_waited) return Outcome::kWaiting;
  }
  return Outcome::kRunning;
}

void Block::Arrive(Warp& warp) {
  const Inst& inst = *warp.barrier_inst;
  const auto kind = static_cast<BarrierKind>(inst.imm & 255);
  const bool has_count = (inst.imm & kBarrierHasCount) != 0;
  const bool reduces =
      kind != BarrierKind::kSync && kind != BarrierKind::kArrive;
  const uint32_t operands[] = {inst.dst, inst.a, inst.b, inst.c};
  const uint32_t* operand = operands + (reduces ? 1 : 0);
  const uint32_t lane = static_cast<uint32_t>(__builtin_ctz(warp.active));
  const auto value = [&](uint32_t slot) {
    return reinterpret_cast<const uint32_t*>(warp.registers + slot)[lane];
  };
  const uint32_t id = value(*operand++);
  const uint32_t count = has_count ? value(*operand++) : 0;
  if (id >= kBarriers || (has_count && (count == 0 || count % kLanes != 0))) {
    Fault(warp, inst, FaultKind::kBarrier, lane, warp.live, id);
    return;
  }
  Barrier& barrier = barriers_[id];
  if (reduces) {
    uint32_t predicate;
    std::memcpy(&predicate, warp.registers + *operand, sizeof(predicate));
    predicate &= warp.active;
    barrier.popc += static_cast<uint32_t>(__builtin_popcount(predicate));
    barrier.all = barrier.all && predicate == warp.active;
    barrier.any = barrier.any || predicate != 0;
  }
  if (watch_ != nullptr) watch_->OnArrive(warp, id);
  ++barrier.arrived;
  barrier.expected = count / kLanes;
  if (kind == BarrierKind::kArrive) {
    warp.state = WarpState::kReady;
  } else {
    barrier.waiting.push_back(&warp);
  }
  CompleteIfReady(barrier);
}

bool Block::CompleteIfReady(Barrier& barrier) {
  const uint32_t expected =
      barrier.expected != 0 ? barrier.expected : live_warps_;
  if (barrier.arrived == 0 || barrier.arrived < expected) return false;
  for (Warp* warp : barrier.waiting) {
    const Inst& inst = *warp->barrier_inst;
    std::byte* to = warp->registers + inst.dst;
    const auto kind = static_cast<BarrierKind>(inst.imm & 255);
    if (kind == BarrierKind::kPopc) {
      auto* lanes = reinterpret_cast<uint32_t*>(to);
      for (uint32_t l = 0; l < kLanes; ++l) {
        if ((warp->active >> l & 1) != 0) lanes[l] = barrier.popc;
      }
    } else if (kind == BarrierKind::kAnd || kind == BarrierKind::kOr) {
      const bool result = kind == BarrierKind::kAnd ? barrier.all : barrier.any;
      auto* predicate = reinterpret_cast<uint32_t*>(to);
      *predicate = (*predicate & ~warp->active) | (result ? warp->active : 0);
    }
    warp->state = WarpState::kReady;
    if (watch_ != nullptr) watch_->OnLeave(*warp, BarrierIndex(barrier));
  }
  if (watch_ != nullptr) watch_->OnBarrierDone(BarrierIndex(barrier));
  barrier = Barrier();
  return true;
}

void Block::CompleteBarriers() {
  for (Barrier& barrier : barriers_) CompleteIfReady(barrier);
}

void Block::ReportDeadlock() {
  for (Warp& warp : warps_) {
    if (warp.state != WarpState::kBarrier) continue;
    Fault(warp, *warp.barrier_inst, FaultKind::kDeadlock,
          static_cast<uint32_t>(__builtin_ctz(warp.active)), 0, 0);
    return;
  }
}

}  // namespace softcuda::exec
