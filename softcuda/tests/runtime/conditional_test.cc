// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Conditional nodes, with conditions set by default and by kernels.
#include "runtime_fixture.h"

namespace softcuda {
namespace {

// k_set sets a condition to a word of memory. k_count counts a word down, and
// sets a condition to what is left. cudaGraphSetConditional is what the
// compiler makes of the call of that name.
constexpr char kConditionalPtx[] = R"(
.version 8.0
.target sm_70
.address_size 64
.extern .func cudaGraphSetConditional(.param .b64 cudaGraphSetConditional_param_0,
                                      .param .b32 cudaGraphSetConditional_param_1);
.visible .entry k_set(.param .u64 k_set_handle, .param .u64 k_set_word)
{
  .reg .b64 %rd<3>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [k_set_handle];
  ld.param.u64 %rd2, [k_set_word];
  ld.global.u32 %r1, [%rd2];
  {
  .param .b64 param0;
  st.param.b64 [param0+0], %rd1;
  .param .b32 param1;
  st.param.b32 [param1+0], %r1;
  call.uni cudaGraphSetConditional, (param0, param1);
  }
  ret;
}
.visible .entry k_count(.param .u64 k_count_handle, .param .u64 k_count_word)
{
  .reg .b64 %rd<3>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [k_count_handle];
  ld.param.u64 %rd2, [k_count_word];
  ld.global.u32 %r1, [%rd2];
  add.u32 %r1, %r1, -1;
  st.global.u32 [%rd2], %r1;
  {
  .param .b64 param0;
  st.param.b64 [param0+0], %rd1;
  .param .b32 param1;
  st.param.b32 [param1+0], %r1;
  call.uni cudaGraphSetConditional, (param0, param1);
  }
  ret;
}
)";

class ConditionalTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    ASSERT_OK(cuModuleLoadData(&module_, kConditionalPtx));
    ASSERT_OK(cuModuleGetFunction(&set_, module_, "k_set"));
    ASSERT_OK(cuModuleGetFunction(&count_, module_, "k_count"));
    ASSERT_OK(cuMemAlloc(&words_, 64));
    ASSERT_OK(cuMemsetD32(words_, 0, 16));
    ASSERT_OK(cuCtxSynchronize());
    ASSERT_OK(cuGraphCreate(&graph_, 0));
  }
  void TearDown() override {
    EXPECT_OK(cuStreamSynchronize(stream_));
    if (exec_ != nullptr) {
      EXPECT_OK(cuGraphExecDestroy(exec_));
    }
    EXPECT_OK(cuGraphDestroy(graph_));
    EXPECT_OK(cuMemFree(words_));
    EXPECT_OK(cuModuleUnload(module_));
    RuntimeTest::TearDown();
  }

  CUgraphConditionalHandle NewHandle(unsigned int value, unsigned int flags) {
    CUgraphConditionalHandle handle = 0;
    EXPECT_OK(cuGraphConditionalHandleCreate(&handle, graph_, context_, value,
                                             flags));
    return handle;
  }
  // A conditional node behind `behind`; its bodies are in bodies_.
  CUgraphNode AddConditional(CUgraph graph, CUgraphConditionalHandle handle,
                             CUgraphConditionalNodeType type, unsigned int size,
                             const std::vector<CUgraphNode>& behind = {}) {
    CUgraphNodeParams params = {};
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional.handle = handle;
    params.conditional.type = type;
    params.conditional.size = size;
    params.conditional.ctx = context_;
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddNode(&node, graph, behind.data(), nullptr,
                             behind.size(), &params));
    bodies_.assign(params.conditional.phGraph_out,
                   params.conditional.phGraph_out + size);
    return node;
  }
  CUgraphNode AddKernel(CUgraph graph, CUfunction function,
                        CUgraphConditionalHandle handle, CUdeviceptr word,
                        const std::vector<CUgraphNode>& behind = {}) {
    void* params[] = {&handle, &word};
    CUDA_KERNEL_NODE_PARAMS node_params = {};
    node_params.func = function;
    node_params.gridDimX = node_params.gridDimY = node_params.gridDimZ = 1;
    node_params.blockDimX = node_params.blockDimY = node_params.blockDimZ = 1;
    node_params.kernelParams = params;
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddKernelNode(&node, graph, behind.data(), behind.size(),
                                   &node_params));
    return node;
  }
  CUgraphNode AddMemset(CUgraph graph, int word, unsigned int value,
                        const std::vector<CUgraphNode>& behind = {}) {
    CUDA_MEMSET_NODE_PARAMS params = {};
    params.dst = Word(word);
    params.value = value;
    params.elementSize = 4;
    params.width = 1;
    params.height = 1;
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddMemsetNode(&node, graph, behind.data(), behind.size(),
                                   &params, context_));
    return node;
  }
  CUdeviceptr Word(int index) const {
    return words_ + static_cast<CUdeviceptr>(index) * 4;
  }
  void Instantiate() {
    ASSERT_OK(cuGraphInstantiateWithFlags(&exec_, graph_, 0));
  }
  std::vector<uint32_t> LaunchAndRead() {
    EXPECT_OK(cuGraphLaunch(exec_, stream_));
    EXPECT_OK(cuStreamSynchronize(stream_));
    std::vector<uint32_t> words(4);
    EXPECT_OK(cuMemcpyDtoH(words.data(), words_, 16));
    return words;
  }
  void Store(int word, uint32_t value) {
    EXPECT_OK(cuMemcpyHtoD(Word(word), &value, sizeof value));
    // The copy may still run, in a stream that graphs do not wait for.
    EXPECT_OK(cuCtxSynchronize());
  }

  CUmodule module_ = nullptr;
  CUfunction set_ = nullptr;
  CUfunction count_ = nullptr;
  CUdeviceptr words_ = 0;
  CUgraph graph_ = nullptr;
  CUgraphExec exec_ = nullptr;
  std::vector<CUgraph> bodies_;
};

TEST_F(ConditionalTest, DefaultChoosesTheBranch) {
  AddConditional(graph_, NewHandle(1, CU_GRAPH_COND_ASSIGN_DEFAULT),
                 CU_GRAPH_COND_TYPE_IF, 2);
  AddMemset(bodies_[0], 0, 11);
  AddMemset(bodies_[1], 1, 22);
  AddConditional(graph_, NewHandle(0, CU_GRAPH_COND_ASSIGN_DEFAULT),
                 CU_GRAPH_COND_TYPE_IF, 1);
  AddMemset(bodies_[0], 2, 33);
  Instantiate();
  EXPECT_EQ(LaunchAndRead(), (std::vector<uint32_t>{11, 0, 0, 0}));
}

// A kernel decides at each replay, from memory that changes in between.
TEST_F(ConditionalTest, KernelChoosesTheBranchAtEachReplay) {
  const CUgraphConditionalHandle handle = NewHandle(0, 0);
  const CUgraphNode set = AddKernel(graph_, set_, handle, Word(3));
  const CUgraphNode node =
      AddConditional(graph_, handle, CU_GRAPH_COND_TYPE_IF, 2, {set});
  AddMemset(bodies_[0], 0, 1);
  AddMemset(bodies_[1], 0, 2);
  AddMemset(graph_, 1, 9, {node});
  Instantiate();
  Store(3, 0);
  EXPECT_EQ(LaunchAndRead(), (std::vector<uint32_t>{2, 9, 0, 0}));
  Store(3, 5);
  EXPECT_EQ(LaunchAndRead(), (std::vector<uint32_t>{1, 9, 0, 5}));
}

TEST_F(ConditionalTest, WhileRunsUntilAKernelEndsIt) {
  const CUgraphConditionalHandle handle =
      NewHandle(1, CU_GRAPH_COND_ASSIGN_DEFAULT);
  AddConditional(graph_, handle, CU_GRAPH_COND_TYPE_WHILE, 1);
  const CUgraphNode count = AddKernel(bodies_[0], count_, handle, Word(0));
  AddMemset(bodies_[0], 1, 7, {count});
  Instantiate();
  Store(0, 5);
  const int64_t before = softcuda_kernels_executed();
  EXPECT_EQ(LaunchAndRead(), (std::vector<uint32_t>{0, 7, 0, 0}));
  EXPECT_EQ(softcuda_kernels_executed() - before, 5);
  Store(0, 3);
  EXPECT_EQ(LaunchAndRead()[0], 0u);
  EXPECT_EQ(softcuda_kernels_executed() - before, 8);
}

TEST_F(ConditionalTest, SwitchRunsTheBodyOfItsNumberOrNone) {
  const CUgraphConditionalHandle handle = NewHandle(0, 0);
  const CUgraphNode set = AddKernel(graph_, set_, handle, Word(3));
  AddConditional(graph_, handle, CU_GRAPH_COND_TYPE_SWITCH, 3, {set});
  for (unsigned int i = 0; i < 3; ++i) AddMemset(bodies_[i], 0, 100 + i);
  Instantiate();
  Store(3, 2);
  EXPECT_EQ(LaunchAndRead()[0], 102u);
  Store(3, 7);
  EXPECT_EQ(LaunchAndRead()[0], 102u) << "no body has that number";
}

TEST_F(ConditionalTest, ConditionInsideABody) {
  const CUgraphConditionalHandle outer =
      NewHandle(1, CU_GRAPH_COND_ASSIGN_DEFAULT);
  const CUgraphConditionalHandle inner =
      NewHandle(1, CU_GRAPH_COND_ASSIGN_DEFAULT);
  AddConditional(graph_, outer, CU_GRAPH_COND_TYPE_IF, 1);
  const CUgraph body = bodies_[0];
  AddConditional(body, inner, CU_GRAPH_COND_TYPE_WHILE, 1);
  AddKernel(bodies_[0], count_, inner, Word(0));
  Instantiate();
  Store(0, 4);
  EXPECT_EQ(LaunchAndRead()[0], 0u);
}

TEST_F(ConditionalTest, BodyCanBeFilledByCapture) {
  AddConditional(graph_, NewHandle(1, CU_GRAPH_COND_ASSIGN_DEFAULT),
                 CU_GRAPH_COND_TYPE_IF, 1);
  CUgraph captured = nullptr;
  ASSERT_OK(cuStreamBeginCaptureToGraph(stream_, bodies_[0], nullptr, nullptr,
                                        0, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_OK(cuMemsetD32Async(Word(0), 6, 1, stream_));
  EXPECT_OK(cuStreamEndCapture(stream_, &captured));
  EXPECT_EQ(captured, bodies_[0]);
  Instantiate();
  EXPECT_EQ(LaunchAndRead()[0], 6u);
}

TEST_F(ConditionalTest, BodiesMayNotHoldHostNodes) {
  AddConditional(graph_, NewHandle(1, CU_GRAPH_COND_ASSIGN_DEFAULT),
                 CU_GRAPH_COND_TYPE_IF, 1);
  const CUgraphNode host = AddHostNode(
      bodies_[0], [](void*) {}, nullptr);
  CUDA_GRAPH_INSTANTIATE_PARAMS params = {};
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuGraphInstantiateWithParams(&exec_, graph_, &params));
  EXPECT_EQ(params.result_out, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
  EXPECT_EQ(params.hErrNode_out, host);
}

TEST_F(ConditionalTest, UnusedHandleIsTold) {
  NewHandle(1, 0);
  CUDA_GRAPH_INSTANTIATE_PARAMS params = {};
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuGraphInstantiateWithParams(&exec_, graph_, &params));
  EXPECT_EQ(params.result_out,
            CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED);
}

TEST_F(ConditionalTest, WhatIsRefused) {
  const CUgraphConditionalHandle handle = NewHandle(1, 0);
  CUgraphConditionalHandle none = 0;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuGraphConditionalHandleCreate(&none, graph_, context_, 0, 2));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuGraphConditionalHandleCreate(nullptr, graph_, context_, 0, 0));
  CUgraphNodeParams params = {};
  params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  params.conditional.handle = handle;
  params.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
  params.conditional.size = 2;
  params.conditional.ctx = context_;
  CUgraphNode node = nullptr;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuGraphAddNode(&node, graph_, nullptr, nullptr, 0, &params));
  params.conditional.size = 1;
  params.conditional.handle = handle + 4;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuGraphAddNode(&node, graph_, nullptr, nullptr, 0, &params));
  AddConditional(graph_, handle, CU_GRAPH_COND_TYPE_IF, 1);
  params.conditional.handle = handle;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuGraphAddNode(&node, graph_, nullptr, nullptr, 0, &params))
      << "one node for each handle";
  CUgraph clone = nullptr;
  EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED, cuGraphClone(&clone, graph_));
  CUgraph parent = nullptr;
  ASSERT_OK(cuGraphCreate(&parent, 0));
  EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED,
            cuGraphAddChildGraphNode(&node, parent, nullptr, 0, graph_));
  EXPECT_OK(cuGraphDestroy(parent));
  Instantiate();
  CUgraphExec second = nullptr;
  EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED,
            cuGraphInstantiateWithFlags(&second, graph_, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuGraphInstantiateWithFlags(&second, bodies_[0], 0));
}

}  // namespace
}  // namespace softcuda
