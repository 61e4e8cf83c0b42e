// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "probes.h"

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "contract_api.h"

namespace permafrost::contract {
namespace {

constexpr int64_t kCannotTell = -1;
constexpr size_t kWords = 64;

void Check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "probes: %s: CUresult %d\n", what,
               static_cast<int>(result));
  std::exit(1);
}

class Probes {
 public:
  explicit Probes(const SayAnswer& say) : say_(say) {
    Check(cu.Init(0), "cuInit");
    Check(cu.DevicePrimaryCtxRetain(&context_, 0), "cuDevicePrimaryCtxRetain");
    Check(cu.CtxSetCurrent(context_), "cuCtxSetCurrent");
    Check(cu.ModuleLoadData(&module_, KernelImage()), "cuModuleLoadData");
    Check(cu.ModuleGetFunction(&fill_, module_, "k_fill"),
          "cuModuleGetFunction");
    Check(cu.FuncLoad(fill_), "cuFuncLoad");
    Check(cu.StreamCreate(&stream_, kNonBlocking), "cuStreamCreate");
    Check(cu.StreamCreate(&other_, kNonBlocking), "cuStreamCreate");
    Check(cu.MemAlloc(&words_, kWords * 4), "cuMemAlloc");
  }

  struct Part {
    const char* name;
    void (Probes::*ask)();
  };
  static constexpr size_t kPartCount = 11;
  static const Part kParts[kPartCount];

 private:
  struct Outcome {
    int64_t call = kCannotTell;
    bool invalidates = false;
    CUgraph graph = nullptr;
  };

  void Say(const char* key, int64_t value) { say_(key, value); }

  // Ends the capture of a stream, if it is in one, and drops its graph.
  void Drop(CUstream stream) {
    CUgraph graph = nullptr;
    if (cu.StreamEndCapture(stream, &graph) == CUDA_SUCCESS &&
        graph != nullptr) {
      (void)cu.GraphDestroy(graph);
    }
  }
  bool IsActive(CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    (void)cu.StreamIsCapturing(stream, &status);
    return status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
  }

  // Makes a call during a fresh capture; keeps the graph if asked to.
  Outcome During(CUstreamCaptureMode mode,
                 const std::function<CUresult()>& call, bool keep = false) {
    Outcome outcome;
    Check(cu.StreamBeginCapture(stream_, mode), "cuStreamBeginCapture");
    outcome.call = call();
    outcome.invalidates = !IsActive(stream_);
    if (keep) {
      (void)cu.StreamEndCapture(stream_, &outcome.graph);
    } else {
      Drop(stream_);
    }
    return outcome;
  }
  // The result of a call that does not go with a GLOBAL capture of this thread
  // is 900; of one that goes, 0.
  void AskClass(const char* key, const std::function<CUresult()>& call) {
    Say(key, During(kGlobal, call).call);
  }
  size_t NodeCount(CUgraph graph) {
    size_t count = 0;
    if (graph != nullptr) (void)cu.GraphGetNodes(graph, nullptr, &count);
    return count;
  }
  CUresult Fill(CUstream stream, unsigned int grid, unsigned int block) {
    uint32_t value = 1;
    uint32_t count = kWords;
    void* params[] = {&words_, &value, &count};
    return cu.LaunchKernel(fill_, grid, 1, 1, block, 1, 1, 0, stream, params,
                           nullptr);
  }
  CUevent NewEvent() {
    CUevent event = nullptr;
    Check(cu.EventCreate(&event, 0), "cuEventCreate");
    return event;
  }
  // Lets `stream` join the capture of stream_.
  void Join(CUstream stream) {
    const CUevent event = NewEvent();
    Check(cu.EventRecord(event, stream_), "cuEventRecord");
    Check(cu.StreamWaitEvent(stream, event, 0), "cuStreamWaitEvent");
    (void)cu.EventDestroy(event);
  }

  void Captures() {
    CUgraph graph = nullptr;
    Check(cu.StreamBeginCapture(stream_, kGlobal), "cuStreamBeginCapture");
    Join(other_);
    (void)cu.StreamEndCapture(other_, &graph);
    Say("P01.invalidates", IsActive(stream_) ? 0 : 1);
    Drop(stream_);

    Check(cu.StreamBeginCapture(stream_, kGlobal), "cuStreamBeginCapture");
    OnOtherThread(context_,
                  [&] { (void)cu.StreamEndCapture(stream_, &graph); });
    Say("P02.invalidates", IsActive(stream_) ? 0 : 1);
    Drop(stream_);

    Check(cu.StreamBeginCapture(stream_, kGlobal), "cuStreamBeginCapture");
    (void)cu.StreamQuery(stream_);
    Say("P03.code", cu.StreamBeginCapture(stream_, kGlobal));
    Drop(stream_);
  }

  void Events() {
    const CUevent event = NewEvent();
    Say("P04.code", During(kGlobal, [&] {
                      return cu.StreamWaitEvent(stream_, event, 0);
                    }).call);

    CUgraph graph = nullptr;
    Check(cu.StreamBeginCapture(stream_, kGlobal), "cuStreamBeginCapture");
    Check(cu.EventRecord(event, stream_), "cuEventRecord");
    Check(cu.StreamEndCapture(stream_, &graph), "cuStreamEndCapture");
    Say("P05.wait_code", cu.StreamWaitEvent(other_, event, 0));
    Say("P05.captured_wait_code", During(kGlobal, [&] {
                                    return cu.StreamWaitEvent(stream_, event,
                                                              0);
                                  }).call);
    Say("P05.query_code", cu.EventQuery(event));
    (void)cu.GraphDestroy(graph);

    const CUevent done = NewEvent();
    Check(cu.EventRecord(done, other_), "cuEventRecord");
    Check(cu.EventSynchronize(done), "cuEventSynchronize");
    // Under RELAXED, so that only the captured event can be in the way.
    const Outcome elapsed = DuringRelaxed([&] {
      float milliseconds = 0;
      (void)cu.EventRecord(event, stream_);
      return cu.EventElapsedTime(&milliseconds, done, event);
    });
    Say("P06.code", elapsed.call);
    Say("P06.invalidates", elapsed.invalidates ? 1 : 0);

    const char* const keys[] = {"P07.global", "P07.thread_local",
                                "P07.relaxed"};
    for (int i = 0; i < 3; ++i) {
      uint32_t word = 0;
      const Outcome copy =
          During(kAllModes[i], [&] { return cu.MemcpyHtoD(words_, &word, 4); });
      Say(keys[i], copy.call);
    }

    const Outcome query = DuringRelaxed([&] {
      (void)cu.EventRecord(event, stream_);
      return cu.EventQuery(event);
    });
    Say("P18.status", query.invalidates ? 2 : 1);
    (void)cu.EventDestroy(done);
    (void)cu.EventDestroy(event);
  }

  Outcome DuringRelaxed(const std::function<CUresult()>& call) {
    CUstreamCaptureMode mode = kRelaxed;
    Check(cu.ThreadExchangeStreamCaptureMode(&mode), "exchange of the mode");
    const Outcome outcome = During(kRelaxed, call);
    Check(cu.ThreadExchangeStreamCaptureMode(&mode), "exchange of the mode");
    return outcome;
  }

  // Each call gets arguments that make it succeed where it is allowed.
  void UnsafeCalls() {
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    size_t bytes = 0;
    Check(cu.MemGetAllocationGranularity(&bytes, &prop,
                                         CU_MEM_ALLOC_GRANULARITY_MINIMUM),
          "cuMemGetAllocationGranularity");
    CUmemAccessDesc access = {};
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CUdeviceptr base = 0;
    CUmemGenericAllocationHandle handle = 0;
    const auto reserve = [&] {
      return cu.MemAddressReserve(&base, bytes, 0, 0, 0);
    };
    const auto create = [&] { return cu.MemCreate(&handle, bytes, &prop, 0); };
    const auto map = [&] { return cu.MemMap(base, bytes, 0, handle, 0); };
    const auto set_access = [&] {
      return cu.MemSetAccess(base, bytes, &access, 1);
    };
    const auto unmap = [&] { return cu.MemUnmap(base, bytes); };
    const auto release = [&] { return cu.MemRelease(handle); };
    const auto free = [&] { return cu.MemAddressFree(base, bytes); };
    const std::pair<const char*, std::function<CUresult()>> calls[] = {
        {"P08.cuMemAddressReserve", reserve},
        {"P08.cuMemCreate", create},
        {"P08.cuMemMap", map},
        {"P08.cuMemSetAccess", set_access},
        {"P08.cuMemUnmap", unmap},
        {"P08.cuMemRelease", release},
        {"P08.cuMemAddressFree", free}};
    for (const auto& [key, call] : calls) {
      const Outcome outcome = During(kGlobal, call);
      Say(key, outcome.call);
      // What the capture did not allow is made up for, for the next call.
      if (outcome.call != CUDA_SUCCESS) Check(call(), key);
    }
    int64_t relaxed = 0;
    for (const auto& [key, call] : calls) {
      const Outcome outcome = During(kRelaxed, call);
      if (outcome.call == CUDA_SUCCESS) continue;
      relaxed = outcome.call;
      Check(call(), key);
    }
    Say("P08.relaxed", relaxed);

    size_t free_bytes = 0;
    size_t total_bytes = 0;
    AskClass("P09.cuMemGetInfo",
             [&] { return cu.MemGetInfo(&free_bytes, &total_bytes); });
    void* host = nullptr;
    AskClass("P09.cuMemAllocHost",
             [&] { return cu.MemAllocHost(&host, 4096); });
    if (host != nullptr) (void)cu.MemFreeHost(host);
    std::vector<char> pages(8192);
    bool registered = false;
    AskClass("P09.cuMemHostRegister", [&] {
      const CUresult result = cu.MemHostRegister(pages.data(), pages.size(), 0);
      registered = result == CUDA_SUCCESS;
      return result;
    });
    if (registered) (void)cu.MemHostUnregister(pages.data());
    Check(cu.MemAllocHost(&host, 4096), "cuMemAllocHost");
    bool freed = false;
    AskClass("P09.cuMemFreeHost", [&] {
      const CUresult result = cu.MemFreeHost(host);
      freed = result == CUDA_SUCCESS;
      return result;
    });
    if (!freed) (void)cu.MemFreeHost(host);

    unsigned long long id = 0;
    unsigned int flags = 0;
    CUcontext context = nullptr;
    CUdevice device = 0;
    AskClass("P10.cuStreamGetId", [&] { return cu.StreamGetId(stream_, &id); });
    AskClass("P10.cuStreamGetDevice",
             [&] { return cu.StreamGetDevice(stream_, &device); });
    AskClass("P10.cuStreamGetCtx",
             [&] { return cu.StreamGetCtx(stream_, &context); });
    AskClass("P10.cuStreamGetFlags",
             [&] { return cu.StreamGetFlags(stream_, &flags); });
  }

  void StreamEnds() {
    CUstream unrelated = nullptr;
    Check(cu.StreamCreate(&unrelated, kNonBlocking), "cuStreamCreate");
    bool destroyed = false;
    AskClass("P11.unrelated", [&] {
      const CUresult result = cu.StreamDestroy(unrelated);
      destroyed = result == CUDA_SUCCESS;
      return result;
    });
    if (!destroyed) (void)cu.StreamDestroy(unrelated);
    Say("P11.member", DestroyMember());
    CUstream origin = nullptr;
    Check(cu.StreamCreate(&origin, kNonBlocking), "cuStreamCreate");
    Check(cu.StreamBeginCapture(origin, kRelaxed), "cuStreamBeginCapture");
    const CUresult result = cu.StreamDestroy(origin);
    Say("P11.origin", result);
    if (result == CUDA_SUCCESS) return;
    Drop(origin);
    (void)cu.StreamDestroy(origin);
  }

  int64_t DestroyMember() {
    CUstream member = nullptr;
    Check(cu.StreamCreate(&member, kNonBlocking), "cuStreamCreate");
    Check(cu.StreamBeginCapture(stream_, kRelaxed), "cuStreamBeginCapture");
    Join(member);
    const CUresult result = cu.StreamDestroy(member);
    Drop(stream_);
    if (result != CUDA_SUCCESS) (void)cu.StreamDestroy(member);
    return result;
  }

  // A graph of fills in a row.
  CUgraph CaptureFills(int count) {
    CUgraph graph = nullptr;
    Check(cu.StreamBeginCapture(stream_, kGlobal), "cuStreamBeginCapture");
    for (int i = 0; i < count; ++i) Check(Fill(stream_, 1, 64), "k_fill");
    Check(cu.StreamEndCapture(stream_, &graph), "cuStreamEndCapture");
    return graph;
  }

  void GraphCalls() {
    const CUgraph graph = CaptureFills(1);
    CUgraphExec exec = nullptr;
    CUgraphExec made = nullptr;
    Check(cu.GraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
    CUgraphNode node = nullptr;
    size_t count = 1;
    Check(cu.GraphGetNodes(graph, &node, &count), "cuGraphGetNodes");
    CUDA_KERNEL_NODE_PARAMS params = {};
    Check(cu.GraphKernelNodeGetParams(node, &params),
          "cuGraphKernelNodeGetParams");
    const auto drop_made = [&] {
      if (made != nullptr) (void)cu.GraphExecDestroy(made);
      made = nullptr;
    };
    AskClass("P12.cuGraphInstantiate",
             [&] { return cu.GraphInstantiateWithFlags(&made, graph, 0); });
    drop_made();
    CUDA_GRAPH_INSTANTIATE_PARAMS instantiate = {};
    AskClass("P12.cuGraphInstantiateWithParams", [&] {
      return cu.GraphInstantiateWithParams(&made, graph, &instantiate);
    });
    drop_made();
    AskClass("P12.cuGraphUpload", [&] { return cu.GraphUpload(exec, other_); });
    CUgraphExecUpdateResultInfo info = {};
    AskClass("P12.cuGraphExecUpdate",
             [&] { return cu.GraphExecUpdate(exec, graph, &info); });
    AskClass("P12.cuGraphExecKernelNodeSetParams", [&] {
      return cu.GraphExecKernelNodeSetParams(exec, node, &params);
    });
    AskClass("P12.cuGraphNodeSetEnabled",
             [&] { return cu.GraphNodeSetEnabled(exec, node, 1); });
    const Outcome launch =
        During(kRelaxed, [&] { return cu.GraphLaunch(exec, stream_); });
    Say("P13.code", launch.call);
    Say("P13.invalidates", launch.invalidates ? 1 : 0);

    const CUgraph longer = CaptureFills(2);
    (void)cu.GraphExecUpdate(exec, longer, &info);
    Say("P19.result", info.result);
    (void)cu.StreamSynchronize(other_);
    (void)cu.GraphDestroy(longer);
    (void)cu.GraphExecDestroy(exec);
    (void)cu.GraphDestroy(graph);
  }

  void Recording() {
    const auto nodes = [&](const char* key,
                           const std::function<CUresult()>& call) {
      const Outcome outcome = During(kGlobal, call, /*keep=*/true);
      Say(key, static_cast<int64_t>(NodeCount(outcome.graph)));
      if (outcome.graph != nullptr) (void)cu.GraphDestroy(outcome.graph);
    };
    nodes("P14.memcpy_nodes",
          [&] { return cu.MemcpyDtoDAsync(words_, words_ + 128, 0, stream_); });
    nodes("P14.memset_nodes",
          [&] { return cu.MemsetD32Async(words_, 0, 0, stream_); });
    Say("P15.invalidates",
        During(kGlobal, [&] { return Fill(stream_, 1u << 31, 64); }).invalidates
            ? 1
            : 0);
    const Outcome free =
        During(kGlobal, [&] { return cu.MemFreeAsync(words_, stream_); });
    Say("P16.code", free.call);
    Say("P16.invalidates", free.invalidates ? 1 : 0);
    Say("P20.grid_0", Fill(stream_, 0, 64));
    Say("P20.block_0", Fill(stream_, 1, 0));
    Say("P20.block_too_large", Fill(stream_, 1, 1025));
    CUdeviceptr memory = 0;
    Say("P21.code", cu.MemAllocAsync(&memory, 0, stream_));
    if (memory != 0) (void)cu.MemFreeAsync(memory, stream_);
    (void)cu.StreamSynchronize(stream_);
  }

  void CodeCalls() {
    CUlibrary library = nullptr;
    AskClass("P17.cuLibraryLoadData", [&] {
      return cu.LibraryLoadData(&library, KernelImage(), nullptr, nullptr, 0,
                                nullptr, nullptr, 0);
    });
    if (library == nullptr) {
      Check(cu.LibraryLoadData(&library, KernelImage(), nullptr, nullptr, 0,
                               nullptr, nullptr, 0),
            "cuLibraryLoadData");
    }
    CUkernel kernel = nullptr;
    CUfunction function = nullptr;
    Check(cu.LibraryGetKernel(&kernel, library, "k_add"), "cuLibraryGetKernel");
    AskClass("P17.cuKernelGetFunction",
             [&] { return cu.KernelGetFunction(&function, kernel); });
    AskClass("P17.cuModuleGetFunction", [&] {
      return cu.ModuleGetFunction(&function, module_, "k_copy");
    });
    if (function == nullptr) {
      Check(cu.ModuleGetFunction(&function, module_, "k_copy"), "k_copy");
    }
    AskClass("P17.cuFuncLoad", [&] { return cu.FuncLoad(function); });
    // A function that nothing has loaded yet.
    CUfunction lazy = nullptr;
    Check(cu.ModuleGetFunction(&lazy, module_, "k_store"), "k_store");
    void* params[] = {&words_};
    Say("P17.first_launch", During(kGlobal, [&] {
                              return cu.LaunchKernel(lazy, 1, 1, 1, 1, 1, 1, 0,
                                                     stream_, params, nullptr);
                            }).call);

    // One that is loaded, so that its capture is only about its name.
    Check(cu.KernelGetFunction(&function, kernel), "cuKernelGetFunction");
    Check(cu.FuncLoad(function), "cuFuncLoad");
    uint32_t value = 1;
    uint32_t count = kWords;
    void* add_params[] = {&words_, &value, &count};
    const Outcome outcome = During(
        kGlobal,
        [&] {
          return cu.LaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1,
                                 64, 1, 1, 0, stream_, add_params, nullptr);
        },
        /*keep=*/true);
    CUgraphNode node = nullptr;
    size_t nodes = 1;
    CUDA_KERNEL_NODE_PARAMS found = {};
    const bool answered =
        outcome.graph != nullptr &&
        cu.GraphGetNodes(outcome.graph, &node, &nodes) == CUDA_SUCCESS &&
        cu.GraphKernelNodeGetParams(node, &found) == CUDA_SUCCESS;
    Say("P22.kern_is_set",
        answered ? (found.func == nullptr && found.kern != nullptr ? 1 : 0)
                 : kCannotTell);
    if (outcome.graph != nullptr) (void)cu.GraphDestroy(outcome.graph);
    (void)cu.LibraryUnload(library);
  }

  // Some driver may have freed the graph, and then crash.
  void BrokenGraphOfTheCaller() {
    CUgraph user = nullptr;
    CUgraph ended = nullptr;
    Check(cu.GraphCreate(&user, 0), "cuGraphCreate");
    Check(cu.StreamBeginCaptureToGraph(stream_, user, nullptr, nullptr, 0,
                                       kGlobal),
          "cuStreamBeginCaptureToGraph");
    Check(Fill(stream_, 1, 64), "k_fill");
    (void)cu.StreamQuery(stream_);
    (void)cu.StreamEndCapture(stream_, &ended);
    size_t count = 0;
    Say("P23.graph_lives",
        cu.GraphGetNodes(user, nullptr, &count) == CUDA_SUCCESS ? 1 : 0);
    (void)cu.GraphDestroy(user);
  }

  void Graphs() {
    CUgraph ended = nullptr;
    CUgraph seen = nullptr;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    Check(cu.StreamBeginCapture(stream_, kGlobal), "cuStreamBeginCapture");
    Check(Fill(stream_, 1, 32), "k_fill");
    Check(cu.MemsetD32Async(words_, 1, 1, stream_), "cuMemsetD32Async");
    Check(Fill(stream_, 1, 64), "k_fill");
    Check(cu.StreamGetCaptureInfo(stream_, &status, &id, &seen, nullptr,
                                  nullptr, nullptr),
          "cuStreamGetCaptureInfo");
    Check(cu.StreamEndCapture(stream_, &ended), "cuStreamEndCapture");
    Say("P24.same_handle", seen == ended ? 1 : 0);
    Say("P25.same_order", IsFillMemsetFill(ended) ? 1 : 0);
    Say("P26.growth_bytes", GrowthOfReplays(ended));
    (void)cu.GraphDestroy(ended);
  }

  void OtherDevice() { Say("P27.conflicts", ConflictOfAnotherDevice()); }

  bool IsFillMemsetFill(CUgraph graph) {
    CUgraphNode nodes[3] = {};
    size_t count = 3;
    Check(cu.GraphGetNodes(graph, nodes, &count), "cuGraphGetNodes");
    const CUgraphNodeType wanted[] = {CU_GRAPH_NODE_TYPE_KERNEL,
                                      CU_GRAPH_NODE_TYPE_MEMSET,
                                      CU_GRAPH_NODE_TYPE_KERNEL};
    for (int i = 0; i < 3; ++i) {
      CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
      (void)cu.GraphNodeGetType(nodes[i], &type);
      if (type != wanted[i]) return false;
    }
    CUDA_KERNEL_NODE_PARAMS first = {};
    Check(cu.GraphKernelNodeGetParams(nodes[0], &first), "node parameters");
    return first.blockDimX == 32;
  }

  int64_t GrowthOfReplays(CUgraph graph) {
    CUgraphExec exec = nullptr;
    size_t before = 0;
    size_t after = 0;
    size_t total = 0;
    Check(cu.GraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
    Check(cu.GraphLaunch(exec, stream_), "cuGraphLaunch");
    Check(cu.StreamSynchronize(stream_), "cuStreamSynchronize");
    Check(cu.MemGetInfo(&before, &total), "cuMemGetInfo");
    for (int i = 0; i < 1000; ++i) {
      Check(cu.GraphLaunch(exec, stream_), "cuGraphLaunch");
    }
    Check(cu.StreamSynchronize(stream_), "cuStreamSynchronize");
    Check(cu.MemGetInfo(&after, &total), "cuMemGetInfo");
    Check(cu.GraphExecDestroy(exec), "cuGraphExecDestroy");
    return static_cast<int64_t>(before) - static_cast<int64_t>(after);
  }

  int64_t ConflictOfAnotherDevice() {
    int devices = 0;
    CUcontext second = nullptr;
    Check(cu.DeviceGetCount(&devices), "cuDeviceGetCount");
    if (devices < 2 || cu.DevicePrimaryCtxRetain(&second, 1) != CUDA_SUCCESS) {
      return kCannotTell;
    }
    CUdeviceptr memory = 0;
    const Outcome outcome = During(kGlobal, [&] {
      (void)cu.CtxSetCurrent(second);
      return cu.MemAlloc(&memory, 64);
    });
    if (memory != 0) (void)cu.MemFree(memory);
    Check(cu.CtxSetCurrent(context_), "cuCtxSetCurrent");
    (void)cu.DevicePrimaryCtxRelease(1);
    return outcome.call == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED ? 1 : 0;
  }

  // Ends the context, and with it what the process can do.
  void Trap() {
    CUfunction trap = nullptr;
    Check(cu.ModuleGetFunction(&trap, module_, "k_trap"), "k_trap");
    Check(cu.LaunchKernel(trap, 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, nullptr),
          "cuLaunchKernel");
    Say("P28.code", cu.StreamSynchronize(stream_));
  }

  const Api& cu = Driver();
  CUcontext context_ = nullptr;
  CUmodule module_ = nullptr;
  CUfunction fill_ = nullptr;
  CUstream stream_ = nullptr;
  CUstream other_ = nullptr;
  CUdeviceptr words_ = 0;
  SayAnswer say_;
};

const Probes::Part Probes::kParts[kPartCount] = {
    {"captures", &Probes::Captures},
    {"events", &Probes::Events},
    {"unsafe-calls", &Probes::UnsafeCalls},
    {"stream-ends", &Probes::StreamEnds},
    {"graph-calls", &Probes::GraphCalls},
    {"recording", &Probes::Recording},
    {"code-calls", &Probes::CodeCalls},
    {"broken-graph", &Probes::BrokenGraphOfTheCaller},
    {"graphs", &Probes::Graphs},
    {"other-device", &Probes::OtherDevice},
    {"trap", &Probes::Trap},
};

}  // namespace

std::vector<std::string> ProbeParts() {
  std::vector<std::string> names;
  for (const auto& part : Probes::kParts) names.emplace_back(part.name);
  return names;
}

bool AskProbePart(const std::string& name, const SayAnswer& say) {
  for (const auto& part : Probes::kParts) {
    if (name != part.name) continue;
    Probes probes(say);
    (probes.*part.ask)();
    return true;
  }
  return false;
}

bool AskForDevice(int* driver_version, std::string* device_name) {
  const Api& cu = Driver();
  CUdevice device = 0;
  char name[256] = {};
  if (cu.DriverGetVersion(driver_version) != CUDA_SUCCESS ||
      cu.Init(0) != CUDA_SUCCESS || cu.DeviceGet(&device, 0) != CUDA_SUCCESS ||
      cu.DeviceGetName(name, sizeof name - 1, device) != CUDA_SUCCESS) {
    return false;
  }
  *device_name = name;
  return true;
}

}  // namespace permafrost::contract
