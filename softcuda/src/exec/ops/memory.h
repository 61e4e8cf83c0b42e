// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Moving lanes between registers and memory, and the checks that come first.
#ifndef SOFTCUDA_EXEC_OPS_MEMORY_H_
#define SOFTCUDA_EXEC_OPS_MEMORY_H_

#include "exec/memory_check.h"
#include "exec/ops/lanes.h"

// Kernels of the program under test may race on purpose, as a spin on a flag
// does; that is not a race of the interpreter's.
#if defined(__SANITIZE_THREAD__)
#define SOFTCUDA_DEVICE_MEMORY __attribute__((no_sanitize("thread"), noinline))
#else
#define SOFTCUDA_DEVICE_MEMORY
#endif

/// The element types of ld and st, as `add(M, R, type, to, from)` for those of
/// at most 32 bits: the type in memory, the type that fills a register, the
/// PTX type, and the operand notation (form_table.h) of destination and source.
#define SOFTCUDA_NARROW_MEMORY_TYPES(add)    \
  add(uint8_t, uint16_t, ".b8", "h", "h");   \
  add(uint8_t, uint16_t, ".u8", "h", "h");   \
  add(int8_t, int16_t, ".s8", "H", "h");     \
  add(uint16_t, uint16_t, ".b16", "h", "h"); \
  add(uint16_t, uint16_t, ".u16", "h", "h"); \
  add(uint16_t, uint16_t, ".s16", "H", "h"); \
  add(uint32_t, uint32_t, ".b32", "r", "r"); \
  add(uint32_t, uint32_t, ".u32", "r", "r"); \
  add(uint32_t, uint32_t, ".s32", "R", "r"); \
  add(uint32_t, uint32_t, ".f32", "r", "r")

/// Those of 64 bits, as `add(type)`.
#define SOFTCUDA_WIDE_MEMORY_TYPES(add) \
  add(".b64");                          \
  add(".u64");                          \
  add(".s64");                          \
  add(".f64")

namespace softcuda::exec::SOFTCUDA_ISA {

/// How the addresses of a warp lie.
enum class Pattern {
  kFault,
  kUnit,     ///< lane l at `start + l * bytes`
  kUniform,  ///< all at one address
  kGather,
};

SOFTCUDA_INLINE const Span* FindSpan(Warp& w, uint64_t begin, uint64_t end) {
  for (uint32_t k = 0; k < kSpans; ++k) {
    const Span& span = w.spans[k];
    if (span.begin <= begin && end <= span.end && begin <= end) return &span;
  }
  return nullptr;
}

/// Finds the span of [begin, end) if it lies in one, allows the access and has
/// no undefined bytes to look for.
SOFTCUDA_INLINE bool IsPlain(Warp& w, uint64_t begin, uint64_t end,
                             bool write) {
  const Span* span = FindSpan(w, begin, end);
  if (span == nullptr) {
    span = ResolveSpan(w, begin);
    if (span == nullptr || end > span->end || begin > end) return false;
  }
  return (write ? span->writable : span->readable) && span->plain;
}

/// Computes the addresses of the active lanes and checks them. `at` gets the
/// address of each active lane; inactive lanes get some active lane's.
template <uint64_t kBytes, bool kWrite>
SOFTCUDA_INLINE Pattern PrepareGlobal(Warp& w, const Inst& i, uint32_t mask,
                                      uint32_t base_slot, uint64_t* at) {
  const uint64_t* base = Lanes<uint64_t>(w, base_slot);
  const uint64_t offset = static_cast<uint64_t>(i.imm);
  const uint32_t first_lane = FirstLane(mask);
  const uint64_t first = base[first_lane] + offset;
  if (mask == kAllLanes) {
    uint64_t not_unit = 0;
    uint64_t not_same = 0;
    SOFTCUDA_LANES {
      const uint64_t address = base[l] + offset;
      at[l] = address;
      not_unit |= address ^ (first + l * kBytes);
      not_same |= address ^ first;
    }
    const bool aligned = first % kBytes == 0;
    if (not_unit == 0 && aligned &&
        IsPlain(w, first, first + kLanes * kBytes, kWrite)) {
      return Pattern::kUnit;
    }
    if (not_same == 0 && aligned && IsPlain(w, first, first + kBytes, kWrite)) {
      return Pattern::kUniform;
    }
  } else {
    SOFTCUDA_LANES { at[l] = (mask >> l & 1) != 0 ? base[l] + offset : first; }
  }
  uint64_t low = first;
  uint64_t high = first;
  uint64_t misaligned = 0;
  for (uint32_t l = 0; l < kLanes; ++l) {
    low = at[l] < low ? at[l] : low;
    high = at[l] > high ? at[l] : high;
    misaligned |= at[l];
  }
  if (misaligned % kBytes == 0 && high + kBytes > high &&
      IsPlain(w, low, high + kBytes, kWrite)) {
    return Pattern::kGather;
  }
  return CheckGlobalLanes(w, i, mask, at, kBytes,
                          kWrite ? AccessKind::kWrite : AccessKind::kRead)
             ? Pattern::kGather
             : Pattern::kFault;
}

/// The same in a window of `size` bytes that starts at 0. An access to shared
/// memory that does not fit is checked, and noted, out of line.
template <uint64_t kBytes, bool kWrite = false>
SOFTCUDA_INLINE Pattern PrepareWindow(Warp& w, const Inst& i, uint32_t mask,
                                      uint32_t base_slot, uint64_t size,
                                      FaultKind fault, uint32_t* at) {
  const uint32_t* base = Lanes<uint32_t>(w, base_slot);
  const uint32_t offset = static_cast<uint32_t>(i.imm);
  const uint32_t first = base[FirstLane(mask)] + offset;
  uint32_t not_unit = 0;
  uint32_t not_same = 0;
  uint32_t high = 0;
  uint32_t misaligned = 0;
  if (mask == kAllLanes) {
    SOFTCUDA_LANES {
      const uint32_t address = base[l] + offset;
      at[l] = address;
      not_unit |= address ^ (first + l * static_cast<uint32_t>(kBytes));
      not_same |= address ^ first;
      high = address > high ? address : high;
      misaligned |= address;
    }
  } else {
    SOFTCUDA_LANES {
      const uint32_t address = (mask >> l & 1) != 0 ? base[l] + offset : first;
      at[l] = address;
      high = address > high ? address : high;
      misaligned |= address;
    }
    not_unit = 1;
    not_same = 1;
  }
  if (misaligned % kBytes == 0 && high + kBytes <= size) {
    return not_unit == 0   ? Pattern::kUnit
           : not_same == 0 ? Pattern::kUniform
                           : Pattern::kGather;
  }
  if (fault == FaultKind::kShared) {
    return CheckSharedLanes(w, i, mask, at, kBytes,
                            kWrite ? AccessKind::kWrite : AccessKind::kRead)
               ? Pattern::kGather
               : Pattern::kFault;
  }
  for (uint32_t l = 0; l < kLanes; ++l) {
    if ((mask >> l & 1) == 0) continue;
    if (at[l] + kBytes > size) {
      Fault(w, i, fault, l, at[l], kBytes);
      return Pattern::kFault;
    }
    if (at[l] % kBytes != 0) {
      Fault(w, i, FaultKind::kMisalignedShared, l, at[l], kBytes);
      return Pattern::kFault;
    }
  }
  return Pattern::kGather;
}

template <class M>
SOFTCUDA_INLINE M ReadAs(const std::byte* from) {
  M value;
  std::memcpy(&value, from, sizeof(M));
  return value;
}
template <class M>
SOFTCUDA_INLINE void WriteAs(std::byte* to, M value) {
  std::memcpy(to, &value, sizeof(M));
}

/// The registers of a vector operand, or of one that is no vector.
template <class R, uint32_t N>
struct Registers {
  R* lane[N];
  SOFTCUDA_INLINE Registers(const Warp& w, const Inst& i, uint32_t field) {
    for (uint32_t k = 0; k < N; ++k) {
      lane[k] = Lanes<R>(w, N == 1 ? field : i.ext[field + k]);
    }
  }
};

/// Reads N values of type M for each active lane. `pointer(l)` gives a lane's
/// address; for kUnit lane 0's is the start of all.
template <class M, class R, uint32_t N, class Pointer>
SOFTCUDA_INLINE void ReadLanes(Pattern pattern, const Registers<R, N>& to,
                               uint32_t mask, Pointer pointer) {
  constexpr size_t kBytes = sizeof(M) * N;
  if (pattern == Pattern::kUnit) {
    const std::byte* from = pointer(0);
    for (uint32_t k = 0; k < N; ++k) {
      R* lane = to.lane[k];
      SOFTCUDA_LANES {
        lane[l] = static_cast<R>(ReadAs<M>(from + l * kBytes + k * sizeof(M)));
      }
    }
  } else if (pattern == Pattern::kUniform) {
    const std::byte* from = pointer(0);
    for (uint32_t k = 0; k < N; ++k) {
      const R value = static_cast<R>(ReadAs<M>(from + k * sizeof(M)));
      R* lane = to.lane[k];
      SOFTCUDA_LANES lane[l] = value;
    }
  } else if (mask == kAllLanes) {
    for (uint32_t l = 0; l < kLanes; ++l) {
      const std::byte* from = pointer(l);
      for (uint32_t k = 0; k < N; ++k) {
        to.lane[k][l] = static_cast<R>(ReadAs<M>(from + k * sizeof(M)));
      }
    }
  } else {
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
      const uint32_t l = FirstLane(rest);
      const std::byte* from = pointer(l);
      for (uint32_t k = 0; k < N; ++k) {
        to.lane[k][l] = static_cast<R>(ReadAs<M>(from + k * sizeof(M)));
      }
    }
  }
}

template <class M, class R, uint32_t N, class Pointer>
SOFTCUDA_INLINE void WriteLanes(Pattern pattern, const Registers<R, N>& from,
                                uint32_t mask, Pointer pointer) {
  constexpr size_t kBytes = sizeof(M) * N;
  if (pattern == Pattern::kUnit) {
    std::byte* to = pointer(0);
    if constexpr (N == 1) {
      const R* lane = from.lane[0];
      SOFTCUDA_LANES WriteAs<M>(to + l * kBytes, static_cast<M>(lane[l]));
    } else {
      for (uint32_t l = 0; l < kLanes; ++l) {
        for (uint32_t k = 0; k < N; ++k) {
          WriteAs<M>(to + l * kBytes + k * sizeof(M),
                     static_cast<M>(from.lane[k][l]));
        }
      }
    }
    return;
  }
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const uint32_t l = FirstLane(rest);
    std::byte* to = pointer(l);
    for (uint32_t k = 0; k < N; ++k) {
      WriteAs<M>(to + k * sizeof(M), static_cast<M>(from.lane[k][l]));
    }
  }
}

SOFTCUDA_INLINE std::byte* HostPointer(uint64_t address) {
  return reinterpret_cast<std::byte*>(address);
}

}  // namespace softcuda::exec::SOFTCUDA_ISA

#endif  // SOFTCUDA_EXEC_OPS_MEMORY_H_
