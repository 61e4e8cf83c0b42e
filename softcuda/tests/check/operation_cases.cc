// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "case_runs.h"
#include "softcuda/control.h"

extern "C" const unsigned char softcuda_check_kernels[];

namespace softcuda::testing {
namespace {

constexpr int kWorkInts = 256;
constexpr size_t kWorkBytes = kWorkInts * 4;
constexpr const char* kCheckers[] = {"initcheck", "racecheck", "leakcheck",
                                     "hostcheck"};

void Ok(CUresult result, const std::string& what) {
  EXPECT_EQ(static_cast<int>(result), 0) << what;
}

std::string TakeReports() {
  std::string text(softcuda_take_reports(nullptr, 0), '\0');
  if (!text.empty()) softcuda_take_reports(text.data(), text.size());
  return text;
}

// The objects that the words of a case name, and the statements.
class Work {
 public:
  Work() {
    Ok(cuModuleLoadData(&module_, softcuda_check_kernels), "load");
    for (const char* name : {"s", "t", "p", "q"}) {
      const bool blocks = *name == 'p' || *name == 'q';
      Ok(cuStreamCreate(&streams_[name],
                        blocks ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING),
         name);
    }
    streams_["l"] = CU_STREAM_LEGACY;
    for (const char* name : {"a", "b", "c"}) {
      Ok(cuMemAlloc(&buffers_[name], kWorkBytes), name);
      Ok(cuMemsetD32(buffers_[name], 0, kWorkInts), name);
    }
    void* host = nullptr;
    Ok(cuMemAllocHost(&host, kWorkBytes), "h");
    host_ = static_cast<int*>(host);
    for (int k = 0; k < kWorkInts; ++k) host_[k] = k % 13;
    Ok(cuCtxSynchronize(), "before the work");
  }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  ~Work() {
    Ok(cuCtxSynchronize(), "behind the work");
    for (CUgraphExec exec : execs_) Ok(cuGraphExecDestroy(exec), "graph");
    if (host_ != nullptr) Ok(cuMemFreeHost(host_), "h");
    for (const auto& [name, buffer] : buffers_) Ok(cuMemFree(buffer), name);
    streams_.erase("l");
    for (const auto& [name, stream] : streams_) {
      Ok(cuStreamDestroy(stream), name);
    }
    Ok(cuModuleUnload(module_), "unload");
  }

  void Do(const std::string& statement) {
    std::istringstream words(statement);
    std::string verb;
    std::vector<std::string> names;
    words >> verb;
    for (std::string word; words >> word;) names.push_back(word);
    if (!DoKernel(verb, names) && !DoCall(verb, names) &&
        !DoObject(verb, names)) {
      ADD_FAILURE() << "no statement '" << statement << "'";
    }
  }

 private:
  using Names = std::vector<std::string>;

  CUstream StreamOf(const std::string& name) const { return streams_.at(name); }
  CUdeviceptr BufferOf(const std::string& name) const {
    return buffers_.at(name);
  }

  CUfunction Function(const char* kernel) const {
    CUfunction function = nullptr;
    Ok(cuModuleGetFunction(&function, module_, kernel), kernel);
    return function;
  }

  void Launch(const std::string& stream, const char* kernel, void** params,
              bool programmatic = false) {
    CUlaunchAttribute attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
    CUlaunchConfig config = {};
    config.gridDimX = 3;
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = 128;
    config.blockDimY = config.blockDimZ = 1;
    config.hStream = StreamOf(stream);
    config.attrs = &attribute;
    config.numAttrs = programmatic ? 1 : 0;
    Ok(cuLaunchKernelEx(&config, Function(kernel), params, nullptr), kernel);
  }

  bool DoKernel(const std::string& verb, const Names& names) {
    int n = kWorkInts;
    if (verb == "fill" || verb == "head" || verb == "tail" ||
        verb == "long_head") {
      CUdeviceptr out = BufferOf(names[1]);
      if (verb == "tail") out += kWorkBytes / 2;
      if (verb == "head" || verb == "tail") n = kWorkInts / 2;
      if (verb == "long_head") n = kWorkInts / 2 + 1;
      void* params[] = {&out, &n, &n};
      Launch(names[0], "k_fill", params);
      return true;
    }
    const char* kernel = nullptr;
    if (verb == "add" || verb == "early") kernel = "k_add";
    if (verb == "early_wait") kernel = "k_grid_wait_then_add";
    if (verb == "histogram") kernel = "k_atomic_histogram";
    if (kernel == nullptr) return false;
    CUdeviceptr in = BufferOf(names[1]);
    CUdeviceptr out = BufferOf(names[2]);
    void* params[] = {&in, &out, &n};
    Launch(names[0], kernel, params, verb.rfind("early", 0) == 0);
    return true;
  }

  bool DoCall(const std::string& verb, const Names& names) {
    CUresult result = CUDA_SUCCESS;
    if (verb == "set") {
      result = cuMemsetD32Async(BufferOf(names[1]), 1, kWorkInts,
                                StreamOf(names[0]));
    } else if (verb == "copy") {
      result = cuMemcpyDtoDAsync(BufferOf(names[2]), BufferOf(names[1]),
                                 kWorkBytes, StreamOf(names[0]));
    } else if (verb == "upload") {
      result = cuMemcpyHtoDAsync(BufferOf(names[1]), host_, kWorkBytes,
                                 StreamOf(names[0]));
    } else if (verb == "stack_upload") {
      result = cuMemcpyHtoDAsync(BufferOf(names[1]), on_stack_,
                                 sizeof on_stack_, StreamOf(names[0]));
    } else if (verb == "download") {
      result = cuMemcpyDtoHAsync(host_, BufferOf(names[1]), kWorkBytes,
                                 StreamOf(names[0]));
    } else if (verb == "order") {
      CUevent event = nullptr;
      Ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), verb);
      Ok(cuEventRecord(event, StreamOf(names[0])), verb);
      Ok(cuStreamWaitEvent(StreamOf(names[1]), event, 0), verb);
      result = cuEventDestroy(event);
    } else if (verb == "sync") {
      result = cuStreamSynchronize(StreamOf(names[0]));
    } else if (verb == "undefine") {
      result = static_cast<CUresult>(
          softcuda_mark_undefined(BufferOf(names[0]), kWorkBytes));
    } else if (verb == "late") {
      result = static_cast<CUresult>(softcuda_set_option("late_work", "1"));
    } else {
      return false;
    }
    Ok(result, verb);
    return true;
  }

  bool DoObject(const std::string& verb, const Names& names) {
    if (verb == "capture") {
      Ok(cuStreamBeginCapture(StreamOf("s"), CU_STREAM_CAPTURE_MODE_GLOBAL),
         verb);
    } else if (verb == "launch") {
      CUgraph graph = nullptr;
      CUgraphExec exec = nullptr;
      Ok(cuStreamEndCapture(StreamOf("s"), &graph), verb);
      // One for each launch in a row would hide what replays share.
      for (size_t k = 0; k < names.size(); ++k) {
        if (k == 0 || names[k] != names[k - 1]) {
          Ok(cuGraphInstantiate(&exec, graph, 0), verb);
          execs_.push_back(exec);
        }
        Ok(cuGraphLaunch(exec, StreamOf(names[k])), verb);
      }
      Ok(cuGraphDestroy(graph), verb);
    } else if (verb == "change") {
      ++host_[3];
    } else if (verb == "free") {
      Ok(cuMemFreeHost(host_), verb);
      host_ = nullptr;
    } else if (verb == "leak") {
      Leak(names[0]);
    } else if (verb == "stale") {
      UseStale(names[0]);
    } else {
      return false;
    }
    return true;
  }

  static void Leak(const std::string& name) {
    CUdeviceptr memory = 0;
    void* host = nullptr;
    CUstream stream = nullptr;
    CUevent event = nullptr;
    if (name == "memory") Ok(cuMemAlloc(&memory, kWorkBytes), name);
    if (name == "host") Ok(cuMemAllocHost(&host, kWorkBytes), name);
    if (name == "stream") Ok(cuStreamCreate(&stream, 0), name);
    if (name == "event") Ok(cuEventCreate(&event, 0), name);
  }

  void UseStale(const std::string& name) {
    CUresult result = CUDA_SUCCESS;
    if (name == "stream") {
      CUstream stream = nullptr;
      Ok(cuStreamCreate(&stream, 0), name);
      Ok(cuStreamDestroy(stream), name);
      result = cuStreamSynchronize(stream);
    } else if (name == "event") {
      CUevent event = nullptr;
      Ok(cuEventCreate(&event, 0), name);
      Ok(cuEventDestroy(event), name);
      result = cuEventRecord(event, StreamOf("s"));
    } else if (name == "graph") {
      CUgraph graph = nullptr;
      CUgraphExec exec = nullptr;
      Ok(cuGraphCreate(&graph, 0), name);
      Ok(cuGraphDestroy(graph), name);
      result = cuGraphInstantiate(&exec, graph, 0);
    } else if (name == "function") {
      CUmodule module = nullptr;
      CUfunction function = nullptr;
      Ok(cuModuleLoadData(&module, softcuda_check_kernels), name);
      Ok(cuModuleGetFunction(&function, module, "k_fill"), name);
      Ok(cuModuleUnload(module), name);
      void* params[] = {nullptr, nullptr, nullptr};
      result = cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, StreamOf("s"),
                              params, nullptr);
    }
    EXPECT_NE(static_cast<int>(result), 0) << name;
  }

  CUmodule module_ = nullptr;
  std::map<std::string, CUstream> streams_;
  std::map<std::string, CUdeviceptr> buffers_;
  std::vector<CUgraphExec> execs_;
  int* host_ = nullptr;
  // Its owner is a local variable; it outlives the work that reads it here.
  int on_stack_[4] = {};
};

}  // namespace

std::string RunCase(const OperationsCase& c, uint64_t seed) {
  softcuda_set_quiet(1);
  CUcontext context = nullptr;
  Ok(cuInit(0), c.name);
  TakeReports();
  for (const char* checker : kCheckers) softcuda_set_option(checker, "1");
  softcuda_set_schedule_seed(seed);
  Ok(cuDevicePrimaryCtxRetain(&context, 0), c.name);
  Ok(cuCtxSetCurrent(context), c.name);
  {
    Work work;
    std::istringstream statements(c.work);
    for (std::string one; std::getline(statements, one, ';');) work.Do(one);
  }
  Ok(cuCtxSetCurrent(nullptr), c.name);
  Ok(cuDevicePrimaryCtxRelease(0), c.name);
  softcuda_set_schedule_seed(0);
  softcuda_set_option("late_work", "0");
  for (const char* checker : kCheckers) softcuda_set_option(checker, "0");
  return TakeReports();
}

}  // namespace softcuda::testing
