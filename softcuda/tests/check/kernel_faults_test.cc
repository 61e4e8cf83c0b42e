// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Each kernel with a planted fault is reported by the right checker at the
// right line, and the sound ones pass all checkers in silence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "exec_test_support.h"
#include "marked_lines.h"

extern "C" const unsigned char softcuda_check_kernels[];
extern "C" const unsigned char softcuda_check_kernels_end[];

namespace softcuda::testing {
namespace {

constexpr uint32_t kInts = 512;

// A launch in words. Arguments: `in` is a buffer of 512 small numbers, `out`
// one of 512 zeros, `undef` one that nobody wrote, `gap` as `in` with byte 2
// undefined, `null` the null pointer; a number is an int.
struct KernelCase {
  const char* kernel;
  uint32_t grid;
  uint32_t block;
  const char* args;
  const char* checker;  // null: sound
  const char* line;     // the mark
  uint32_t dynamic_shared_bytes = 0;
  const char* also = "";  // must be in the report too
};

std::string NameOf(const ::testing::TestParamInfo<KernelCase>& info) {
  return info.param.kernel;
}

class KernelCaseTest : public ::testing::TestWithParam<KernelCase> {
 protected:
  KernelCaseTest()
      : loaded_(softcuda_check_kernels,
                static_cast<size_t>(softcuda_check_kernels_end -
                                    softcuda_check_kernels)) {}

  // Runs the case under all checkers.
  CUresult Run(uint64_t seed) {
    const KernelCase& c = GetParam();
    loaded_.reporter().set_initcheck(true);
    loaded_.reporter().set_racecheck(true);
    exec::Launch launch;
    launch.kernel = loaded_ ? loaded_.module().Find(c.kernel) : nullptr;
    if (launch.kernel == nullptr) {
      ADD_FAILURE() << "no kernel " << c.kernel << " "
                    << loaded_.error().message;
      return CUDA_ERROR_NOT_FOUND;
    }
    launch.grid = {c.grid, 1, 1};
    launch.block = {c.block, 1, 1};
    launch.dynamic_shared_bytes = c.dynamic_shared_bytes;
    launch.seed = seed;
    launch.step_limit = 1 << 16;
    launch.origin = "test launch";
    launch.params.resize(launch.kernel->param_bytes());
    std::istringstream words(c.args);
    std::string word;
    for (size_t index = 0; words >> word; ++index) {
      if (index >= launch.kernel->params().size()) {
        ADD_FAILURE() << "too many arguments";
        return CUDA_ERROR_INVALID_VALUE;
      }
      const auto& param = launch.kernel->params()[index];
      const uint64_t value = Argument(word);
      std::memcpy(launch.params.data() + param.offset, &value, param.size);
    }
    return exec::Run(launch, *memory::AddressSpace::Get().snapshot(),
                     loaded_.reporter());
  }

  uint64_t Argument(const std::string& word) {
    if (word == "null") return 0;
    if (word.find_first_not_of("-0123456789") == std::string::npos) {
      return static_cast<uint64_t>(std::stoll(word));
    }
    std::vector<int> values(kInts, 0);
    if (word == "in" || word == "gap") {
      for (uint32_t k = 0; k < kInts; ++k) {
        values[k] = static_cast<int>(k % 13);
      }
    }
    buffers_.push_back(std::make_unique<DeviceMemory>(values));
    const uint64_t address = buffers_.back()->address();
    auto& space = memory::AddressSpace::Get();
    if (word == "undef") {
      EXPECT_EQ(space.MarkUndefined(address, kInts * 4), CUDA_SUCCESS);
    } else if (word == "gap") {
      EXPECT_EQ(space.MarkUndefined(address + 2, 1), CUDA_SUCCESS);
    }
    return address;
  }

  Loaded loaded_;
  std::vector<std::unique_ptr<DeviceMemory>> buffers_;
};

class PlantedKernelFaultTest : public KernelCaseTest {};

TEST_P(PlantedKernelFaultTest, IsReportedAtItsLine) {
  const KernelCase& c = GetParam();
  const std::string line = MarkedLine(c.line);
  ASSERT_NE(line, "") << "no mark " << c.line;
  Run(0);
  const std::string reports = loaded_.TakeReports();
  bool found = false;
  std::istringstream lines(reports);
  for (std::string report; std::getline(lines, report);) {
    found = found || (report.rfind(std::string(c.checker) + ": ", 0) == 0 &&
                      report.find("kernel " + std::string(c.kernel) + " (") !=
                          std::string::npos &&
                      report.find(line + ")") != std::string::npos &&
                      report.find(c.also) != std::string::npos);
  }
  EXPECT_TRUE(found) << "want " << c.checker << " in " << c.kernel << " at "
                     << line << ", got:\n"
                     << reports;
}

constexpr KernelCase kFaults[] = {
    {"f_write_past_end", 1, 32, "out 512", "memcheck", "write_past_end", 0,
     "past the end"},
    {"f_read_before", 1, 1, "in out", "memcheck", "read_before"},
    {"f_misaligned", 1, 1, "out", "memcheck", "misaligned", 0, "misaligned"},
    {"f_misaligned_vector", 1, 1, "out", "memcheck", "misaligned_vector", 0,
     "16 bytes"},
    {"f_null", 1, 1, "null", "memcheck", "null", 0, "null pointer"},
    {"f_atomic_past_end", 1, 32, "out 512", "memcheck", "atomic_past_end"},
    {"f_shared_past_end", 1, 32, "out 32", "memcheck", "shared_past_end", 0,
     "shared memory+128 (128 bytes"},
    {"f_dynamic_shared_past_end", 1, 1, "out 16", "memcheck",
     "dynamic_shared_past_end", 64, "shared memory+64"},
    {"f_async_copy_past_end", 1, 32, "in out 112", "memcheck",
     "async_copy_past_end", 0, "thread (16,0,0)"},
    {"f_inlined", 1, 32, "out 512", "memcheck", "inlined", 0, "inlined at"},
    {"f_one_block_of_many", 5, 128, "out 1", "memcheck", "one_block_of_many", 0,
     "block (4,0,0) thread (0,0,0)"},

    {"f_undefined_global", 1, 32, "undef out", "initcheck", "undefined_global",
     0, "thread (0,0,0)"},
    {"f_undefined_byte", 1, 1, "gap out", "initcheck", "undefined_byte"},
    {"f_undefined_atomic", 1, 1, "undef", "initcheck", "undefined_atomic"},
    {"f_undefined_shared", 1, 64, "out", "initcheck", "undefined_shared", 0,
     "shared memory+64 "},
    {"f_undefined_shared_byte", 1, 32, "out", "initcheck",
     "undefined_shared_byte"},
    {"f_async_copy_no_wait", 1, 32, "in out", "initcheck",
     "async_copy_no_wait"},
    {"f_undefined_shared_atomic", 1, 32, "out", "initcheck",
     "undefined_shared_atomic"},

    {"f_shared_no_barrier", 1, 128, "in out", "racecheck", "shared_no_barrier",
     0, "previous: read by block (0,0,0)"},
    {"f_shared_write_after_read", 1, 128, "in out", "racecheck",
     "shared_write_after_read"},
    {"f_shared_write_write", 1, 128, "out", "racecheck", "shared_write_write",
     0, "previous: write"},
    {"f_two_barriers", 1, 128, "out", "racecheck", "two_barriers"},
    {"f_syncwarp_is_not_enough", 1, 64, "out", "racecheck",
     "syncwarp_is_not_enough"},
    {"f_shared_atomic_and_read", 1, 128, "out", "racecheck",
     "shared_atomic_and_read"},
    {"f_tree_sum_no_barrier", 1, 128, "in out", "racecheck", "tree_write", 0,
     "previous: read"},
    {"f_async_copy_no_barrier", 1, 64, "in out", "racecheck",
     "async_copy_no_barrier"},
    {"f_loop_without_second_barrier", 1, 128, "in out 3", "racecheck",
     "loop_without_second_barrier"},

    {"f_blocks_write_one_word", 2, 32, "out", "racecheck",
     "blocks_write_one_word", 0, "by another block"},
    {"f_reads_other_block", 4, 32, "out out", "racecheck", "reads_other_block"},
    {"f_last_block_no_fence", 4, 32, "out out out", "racecheck",
     "last_block_no_fence"},
    {"f_last_block_block_fence", 4, 32, "out out out", "racecheck",
     "last_block_block_fence"},
    {"f_last_block_late_write", 4, 32, "out out out", "racecheck",
     "last_block_late_write"},
    {"f_flag_without_release", 2, 32, "out out out", "racecheck",
     "flag_without_release"},
    {"f_global_no_barrier", 1, 128, "out out", "racecheck",
     "global_no_barrier"},
    {"f_unaligned_overlap", 3, 1, "out", "racecheck", "unaligned_overlap"},
    {"f_lock_without_fence", 3, 1, "out out", "racecheck",
     "lock_without_fence"},
    {"f_atomic_and_plain", 2, 32, "out", "racecheck", "atomic_and_plain"},

    {"f_divergent_barrier", 1, 32, "out", "synccheck", "divergent_barrier"},
    {"f_missing_participant", 1, 96, "out", "synccheck", "missing_participant"},
    {"f_barrier_count", 1, 32, "out 33", "synccheck", "barrier_count"},
    {"f_barrier_number", 1, 32, "out 16", "synccheck", "barrier_number"},
    {"f_shuffle_absent_lanes", 1, 32, "in out", "synccheck",
     "shuffle_absent_lanes", 0, "16 threads"},
    {"f_vote_absent_lanes", 1, 32, "out", "synccheck", "vote_absent_lanes", 0,
     "24 threads"},
    {"f_syncwarp_absent_lanes", 1, 32, "out", "synccheck",
     "syncwarp_absent_lanes"},
    {"f_spin", 1, 32, "out", "timeout", "spin"},
    {"f_trap", 1, 32, "1", "trap", "trap"},
};

INSTANTIATE_TEST_SUITE_P(Kernels, PlantedKernelFaultTest,
                         ::testing::ValuesIn(kFaults), NameOf);

class SoundKernelTest : public KernelCaseTest {};

// Whatever the order of blocks and warps.
TEST_P(SoundKernelTest, IsSilent) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    EXPECT_EQ(Run(seed), CUDA_SUCCESS);
    EXPECT_EQ(loaded_.TakeReports(), "") << "seed " << seed;
  }
}

constexpr KernelCase kSound[] = {
    {"k_fill", 4, 128, "undef 500 7", nullptr, nullptr},
    {"k_add", 4, 128, "in undef 512", nullptr, nullptr},
    {"k_increment", 4, 128, "in 512", nullptr, nullptr},
    {"k_reverse_shared", 1, 128, "in undef", nullptr, nullptr},
    {"k_tree_sum", 1, 128, "in undef", nullptr, nullptr},
    {"k_atomic_histogram", 4, 128, "in out 512", nullptr, nullptr},
    {"k_global_exchange", 1, 128, "undef", nullptr, nullptr},
    {"k_last_block_done", 8, 64, "undef out undef", nullptr, nullptr},
    {"k_all_threads_fence", 4, 128, "undef out undef", nullptr, nullptr},
    {"k_flag_handover", 2, 32, "undef out undef", nullptr, nullptr},
    {"k_lock", 5, 32, "out out", nullptr, nullptr},
    {"k_named_barriers", 1, 128, "undef", nullptr, nullptr},
    {"k_half_barriers", 1, 128, "undef", nullptr, nullptr},
    {"k_double_buffer", 1, 128, "in undef 5", nullptr, nullptr},
    {"k_async_copy", 1, 64, "in undef", nullptr, nullptr},
    {"k_warp_sum", 1, 128, "in out", nullptr, nullptr},
    {"k_half_warp_shuffle", 1, 64, "in undef", nullptr, nullptr},
    {"k_warp_exchange", 1, 64, "undef", nullptr, nullptr},
    {"k_early_exit", 1, 128, "undef 3", nullptr, nullptr},
    {"k_bytes_side_by_side", 8, 64, "undef", nullptr, nullptr},
    {"k_shared_bytes_side_by_side", 1, 128, "undef", nullptr, nullptr},
    {"k_shared_atomic_max", 1, 128, "undef", nullptr, nullptr},
    {"k_read_only_sharing", 4, 128, "in undef", nullptr, nullptr},
    {"k_grid_wait_then_add", 4, 128, "in undef 512", nullptr, nullptr},
    {"k_vector_copy", 1, 128, "in undef", nullptr, nullptr},
    {"k_local_array", 1, 64, "in undef", nullptr, nullptr},
    {"k_dynamic_shared", 1, 128, "in undef", nullptr, nullptr, 512},
    {"k_grid_stride", 2, 64, "in undef 500", nullptr, nullptr},
    {"k_compare_and_swap_max", 1, 128, "in out", nullptr, nullptr},
    {"k_ballot_compact", 1, 32, "in undef", nullptr, nullptr},
    {"k_generic_pointer", 1, 64, "undef 1", nullptr, nullptr},
};

static_assert(std::size(kFaults) >= 40);
static_assert(std::size(kSound) >= 30);

INSTANTIATE_TEST_SUITE_P(Kernels, SoundKernelTest, ::testing::ValuesIn(kSound),
                         NameOf);

}  // namespace
}  // namespace softcuda::testing
