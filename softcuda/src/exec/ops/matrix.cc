// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// mma.sync, ldmatrix, stmatrix. Products are exact and summed in float, k by k;
// a device sums in another order and width, so results agree to a tolerance.
#include <type_traits>

#include "exec/ops/lanes.h"
#include "exec/ops/memory.h"
#include "exec/ops/numbers.h"
#include "exec/ops/registration.h"

namespace softcuda::exec::SOFTCUDA_ISA {
namespace {

constexpr uint32_t kRows = 16;
constexpr uint32_t kColumns = 8;

struct F16 {
  static constexpr uint32_t kPerRegister = 2;
  using Value = float;
  static SOFTCUDA_INLINE float Load(uint32_t r, uint32_t e) {
    return HalfToFloat(static_cast<uint16_t>(r >> (16 * e)));
  }
};
struct Bf16 {
  static constexpr uint32_t kPerRegister = 2;
  using Value = float;
  static SOFTCUDA_INLINE float Load(uint32_t r, uint32_t e) {
    return BfloatToFloat(static_cast<uint16_t>(r >> (16 * e)));
  }
};
struct Tf32 {
  static constexpr uint32_t kPerRegister = 1;
  using Value = float;
  static SOFTCUDA_INLINE float Load(uint32_t r, uint32_t) {
    return F32(r & ~0x1fffU);
  }
};
struct E4m3 {
  static constexpr uint32_t kPerRegister = 4;
  using Value = float;
  static SOFTCUDA_INLINE float Load(uint32_t r, uint32_t e) {
    return E4m3ToFloat(static_cast<uint8_t>(r >> (8 * e)));
  }
};
struct E5m2 {
  static constexpr uint32_t kPerRegister = 4;
  using Value = float;
  static SOFTCUDA_INLINE float Load(uint32_t r, uint32_t e) {
    return HalfToFloat(E5m2ToHalf(static_cast<uint8_t>(r >> (8 * e))));
  }
};
template <class Byte>
struct Int8 {
  static constexpr uint32_t kPerRegister = 4;
  using Value = int32_t;
  static SOFTCUDA_INLINE int32_t Load(uint32_t r, uint32_t e) {
    return static_cast<Byte>(r >> (8 * e));
  }
};

// Accumulators: 32-bit, two columns in two registers, or f16 pairs.
struct Words {
  static constexpr uint32_t kRegisters = 4;
};
struct HalfPairs {
  static constexpr uint32_t kRegisters = 2;
};

// Lane 4g + t holds rows g and g + 8 of A and of the sums, and column g of B.
template <class A, class B, class Sum, uint32_t kDepth>
const Inst* Multiply(Warp& w, const Inst& i, uint32_t mask) {
  if (mask == 0) return &i + 1;
  if (mask != kAllLanes) {
    return Fault(w, i, FaultKind::kDiverged, FirstLane(mask), mask, 0);
  }
  using Value = typename A::Value;
  constexpr uint32_t kPer = A::kPerRegister;
  constexpr uint32_t kRegistersB = kDepth / (4 * kPer);
  alignas(64) Value a[kRows][kDepth];
  alignas(64) Value b[kDepth][kColumns];
  alignas(64) Value sum[kRows][kColumns];
  for (uint32_t r = 0; r < 2 * kRegistersB; ++r) {
    const uint32_t* lanes = Lanes<uint32_t>(w, i.ext[i.a + r]);
    for (uint32_t l = 0; l < kLanes; ++l) {
      for (uint32_t e = 0; e < kPer; ++e) {
        a[l / 4 + 8 * (r & 1)][(l % 4) * kPer + e + 4 * kPer * (r / 2)] =
            A::Load(lanes[l], e);
      }
    }
  }
  for (uint32_t r = 0; r < kRegistersB; ++r) {
    const uint32_t* lanes = Lanes<uint32_t>(w, i.ext[i.b + r]);
    for (uint32_t l = 0; l < kLanes; ++l) {
      for (uint32_t e = 0; e < kPer; ++e) {
        b[(l % 4) * kPer + e + 4 * kPer * r][l / 4] = B::Load(lanes[l], e);
      }
    }
  }
  for (uint32_t r = 0; r < 4; ++r) {
    for (uint32_t l = 0; l < kLanes; ++l) {
      Value& at = sum[l / 4 + 8 * (r / 2)][(l % 4) * 2 + (r & 1)];
      if constexpr (std::is_same_v<Sum, Words>) {
        at = BitCast<Value>(Lanes<uint32_t>(w, i.ext[i.c + r])[l]);
      } else {
        const uint32_t pair = Lanes<uint32_t>(w, i.ext[i.c + r / 2])[l];
        at = HalfToFloat(static_cast<uint16_t>(pair >> (16 * (r & 1))));
      }
    }
  }
  for (uint32_t m = 0; m < kRows; ++m) {
    for (uint32_t k = 0; k < kDepth; ++k) {
      const Value x = a[m][k];
      for (uint32_t n = 0; n < kColumns; ++n) {
        if constexpr (std::is_same_v<Value, float>) {
          sum[m][n] += x * b[k][n];
        } else {
          sum[m][n] = static_cast<int32_t>(static_cast<uint32_t>(sum[m][n]) +
                                           static_cast<uint32_t>(x) *
                                               static_cast<uint32_t>(b[k][n]));
        }
      }
    }
  }
  for (uint32_t r = 0; r < Sum::kRegisters; ++r) {
    uint32_t* lanes = Lanes<uint32_t>(w, i.ext[i.dst + r]);
    for (uint32_t l = 0; l < kLanes; ++l) {
      if constexpr (std::is_same_v<Sum, Words>) {
        lanes[l] =
            BitCast<uint32_t>(sum[l / 4 + 8 * (r / 2)][(l % 4) * 2 + (r & 1)]);
      } else {
        const Value* row = &sum[l / 4 + 8 * r][(l % 4) * 2];
        lanes[l] = static_cast<uint32_t>(FloatToHalf(row[0])) |
                   static_cast<uint32_t>(FloatToHalf(row[1])) << 16;
      }
    }
  }
  return &i + 1;
}

// Lane 8m + r gives the address of row r of matrix m; lane 4r + c gets or gives
// columns 2c and 2c + 1 of row r of each.
template <uint32_t N, bool kTranspose, bool kLoad>
const Inst* MoveMatrix(Warp& w, const Inst& i, uint32_t mask) {
  if (mask == 0) return &i + 1;
  if (mask != kAllLanes) {
    return Fault(w, i, FaultKind::kDiverged, FirstLane(mask), mask, 0);
  }
  const uint32_t* base = Lanes<uint32_t>(w, kLoad ? i.a : i.dst);
  std::byte* rows[8 * N];
  for (uint32_t l = 0; l < 8 * N; ++l) {
    rows[l] = SharedPointer(w, i, l, base[l] + static_cast<uint32_t>(i.imm), 16,
                            kLoad ? AccessKind::kRead : AccessKind::kWrite);
    if (rows[l] == nullptr) return nullptr;
  }
  for (uint32_t m = 0; m < N; ++m) {
    uint32_t* lanes = Lanes<uint32_t>(w, i.ext[(kLoad ? i.dst : i.a) + m]);
    for (uint32_t l = 0; l < kLanes; ++l) {
      uint16_t part[2];
      for (uint32_t e = 0; e < 2; ++e) {
        const uint32_t row = kTranspose ? (l % 4) * 2 + e : l / 4;
        const uint32_t column = kTranspose ? l / 4 : (l % 4) * 2 + e;
        std::byte* at = rows[8 * m + row] + 2 * column;
        if constexpr (kLoad) {
          part[e] = ReadAs<uint16_t>(at);
        } else {
          WriteAs(at, static_cast<uint16_t>(lanes[l] >> (16 * e)));
        }
      }
      if constexpr (kLoad) {
        lanes[l] = part[0] | static_cast<uint32_t>(part[1]) << 16;
      }
    }
  }
  return &i + 1;
}

template <uint32_t N>
void AddMoves(FormTable& t, const char* count, const char* load,
              const char* store) {
  t.AddParts({"ldmatrix.sync.aligned.m8n8", count, ".shared.b16"},
             MoveMatrix<N, false, true>, load);
  t.AddParts({"ldmatrix.sync.aligned.m8n8", count, ".trans.shared.b16"},
             MoveMatrix<N, true, true>, load);
  t.AddParts({"stmatrix.sync.aligned.m8n8", count, ".shared.b16"},
             MoveMatrix<N, false, false>, store);
  t.AddParts({"stmatrix.sync.aligned.m8n8", count, ".trans.shared.b16"},
             MoveMatrix<N, true, false>, store);
}

}  // namespace

void AddMatrixForms(FormTable& t) {
  const char* deep = "=4r 4r 2r 4r";
  const char* flat = "=4r 2r 1r 4r";
#define SOFTCUDA_MMA(shape, depth, A, a, B, b, operands)          \
  t.Add("mma.sync.aligned." shape ".row.col.f32." a "." b ".f32", \
        Multiply<A, B, Words, depth>, operands)
  SOFTCUDA_MMA("m16n8k16", 16, F16, "f16", F16, "f16", deep);
  SOFTCUDA_MMA("m16n8k16", 16, Bf16, "bf16", Bf16, "bf16", deep);
  SOFTCUDA_MMA("m16n8k8", 8, F16, "f16", F16, "f16", flat);
  SOFTCUDA_MMA("m16n8k8", 8, Bf16, "bf16", Bf16, "bf16", flat);
  SOFTCUDA_MMA("m16n8k8", 8, Tf32, "tf32", Tf32, "tf32", deep);
  SOFTCUDA_MMA("m16n8k4", 4, Tf32, "tf32", Tf32, "tf32", flat);
  SOFTCUDA_MMA("m16n8k32", 32, E4m3, "e4m3", E4m3, "e4m3", deep);
  SOFTCUDA_MMA("m16n8k32", 32, E4m3, "e4m3", E5m2, "e5m2", deep);
  SOFTCUDA_MMA("m16n8k32", 32, E5m2, "e5m2", E4m3, "e4m3", deep);
  SOFTCUDA_MMA("m16n8k32", 32, E5m2, "e5m2", E5m2, "e5m2", deep);
#undef SOFTCUDA_MMA
  t.Add("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16",
        Multiply<F16, F16, HalfPairs, 16>, "=2r 4r 2r 2r");
  t.Add("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16",
        Multiply<F16, F16, HalfPairs, 8>, "=2r 2r 1r 2r");
#define SOFTCUDA_MMA(A, a, B, b)                                 \
  t.Add("mma.sync.aligned.m16n8k32.row.col.s32." a "." b ".s32", \
        Multiply<Int8<A>, Int8<B>, Words, 32>, deep);            \
  t.Add("mma.sync.aligned.m16n8k16.row.col.s32." a "." b ".s32", \
        Multiply<Int8<A>, Int8<B>, Words, 16>, flat)
  SOFTCUDA_MMA(int8_t, "s8", int8_t, "s8");
  SOFTCUDA_MMA(int8_t, "s8", uint8_t, "u8");
  SOFTCUDA_MMA(uint8_t, "u8", int8_t, "s8");
  SOFTCUDA_MMA(uint8_t, "u8", uint8_t, "u8");
#undef SOFTCUDA_MMA
  AddMoves<1>(t, ".x1", "=1r m32", "m32 1r");
  AddMoves<2>(t, ".x2", "=2r m32", "m32 2r");
  AddMoves<4>(t, ".x4", "=4r m32", "m32 4r");
}

}  // namespace softcuda::exec::SOFTCUDA_ISA
