// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// The comparison handlers, for the integer, float and half groups.
#ifndef SOFTCUDA_EXEC_OPS_COMPARE_H_
#define SOFTCUDA_EXEC_OPS_COMPARE_H_

#include "exec/ops/lanes.h"

namespace softcuda::exec::SOFTCUDA_ISA {

struct Eq {
  template <class T>
  static SOFTCUDA_INLINE bool Do(T a, T b) {
    return a == b;
  }
};
struct Ne {
  // Ordered: false when either is NaN.
  template <class T>
  static SOFTCUDA_INLINE bool Do(T a, T b) {
    return a < b || a > b;
  }
};
struct Lt {
  template <class T>
  static SOFTCUDA_INLINE bool Do(T a, T b) {
    return a < b;
  }
};
struct Le {
  template <class T>
  static SOFTCUDA_INLINE bool Do(T a, T b) {
    return a <= b;
  }
};
struct BothNumbers {
  template <class T>
  static SOFTCUDA_INLINE bool Do(T a, T b) {
    return a == a && b == b;
  }
};

// The rest are those above on swapped operands, or negated: an unordered
// comparison is what its ordered opposite is not.
template <class Op>
struct Swapped {};
template <class Op>
struct Not {};
using Gt = Swapped<Lt>;
using Ge = Swapped<Le>;

/// How setp combines its result with a third operand; Inst::imm.
enum class Combine : int64_t { kNone, kAnd, kOr, kXor };

/// A bit for each lane, set where `Op` holds between the lanes of two
/// registers. Not inlined: five handlers share the loop, and it costs more to
/// compile than a call costs to run.
template <class Op, class Type>
struct Comparison {
  __attribute__((noinline)) static uint32_t Of(const Warp& w, uint32_t a_slot,
                                               uint32_t b_slot) {
    using Storage = typename Type::Storage;
    const Storage* a = Lanes<Storage>(w, a_slot);
    const Storage* b = Lanes<Storage>(w, b_slot);
    return BitsOf(
        [=](uint32_t l) { return Op::Do(Type::Load(a[l]), Type::Load(b[l])); });
  }
};
template <class Op, class Type>
struct Comparison<Swapped<Op>, Type> {
  static SOFTCUDA_INLINE uint32_t Of(const Warp& w, uint32_t a, uint32_t b) {
    return Comparison<Op, Type>::Of(w, b, a);
  }
};
template <class Op, class Type>
struct Comparison<Not<Op>, Type> {
  static SOFTCUDA_INLINE uint32_t Of(const Warp& w, uint32_t a, uint32_t b) {
    return ~Comparison<Op, Type>::Of(w, a, b);
  }
};

/// `yes` where the bit of a lane is set, 0 elsewhere.
template <class D>
__attribute__((noinline)) void WriteWhere(D* to, uint32_t bits, D yes,
                                          uint32_t mask) {
  ForLanes(to, mask,
           [=](uint32_t l) { return (bits >> l & 1) != 0 ? yes : D{0}; });
}

template <class Op, class Type>
const Inst* Compare(Warp& w, const Inst& i, uint32_t mask) {
  SetPredicate(w, i.dst, Comparison<Op, Type>::Of(w, i.a, i.b), mask);
  return &i + 1;
}

SOFTCUDA_INLINE uint32_t Combined(Combine how, uint32_t bits, uint32_t with) {
  switch (how) {
    case Combine::kAnd:
      return bits & with;
    case Combine::kOr:
      return bits | with;
    case Combine::kXor:
      return bits ^ with;
    case Combine::kNone:
      break;
  }
  return bits;
}

// setp with a combination, one destination.
template <class Op, class Type>
const Inst* CompareAndCombine(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t bits = Comparison<Op, Type>::Of(w, i.a, i.b);
  SetPredicate(w, i.dst,
               Combined(static_cast<Combine>(i.imm), bits, Predicate(w, i.c)),
               mask);
  return &i + 1;
}

// setp with two destinations: the second gets the negated comparison, combined
// in the same way.
template <class Op, class Type>
const Inst* CompareBoth(Warp& w, const Inst& i, uint32_t mask) {
  const Combine how = static_cast<Combine>(i.imm);
  const uint32_t bits = Comparison<Op, Type>::Of(w, i.b, i.c);
  const uint32_t with = how == Combine::kNone ? 0 : Predicate(w, i.d);
  SetPredicate(w, i.dst, Combined(how, bits, with), mask);
  SetPredicate(w, i.a, Combined(how, ~bits, with), mask);
  return &i + 1;
}

// set: all ones, or 1.0, where the comparison holds.
template <class Op, class Type, class D, D kTrue>
const Inst* CompareToRegister(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t bits = Comparison<Op, Type>::Of(w, i.a, i.b);
  WriteWhere(Lanes<D>(w, i.dst), bits, kTrue, mask);
  return &i + 1;
}

template <class Op, class Type>
void AddSetp(FormTable& t, const char* op, const char* ftz, const char* type,
             const char* r) {
  const char one = r[0];
  const bool is_h = one == 'h';
  const bool is_r = one == 'r';
  t.AddParts({"setp.", op, ftz, type}, Compare<Op, Type>,
             is_h   ? "=p h h"
             : is_r ? "=p r r"
                    : "=p l l");
  t.AddParts({"setp.", op, ftz, type, "|"}, CompareBoth<Op, Type>,
             is_h   ? "=p =p h h"
             : is_r ? "=p =p r r"
                    : "=p =p l l");
  const char* names[] = {".and", ".or", ".xor"};
  for (int k = 0; k < 3; ++k) {
    t.AddParts({"setp.", op, names[k], ftz, type}, CompareAndCombine<Op, Type>,
               is_h   ? "=p h h p"
               : is_r ? "=p r r p"
                      : "=p l l p",
               k + 1);
    t.AddParts({"setp.", op, names[k], ftz, type, "|"}, CompareBoth<Op, Type>,
               is_h   ? "=p =p h h p"
               : is_r ? "=p =p r r p"
                      : "=p =p l l p",
               k + 1);
  }
}

template <class Op, class Type>
void AddCompare(FormTable& t, const char* op, const char* type, const char* r,
                const char* ftz = "") {
  AddSetp<Op, Type>(t, op, ftz, type, r);
  const char* operands = r[0] == 'h'   ? "=r h h"
                         : r[0] == 'r' ? "=r r r"
                                       : "=r l l";
  for (const char* to : {".u32", ".s32"}) {
    t.AddParts({"set.", op, ftz, to, type},
               CompareToRegister<Op, Type, uint32_t, 0xffffffffU>, operands);
  }
  t.AddParts({"set.", op, ftz, ".f32", type},
             CompareToRegister<Op, Type, uint32_t, 0x3f800000U>, operands);
}

template <class Type>
void AddFloatCompares(FormTable& t, const char* ftz, const char* type,
                      const char* r) {
  AddCompare<Eq, Type>(t, "eq", type, r, ftz);
  AddCompare<Ne, Type>(t, "ne", type, r, ftz);
  AddCompare<Lt, Type>(t, "lt", type, r, ftz);
  AddCompare<Le, Type>(t, "le", type, r, ftz);
  AddCompare<Gt, Type>(t, "gt", type, r, ftz);
  AddCompare<Ge, Type>(t, "ge", type, r, ftz);
  AddCompare<Not<Ne>, Type>(t, "equ", type, r, ftz);
  AddCompare<Not<Eq>, Type>(t, "neu", type, r, ftz);
  AddCompare<Not<Ge>, Type>(t, "ltu", type, r, ftz);
  AddCompare<Not<Gt>, Type>(t, "leu", type, r, ftz);
  AddCompare<Not<Le>, Type>(t, "gtu", type, r, ftz);
  AddCompare<Not<Lt>, Type>(t, "geu", type, r, ftz);
  AddCompare<BothNumbers, Type>(t, "num", type, r, ftz);
  AddCompare<Not<BothNumbers>, Type>(t, "nan", type, r, ftz);
}

}  // namespace softcuda::exec::SOFTCUDA_ISA

#endif  // SOFTCUDA_EXEC_OPS_COMPARE_H_
