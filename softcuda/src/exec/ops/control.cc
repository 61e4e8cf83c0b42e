// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Jumps, exits, barriers, fences, clocks.
//
// Divergence: a warp runs one path at a time. When a jump splits the lanes, one
// side runs and the other is pushed; both stop at the jump's reconvergence
// point, its immediate post-dominator, where a Join instruction sits. Below the
// sides lies the entry that goes on from there with all lanes. It is pushed
// only when the current path does not already end at that point, so a loop that
// loses a lane at every turn does not grow the stack.
#include <atomic>
#include <chrono>

#include "exec/ops/lanes.h"
#include "exec/ops/registration.h"

namespace softcuda::exec::SOFTCUDA_ISA {
namespace {

SOFTCUDA_INLINE const Inst* Arrive(Warp& w, const Inst& i, const Inst* to) {
  w.slice -= i.steps;
  if (w.slice >= 0) return to;
  w.pc = to;
  return nullptr;
}

const Inst* Jump(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t taken = mask & w.active;
  const uint32_t rest = w.active & ~taken;
  if (rest == 0) return Arrive(w, i, i.target);
  if (taken == 0) return Arrive(w, i, &i + 1);
  const Inst* join = i.reconverge;
  if (join != w.reconverge || join == nullptr) {
    if (join != nullptr) {
      w.paths.push_back({join, w.reconverge, w.active});
    }
    w.reconverge = join;
  }
  // Lanes that jump to the reconvergence point itself are there already.
  if (i.target == join && join != nullptr) {
    w.active = rest;
    return Arrive(w, i, &i + 1);
  }
  if (&i + 1 == join) {
    w.active = taken;
    return Arrive(w, i, i.target);
  }
  w.paths.push_back({i.target, join, taken});
  w.active = rest;
  return Arrive(w, i, &i + 1);
}

const Inst* Join(Warp& w, const Inst& i, uint32_t) {
  w.slice -= i.steps;
  if (w.reconverge != &i) return &i + 1;
  return NextPath(w);
}

const Inst* Exit(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t gone = mask & w.active;
  w.slice -= i.steps;
  w.live &= ~gone;
  w.active &= ~gone;
  if (w.active != 0) return &i + 1;
  return NextPath(w);
}

const Inst* Trap(Warp& w, const Inst& i, uint32_t mask) {
  if (mask == 0) return &i + 1;
  return Fault(w, i, FaultKind::kTrap, FirstLane(mask), 0, 0);
}

const Inst* Assert(Warp& w, const Inst& i, uint32_t mask) {
  if (mask == 0) return &i + 1;
  return Fault(w, i, FaultKind::kAssert, FirstLane(mask), 0, 0);
}

const Inst* Nothing(Warp&, const Inst& i, uint32_t) { return &i + 1; }

#if defined(__SANITIZE_THREAD__)
#define SOFTCUDA_UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SOFTCUDA_UNDER_TSAN 1
#endif
#endif

// ThreadSanitizer knows no fences: a read-modify-write of one word that all
// threads share orders as much, and it sees that.
void FenceHost() {
#if defined(SOFTCUDA_UNDER_TSAN)
  static std::atomic<int> word{0};
  word.fetch_add(1, std::memory_order_seq_cst);
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

template <bool kBlockWide>
const Inst* Fence(Warp& w, const Inst& i, uint32_t mask) {
  FenceHost();
  if (w.watch != nullptr && mask != 0) NoteFence(w, kBlockWide);
  return &i + 1;
}

// The launches before this one are done whenever it runs.
const Inst* WaitForGrid(Warp& w, const Inst& i, uint32_t mask) {
  if (mask != 0) w.waited_for_grid = true;
  return &i + 1;
}

const Inst* SyncWarp(Warp& w, const Inst& i, uint32_t mask) {
  if (mask != w.live && mask != 0) {
    CheckMembers(w, i, mask, Lanes<uint32_t>(w, i.dst));
  }
  return &i + 1;
}

// Whoever sleeps waits for someone else: the turn goes to the next.
const Inst* Nanosleep(Warp& w, const Inst& i, uint32_t mask) {
  if (mask == 0) return &i + 1;
  w.turn_over = true;
  w.pc = &i + 1;
  return nullptr;
}

const Inst* Poll(Warp& w, const Inst& i, uint32_t mask) {
  if (mask == 0) return &i + 1;
  w.polls += i.imm;
  if (w.polls >= kMaxPolls) {
    w.turn_over = true;
    // The next jump ends the turn; what was executed still counts.
    w.turn -= w.slice;
    w.slice = 0;
  }
  return &i + 1;
}

// The block completes the barrier; the warp goes on behind this instruction.
const Inst* Barrier(Warp& w, const Inst& i, uint32_t mask) {
  if (mask == 0) return &i + 1;
  if (mask != w.live) {
    return Fault(w, i, FaultKind::kDiverged, FirstLane(mask), mask, 0);
  }
  w.barrier_inst = &i;
  w.pc = &i + 1;
  w.state = WarpState::kBarrier;
  return nullptr;
}

void AddBarrier(FormTable& t, const char* form, const char* operands,
                BarrierKind kind, bool has_count) {
  t.Add(form, Barrier, operands,
        static_cast<int64_t>(kind) | (has_count ? kBarrierHasCount : 0));
}

uint64_t Nanoseconds() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(
          std::chrono::system_clock::now().time_since_epoch())
          .count());
}

template <class T, uint32_t kShift>
const Inst* Time(Warp& w, const Inst& i, uint32_t mask) {
  const T now = static_cast<T>(Nanoseconds() >> kShift);
  ForLanes(Lanes<T>(w, i.dst), mask, [=](uint32_t) { return now; });
  return &i + 1;
}

}  // namespace

void AddControlForms(FormTable& t) {
  t.Add(".jump", Jump, "");
  t.Add(".join", Join, "");
  t.Add(".exit", Exit, "");
  t.Add("trap", Trap, "");
  t.Add(".assert", Assert, "");
  t.Add("brkpt", Nothing, "");
  t.Add(".nothing", Nothing, "");
  t.Add("pmevent", Nothing, "i");
  t.Add("griddepcontrol.wait", WaitForGrid, "");
  t.Add("griddepcontrol.launch_dependents", Nothing, "");
  t.Add("setmaxnreg.inc.sync.aligned.u32", Nothing, "i");
  t.Add("setmaxnreg.dec.sync.aligned.u32", Nothing, "i");
  t.Add("bar.warp.sync", SyncWarp, "r");
  t.Add(".fence", Fence<false>, "");
  t.Add(".fence.block", Fence<true>, "");
  t.Add(".poll", Poll, "");
  t.Add("nanosleep.u32", Nanosleep, "r");
  AddBarrier(t, ".bar.sync/1", "r", BarrierKind::kSync, false);
  AddBarrier(t, ".bar.sync/2", "r r", BarrierKind::kSync, true);
  AddBarrier(t, ".bar.arrive/2", "r r", BarrierKind::kArrive, true);
  AddBarrier(t, ".bar.red.popc.u32/3", "=r r p", BarrierKind::kPopc, false);
  AddBarrier(t, ".bar.red.popc.u32/4", "=r r r p", BarrierKind::kPopc, true);
  AddBarrier(t, ".bar.red.and.pred/3", "=p r p", BarrierKind::kAnd, false);
  AddBarrier(t, ".bar.red.and.pred/4", "=p r r p", BarrierKind::kAnd, true);
  AddBarrier(t, ".bar.red.or.pred/3", "=p r p", BarrierKind::kOr, false);
  AddBarrier(t, ".bar.red.or.pred/4", "=p r r p", BarrierKind::kOr, true);
  t.Add(".clock.u32", Time<uint32_t, 0>, "=r");
  t.Add(".clock_hi.u32", Time<uint32_t, 32>, "=r");
  t.Add(".clock.u64", Time<uint64_t, 0>, "=l");
}

}  // namespace softcuda::exec::SOFTCUDA_ISA
