// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Each fault is planted in a kernel with line info, and has a twin that does
// the same inside its bounds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "exec_test_support.h"

namespace softcuda::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// One access a thread, at in + tid * 4 + shift.
std::string Access(const std::string& instruction) {
  return Ptx(R"(
    .visible .entry faulty(.param .u64 in, .param .u64 shift) {
      .loc 1 10 1
      .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %i, %w, %l<4>; .reg .b16 %h;
      .shared .align 16 .b8 array[256];
      .local .align 16 .b8 depot[64];
      ld.param.u64 %i, [in]; ld.param.u64 %l1, [shift];
      mov.u32 %r1, %tid.x; mul.wide.u32 %w, %r1, 4;
      add.u64 %i, %i, %w; add.u64 %i, %i, %l1;
      mov.u64 %l2, array; add.u64 %l2, %l2, %w; add.u64 %l2, %l2, %l1;
      cvt.u32.u64 %r2, %l2;
      mov.u64 %l3, depot; add.u64 %l3, %l3, %l1;
      mov.u32 %r3, 5; mov.u32 %r4, 6; mov.u32 %r5, 7; mov.u32 %r6, 8;
      .loc 1 42 7
      )" + instruction +
             R"(
      .loc 1 50 1
      ret;
    }
    .file 1 "/src/faulty.cu")");
}

struct Fault {
  std::string instruction;
  uint64_t good;  // shift that is in bounds
  uint64_t bad;
  CUresult result;
  std::vector<std::string> texts;
};

TEST(MemcheckTest, PlantedFaultsAndTheirCleanTwins) {
  // 64 threads on 256 bytes.
  const std::vector<Fault> faults = {
      {"ld.global.u32 %r3, [%i];",
       0,
       4,
       CUDA_ERROR_ILLEGAL_ADDRESS,
       {"read of 4 bytes", "thread (63,0,0)", "1 byte past the end"}},
      {"st.global.u32 [%i], %r3;",
       0,
       4,
       CUDA_ERROR_ILLEGAL_ADDRESS,
       {"write of 4 bytes", "thread (63,0,0)"}},
      {"st.global.u32 [%i], %r3;",
       0,
       uint64_t(-4),
       CUDA_ERROR_ILLEGAL_ADDRESS,
       {"write of 4 bytes", "thread (0,0,0)"}},
      {"ld.u32 %r3, [%i];",
       0,
       uint64_t{1} << 40,
       CUDA_ERROR_ILLEGAL_ADDRESS,
       {"read of 4 bytes", "thread (0,0,0)"}},
      {"ld.global.u32 %r3, [%i];",
       0,
       2,
       CUDA_ERROR_MISALIGNED_ADDRESS,
       {"misaligned access of 4 bytes"}},
      {"ld.global.v2.u32 {%r3, %r4}, [%i];",
       0,
       0,
       CUDA_ERROR_MISALIGNED_ADDRESS,
       {"thread (1,0,0)", "8 bytes"}},
      {"atom.global.add.u32 %r3, [%i], 1;",
       0,
       4,
       CUDA_ERROR_ILLEGAL_ADDRESS,
       {"thread (63,0,0)"}},
      {"red.global.add.u32 [%i+4], 1;",
       uint64_t(-4),
       0,
       CUDA_ERROR_ILLEGAL_ADDRESS,
       {"thread (63,0,0)"}},
      {"ld.shared.u32 %r3, [%r2];",
       0,
       4,
       CUDA_ERROR_ILLEGAL_ADDRESS,
       {"shared memory+256 (256 bytes in all)"}},
      {"st.shared.u32 [%l2], %r3;",
       0,
       uint64_t{1} << 33,
       CUDA_ERROR_ILLEGAL_ADDRESS,
       {"shared memory"}},
      {"st.shared.u32 [%r2], %r3;",
       0,
       1,
       CUDA_ERROR_MISALIGNED_ADDRESS,
       {"shared memory"}},
      {"atom.shared.add.u32 %r3, [%r2], 1;",
       0,
       4,
       CUDA_ERROR_ILLEGAL_ADDRESS,
       {"shared memory"}},
      {"st.local.u32 [%l3], %r3;",
       60,
       64,
       CUDA_ERROR_ILLEGAL_ADDRESS,
       {"local memory+64 (64 bytes in all)"}},
      {"ld.param.u32 %r3, [%l1];",
       12,
       16,
       CUDA_ERROR_ILLEGAL_ADDRESS,
       {"parameter memory"}},
      {"cp.async.ca.shared.global [array], [%i], 4;",
       0,
       4,
       CUDA_ERROR_ILLEGAL_ADDRESS,
       {"read of 4 bytes"}},
      {"ld.global.nc.u8 %h, [%i+3];",
       0,
       1,
       CUDA_ERROR_ILLEGAL_ADDRESS,
       {"read of 1 byte"}},
  };
  for (const Fault& fault : faults) {
    SCOPED_TRACE(fault.instruction);
    Loaded loaded(Access(fault.instruction));
    ASSERT_TRUE(loaded) << loaded.error().message;
    DeviceMemory memory(256);
    const LaunchShape shape = {.block = {64, 1, 1}};
    if (fault.good != fault.bad) {
      EXPECT_EQ(loaded.Run("faulty", shape, memory.address(), fault.good),
                CUDA_SUCCESS);
      EXPECT_THAT(loaded.TakeReports(), IsEmpty());
    }
    EXPECT_EQ(loaded.Run("faulty", shape, memory.address(), fault.bad),
              fault.result);
    EXPECT_EQ(loaded.reporter().count(), 1);
    const std::string report = loaded.TakeReports();
    EXPECT_THAT(report,
                AllOf(HasSubstr("memcheck"), HasSubstr("faulty"),
                      HasSubstr("/src/faulty.cu:42"),
                      HasSubstr("block (0,0,0)"), HasSubstr("test launch")));
    for (const std::string& text : fault.texts) {
      EXPECT_THAT(report, HasSubstr(text));
    }
  }
}

TEST(MemcheckTest, LanesThatAreOffTouchNothing) {
  Loaded loaded(
      Access("setp.lt.u32 %p1, %r1, 32;\n"
             "@%p1 ld.global.u32 %r3, [%i];\n"
             "@%p1 st.global.u32 [%i], %r3;\n"
             "@%p1 ld.u32 %r3, [%i];\n"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  DeviceMemory memory(128);
  EXPECT_EQ(loaded.Run("faulty", {.block = {64, 1, 1}}, memory.address(),
                       uint64_t{0}),
            CUDA_SUCCESS)
      << loaded.TakeReports();
}

TEST(MemcheckTest, FreedMemoryIsNamed) {
  Loaded loaded(Access("st.global.u32 [%i], %r3;"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  uint64_t address = 0;
  {
    DeviceMemory memory(256);
    address = memory.address();
  }
  EXPECT_EQ(loaded.Run("faulty", {}, address, uint64_t{0}),
            CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_THAT(loaded.TakeReports(), HasSubstr("freed"));
}

TEST(MemcheckTest, TheEarliestBlockIsTheOneReported) {
  // Blocks 3 and up run past the end; several host threads see it at once.
  Loaded loaded(Ptx(R"(
    .visible .entry faulty(.param .u64 in) {
      .reg .b32 %r<4>; .reg .b64 %i, %w;
      ld.param.u64 %i, [in];
      mov.u32 %r1, %ctaid.x; mul.wide.u32 %w, %r1, 4096; add.u64 %i, %i, %w;
      st.global.u32 [%i], %r1;
      ret; })"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  for (int repeat = 0; repeat < 20; ++repeat) {
    DeviceMemory memory(3 * 4096);
    EXPECT_EQ(loaded.Run("faulty", {.grid = {64, 1, 1}}, memory.address()),
              CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_THAT(loaded.TakeReports(), HasSubstr("block (3,0,0)"));
  }
  EXPECT_EQ(loaded.reporter().count(), 20);
}

TEST(MemcheckTest, InlinedFunctionsNameTheirOwnLineAndTheCallSite) {
  Loaded loaded(Ptx(R"(
    .visible .entry faulty(.param .u64 in) {
      .reg .b32 %r<4>; .reg .b64 %i;
      .loc 1 10 1
      ld.param.u64 %i, [in];
      .loc 1 20 3
      .loc 1 5 9, function_name $L__info_string0, inlined_at 1 20 3
      ld.global.u32 %r1, [%i];
      ret; }
    .visible .entry header(.param .u64 in) {
      .reg .b32 %r<4>; .reg .b64 %i;
      ld.param.u64 %i, [in];
      .loc 1 30 3
      .loc 2 99 9, function_name $L__info_string0, inlined_at 1 30 3
      ld.global.u32 %r1, [%i];
      ret; }
    .file 1 "/src/user.cu"
    .file 2 "/opt/cuda/targets/x86_64-linux/include/sm_32_intrinsics.hpp"
    .section .debug_str
    {
    $L__info_string0:
    .b8 95,90,0
    })"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded.Run("faulty", {}, uint64_t{64}), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_THAT(loaded.TakeReports(),
              AllOf(HasSubstr("/src/user.cu:5"),
                    HasSubstr("inlined at /src/user.cu:20")));
  // The caller's line says more than the toolkit's.
  EXPECT_EQ(loaded.Run("header", {}, uint64_t{64}), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_THAT(loaded.TakeReports(), AllOf(HasSubstr("/src/user.cu:30"),
                                          Not(HasSubstr("sm_32_intrinsics"))));
}

TEST(MemcheckTest, UndefinedBytesAreReportedOnceAnInstruction) {
  Loaded loaded(Access("ld.global.u32 %r3, [%i];"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  loaded.reporter().set_initcheck(true);
  DeviceMemory memory(std::vector<uint32_t>(64, 1));
  const LaunchShape shape = {.block = {64, 1, 1}};
  EXPECT_EQ(loaded.Run("faulty", shape, memory.address(), uint64_t{0}),
            CUDA_SUCCESS);
  EXPECT_EQ(loaded.reporter().count(), 0);
  ASSERT_EQ(
      memory::AddressSpace::Get().MarkUndefined(memory.address() + 80, 40),
      CUDA_SUCCESS);
  EXPECT_EQ(loaded.Run("faulty", shape, memory.address(), uint64_t{0}),
            CUDA_SUCCESS)
      << "the kernel goes on";
  EXPECT_EQ(loaded.reporter().count(), 1);
  EXPECT_THAT(loaded.TakeReports(),
              AllOf(HasSubstr("initcheck"), HasSubstr("thread (20,0,0)"),
                    HasSubstr("/src/faulty.cu:42")));
}

TEST(MemcheckTest, StoresDefineBytes) {
  Loaded loaded(
      Access("st.global.u32 [%i], %r3;\n"
             "ld.global.u32 %r4, [%i];\n"
             "atom.global.add.u32 %r5, [%i], %r4;\n"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  loaded.reporter().set_initcheck(true);
  DeviceMemory memory(256);
  ASSERT_EQ(memory::AddressSpace::Get().MarkUndefined(memory.address(), 256),
            CUDA_SUCCESS);
  EXPECT_EQ(loaded.Run("faulty", {.block = {64, 1, 1}}, memory.address(),
                       uint64_t{0}),
            CUDA_SUCCESS);
  EXPECT_THAT(loaded.TakeReports(), IsEmpty());
}

TEST(MemcheckTest, AtomicsReadWhatTheyChange) {
  Loaded loaded(Access("red.global.add.u32 [%i], %r4;"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  loaded.reporter().set_initcheck(true);
  DeviceMemory memory(256);
  ASSERT_EQ(memory::AddressSpace::Get().MarkUndefined(memory.address(), 256),
            CUDA_SUCCESS);
  EXPECT_EQ(loaded.Run("faulty", {.block = {64, 1, 1}}, memory.address(),
                       uint64_t{0}),
            CUDA_SUCCESS);
  EXPECT_EQ(loaded.reporter().count(), 1);
}

}  // namespace
}  // namespace softcuda::testing
