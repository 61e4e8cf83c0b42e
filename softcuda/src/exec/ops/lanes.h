// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// What handlers are made of. This header and everything in exec/ops is compiled
// once for each instruction set of the host (exec_sources.cmake), each time in
// its own namespace; nothing here may end up as a symbol that the linker could
// share between them, so helpers are force-inlined and the only library types
// are plain ones.
#ifndef SOFTCUDA_EXEC_OPS_LANES_H_
#define SOFTCUDA_EXEC_OPS_LANES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "exec/form_table.h"
#include "exec/program.h"
#include "exec/warp.h"

#ifndef SOFTCUDA_ISA
#error "compiled through exec_sources.cmake, which names the instruction set"
#endif

#define SOFTCUDA_INLINE inline __attribute__((always_inline))

// Lanes do not depend on each other: a destination is either exactly the
// source's slot or disjoint from it.
#ifdef __clang__
#define SOFTCUDA_LANES                                                \
  _Pragma("clang loop vectorize(assume_safety)") for (uint32_t l = 0; \
                                                      l < kLanes; ++l)
#else
#define SOFTCUDA_LANES \
  _Pragma("GCC ivdep") for (uint32_t l = 0; l < kLanes; ++l)
#endif

namespace softcuda::exec::SOFTCUDA_ISA {

inline constexpr uint32_t kAllLanes = 0xffffffffU;

/// The lanes of a register.
template <class T>
SOFTCUDA_INLINE T* Lanes(const Warp& w, uint32_t slot) {
  return reinterpret_cast<T*>(__builtin_assume_aligned(w.registers + slot, 64));
}

SOFTCUDA_INLINE uint32_t& Predicate(const Warp& w, uint32_t slot) {
  return *reinterpret_cast<uint32_t*>(w.registers + slot);
}

SOFTCUDA_INLINE void SetPredicate(const Warp& w, uint32_t slot, uint32_t value,
                                  uint32_t mask) {
  uint32_t& p = Predicate(w, slot);
  p = (p & ~mask) | (value & mask);
}

SOFTCUDA_INLINE uint32_t FirstLane(uint32_t mask) {
  return static_cast<uint32_t>(__builtin_ctz(mask));
}

/// Bit l of the result: whether v[l] is non-zero; v holds 0 or 1.
SOFTCUDA_INLINE uint32_t PackBits(const uint8_t* v) {
  uint32_t bits = 0;
  for (uint32_t word = 0; word < kLanes / 8; ++word) {
    uint64_t eight;
    std::memcpy(&eight, v + 8 * word, 8);
    // Gathers the low bit of each of the eight bytes into the top byte.
    eight = (eight * 0x0102040810204080ULL) >> 56;
    bits |= static_cast<uint32_t>(eight) << (8 * word);
  }
  return bits;
}

template <class T>
SOFTCUDA_INLINE void Blend(T* to, const T* from, uint32_t mask) {
  SOFTCUDA_LANES to[l] = (mask >> l & 1) != 0 ? from[l] : to[l];
}

/// Computes `f(l)` for the lanes of `mask` into a register. All lanes are
/// computed, so `f` must be harmless for lanes with arbitrary values.
template <class T, class F>
SOFTCUDA_INLINE void ForLanes(T* to, uint32_t mask, F f) {
  if (mask == kAllLanes) {
    SOFTCUDA_LANES to[l] = f(l);
  } else if (mask != 0) {
    alignas(64) T result[kLanes];
    SOFTCUDA_LANES result[l] = f(l);
    Blend(to, result, mask);
  }
}

template <class F, class D, class A>
const Inst* Unary(Warp& w, const Inst& i, uint32_t mask) {
  const A* a = Lanes<A>(w, i.a);
  ForLanes(Lanes<D>(w, i.dst), mask, [=](uint32_t l) { return F::Do(a[l]); });
  return &i + 1;
}

template <class F, class D, class A, class B>
const Inst* Binary(Warp& w, const Inst& i, uint32_t mask) {
  const A* a = Lanes<A>(w, i.a);
  const B* b = Lanes<B>(w, i.b);
  ForLanes(Lanes<D>(w, i.dst), mask,
           [=](uint32_t l) { return F::Do(a[l], b[l]); });
  return &i + 1;
}

template <class F, class D, class A, class B, class C>
const Inst* Ternary(Warp& w, const Inst& i, uint32_t mask) {
  const A* a = Lanes<A>(w, i.a);
  const B* b = Lanes<B>(w, i.b);
  const C* c = Lanes<C>(w, i.c);
  ForLanes(Lanes<D>(w, i.dst), mask,
           [=](uint32_t l) { return F::Do(a[l], b[l], c[l]); });
  return &i + 1;
}

/// Bits of `f(l)` over all lanes; `f` returns bool.
template <class F>
SOFTCUDA_INLINE uint32_t BitsOf(F f) {
  alignas(64) uint8_t bits[kLanes];
  SOFTCUDA_LANES bits[l] = f(l) ? 1 : 0;
  return PackBits(bits);
}

/// To and from the bits of a floating value.
template <class To, class From>
SOFTCUDA_INLINE To BitCast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

}  // namespace softcuda::exec::SOFTCUDA_ISA

#endif  // SOFTCUDA_EXEC_OPS_LANES_H_
