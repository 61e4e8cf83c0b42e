// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// atom and red. Lanes of a warp go in lane order; global atomics are atomic
// among host threads, while a block and so its shared memory has only one.
#include <type_traits>

#include "exec/ops/lanes.h"
#include "exec/ops/memory.h"
#include "exec/ops/numbers.h"
#include "exec/ops/registration.h"

namespace softcuda::exec::SOFTCUDA_ISA {
namespace {

struct Add {
  template <class T>
  static SOFTCUDA_INLINE T Do(T old, T value) {
    return static_cast<T>(old + value);
  }
};
struct Min {
  template <class T>
  static SOFTCUDA_INLINE T Do(T old, T value) {
    return value < old ? value : old;
  }
};
struct Max {
  template <class T>
  static SOFTCUDA_INLINE T Do(T old, T value) {
    return value > old ? value : old;
  }
};
struct And {
  template <class T>
  static SOFTCUDA_INLINE T Do(T old, T value) {
    return old & value;
  }
};
struct Or {
  template <class T>
  static SOFTCUDA_INLINE T Do(T old, T value) {
    return old | value;
  }
};
struct Xor {
  template <class T>
  static SOFTCUDA_INLINE T Do(T old, T value) {
    return old ^ value;
  }
};
struct Exchange {
  template <class T>
  static SOFTCUDA_INLINE T Do(T, T value) {
    return value;
  }
};
struct Increment {
  static SOFTCUDA_INLINE uint32_t Do(uint32_t old, uint32_t limit) {
    return old >= limit ? 0 : old + 1;
  }
};
struct Decrement {
  static SOFTCUDA_INLINE uint32_t Do(uint32_t old, uint32_t limit) {
    return old == 0 || old > limit ? limit : old - 1;
  }
};
struct AddF32 {
  static SOFTCUDA_INLINE uint32_t Do(uint32_t old, uint32_t value) {
    return Bits(Canonical(F32(old) + F32(value)));
  }
};
struct AddF64 {
  static SOFTCUDA_INLINE uint64_t Do(uint64_t old, uint64_t value) {
    return BitCast<uint64_t>(BitCast<double>(old) + BitCast<double>(value));
  }
};
struct AddF16 {
  static SOFTCUDA_INLINE uint16_t Do(uint16_t old, uint16_t value) {
    return FloatToHalf(HalfToFloat(old) + HalfToFloat(value));
  }
};
struct AddBf16 {
  static SOFTCUDA_INLINE uint16_t Do(uint16_t old, uint16_t value) {
    return FloatToBfloat(BfloatToFloat(old) + BfloatToFloat(value));
  }
};
template <class Op>
struct Both {
  static SOFTCUDA_INLINE uint32_t Do(uint32_t old, uint32_t value) {
    const uint32_t low =
        Op::Do(static_cast<uint16_t>(old), static_cast<uint16_t>(value));
    const uint32_t high = Op::Do(static_cast<uint16_t>(old >> 16),
                                 static_cast<uint16_t>(value >> 16));
    return low | high << 16;
  }
};

template <class Op, class T>
SOFTCUDA_INLINE T UpdateAtomically(T* at, T value) {
  if constexpr (std::is_same_v<Op, Add>) {
    return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);
  } else if constexpr (std::is_same_v<Op, Exchange>) {
    return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);
  } else {
    T old = __atomic_load_n(at, __ATOMIC_SEQ_CST);
    while (!__atomic_compare_exchange_n(at, &old, Op::Do(old, value), false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
    return old;
  }
}

enum class Where { kGlobal, kShared, kGeneric };

template <Where kWhere>
SOFTCUDA_INLINE std::byte* Pointer(Warp& w, const Inst& i, uint32_t lane,
                                   uint32_t base_slot, uint64_t bytes) {
  if constexpr (kWhere == Where::kShared) {
    const uint32_t address =
        Lanes<uint32_t>(w, base_slot)[lane] + static_cast<uint32_t>(i.imm);
    if (address % bytes == 0 && address + bytes <= w.shared_plain_bytes) {
      return w.shared + address;
    }
    return SharedPointer(w, i, lane, address, bytes, AccessKind::kAtomic);
  } else {
    const uint64_t address =
        Lanes<uint64_t>(w, base_slot)[lane] + static_cast<uint64_t>(i.imm);
    const Span* span = FindSpan(w, address, address + bytes);
    if (span != nullptr && span->writable && span->plain &&
        address % bytes == 0) {
      return HostPointer(address);
    }
    if constexpr (kWhere == Where::kGeneric) {
      if (address >> kWindowShift != 0) {
        return GenericPointer(w, i, lane, address, bytes, AccessKind::kAtomic);
      }
    }
    uint64_t at[kLanes];
    at[lane] = address;
    if (!CheckGlobalLanes(w, i, 1U << lane, at, bytes, AccessKind::kAtomic)) {
      return nullptr;
    }
    return HostPointer(address);
  }
}

template <class Op, class T, Where kWhere, bool kReturns>
SOFTCUDA_DEVICE_MEMORY const Inst* Atomic(Warp& w, const Inst& i,
                                          uint32_t mask) {
  const uint32_t base = kReturns ? i.a : i.dst;
  const T* value = Lanes<T>(w, kReturns ? i.b : i.a);
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const uint32_t l = FirstLane(rest);
    T* at = reinterpret_cast<T*>(Pointer<kWhere>(w, i, l, base, sizeof(T)));
    if (at == nullptr) return nullptr;
    T old;
    if constexpr (kWhere == Where::kShared) {
      old = *at;
      *at = Op::Do(old, value[l]);
    } else {
      old = UpdateAtomically<Op>(at, value[l]);
    }
    if constexpr (kReturns) Lanes<T>(w, i.dst)[l] = old;
  }
  return &i + 1;
}

template <class T, Where kWhere>
SOFTCUDA_DEVICE_MEMORY const Inst* CompareAndSwap(Warp& w, const Inst& i,
                                                  uint32_t mask) {
  const T* expected = Lanes<T>(w, i.b);
  const T* desired = Lanes<T>(w, i.c);
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const uint32_t l = FirstLane(rest);
    T* at = reinterpret_cast<T*>(Pointer<kWhere>(w, i, l, i.a, sizeof(T)));
    if (at == nullptr) return nullptr;
    T old = expected[l];
    if constexpr (kWhere == Where::kShared) {
      old = *at;
      if (old == expected[l]) *at = desired[l];
    } else {
      __atomic_compare_exchange_n(at, &old, desired[l], false, __ATOMIC_SEQ_CST,
                                  __ATOMIC_SEQ_CST);
    }
    Lanes<T>(w, i.dst)[l] = old;
  }
  return &i + 1;
}

template <class Op, class T>
void AddOp(FormTable& t, const char* op, const char* type, const char* r,
           bool has_red = true) {
  const bool is_h = r[0] == 'h';
  const bool is_r = r[0] == 'r';
  const char* atom64 = is_h ? "=h m64 h" : is_r ? "=r m64 r" : "=l m64 l";
  const char* atom32 = is_h ? "=h m32 h" : is_r ? "=r m32 r" : "=l m32 l";
  const char* red64 = is_h ? "m64 h" : is_r ? "m64 r" : "m64 l";
  const char* red32 = is_h ? "m32 h" : is_r ? "m32 r" : "m32 l";
  t.AddParts({"atom.global.", op, type}, Atomic<Op, T, Where::kGlobal, true>,
             atom64);
  t.AddParts({"atom.shared.", op, type}, Atomic<Op, T, Where::kShared, true>,
             atom32);
  t.AddParts({"atom.", op, type}, Atomic<Op, T, Where::kGeneric, true>, atom64);
  if (!has_red) return;
  t.AddParts({"red.global.", op, type}, Atomic<Op, T, Where::kGlobal, false>,
             red64);
  t.AddParts({"red.shared.", op, type}, Atomic<Op, T, Where::kShared, false>,
             red32);
  t.AddParts({"red.", op, type}, Atomic<Op, T, Where::kGeneric, false>, red64);
}

template <class T>
void AddCas(FormTable& t, const char* type, const char* wide,
            const char* narrow) {
  t.Add("atom.global.cas", type, CompareAndSwap<T, Where::kGlobal>, wide, "");
  t.Add("atom.shared.cas", type, CompareAndSwap<T, Where::kShared>, narrow, "");
  t.Add("atom.cas", type, CompareAndSwap<T, Where::kGeneric>, wide, "");
}

}  // namespace

void AddAtomicForms(FormTable& t) {
  using U32 = uint32_t;
  using S32 = int32_t;
  using U64 = uint64_t;
  using S64 = int64_t;
  AddOp<Add, U32>(t, "add", ".u32", "r");
  AddOp<Add, U32>(t, "add", ".s32", "r");
  AddOp<Add, U64>(t, "add", ".u64", "l");
  AddOp<Add, U64>(t, "add", ".s64", "l");
  AddOp<AddF32, U32>(t, "add", ".f32", "r");
  AddOp<AddF32, U32>(t, "add", ".ftz.f32", "r");
  AddOp<AddF64, U64>(t, "add", ".f64", "l");
  AddOp<AddF16, uint16_t>(t, "add", ".noftz.f16", "h");
  AddOp<AddBf16, uint16_t>(t, "add", ".noftz.bf16", "h");
  AddOp<Both<AddF16>, U32>(t, "add", ".noftz.f16x2", "r");
  AddOp<Both<AddBf16>, U32>(t, "add", ".noftz.bf16x2", "r");
  AddOp<Min, U32>(t, "min", ".u32", "r");
  AddOp<Min, S32>(t, "min", ".s32", "r");
  AddOp<Min, U64>(t, "min", ".u64", "l");
  AddOp<Min, S64>(t, "min", ".s64", "l");
  AddOp<Max, U32>(t, "max", ".u32", "r");
  AddOp<Max, S32>(t, "max", ".s32", "r");
  AddOp<Max, U64>(t, "max", ".u64", "l");
  AddOp<Max, S64>(t, "max", ".s64", "l");
  AddOp<And, U32>(t, "and", ".b32", "r");
  AddOp<And, U64>(t, "and", ".b64", "l");
  AddOp<Or, U32>(t, "or", ".b32", "r");
  AddOp<Or, U64>(t, "or", ".b64", "l");
  AddOp<Xor, U32>(t, "xor", ".b32", "r");
  AddOp<Xor, U64>(t, "xor", ".b64", "l");
  AddOp<Increment, U32>(t, "inc", ".u32", "r");
  AddOp<Decrement, U32>(t, "dec", ".u32", "r");
  AddOp<Exchange, U32>(t, "exch", ".b32", "r", false);
  AddOp<Exchange, U64>(t, "exch", ".b64", "l", false);
  AddCas<uint16_t>(t, ".b16", "=h m64 h h", "=h m32 h h");
  AddCas<U32>(t, ".b32", "=r m64 r r", "=r m32 r r");
  AddCas<U64>(t, ".b64", "=l m64 l l", "=l m32 l l");
}

}  // namespace softcuda::exec::SOFTCUDA_ISA
