// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "contract_api.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

extern "C" const unsigned char permafrost_contract_image[];

namespace permafrost::contract {
namespace {

std::string LibraryPath() {
  const char* const choice = std::getenv("PERMAFROST_DRIVER");
  if (choice != nullptr && std::strcmp(choice, "cuda") == 0) {
    return "libcuda.so.1";
  }
  if (choice != nullptr && std::strchr(choice, '/') != nullptr) return choice;
  return PERMAFROST_CONTRACT_SOFTCUDA;
}

[[noreturn]] void Die(const std::string& why) {
  std::fprintf(stderr, "contract tests: %s\n", why.c_str());
  std::abort();
}

Api Load() {
  const std::string path = LibraryPath();
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) Die(dlerror());
  Api api;
  api.GetProcAddress = reinterpret_cast<PFN_cuGetProcAddress_v12000>(
      dlsym(library, "cuGetProcAddress_v2"));
  if (api.GetProcAddress == nullptr) Die(path + " lacks cuGetProcAddress_v2");
  const auto find = [&](const char* name, int version) {
    void* function = nullptr;
    if (api.GetProcAddress(name, &function, version,
                           CU_GET_PROC_ADDRESS_DEFAULT,
                           nullptr) != CUDA_SUCCESS ||
        function == nullptr) {
      Die(path + " lacks " + name + " of " + std::to_string(version));
    }
    return function;
  };
#define PERMAFROST_CONTRACT_ENTRY(name, version) \
  api.name =                                     \
      reinterpret_cast<PFN_cu##name##_v##version>(find("cu" #name, version));
#include "contract_entries.inc"
#undef PERMAFROST_CONTRACT_ENTRY
  return api;
}

// The bound of k_gate: far more turns than a test waits, and an end for a
// process whose test failed to open the gate.
constexpr unsigned long long kGateTurns = 400'000'000;

}  // namespace

const Api& Driver() {
  static const Api api = Load();
  return api;
}

const void* KernelImage() { return permafrost_contract_image; }

bool IsOneOf(CUresult result, const std::vector<int>& accepted) {
  return std::find(accepted.begin(), accepted.end(),
                   static_cast<int>(result)) != accepted.end();
}

void OnOtherThread(CUcontext context, const std::function<void()>& body) {
  std::thread([&] {
    ASSERT_CU_OK(Driver().CtxSetCurrent(context));
    body();
    EXPECT_CU_OK(Driver().CtxSetCurrent(nullptr));
  }).join();
}

void ContractTest::SetUp() {
  ASSERT_CU_OK(cu.Init(0));
  ASSERT_CU_OK(cu.DeviceGet(&device, 0));
  ASSERT_CU_OK(cu.DevicePrimaryCtxRetain(&context, device));
  ASSERT_CU_OK(cu.CtxSetCurrent(context));
  ASSERT_CU_OK(cu.ModuleLoadData(&module_, KernelImage()));
  for (const char* name : {"k_fill", "k_add", "k_copy", "k_gate", "k_store",
                           "k_trap", "k_words"}) {
    CUfunction function = nullptr;
    ASSERT_CU_OK(cu.ModuleGetFunction(&function, module_, name));
    ASSERT_CU_OK(cu.FuncLoad(function));
    functions_.emplace(name, function);
  }
}

void ContractTest::TearDown() {
  if (context == nullptr) return;
  for (uint32_t* gate : gates_) OpenGate(gate);
  for (CUstream stream : capturing_) {
    CUgraph graph = nullptr;
    if (cu.StreamEndCapture(stream, &graph) == CUDA_SUCCESS) Keep(graph);
  }
  EXPECT_CU_OK(cu.CtxSynchronize());
  for (CUgraphExec exec : execs_) EXPECT_CU_OK(cu.GraphExecDestroy(exec));
  for (CUgraph graph : graphs_) EXPECT_CU_OK(cu.GraphDestroy(graph));
  for (CUevent event : events_) EXPECT_CU_OK(cu.EventDestroy(event));
  for (CUstream stream : streams_) EXPECT_CU_OK(cu.StreamDestroy(stream));
  for (CUdeviceptr memory : memory_) EXPECT_CU_OK(cu.MemFree(memory));
  for (uint32_t* memory : pinned_) EXPECT_CU_OK(cu.MemFreeHost(memory));
  if (module_ != nullptr) {
    EXPECT_CU_OK(cu.ModuleUnload(module_));
  }
  EXPECT_CU_OK(cu.CtxSetCurrent(nullptr));
  EXPECT_CU_OK(cu.DevicePrimaryCtxRelease(device));
}

CUstream ContractTest::NewStream(unsigned int flags) {
  CUstream stream = nullptr;
  EXPECT_CU_OK(cu.StreamCreate(&stream, flags));
  streams_.push_back(stream);
  return stream;
}

CUevent ContractTest::NewEvent(unsigned int flags) {
  CUevent event = nullptr;
  EXPECT_CU_OK(cu.EventCreate(&event, flags));
  events_.push_back(event);
  return event;
}

CUdeviceptr ContractTest::NewWords(size_t words) {
  CUdeviceptr memory = 0;
  EXPECT_CU_OK(cu.MemAlloc(&memory, words * sizeof(uint32_t)));
  EXPECT_CU_OK(cu.MemsetD32(memory, 0, words));
  EXPECT_CU_OK(cu.CtxSynchronize());
  memory_.push_back(memory);
  return memory;
}

uint32_t* ContractTest::NewPinnedWords(size_t words) {
  void* memory = nullptr;
  EXPECT_CU_OK(cu.MemAllocHost(&memory, words * sizeof(uint32_t)));
  std::memset(memory, 0, words * sizeof(uint32_t));
  pinned_.push_back(static_cast<uint32_t*>(memory));
  return pinned_.back();
}

CUresult ContractTest::Begin(CUstream stream, CUstreamCaptureMode mode) {
  const CUresult result = cu.StreamBeginCapture(stream, mode);
  if (result == CUDA_SUCCESS) capturing_.push_back(stream);
  return result;
}

CUresult ContractTest::End(CUstream stream, CUgraph* graph) {
  const CUresult result = cu.StreamEndCapture(stream, graph);
  capturing_.erase(std::remove(capturing_.begin(), capturing_.end(), stream),
                   capturing_.end());
  if (result == CUDA_SUCCESS) Keep(*graph);
  return result;
}

CUstreamCaptureStatus ContractTest::StatusOf(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  EXPECT_CU_OK(cu.StreamIsCapturing(stream, &status));
  return status;
}

CUgraphExec ContractTest::Instantiate(CUgraph graph) {
  CUgraphExec exec = nullptr;
  EXPECT_CU_OK(cu.GraphInstantiateWithFlags(&exec, graph, 0));
  if (exec != nullptr) execs_.push_back(exec);
  return exec;
}

CUresult ContractTest::LaunchFill(CUstream stream, CUdeviceptr words,
                                  uint32_t value, uint32_t count) {
  void* params[] = {&words, &value, &count};
  return cu.LaunchKernel(Function("k_fill"), (count + 63) / 64, 1, 1, 64, 1, 1,
                         0, stream, params, nullptr);
}

CUresult ContractTest::LaunchAdd(CUstream stream, CUdeviceptr words,
                                 uint32_t value, uint32_t count) {
  void* params[] = {&words, &value, &count};
  return cu.LaunchKernel(Function("k_add"), (count + 63) / 64, 1, 1, 64, 1, 1,
                         0, stream, params, nullptr);
}

CUresult ContractTest::LaunchGate(CUstream stream, uint32_t* gate) {
  gates_.push_back(gate);
  CUdeviceptr flag = reinterpret_cast<CUdeviceptr>(gate);
  unsigned long long turns = kGateTurns;
  void* params[] = {&flag, &turns};
  return cu.LaunchKernel(Function("k_gate"), 1, 1, 1, 1, 1, 1, 0, stream,
                         params, nullptr);
}

void ContractTest::OpenGate(uint32_t* gate) {
  std::atomic_ref<uint32_t>(*gate).store(1);
}

std::vector<uint32_t> ContractTest::Read(CUdeviceptr words, size_t count) {
  std::vector<uint32_t> values(count);
  EXPECT_CU_OK(cu.CtxSynchronize());
  EXPECT_CU_OK(cu.MemcpyDtoH(values.data(), words, count * sizeof(uint32_t)));
  return values;
}

std::vector<CUgraphNode> ContractTest::Nodes(CUgraph graph) {
  size_t count = 0;
  EXPECT_CU_OK(cu.GraphGetNodes(graph, nullptr, &count));
  std::vector<CUgraphNode> nodes(count);
  if (count > 0) {
    EXPECT_CU_OK(cu.GraphGetNodes(graph, nodes.data(), &count));
  }
  return nodes;
}

CUgraphNodeType ContractTest::TypeOf(CUgraphNode node) {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  EXPECT_CU_OK(cu.GraphNodeGetType(node, &type));
  return type;
}

size_t ContractTest::EdgeCount(CUgraph graph) {
  size_t count = 0;
  EXPECT_CU_OK(cu.GraphGetEdges(graph, nullptr, nullptr, nullptr, &count));
  return count;
}

bool ContractTest::HasEdge(CUgraph graph, CUgraphNode from, CUgraphNode to) {
  size_t count = EdgeCount(graph);
  std::vector<CUgraphNode> sources(count);
  std::vector<CUgraphNode> targets(count);
  std::vector<CUgraphEdgeData> data(count);
  if (count == 0) return false;
  EXPECT_CU_OK(cu.GraphGetEdges(graph, sources.data(), targets.data(),
                                data.data(), &count));
  for (size_t i = 0; i < count; ++i) {
    if (sources[i] == from && targets[i] == to) return true;
  }
  return false;
}

}  // namespace permafrost::contract
