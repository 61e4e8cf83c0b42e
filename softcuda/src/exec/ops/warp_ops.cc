// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// shfl, vote, match, redux, activemask, elect. Only the lanes of the current
// path take part: a member mask that names more is a mistake of the program,
// because those lanes cannot arrive.
#include "exec/ops/lanes.h"
#include "exec/ops/registration.h"

namespace softcuda::exec::SOFTCUDA_ISA {
namespace {

enum class Shuffle { kUp, kDown, kBfly, kIdx };

template <Shuffle kMode, bool kPair>
const Inst* ShuffleLanes(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t* a = Lanes<uint32_t>(w, kPair ? i.b : i.a);
  const uint32_t* b = Lanes<uint32_t>(w, kPair ? i.c : i.b);
  const uint32_t* c = Lanes<uint32_t>(w, kPair ? i.d : i.c);
  if (mask != w.live)
    CheckMembers(w, i, mask, Lanes<uint32_t>(w, kPair ? i.e : i.d));
  alignas(64) uint32_t source[kLanes];
  alignas(64) uint8_t valid[kLanes];
  SOFTCUDA_LANES {
    const uint32_t lane = l;
    const uint32_t clamp = c[l] & 31;
    const uint32_t segment = c[l] >> 8 & 31;
    const uint32_t last = (lane & segment) | (clamp & ~segment);
    const uint32_t first = lane & segment;
    const uint32_t n = b[l] & 31;
    uint32_t j;
    bool ok;
    if (kMode == Shuffle::kUp) {
      j = lane - n;
      ok = static_cast<int32_t>(j) >= static_cast<int32_t>(last);
    } else if (kMode == Shuffle::kDown) {
      j = lane + n;
      ok = j <= last;
    } else if (kMode == Shuffle::kBfly) {
      j = lane ^ n;
      ok = j <= last;
    } else {
      j = first | (n & ~segment);
      ok = j <= last;
    }
    source[l] = ok ? j : lane;
    valid[l] = ok ? 1 : 0;
  }
  alignas(64) uint32_t value[kLanes];
  std::memcpy(value, a, sizeof(value));
  ForLanes(Lanes<uint32_t>(w, i.dst), mask,
           [&](uint32_t l) { return value[source[l] & 31]; });
  if constexpr (kPair) SetPredicate(w, i.a, PackBits(valid), mask);
  return &i + 1;
}

/// The lanes that take part with each lane: its member mask, cut to those that
/// are here. Most often one mask holds for all.
template <class F>
SOFTCUDA_INLINE void ForEachGroup(const uint32_t* members, uint32_t mask, F f) {
  uint32_t rest = mask;
  while (rest != 0) {
    const uint32_t group_members = members[FirstLane(rest)];
    uint32_t group = 0;
    for (uint32_t l = 0; l < kLanes; ++l) {
      group |= (members[l] == group_members ? 1U : 0U) << l;
    }
    group &= rest;
    f(group, group_members & mask);
    rest &= ~group;
  }
}

enum class Vote { kAll, kAny, kUni, kBallot };

template <Vote kVote>
const Inst* VoteLanes(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t p = Predicate(w, i.a);
  if (mask != w.live) CheckMembers(w, i, mask, Lanes<uint32_t>(w, i.b));
  ForEachGroup(Lanes<uint32_t>(w, i.b), mask,
               [&](uint32_t group, uint32_t present) {
                 const uint32_t yes = p & present;
                 if constexpr (kVote == Vote::kBallot) {
                   uint32_t* d = Lanes<uint32_t>(w, i.dst);
                   ForLanes(d, group, [=](uint32_t) { return yes; });
                 } else {
                   const bool result = kVote == Vote::kAll ? yes == present
                                       : kVote == Vote::kAny
                                           ? yes != 0
                                           : yes == 0 || yes == present;
                   SetPredicate(w, i.dst, result ? kAllLanes : 0, group);
                 }
               });
  return &i + 1;
}

template <class T>
const Inst* MatchAny(Warp& w, const Inst& i, uint32_t mask) {
  alignas(64) T a[kLanes];
  std::memcpy(a, Lanes<T>(w, i.a), sizeof(a));
  const uint32_t* members = Lanes<uint32_t>(w, i.b);
  if (mask != w.live) CheckMembers(w, i, mask, members);
  uint32_t rest = mask;
  uint32_t* d = Lanes<uint32_t>(w, i.dst);
  alignas(64) uint32_t result[kLanes];
  std::memcpy(result, d, sizeof(result));
  while (rest != 0) {
    const uint32_t first = FirstLane(rest);
    const T value = a[first];
    const uint32_t same =
        BitsOf([&](uint32_t l) { return a[l] == value; }) & mask;
    for (uint32_t to = same & rest; to != 0; to &= to - 1) {
      const uint32_t l = FirstLane(to);
      result[l] = same & members[l];
    }
    rest &= ~same;
  }
  std::memcpy(d, result, sizeof(result));
  return &i + 1;
}

template <class T, bool kPair>
const Inst* MatchAll(Warp& w, const Inst& i, uint32_t mask) {
  alignas(64) T a[kLanes];
  std::memcpy(a, Lanes<T>(w, kPair ? i.b : i.a), sizeof(a));
  uint32_t* d = Lanes<uint32_t>(w, i.dst);
  const uint32_t* members = Lanes<uint32_t>(w, kPair ? i.c : i.b);
  if (mask != w.live) CheckMembers(w, i, mask, members);
  ForEachGroup(members, mask, [&](uint32_t group, uint32_t present) {
    const T value = a[FirstLane(group)];
    const uint32_t same =
        BitsOf([&](uint32_t l) { return a[l] == value; }) & present;
    const bool all = same == present;
    ForLanes(d, group, [=](uint32_t) { return all ? present : 0; });
    if constexpr (kPair) {
      SetPredicate(w, i.a, all ? kAllLanes : 0, group);
    }
  });
  return &i + 1;
}

struct Add {
  static SOFTCUDA_INLINE uint32_t Do(uint32_t a, uint32_t b) { return a + b; }
};
struct MinU {
  static SOFTCUDA_INLINE uint32_t Do(uint32_t a, uint32_t b) {
    return a < b ? a : b;
  }
};
struct MaxU {
  static SOFTCUDA_INLINE uint32_t Do(uint32_t a, uint32_t b) {
    return a > b ? a : b;
  }
};
struct MinS {
  static SOFTCUDA_INLINE uint32_t Do(uint32_t a, uint32_t b) {
    return static_cast<int32_t>(a) < static_cast<int32_t>(b) ? a : b;
  }
};
struct MaxS {
  static SOFTCUDA_INLINE uint32_t Do(uint32_t a, uint32_t b) {
    return static_cast<int32_t>(a) > static_cast<int32_t>(b) ? a : b;
  }
};
struct And {
  static SOFTCUDA_INLINE uint32_t Do(uint32_t a, uint32_t b) { return a & b; }
};
struct Or {
  static SOFTCUDA_INLINE uint32_t Do(uint32_t a, uint32_t b) { return a | b; }
};
struct Xor {
  static SOFTCUDA_INLINE uint32_t Do(uint32_t a, uint32_t b) { return a ^ b; }
};

template <class Op>
const Inst* Reduce(Warp& w, const Inst& i, uint32_t mask) {
  alignas(64) uint32_t a[kLanes];
  std::memcpy(a, Lanes<uint32_t>(w, i.a), sizeof(a));
  uint32_t* d = Lanes<uint32_t>(w, i.dst);
  if (mask != w.live) CheckMembers(w, i, mask, Lanes<uint32_t>(w, i.b));
  ForEachGroup(Lanes<uint32_t>(w, i.b), mask,
               [&](uint32_t group, uint32_t present) {
                 uint32_t rest = present;
                 if (rest == 0) return;
                 uint32_t sum = a[FirstLane(rest)];
                 for (rest &= rest - 1; rest != 0; rest &= rest - 1) {
                   sum = Op::Do(sum, a[FirstLane(rest)]);
                 }
                 ForLanes(d, group, [=](uint32_t) { return sum; });
               });
  return &i + 1;
}

const Inst* ActiveMask(Warp& w, const Inst& i, uint32_t mask) {
  ForLanes(Lanes<uint32_t>(w, i.dst), mask, [=](uint32_t) { return mask; });
  return &i + 1;
}

// The lowest lane of the members is the elected one.
const Inst* Elect(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t* d = Lanes<uint32_t>(w, i.dst);
  ForEachGroup(Lanes<uint32_t>(w, i.b), mask,
               [&](uint32_t group, uint32_t present) {
                 const uint32_t leader = FirstLane(present | group);
                 ForLanes(d, group, [=](uint32_t) { return leader; });
                 SetPredicate(w, i.a, 1U << leader, group);
               });
  return &i + 1;
}

template <Shuffle kMode>
void AddShuffle(FormTable& t, const char* mode) {
  t.AddParts({"shfl.sync.", mode, ".b32"}, ShuffleLanes<kMode, false>,
             "=r r r r r");
  t.AddParts({"shfl.sync.", mode, ".b32|"}, ShuffleLanes<kMode, true>,
             "=r =p r r r r");
}

}  // namespace

void AddWarpForms(FormTable& t) {
  AddShuffle<Shuffle::kUp>(t, "up");
  AddShuffle<Shuffle::kDown>(t, "down");
  AddShuffle<Shuffle::kBfly>(t, "bfly");
  AddShuffle<Shuffle::kIdx>(t, "idx");
  t.Add("vote.sync.all.pred", VoteLanes<Vote::kAll>, "=p p r");
  t.Add("vote.sync.any.pred", VoteLanes<Vote::kAny>, "=p p r");
  t.Add("vote.sync.uni.pred", VoteLanes<Vote::kUni>, "=p p r");
  t.Add("vote.sync.ballot.b32", VoteLanes<Vote::kBallot>, "=r p r");
  t.Add("match.any.sync.b32", MatchAny<uint32_t>, "=r r r");
  t.Add("match.any.sync.b64", MatchAny<uint64_t>, "=r l r");
  t.Add("match.all.sync.b32", MatchAll<uint32_t, false>, "=r r r");
  t.Add("match.all.sync.b64", MatchAll<uint64_t, false>, "=r l r");
  t.Add("match.all.sync.b32|", MatchAll<uint32_t, true>, "=r =p r r");
  t.Add("match.all.sync.b64|", MatchAll<uint64_t, true>, "=r =p l r");
  t.Add("redux.sync.add.u32", Reduce<Add>, "=r r r");
  t.Add("redux.sync.add.s32", Reduce<Add>, "=r r r");
  t.Add("redux.sync.min.u32", Reduce<MinU>, "=r r r");
  t.Add("redux.sync.max.u32", Reduce<MaxU>, "=r r r");
  t.Add("redux.sync.min.s32", Reduce<MinS>, "=r r r");
  t.Add("redux.sync.max.s32", Reduce<MaxS>, "=r r r");
  t.Add("redux.sync.and.b32", Reduce<And>, "=r r r");
  t.Add("redux.sync.or.b32", Reduce<Or>, "=r r r");
  t.Add("redux.sync.xor.b32", Reduce<Xor>, "=r r r");
  t.Add("activemask.b32", ActiveMask, "=r");
  t.Add("elect.sync|", Elect, "=r =p r");
}

}  // namespace softcuda::exec::SOFTCUDA_ISA
