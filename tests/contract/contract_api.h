// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_TESTS_CONTRACT_CONTRACT_API_H_
#define PERMAFROST_TESTS_CONTRACT_CONTRACT_API_H_

#include <cuda.h>
#include <cudaTypedefs.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

// What the contract tests use of a driver: its CUDA ABI and nothing else, so
// that they run unchanged on any driver. Each test is named by its number in
// the list of assertions, and asserts what is documented or was observed on
// NVIDIA's driver; what nobody knows is not asserted.
namespace permafrost::contract {

/// Entry points of the driver under test: libcuda.so.1 when PERMAFROST_DRIVER
/// is "cuda", a library when it is a path, else softcuda.
struct Api {
#define PERMAFROST_CONTRACT_ENTRY(name, version) \
  PFN_cu##name##_v##version name = nullptr;
#include "contract_entries.inc"
#undef PERMAFROST_CONTRACT_ENTRY
  PFN_cuGetProcAddress_v12000 GetProcAddress = nullptr;
};

/// Loads the driver once. Every entry is there, or the process ends.
const Api& Driver();

/// The image with the kernels of contract_kernels.cu.
const void* KernelImage();

/// Expects one of several result codes.
#define EXPECT_CU_ANY(expression, ...)                        \
  EXPECT_PRED2(::permafrost::contract::IsOneOf, (expression), \
               (std::vector<int>{__VA_ARGS__}))
bool IsOneOf(CUresult result, const std::vector<int>& accepted);

#define EXPECT_CU(code, expression) \
  EXPECT_EQ(static_cast<int>(expression), static_cast<int>(code))
#define ASSERT_CU(code, expression) \
  ASSERT_EQ(static_cast<int>(expression), static_cast<int>(code))
#define EXPECT_CU_OK(expression) EXPECT_CU(0, expression)
#define ASSERT_CU_OK(expression) ASSERT_CU(0, expression)
#define EXPECT_CU_FAILS(expression) EXPECT_NE(static_cast<int>(expression), 0)

inline constexpr unsigned int kNonBlocking = CU_STREAM_NON_BLOCKING;
inline constexpr unsigned int kBlocking = CU_STREAM_DEFAULT;
inline constexpr CUstreamCaptureMode kGlobal = CU_STREAM_CAPTURE_MODE_GLOBAL;
inline constexpr CUstreamCaptureMode kThreadLocal =
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
inline constexpr CUstreamCaptureMode kRelaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
inline constexpr CUstreamCaptureMode kAllModes[] = {kGlobal, kThreadLocal,
                                                    kRelaxed};

/// Runs `body` on another thread, with the given context current, to its end.
void OnOtherThread(CUcontext context, const std::function<void()>& body);

/// An initialised driver with the primary context of device 0 current and the
/// kernels loaded. Streams and events that a test makes through it are
/// destroyed, and captures ended, at the end of the test.
class ContractTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  CUstream NewStream(unsigned int flags);
  CUevent NewEvent(unsigned int flags = CU_EVENT_DEFAULT);
  /// Device memory of `words` 32-bit words, all 0.
  CUdeviceptr NewWords(size_t words);
  /// Pinned host memory of `words` 32-bit words, all 0.
  uint32_t* NewPinnedWords(size_t words);
  /// A kernel of contract_kernels.cu. All are loaded before the test starts, so
  /// that this may be called while a stream captures.
  CUfunction Function(const std::string& name) const {
    return functions_.at(name);
  }

  /// Begins a capture that TearDown ends if the test does not.
  CUresult Begin(CUstream stream, CUstreamCaptureMode mode = kGlobal);
  /// Ends a capture; the graph, if any, is destroyed at the end of the test.
  CUresult End(CUstream stream, CUgraph* graph);
  /// Asks for a capture's status, without harm.
  CUstreamCaptureStatus StatusOf(CUstream stream);
  CUgraphExec Instantiate(CUgraph graph);
  /// Lists a graph to be destroyed at the end of the test.
  void Keep(CUgraph graph) { graphs_.push_back(graph); }

  CUresult LaunchFill(CUstream stream, CUdeviceptr words, uint32_t value,
                      uint32_t count);
  CUresult LaunchAdd(CUstream stream, CUdeviceptr words, uint32_t value,
                     uint32_t count);
  /// Launches a kernel that spins until OpenGate.
  CUresult LaunchGate(CUstream stream, uint32_t* gate);
  static void OpenGate(uint32_t* gate);

  /// Waits for all work and reads device memory.
  std::vector<uint32_t> Read(CUdeviceptr words, size_t count);

  std::vector<CUgraphNode> Nodes(CUgraph graph);
  CUgraphNodeType TypeOf(CUgraphNode node);
  size_t EdgeCount(CUgraph graph);
  bool HasEdge(CUgraph graph, CUgraphNode from, CUgraphNode to);

  const Api& cu = Driver();
  CUdevice device = 0;
  CUcontext context = nullptr;

 private:
  CUmodule module_ = nullptr;
  std::map<std::string, CUfunction> functions_;
  std::vector<CUstream> streams_;
  std::vector<CUstream> capturing_;
  std::vector<CUevent> events_;
  std::vector<CUdeviceptr> memory_;
  std::vector<uint32_t*> pinned_;
  std::vector<uint32_t*> gates_;
  std::vector<CUgraph> graphs_;
  std::vector<CUgraphExec> execs_;
};

}  // namespace permafrost::contract

#endif  // PERMAFROST_TESTS_CONTRACT_CONTRACT_API_H_
