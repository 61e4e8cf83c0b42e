// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "ptx/slots.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace softcuda::ptx {
namespace {

constexpr uint64_t kMaxBitsetWords = uint64_t{1} << 25;
constexpr uint64_t kMaxRegisterBytes = uint64_t{1} << 23;
constexpr uint32_t kUnused = 0xffffffff;

// The positions between which a value must be kept, ends included. Instruction
// k reads at position 2k and writes at 2k + 1.
struct Life {
  uint32_t begin = kUnused;
  uint32_t end = 0;

  void Extend(uint32_t position) {
    begin = std::min(begin, position);
    end = std::max(end, position);
  }
  bool IsUsed() const { return begin != kUnused; }
};

class Liveness {
 public:
  Liveness(const Draft& draft, const ControlFlow& flow)
      : draft_(draft), flow_(flow), lives_(draft.values.size()) {}

  bool Run(std::string* error) {
    FindCrossing();
    const uint64_t words = (crossing_.size() + 63) / 64;
    words_ = static_cast<size_t>(words);
    if (words * flow_.blocks.size() * 4 > kMaxBitsetWords) {
      *error = "the kernel has too many blocks and registers";
      return false;
    }
    Solve();
    for (uint32_t b = 0; b < flow_.blocks.size(); ++b) {
      ExtendAt(live_in_, b, 2 * flow_.blocks[b].begin);
      ExtendAt(live_out_, b, 2 * flow_.blocks[b].end - 1);
    }
    return true;
  }

  const std::vector<Life>& lives() const { return lives_; }

 private:
  bool IsRegister(uint32_t value) const {
    return draft_.values[value].kind == Value::Kind::kRegister;
  }

  // Most values live inside one block, and only the others need bits.
  void FindCrossing() {
    std::vector<uint32_t> home(draft_.values.size(), kUnused);
    std::vector<bool> crosses(draft_.values.size(), false);
    for (uint32_t k = 0; k < draft_.code.size(); ++k) {
      const DraftInst& inst = draft_.code[k];
      const uint32_t block = flow_.block_of[k];
      VisitValues(inst, [&](uint32_t value, bool is_destination) {
        lives_[value].Extend(2 * k + (is_destination ? 1 : 0));
        if (!IsRegister(value)) return;
        const bool defines = is_destination && !inst.IsGuarded();
        if (home[value] == kUnused) {
          home[value] = block;
          if (!defines) crosses[value] = true;
        } else if (home[value] != block) {
          crosses[value] = true;
        }
      });
    }
    number_.assign(draft_.values.size(), kUnused);
    for (uint32_t value = 0; value < crosses.size(); ++value) {
      if (!crosses[value]) continue;
      number_[value] = static_cast<uint32_t>(crossing_.size());
      crossing_.push_back(value);
    }
  }

  uint64_t* Row(std::vector<uint64_t>& bits, uint32_t block) const {
    return bits.data() + block * words_;
  }

  void Solve() {
    const size_t size = words_ * flow_.blocks.size();
    std::vector<uint64_t> uses(size);
    std::vector<uint64_t> kills(size);
    live_in_.resize(size);
    live_out_.resize(size);
    std::vector<std::vector<uint32_t>> predecessors(flow_.blocks.size());
    for (uint32_t b = 0; b < flow_.blocks.size(); ++b) {
      for (const uint32_t s : flow_.blocks[b].successors) {
        predecessors[s].push_back(b);
      }
      uint64_t* use = Row(uses, b);
      uint64_t* kill = Row(kills, b);
      for (uint32_t k = flow_.blocks[b].begin; k < flow_.blocks[b].end; ++k) {
        const DraftInst& inst = draft_.code[k];
        VisitValues(inst, [&](uint32_t value, bool is_destination) {
          const uint32_t n = number_[value];
          if (n == kUnused) return;
          const uint64_t bit = uint64_t{1} << (n % 64);
          // Under a guard some lanes keep what they had.
          if (is_destination && !inst.IsGuarded()) {
            kill[n / 64] |= bit;
          } else if ((kill[n / 64] & bit) == 0) {
            use[n / 64] |= bit;
          }
        });
      }
    }
    std::vector<uint32_t> work;
    std::vector<bool> queued(flow_.blocks.size(), true);
    for (uint32_t b = 0; b < flow_.blocks.size(); ++b) work.push_back(b);
    while (!work.empty()) {
      const uint32_t b = work.back();
      work.pop_back();
      queued[b] = false;
      uint64_t* out = Row(live_out_, b);
      uint64_t* in = Row(live_in_, b);
      for (const uint32_t s : flow_.blocks[b].successors) {
        const uint64_t* next = Row(live_in_, s);
        for (size_t w = 0; w < words_; ++w) out[w] |= next[w];
      }
      bool changed = false;
      for (size_t w = 0; w < words_; ++w) {
        const uint64_t now = Row(uses, b)[w] | (out[w] & ~Row(kills, b)[w]);
        changed |= now != in[w];
        in[w] = now;
      }
      if (!changed) continue;
      for (const uint32_t p : predecessors[b]) {
        if (queued[p]) continue;
        queued[p] = true;
        work.push_back(p);
      }
    }
  }

  void ExtendAt(std::vector<uint64_t>& bits, uint32_t block,
                uint32_t position) {
    const uint64_t* row = Row(bits, block);
    for (size_t w = 0; w < words_; ++w) {
      for (uint64_t rest = row[w]; rest != 0; rest &= rest - 1) {
        const size_t n = w * 64 + static_cast<size_t>(__builtin_ctzll(rest));
        lives_[crossing_[n]].Extend(position);
      }
    }
  }

  const Draft& draft_;
  const ControlFlow& flow_;
  std::vector<Life> lives_;
  std::vector<uint32_t> crossing_;  // values with bits
  std::vector<uint32_t> number_;    // their bit, by value
  size_t words_ = 0;
  std::vector<uint64_t> live_in_;
  std::vector<uint64_t> live_out_;
};

uint32_t BytesOf(RegClass reg_class) {
  switch (reg_class) {
    case RegClass::kPred:
      return 4;
    case RegClass::k16:
      return 2 * exec::kLanes;
    case RegClass::k32:
      return 4 * exec::kLanes;
    case RegClass::k64:
      return 8 * exec::kLanes;
  }
  return 0;
}

}  // namespace

bool AssignSlots(const Draft& draft, const ControlFlow& flow, Slots* slots,
                 std::string* error) {
  Liveness liveness(draft, flow);
  if (!liveness.Run(error)) return false;
  const std::vector<Life>& lives = liveness.lives();
  slots->of.assign(draft.values.size(), 0);

  // Predicates first, so that all other slots keep their alignment.
  uint64_t next = BytesOf(RegClass::kPred);
  uint64_t words = 0;
  for (const RegClass reg_class :
       {RegClass::kPred, RegClass::k16, RegClass::k32, RegClass::k64}) {
    if (reg_class == RegClass::k16) next = (next + 63) / 64 * 64;
    const uint32_t size = BytesOf(reg_class);
    std::vector<uint32_t> by_begin;
    for (uint32_t value = 0; value < draft.values.size(); ++value) {
      if (draft.values[value].reg_class != reg_class ||
          !lives[value].IsUsed()) {
        continue;
      }
      if (draft.values[value].kind == Value::Kind::kRegister) {
        by_begin.push_back(value);
        continue;
      }
      slots->of[value] = static_cast<uint32_t>(next);
      next += size;
      if (next > kMaxRegisterBytes) break;
    }
    std::stable_sort(by_begin.begin(), by_begin.end(),
                     [&](uint32_t a, uint32_t b) {
                       return lives[a].begin < lives[b].begin;
                     });
    using Ending = std::pair<uint32_t, uint32_t>;  // end of life, slot
    std::priority_queue<Ending, std::vector<Ending>, std::greater<>> active;
    std::vector<uint32_t> free;
    const uint64_t registers_begin = next;
    for (const uint32_t value : by_begin) {
      // The last reader of a slot may be the instruction that writes it anew:
      // handlers read a lane before they write it.
      while (!active.empty() && active.top().first < lives[value].begin) {
        free.push_back(active.top().second);
        active.pop();
      }
      uint32_t slot = 0;
      if (free.empty()) {
        slot = static_cast<uint32_t>(next);
        next += size;
        if (next > kMaxRegisterBytes) {
          *error = "the kernel has too many registers";
          return false;
        }
      } else {
        slot = free.back();
        free.pop_back();
      }
      slots->of[value] = slot;
      active.emplace(lives[value].end, slot);
    }
    if (next > kMaxRegisterBytes) {
      *error = "the kernel has too many constants";
      return false;
    }
    words += (next - registers_begin) / 128;
  }
  slots->bytes = static_cast<uint32_t>((next + 63) / 64 * 64);
  slots->words_per_thread = static_cast<uint32_t>(words);
  return true;
}

}  // namespace softcuda::ptx
