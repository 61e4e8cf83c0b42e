// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>

#include "runtime_fixture.h"

namespace softcuda {
namespace {

constexpr char kStorePtx[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry k_store(.param .u64 k_store_0)
{
  .reg .b64 %rd<2>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [k_store_0];
  mov.u32 %r1, 1;
  st.global.u32 [%rd1], %r1;
  ret;
}
)";

// Notes in which order nodes ran.
struct OrderLog {
  std::mutex mutex;
  std::vector<int> order;
};
struct OrderMark {
  OrderLog* log;
  int number;
};
void Note(void* data) {
  const auto* mark = static_cast<OrderMark*>(data);
  const std::lock_guard<std::mutex> lock(mark->log->mutex);
  mark->log->order.push_back(mark->number);
}

class ExecutorTest : public RuntimeTest {
 protected:
  static constexpr int kNodes = 12;

  void SetUp() override {
    RuntimeTest::SetUp();
    ASSERT_OK(cuGraphCreate(&graph_, 0));
    for (int i = 0; i < kNodes; ++i) marks_.push_back({&log_, i});
  }
  void TearDown() override {
    EXPECT_OK(cuGraphDestroy(graph_));
    RuntimeTest::TearDown();
  }

  std::vector<int> Run(CUgraphExec exec, uint64_t seed) {
    log_.order.clear();
    softcuda_set_schedule_seed(seed);
    EXPECT_OK(cuGraphLaunch(exec, stream_));
    EXPECT_OK(cuStreamSynchronize(stream_));
    return log_.order;
  }

  CUgraph graph_ = nullptr;
  OrderLog log_;
  std::vector<OrderMark> marks_;
};

TEST_F(ExecutorTest, SeedsReorderWhatNothingOrders) {
  for (OrderMark& mark : marks_) AddHostNode(graph_, Note, &mark);
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuGraphInstantiate(&exec, graph_, 0));
  std::set<std::vector<int>> orders;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const std::vector<int> order = Run(exec, seed);
    std::vector<int> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    for (int i = 0; i < kNodes; ++i) {
      EXPECT_EQ(sorted.at(static_cast<size_t>(i)), i);
    }
    orders.insert(order);
  }
  EXPECT_GT(orders.size(), 4u);
  EXPECT_OK(cuGraphExecDestroy(exec));
}

TEST_F(ExecutorTest, EveryOrderKeepsTheEdges) {
  // Two chains, over even and odd numbers, and a node behind both.
  std::vector<CUgraphNode> nodes;
  for (int i = 0; i < kNodes - 1; ++i) {
    std::vector<CUgraphNode> behind;
    if (i >= 2) behind.push_back(nodes[static_cast<size_t>(i) - 2]);
    nodes.push_back(
        AddHostNode(graph_, Note, &marks_[static_cast<size_t>(i)], behind));
  }
  AddHostNode(graph_, Note, &marks_.back(),
              {nodes[nodes.size() - 1], nodes[nodes.size() - 2]});
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuGraphInstantiate(&exec, graph_, 0));
  for (uint64_t seed = 0; seed < 16; ++seed) {
    const std::vector<int> order = Run(exec, seed);
    ASSERT_EQ(order.size(), static_cast<size_t>(kNodes));
    std::vector<size_t> place(kNodes);
    for (size_t i = 0; i < order.size(); ++i) {
      place[static_cast<size_t>(order[i])] = i;
    }
    for (size_t i = 2; i + 1 < kNodes; ++i) EXPECT_LT(place[i - 2], place[i]);
    EXPECT_EQ(order.back(), kNodes - 1);
  }
  EXPECT_OK(cuGraphExecDestroy(exec));
}

TEST_F(ExecutorTest, WithExecutionOffKernelsDoNotRun) {
  CUmodule module = nullptr;
  CUfunction store = nullptr;
  CUdeviceptr word = 0;
  ASSERT_OK(cuModuleLoadData(&module, kStorePtx));
  ASSERT_OK(cuModuleGetFunction(&store, module, "k_store"));
  ASSERT_OK(cuMemAlloc(&word, 4));
  ASSERT_OK(cuMemsetD32(word, 0, 1));
  void* params[] = {&word};
  for (const int enabled : {0, 1}) {
    softcuda_set_execution(enabled);
    const int64_t before = softcuda_kernels_executed();
    ASSERT_OK(
        cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
    uint32_t value = 9;
    ASSERT_OK(cuMemcpyDtoH(&value, word, 4));
    EXPECT_EQ(value, static_cast<uint32_t>(enabled));
    EXPECT_EQ(softcuda_kernels_executed() - before, enabled);
  }
  EXPECT_OK(cuMemFree(word));
  EXPECT_OK(cuModuleUnload(module));
}

std::atomic<int> host_result{0};
void CallTheDriver(void*) { host_result = cuMemFree(0); }

TEST_F(ExecutorTest, HostFunctionsMayNotCallTheDriver) {
  ASSERT_OK(cuLaunchHostFunc(stream_, CallTheDriver, nullptr));
  ASSERT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(host_result, CUDA_ERROR_NOT_PERMITTED);
  EXPECT_NE(TakeReports().find("cuMemFree"), std::string::npos);
}

// A host function that waits for another stream's: more items must be able to
// run than there are processors.
struct Rendezvous {
  std::atomic<int> arrived{0};
  int expected = 0;
};
void Meet(void* data) {
  auto* rendezvous = static_cast<Rendezvous*>(data);
  ++rendezvous->arrived;
  while (rendezvous->arrived < rendezvous->expected) {
  }
}

TEST_F(ExecutorTest, ItemsMayWaitForEachOther) {
  for (const uint64_t seed : {uint64_t{0}, uint64_t{7}}) {
    softcuda_set_schedule_seed(seed);
    Rendezvous rendezvous;
    rendezvous.expected = 6;
    std::vector<CUstream> streams(6);
    for (CUstream& stream : streams) {
      ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
      ASSERT_OK(cuLaunchHostFunc(stream, Meet, &rendezvous));
    }
    EXPECT_OK(cuCtxSynchronize());
    for (CUstream stream : streams) EXPECT_OK(cuStreamDestroy(stream));
  }
}

TEST_F(ExecutorTest, LongChainsOfMarkersDoNotRecurse) {
  CUevent event = nullptr;
  CUstream other = nullptr;
  ASSERT_OK(cuEventCreate(&event, 0));
  ASSERT_OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  Rendezvous rendezvous;
  rendezvous.expected = 2;
  ASSERT_OK(cuLaunchHostFunc(stream_, Meet, &rendezvous));
  for (int i = 0; i < 20000; ++i) {
    ASSERT_OK(cuEventRecord(event, i % 2 == 0 ? stream_ : other));
    ASSERT_OK(cuStreamWaitEvent(i % 2 == 0 ? other : stream_, event, 0));
  }
  ++rendezvous.arrived;
  EXPECT_OK(cuStreamSynchronize(other));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_OK(cuStreamDestroy(other));
  EXPECT_OK(cuEventDestroy(event));
}

}  // namespace
}  // namespace softcuda
