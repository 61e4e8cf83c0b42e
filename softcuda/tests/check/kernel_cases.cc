// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "case_runs.h"
#include "exec_test_support.h"

extern "C" const unsigned char softcuda_check_kernels[];
extern "C" const unsigned char softcuda_check_kernels_end[];

namespace softcuda::testing {
namespace {

using memory::Access;
using memory::AddressSpace;
using memory::RegionTable;

constexpr uint32_t kInts = 512;
constexpr uint64_t kBytes = kInts * 4;
constexpr uint64_t kRegionBytes = 256;
constexpr int kOtherDevice = 1;

// Makes what the words of a case name, and takes it away again.
class Arguments {
 public:
  Arguments() = default;
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;
  ~Arguments() {
    for (auto undo = undo_.rbegin(); undo != undo_.rend(); ++undo) (*undo)();
  }

  uint64_t Make(const std::string& word) {
    if (word == "null") return 0;
    if (word.find_first_not_of("-0123456789") == std::string::npos) {
      return static_cast<uint64_t>(std::stoll(word));
    }
    if (word == "asleep" || word == "woken" || word == "closed" ||
        word == "readonly") {
      return Mapping(word);
    }
    if (word.find("region") != std::string::npos) return Region(word);
    if (word == "pinned") return Pinned();
    const bool is_other = word == "other_device" || word == "peer";
    const uint64_t address = Allocation(is_other ? kOtherDevice : 0);
    if (word == "peer") {
      EXPECT_TRUE(space_.SetPeerAccess(0, kOtherDevice, true));
      undo_.push_back([this] { space_.SetPeerAccess(0, kOtherDevice, false); });
    } else if (word == "freed") {
      EXPECT_EQ(space_.Free(address), CUDA_SUCCESS);
      undo_.pop_back();
    } else if (word == "in" || word == "gap") {
      WriteSmallNumbers(address);
      if (word == "gap") {
        EXPECT_EQ(space_.MarkUndefined(address + 2, 1), CUDA_SUCCESS);
      }
    } else if (word == "undef") {
      EXPECT_EQ(space_.MarkUndefined(address, kBytes), CUDA_SUCCESS);
    } else if (word != "out" && !is_other) {
      ADD_FAILURE() << "no argument '" << word << "'";
    }
    return address;
  }

 private:
  uint64_t Allocation(int device = 0) {
    uint64_t address = 0;
    EXPECT_EQ(space_.Allocate(kBytes, &address, device), CUDA_SUCCESS);
    undo_.push_back([this, address] { space_.Free(address); });
    std::memset(reinterpret_cast<void*>(address), 0, kBytes);
    return address;
  }

  uint64_t Pinned() {
    void* address = nullptr;
    EXPECT_EQ(space_.AllocateHost(kBytes, &address), CUDA_SUCCESS);
    undo_.push_back([this, address] { space_.FreeHost(address); });
    return reinterpret_cast<uint64_t>(address);
  }

  uint64_t Mapping(const std::string& word) {
    constexpr uint64_t kGranule = AddressSpace::kGranularityBytes;
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemGenericAllocationHandle handle = 0;
    uint64_t address = 0;
    EXPECT_EQ(space_.CreateHandle(kGranule, properties, &handle), CUDA_SUCCESS);
    EXPECT_EQ(space_.Reserve(kGranule, 0, 0, &address), CUDA_SUCCESS);
    undo_.push_back([this, address, handle] {
      space_.FreeReservation(address, kGranule);
      space_.ReleaseHandle(handle);
    });
    const auto map = [&](Access access) {
      EXPECT_EQ(space_.Map(address, kGranule, handle), CUDA_SUCCESS);
      if (access != Access::kNone) {
        EXPECT_EQ(space_.SetAccess(address, kGranule, {{0, access}}),
                  CUDA_SUCCESS);
      }
    };
    const auto unmap = [this, address] { space_.Unmap(address, kGranule); };
    map(word == "closed" ? Access::kNone : Access::kReadWrite);
    if (word == "readonly") {
      WriteSmallNumbers(address);
      EXPECT_EQ(space_.SetAccess(address, kGranule, {{0, Access::kRead}}),
                CUDA_SUCCESS);
    }
    if (word == "asleep" || word == "woken") unmap();
    if (word == "woken") map(Access::kReadWrite);
    if (word != "asleep") undo_.push_back(unmap);
    return address;
  }

  uint64_t Region(const std::string& word) {
    RegionTable& regions = space_.regions();
    const uint64_t base = Allocation();
    const uint64_t second = base + 2 * kRegionBytes;
    EXPECT_TRUE(regions.RegisterHeap("slab", base, kBytes,
                                     RegionTable::Usage::kSubAllocator));
    undo_.push_back([&regions, base] { regions.UnregisterHeap(base); });
    for (const uint64_t region : {base, second}) {
      EXPECT_TRUE(regions.AddRegion(base, region, kRegionBytes));
      EXPECT_TRUE(
          regions.NameRegion(region, region == base ? "first" : "second"));
    }
    if (word == "region_readonly") {
      WriteSmallNumbers(base);
      EXPECT_TRUE(regions.SetRegionAccess(base, Access::kRead));
    } else if (word == "region_closed") {
      EXPECT_TRUE(regions.SetRegionAccess(base, Access::kNone));
    }
    return word == "before_region" ? second - 4 : base;
  }

  static void WriteSmallNumbers(uint64_t address) {
    for (uint32_t k = 0; k < kInts; ++k) {
      reinterpret_cast<int*>(address)[k] = static_cast<int>(k % 13);
    }
  }

  AddressSpace& space_ = AddressSpace::Get();
  std::vector<std::function<void()>> undo_;
};

}  // namespace

KernelRun RunCase(const KernelCase& c, uint64_t seed) {
  Loaded loaded(
      softcuda_check_kernels,
      static_cast<size_t>(softcuda_check_kernels_end - softcuda_check_kernels));
  loaded.reporter().set_initcheck(true);
  loaded.reporter().set_racecheck(true);
  exec::Launch launch;
  launch.kernel = loaded ? loaded.module().Find(c.kernel) : nullptr;
  if (launch.kernel == nullptr) {
    ADD_FAILURE() << "no kernel " << c.kernel << " " << loaded.error().message;
    return {CUDA_ERROR_NOT_FOUND, ""};
  }
  launch.grid = {c.grid, 1, 1};
  launch.block = {c.block, 1, 1};
  launch.dynamic_shared_bytes = c.dynamic_shared_bytes;
  launch.seed = seed;
  launch.step_limit = 1 << 16;
  launch.origin = "test launch";
  launch.params.resize(launch.kernel->param_bytes());
  Arguments arguments;
  std::istringstream words(c.args);
  std::string word;
  for (size_t index = 0; words >> word; ++index) {
    if (index >= launch.kernel->params().size()) {
      ADD_FAILURE() << "too many arguments";
      return {CUDA_ERROR_INVALID_VALUE, ""};
    }
    const auto& param = launch.kernel->params()[index];
    const uint64_t value = arguments.Make(word);
    std::memcpy(launch.params.data() + param.offset, &value, param.size);
  }
  KernelRun run;
  run.result = exec::Run(launch, *memory::AddressSpace::Get().snapshot(),
                         loaded.reporter());
  run.reports = loaded.TakeReports();
  return run;
}

}  // namespace softcuda::testing
