// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "exec_test_support.h"

namespace softcuda::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr const char* kPrologue = R"(
  .visible .entry k(.param .u64 in, .param .u64 out, .param .u32 stride) {
    .reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .b32 %t, %s;
    .reg .b64 %i, %o, %w, %l<8>; .reg .f32 %f<8>;
    ld.param.u64 %i, [in]; ld.param.u64 %o, [out]; ld.param.u32 %s, [stride];
    mov.u32 %t, %tid.x;
)";

struct MemoryType {
  std::string name;
  unsigned bytes;
  std::string register_type;
  std::string registers;  // prefix
};

const MemoryType kTypes[] = {
    {"u8", 1, "b16", "%h"},  {"b16", 2, "b16", "%h"}, {"u32", 4, "b32", "%r"},
    {"f32", 4, "f32", "%f"}, {"b64", 8, "b64", "%l"},
};

std::vector<uint8_t> Bytes(size_t count) {
  std::vector<uint8_t> bytes(count);
  for (size_t k = 0; k < count; ++k) {
    bytes[k] = static_cast<uint8_t>(k * 131 + k / 256 + 7);
  }
  return bytes;
}

// Copies one vector a thread from in[tid * stride] to out[tid * size], by way
// of registers, under a guard that lets `active` threads through.
void CheckCopy(const MemoryType& type, unsigned count, uint32_t stride,
               uint32_t active, const std::string& hints) {
  const std::string vector = count == 1 ? "" : ".v" + std::to_string(count);
  std::string registers;
  for (unsigned k = 1; k <= count; ++k) {
    registers += (k > 1 ? ", " : "") + type.registers + std::to_string(k);
  }
  if (count > 1) registers = "{" + registers + "}";
  const unsigned bytes = type.bytes * count;
  const std::string text = std::string(kPrologue) + "setp.lt.u32 %p1, %t, " +
                           std::to_string(active) + ";\n" +
                           "mul.wide.u32 %w, %t, %s; add.u64 %i, %i, %w;\n"
                           "mul.wide.u32 %w, %t, " +
                           std::to_string(bytes) +
                           "; add.u64 %o, %o, %w;\n"
                           "@%p1 ld.global" +
                           hints + vector + "." + type.name + " " + registers +
                           ", [%i];\n@%p1 st.global" + vector + "." +
                           type.name + " [%o], " + registers + ";\nret;\n}\n";
  Loaded loaded(Ptx(text));
  ASSERT_TRUE(loaded) << loaded.error().message;
  const auto source = Bytes(64 * 64);
  DeviceMemory in(source);
  DeviceMemory out(std::vector<uint8_t>(64 * bytes, 0xEE));
  ASSERT_EQ(loaded.Run("k", {.block = {64, 1, 1}}, in.address(), out.address(),
                       stride),
            CUDA_SUCCESS)
      << loaded.TakeReports();
  const auto result = out.Read<uint8_t>();
  for (uint32_t t = 0; t < 64; ++t) {
    for (unsigned b = 0; b < bytes; ++b) {
      const uint8_t expected = t < active ? source[t * stride + b] : 0xEE;
      ASSERT_EQ(result[t * bytes + b], expected)
          << type.name << " x" << count << " stride " << stride << " active "
          << active << " thread " << t << " byte " << b;
    }
  }
}

TEST(MemoryOpsTest, CopiesOfAllTypesPatternsAndMasks) {
  for (const MemoryType& type : kTypes) {
    for (const unsigned count : {1u, 2u, 4u}) {
      if (type.bytes * count > 16) continue;
      const unsigned bytes = type.bytes * count;
      for (const uint32_t stride : {0u, bytes, 2 * bytes, 3 * bytes}) {
        for (const uint32_t active : {64u, 33u, 5u, 0u}) {
          ASSERT_NO_FATAL_FAILURE(CheckCopy(type, count, stride, active, ""));
        }
      }
    }
  }
}

TEST(MemoryOpsTest, HintsAndOrderingsChangeNothing) {
  for (const char* hints : {".nc", ".ca", ".cg", ".L1::no_allocate",
                            ".nc.L1::evict_last", ".L2::128B"}) {
    ASSERT_NO_FATAL_FAILURE(CheckCopy(kTypes[2], 4, 16, 64, hints)) << hints;
  }
  Loaded loaded(Ptx(std::string(kPrologue) + R"(
    mul.wide.u32 %w, %t, 4; add.u64 %i, %i, %w; add.u64 %o, %o, %w;
    ld.relaxed.gpu.global.u32 %r1, [%i];
    ld.acquire.sys.global.u32 %r2, [%i];
    ld.volatile.global.u32 %r3, [%i];
    add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3;
    st.release.gpu.global.u32 [%o], %r1;
    fence.acq_rel.gpu; membar.gl;
    prefetch.global.L2 [%i];
    ret; })"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  DeviceMemory in(std::vector<uint32_t>(32, 5));
  DeviceMemory out(32 * 4);
  ASSERT_EQ(loaded.Run("k", {}, in.address(), out.address(), 0u), CUDA_SUCCESS);
  EXPECT_THAT(out.Read<uint32_t>(), Each(15u));
}

TEST(MemoryOpsTest, WiderAndNarrowerRegistersThanTheAccess) {
  Loaded loaded(Ptx(std::string(kPrologue) + R"(
    .reg .b64 %big;
    mul.wide.u32 %w, %t, 8; add.u64 %i, %i, %w; add.u64 %o, %o, %w;
    ld.global.s8 %r1, [%i];        // sign goes through all 32 bits
    ld.global.u8 %big, [%i+1];
    ld.global.s16 %l1, [%i+2];
    st.global.u16 [%o], %r1;
    st.global.u8 [%o+2], %big;
    st.global.u32 [%o+4], %l1;
    ret; })"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  const auto source = Bytes(32 * 8);
  DeviceMemory in(source);
  DeviceMemory out(std::vector<uint8_t>(32 * 8, 0));
  ASSERT_EQ(loaded.Run("k", {}, in.address(), out.address(), 0u), CUDA_SUCCESS);
  const auto result = out.Read<uint8_t>();
  for (uint32_t t = 0; t < 32; ++t) {
    const uint8_t* from = &source[8 * t];
    const auto sign8 = static_cast<uint16_t>(static_cast<int8_t>(from[0]));
    const auto sign16 =
        static_cast<uint32_t>(static_cast<int16_t>(from[2] | from[3] << 8));
    uint16_t half;
    uint32_t word;
    std::memcpy(&half, &result[8 * t], 2);
    std::memcpy(&word, &result[8 * t + 4], 4);
    EXPECT_EQ(half, sign8);
    EXPECT_EQ(result[8 * t + 2], from[1]);
    EXPECT_EQ(word, sign16);
  }
}

TEST(MemoryOpsTest, SharedStaticAndDynamicArraysDoNotOverlap) {
  Loaded loaded(Ptx(std::string(".extern .shared .align 16 .b8 dynamic[];\n"
                                ".shared .align 4 .b8 module_array[100];\n") +
                    kPrologue + R"(
    .shared .align 8 .b8 first[24];
    mov.u32 %r1, first; mov.u32 %r2, module_array; mov.u32 %r3, dynamic;
    mov.u32 %r4, %dynamic_smem_size; mov.u32 %r5, %total_smem_size;
    st.shared.u32 [module_array+96], 1; st.shared.u32 [first+20], 2;
    st.shared.u32 [dynamic], 3;
    ld.shared.u32 %r6, [module_array+96];
    ld.shared.u32 %r7, [%r1+20];
    setp.ne.u32 %p1, %t, 0;
    @%p1 ret;
    st.global.v4.u32 [%o], {%r1, %r2, %r3, %r4};
    st.global.v4.u32 [%o+16], {%r5, %r6, %r7, %r7};
    ret; })"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded.module().Find("k")->static_shared_bytes(), 128u);
  DeviceMemory out(32);
  ASSERT_EQ(loaded.Run("k", {.dynamic_shared_bytes = 64}, uint64_t{0},
                       out.address(), 0u),
            CUDA_SUCCESS)
      << loaded.TakeReports();
  EXPECT_THAT(out.Read<uint32_t>(),
              ::testing::ElementsAre(0, 24, 128, 64, 192, 1, 2, 2));
}

TEST(MemoryOpsTest, LocalArraysBelongToTheirThread) {
  Loaded loaded(Ptx(std::string(kPrologue) + R"(
    .local .align 16 .b8 depot[64];
    .reg .b64 %SP, %SPL;
    mov.u64 %SPL, depot;
    cvta.local.u64 %SP, %SPL;
    mul.wide.u32 %w, %t, 4; add.u64 %o, %o, %w;
    mov.u32 %r1, 0;
    FILL:
    mul.wide.u32 %l1, %r1, 4; add.u64 %l1, %SPL, %l1;
    mad.lo.u32 %r2, %t, 100, %r1;
    st.local.u32 [%l1], %r2;
    add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 16;
    @%p1 bra FILL;
    and.b32 %r3, %t, 15; mul.wide.u32 %l1, %r3, 4;
    add.u64 %l2, %SPL, %l1; ld.local.u32 %r4, [%l2];
    add.u64 %l3, %SP, %l1; ld.u32 %r5, [%l3];   // by its generic address
    ld.local.v4.u32 {%r6, %r7, %r8, %r9}, [%SPL+16];
    add.u32 %r4, %r4, %r5; add.u32 %r4, %r4, %r9;
    st.global.u32 [%o], %r4;
    ret; })"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded.module().Find("k")->local_bytes(), 64u);
  DeviceMemory out(64 * 4);
  ASSERT_EQ(
      loaded.Run("k", {.block = {64, 1, 1}}, uint64_t{0}, out.address(), 0u),
      CUDA_SUCCESS)
      << loaded.TakeReports();
  const auto result = out.Read<uint32_t>();
  for (uint32_t t = 0; t < 64; ++t) {
    EXPECT_EQ(result[t], 2 * (100 * t + t % 16) + 100 * t + 7);
  }
}

TEST(MemoryOpsTest, GenericAddressesReachSharedMemory) {
  Loaded loaded(Ptx(std::string(kPrologue) + R"(
    .shared .align 4 .b8 array[128];
    mov.u64 %l1, array; cvta.shared.u64 %l1, %l1;
    isspacep.shared %p1, %l1; isspacep.global %p2, %l1; isspacep.shared %p3, %o;
    mul.wide.u32 %w, %t, 4; add.u64 %l1, %l1, %w; add.u64 %o, %o, %w;
    st.u32 [%l1], %t;
    // Even lanes read shared memory, odd lanes device memory.
    add.u64 %l2, %i, %w;
    and.b32 %r1, %t, 1; setp.eq.u32 %p4, %r1, 0;
    selp.b64 %l3, %l1, %l2, %p4;
    ld.u32 %r2, [%l3];
    cvta.to.shared.u64 %l4, %l1; ld.shared.u32 %r3, [%l4];
    atom.add.u32 %r4, [%l1], 1000;
    ld.shared.u32 %r5, [%l4];
    add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r4; add.u32 %r2, %r2, %r5;
    selp.u32 %r6, 100000, 0, %p1; add.u32 %r2, %r2, %r6;
    selp.u32 %r6, 200000, 0, %p2; add.u32 %r2, %r2, %r6;
    selp.u32 %r6, 400000, 0, %p3; add.u32 %r2, %r2, %r6;
    st.global.u32 [%o], %r2;
    ret; })"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  DeviceMemory in(std::vector<uint32_t>(32, 50));
  DeviceMemory out(32 * 4);
  ASSERT_EQ(loaded.Run("k", {}, in.address(), out.address(), 0u), CUDA_SUCCESS)
      << loaded.TakeReports();
  const auto result = out.Read<uint32_t>();
  for (uint32_t t = 0; t < 32; ++t) {
    EXPECT_EQ(result[t], (t % 2 ? 50 : t) + 3 * t + 1000 + 100000);
  }
}

TEST(MemoryOpsTest, ParametersOfAllShapes) {
  Loaded loaded(Ptx(R"(
    .visible .entry k(.param .u8 a, .param .align 8 .b8 s[24],
                      .param .u64 .ptr .global .align 1 out, .param .f32 f) {
      .reg .b32 %r<8>; .reg .b64 %o, %l; .reg .b16 %h; .reg .f32 %f<3>;
      ld.param.u64 %o, [out];
      ld.param.u8 %h, [a]; cvt.u32.u16 %r1, %h;
      ld.param.u32 %r2, [s+20];
      mov.b64 %l, s; ld.param.v2.u32 {%r3, %r4}, [%l+8];
      ld.param.f32 %f1, [f]; cvt.rzi.u32.f32 %r5, %f1;
      st.global.v4.u32 [%o], {%r1, %r2, %r3, %r5};
      ret; })"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  const auto& params = loaded.module().Find("k")->params();
  ASSERT_EQ(params.size(), 4u);
  EXPECT_EQ(params[1].offset, 8u);
  EXPECT_EQ(params[2].offset, 32u);
  EXPECT_EQ(params[3].offset, 40u);
  EXPECT_EQ(loaded.module().Find("k")->param_bytes(), 44u);
  struct Struct {
    uint32_t words[6];
  };
  DeviceMemory out(16);
  ASSERT_EQ(loaded.Run("k", {}, uint8_t{9}, Struct{{1, 2, 3, 4, 5, 6}},
                       out.address(), 7.5F),
            CUDA_SUCCESS);
  EXPECT_THAT(out.Read<uint32_t>(), ::testing::ElementsAre(9, 6, 3, 7));
}

TEST(MemoryOpsTest, ModuleVariables) {
  Loaded loaded(Ptx(R"(
    .global .align 4 .u32 counter = 41;
    .global .align 8 .b8 bytes[5] = {1, 2, 0xff};
    .const .align 4 .f32 table[2][2] = {{0f3F800000, 2.5}, {-3.0, 4}};
    .global .align 8 .u64 pointers[2] = {counter, generic(bytes)+3};
    .global .align 16 .b8 empty[0];
    .visible .entry k(.param .u64 out) {
      .reg .b32 %r<4>; .reg .b64 %o, %l<4>; .reg .b16 %h; .reg .f32 %f<4>;
      ld.param.u64 %o, [out];
      ld.global.u32 %r1, [counter]; add.u32 %r1, %r1, 1;
      st.global.u32 [counter], %r1;
      ld.global.u64 %l1, [pointers]; ld.global.u32 %r2, [%l1];
      mov.u64 %l2, table; cvta.const.u64 %l2, %l2;
      ld.const.f32 %f1, [table+8]; ld.f32 %f2, [%l2+4];
      st.global.v2.u32 [%o], {%r1, %r2}; st.global.v2.f32 [%o+8], {%f1, %f2};
      ret; })"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  const auto* counter = loaded.module().FindGlobal("counter");
  const auto* bytes = loaded.module().FindGlobal("bytes");
  const auto* pointers = loaded.module().FindGlobal("pointers");
  ASSERT_NE(counter, nullptr);
  ASSERT_NE(bytes, nullptr);
  ASSERT_NE(pointers, nullptr);
  EXPECT_EQ(bytes->bytes, 5u);
  EXPECT_EQ(reinterpret_cast<const uint64_t*>(pointers->address)[1],
            bytes->address + 3);
  EXPECT_EQ(reinterpret_cast<const uint8_t*>(bytes->address)[2], 0xff);
  EXPECT_EQ(reinterpret_cast<const uint8_t*>(bytes->address)[4], 0);
  DeviceMemory out(16);
  ASSERT_EQ(loaded.Run("k", {.block = {1, 1, 1}}, out.address()), CUDA_SUCCESS)
      << loaded.TakeReports();
  EXPECT_EQ(out.as<uint32_t>()[0], 42u);
  EXPECT_EQ(out.as<uint32_t>()[1], 42u);
  EXPECT_EQ(out.as<float>()[2], -3.0F);
  EXPECT_EQ(out.as<float>()[3], 2.5F);
}

TEST(MemoryOpsTest, PackedMoves) {
  Loaded loaded(Ptx(std::string(kPrologue) + R"(
    mul.wide.u32 %w, %t, 8; add.u64 %o, %o, %w;
    mov.u32 %r1, 0x11112222; add.u32 %r1, %r1, %t;
    mov.b32 {%h1, %h2}, %r1;
    mov.b32 %r2, {%h2, %h1};
    mov.b64 %l1, {%r2, %r1};
    mov.b64 {%r3, _}, %l1;
    mov.b64 %l2, {%h1, %h2, %h2, %h1};
    mov.b64 {%h3, %h4, %h5, %h6}, %l2;
    mov.b32 %r4, {%h3, %h6};
    mov.b64 %l3, {%r3, %r4};
    st.global.u64 [%o], %l3;
    ret; })"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  DeviceMemory out(32 * 8);
  ASSERT_EQ(loaded.Run("k", {}, uint64_t{0}, out.address(), 0u), CUDA_SUCCESS);
  const auto result = out.Read<uint64_t>();
  for (uint32_t t = 0; t < 32; ++t) {
    const uint32_t low = 0x2222 + t;
    EXPECT_EQ(result[t], uint64_t{low << 16 | low} << 32 | low << 16 | 0x1111);
  }
}

TEST(MemoryOpsTest, AsyncCopiesLandWhenTheyAreWaitedFor) {
  Loaded loaded(Ptx(std::string(kPrologue) + R"(
    .shared .align 16 .b8 stage[1024];
    mov.u32 %r1, stage; shl.b32 %r2, %t, 4; add.u32 %r1, %r1, %r2;
    mul.wide.u32 %w, %t, 16; add.u64 %i, %i, %w;
    mul.wide.u32 %w, %t, 12; add.u64 %o, %o, %w;
    st.shared.u32 [%r1], 7; st.shared.u32 [%r1+512], 8;
    cp.async.cg.shared.global [%r1], [%i], 16;
    cp.async.commit_group;
    cp.async.ca.shared.global.L2::128B [%r1+512], [%i+4], 4, 2;
    cp.async.commit_group;
    ld.shared.u32 %r3, [%r1];        // too early: the old value
    cp.async.wait_group 1;
    ld.shared.u32 %r4, [%r1+4];
    cp.async.wait_all;
    ld.shared.u32 %r5, [%r1+512];
    st.global.u32 [%o], %r3; st.global.u32 [%o+4], %r4;
    st.global.u32 [%o+8], %r5;
    ret; })"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  std::vector<uint32_t> source(32 * 4);
  for (uint32_t k = 0; k < source.size(); ++k) source[k] = 0x10000 * k + 5;
  DeviceMemory in(source);
  DeviceMemory out(32 * 12);
  ASSERT_EQ(loaded.Run("k", {}, in.address(), out.address(), 0u), CUDA_SUCCESS)
      << loaded.TakeReports();
  const auto result = out.Read<uint32_t>();
  for (uint32_t t = 0; t < 32; ++t) {
    EXPECT_EQ(result[3 * t], 7u);
    EXPECT_EQ(result[3 * t + 1], source[4 * t + 1]);
    EXPECT_EQ(result[3 * t + 2], 5u) << "two bytes, then zeros";
  }
}

struct AtomicCase {
  const char* op;
  const char* type;
  unsigned bytes;
  uint64_t start;
  uint64_t (*expect)(uint64_t old, uint64_t operand);
};

uint64_t FloatBits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return bits;
}
float FloatOf(uint64_t bits) {
  const auto low = static_cast<uint32_t>(bits);
  float x;
  std::memcpy(&x, &low, 4);
  return x;
}

const AtomicCase kAtomics[] = {
    {"add", "u32", 4, 0xfffffff0,
     [](uint64_t a, uint64_t b) { return uint64_t{uint32_t(a + b)}; }},
    {"add", "u64", 8, 0xffffffff, [](uint64_t a, uint64_t b) { return a + b; }},
    {"add", "f32", 4, FloatBits(0.5F),
     [](uint64_t a, uint64_t b) { return FloatBits(FloatOf(a) + FloatOf(b)); }},
    {"min", "s32", 4, 10,
     [](uint64_t a, uint64_t b) {
       return uint64_t{uint32_t(std::min(int32_t(a), int32_t(b)))};
     }},
    {"max", "u32", 4, 10,
     [](uint64_t a, uint64_t b) { return std::max(a, b); }},
    {"max", "s64", 8, 3,
     [](uint64_t a, uint64_t b) {
       return uint64_t(std::max(int64_t(a), int64_t(b)));
     }},
    {"and", "b32", 4, 0xffffff3f, [](uint64_t a, uint64_t b) { return a & b; }},
    {"or", "b64", 8, 0x100000000, [](uint64_t a, uint64_t b) { return a | b; }},
    {"xor", "b32", 4, 0x55, [](uint64_t a, uint64_t b) { return a ^ b; }},
    {"inc", "u32", 4, 3,
     [](uint64_t a, uint64_t b) { return a >= b ? 0 : a + 1; }},
    {"dec", "u32", 4, 3,
     [](uint64_t a, uint64_t b) { return a == 0 || a > b ? b : a - 1; }},
    {"exch", "b32", 4, 3, [](uint64_t, uint64_t b) { return b; }},
    {"exch", "b64", 8, 3, [](uint64_t, uint64_t b) { return b; }},
};

// Lanes go in order, so every old value is known.
TEST(MemoryOpsTest, AtomicsInDeviceAndSharedMemory) {
  for (const AtomicCase& test : kAtomics) {
    for (const bool shared : {false, true}) {
      const std::string bits = test.bytes == 4 ? "32" : "64";
      const std::string reg = test.bytes == 4 ? "%r" : "%l";
      const std::string space = shared ? "shared" : "global";
      SCOPED_TRACE(space + "." + test.op + "." + test.type);
      const std::string place = shared ? "[cell]" : "[%i]";
      Loaded loaded(Ptx(
          std::string(kPrologue) + ".shared .align 8 .b8 cell[8];\n" +
          "mul.wide.u32 %w, %t, 8; add.u64 %o, %o, %w; mov.b64 %l5, 0;\n"
          "ld.global.b64 %l6, [%i];\nst.shared.b64 [cell], %l6;\n"
          "cvt.u64.u32 %l1, %t; add.u64 %l1, %l1, 5; cvt.u32.u64 %r1, %l1;\n" +
          (std::string(test.type) == "f32" ? "cvt.rn.f32.u32 %r1, %r1;\n"
                                           : "") +
          "atom." + space + "." + test.op + "." + test.type + " " + reg +
          "2, " + place + ", " + reg + "1;\n" +
          (test.bytes == 4 ? "cvt.u64.u32 %l5, %r2;\n"
                           : "mov.b64 %l5, %l2;\n") +
          "st.global.b64 [%o], %l5;\n" + "ld.shared.b64 %l6, [cell];\n" +
          (shared ? "st.global.b64 [%i], %l6;\n" : "") + "ret;\n}\n"));
      ASSERT_TRUE(loaded) << loaded.error().message;
      DeviceMemory cell(std::vector<uint64_t>{test.start});
      DeviceMemory out(32 * 8);
      ASSERT_EQ(loaded.Run("k", {}, cell.address(), out.address(), 0u),
                CUDA_SUCCESS)
          << loaded.TakeReports();
      const auto old = out.Read<uint64_t>();
      uint64_t value = test.start;
      for (uint64_t t = 0; t < 32; ++t) {
        EXPECT_EQ(old[t], value) << t;
        const uint64_t operand = std::string(test.type) == "f32"
                                     ? FloatBits(static_cast<float>(t + 5))
                                     : t + 5;
        value = test.expect(value, operand);
      }
      EXPECT_EQ(*cell.as<uint64_t>(), value);
    }
  }
}

TEST(MemoryOpsTest, CompareAndSwapAndReductions) {
  Loaded loaded(Ptx(std::string(kPrologue) + R"(
    // A counter by compare and swap, one by reduction, one of packed halves.
    ld.global.u32 %r1, [%i];
    AGAIN:
    add.u32 %r2, %r1, 3;
    atom.global.cas.b32 %r3, [%i], %r1, %r2;
    setp.eq.u32 %p1, %r3, %r1; mov.u32 %r1, %r3;
    @!%p1 bra AGAIN;
    red.global.add.u32 [%i+4], %t;
    red.global.add.noftz.bf16x2 [%i+8], 0x3f803f80;
    atom.global.cas.b64 %l1, [%i+16], 7, 9;
    red.relaxed.gpu.global.max.u32 [%i+24], %t;
    red.global.add.f64 [%i+32], 0d3FE0000000000000;
    ret; })"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_TRUE(loaded.module().kernels().size() == 1);
  std::vector<uint32_t> start(10, 0);
  start[4] = 7;
  DeviceMemory cells(start);
  ASSERT_EQ(loaded.Run("k", {.grid = {4, 1, 1}, .block = {64, 1, 1}},
                       cells.address(), uint64_t{0}, 0u),
            CUDA_SUCCESS)
      << loaded.TakeReports();
  const auto words = cells.Read<uint32_t>();
  EXPECT_EQ(words[0], 3u * 256);
  EXPECT_EQ(words[1], 4u * 63 * 64 / 2);
  EXPECT_EQ(words[2], 0x43804380u) << "256, which bf16 can count to";
  EXPECT_EQ(words[4], 9u);
  EXPECT_EQ(words[6], 63u);
  EXPECT_EQ(*reinterpret_cast<const double*>(&words[8]), 128.0);
}

}  // namespace
}  // namespace softcuda::testing
