// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// B78: any entry point, harmless as it looks, may be forbidden in a capture. So
// each row of the policy table is called in each mode, from the thread that
// captures and from another.
#include <array>
#include <cstring>
#include <utility>

#include "case_fixture.h"
#include "runtime/policy.h"

namespace softcuda {
namespace {

using runtime::CaptureClass;

struct Row {
  const char* name;
  CaptureClass capture_class;
};

constexpr Row kRows[] = {
#define SOFTCUDA_API(name, capture_class, certainty, need) \
  {"cu" #name, CaptureClass::capture_class},
#include "runtime/policy.inc"
#undef SOFTCUDA_API
};

// Every entry point takes integers and pointers, at most this many: a call with
// nothing but zeros beyond the handles that its class is about.
constexpr size_t kMostArguments = 12;
using Arguments = std::array<uint64_t, kMostArguments>;

template <size_t... I>
CUresult CallWith(void* function, const Arguments& a,
                  std::index_sequence<I...>) {
  using Function = CUresult (*)(decltype(I, uint64_t{})...);
  return reinterpret_cast<Function>(function)(a[I]...);
}

constexpr CUstreamCaptureMode kModes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                          CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                          CU_STREAM_CAPTURE_MODE_RELAXED};

bool IsCaptureError(CUresult result) {
  return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
         result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

class PolicyCases : public DriverCases {
 protected:
  void SetUp() override {
    DriverCases::SetUp();
    ASSERT_OK(cuEventCreate(&event_, 0));
    ASSERT_OK(cuEventRecord(event_, other_));
    ASSERT_OK(cuEventSynchronize(event_));
  }
  void TearDown() override {
    EXPECT_OK(cuEventDestroy(event_));
    DriverCases::TearDown();
  }

  // The stream that a call of these classes is about, which captures or not.
  Arguments ArgumentsFor(const Row& row, CUstream stream) {
    Arguments arguments = {};
    if (row.capture_class == CaptureClass::kSyncEvent) {
      arguments[0] = reinterpret_cast<uint64_t>(event_);
    } else if (row.capture_class == CaptureClass::kSyncStream ||
               row.capture_class == CaptureClass::kConflictsStream) {
      const bool is_second = std::strcmp(row.name, "cuGraphLaunch") == 0;
      arguments[is_second ? 1 : 0] = reinterpret_cast<uint64_t>(stream);
    }
    return arguments;
  }

  // Whether the mode predicate forbids a call that waits or changes state.
  static bool ModeForbids(CUstreamCaptureMode mode, bool same_thread) {
    return mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
           (mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && same_thread);
  }
  static bool IsForbidden(const Row& row, CUstreamCaptureMode mode,
                          bool same_thread) {
    switch (row.capture_class) {
      case CaptureClass::kSafe:
      case CaptureClass::kRecorded:
      case CaptureClass::kControl:
        return false;
      case CaptureClass::kConflictsContext:
      case CaptureClass::kConflictsStream:
        return true;
      case CaptureClass::kSynchronous:
      case CaptureClass::kSyncStream:
      case CaptureClass::kSyncEvent:
      case CaptureClass::kUnsafe:
      case CaptureClass::kUnknown:
        return ModeForbids(mode, same_thread);
    }
    return true;
  }

  CUresult CallRow(const Row& row, CUstream stream) {
    void* function = nullptr;
    EXPECT_OK(cuGetProcAddress_v2(row.name, &function, 13000, 0, nullptr));
    if (function == nullptr) {
      ADD_FAILURE() << row.name << " is not exported";
      return CUDA_ERROR_NOT_FOUND;
    }
    const CUresult result =
        CallWith(function, ArgumentsFor(row, stream),
                 std::make_index_sequence<kMostArguments>());
    EXPECT_OK(cuCtxSetCurrent(context_));
    return result;
  }

  // What the call gives while `stream_` captures, and whether that breaks it.
  void Expect(const Row& row, CUstreamCaptureMode mode, bool same_thread,
              CUstream stream, bool forbidden) {
    ASSERT_OK(cuStreamBeginCapture(stream_, mode));
    CUresult result = CUDA_SUCCESS;
    if (same_thread) {
      result = CallRow(row, stream);
    } else {
      OnOtherThread([&] { result = CallRow(row, stream); });
    }
    CUgraph graph = nullptr;
    const CUresult end = cuStreamEndCapture(stream_, &graph);
    if (graph != nullptr) {
      EXPECT_OK(cuGraphDestroy(graph));
    }
    const std::string what = std::string(row.name) + ", mode " +
                             std::to_string(mode) +
                             (same_thread ? ", same" : ", other") + " thread";
    if (forbidden) {
      EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, result) << what;
      EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, end) << what;
    } else {
      EXPECT_FALSE(IsCaptureError(result)) << what << ": " << result;
      EXPECT_OK(end) << what;
    }
  }

  CUevent event_ = nullptr;
};

// Where nothing forbids them these would end the context that the test needs.
bool EndsTheContext(const Row& row) {
  return std::strcmp(row.name, "cuDevicePrimaryCtxRelease") == 0 ||
         std::strcmp(row.name, "cuDevicePrimaryCtxReset") == 0;
}

TEST_F(PolicyCases, B78_EveryEntryPointInEveryModeFromBothThreads) {
  for (const Row& row : kRows) {
    // Calls that manage captures are about their own arguments.
    if (row.capture_class == CaptureClass::kControl) continue;
    const CUstream stream =
        row.capture_class == CaptureClass::kConflictsStream ? stream_ : other_;
    for (const CUstreamCaptureMode mode : kModes) {
      for (const bool same_thread : {true, false}) {
        const bool forbidden = IsForbidden(row, mode, same_thread);
        if (!forbidden && EndsTheContext(row)) continue;
        Expect(row, mode, same_thread, stream, forbidden);
      }
    }
  }
  // Zeros are no handles, which some calls report.
  TakeReports();
}

TEST_F(PolicyCases, B78_WaitingForTheCapturingStreamIsForbiddenInEveryMode) {
  for (const Row& row : kRows) {
    if (row.capture_class != CaptureClass::kSyncStream) continue;
    for (const CUstreamCaptureMode mode : kModes) {
      for (const bool same_thread : {true, false}) {
        Expect(row, mode, same_thread, stream_, true);
      }
    }
  }
}

TEST_F(PolicyCases, B78_APoolAttributeIsNotReadInACapture) {
  CUmemoryPool pool = nullptr;
  uint64_t value = 0;
  ASSERT_OK(cuDeviceGetDefaultMemPool(&pool, 0));
  for (const CUstreamCaptureMode mode : kModes) {
    ASSERT_OK(cuStreamBeginCapture(stream_, mode));
    const bool relaxed = mode == CU_STREAM_CAPTURE_MODE_RELAXED;
    EXPECT_CU(
        relaxed ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value));
    CUgraph graph = nullptr;
    EXPECT_CU(relaxed ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
              cuStreamEndCapture(stream_, &graph));
    if (graph != nullptr) {
      EXPECT_OK(cuGraphDestroy(graph));
    }
  }
}

}  // namespace
}  // namespace softcuda
