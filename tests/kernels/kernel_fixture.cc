// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "kernel_fixture.h"

#include <algorithm>
#include <utility>

#include "permafrost/driver/status.h"
#include "permafrost/kernels/oracle.h"

namespace permafrost::kernels::testing {

std::string LaunchModeName(LaunchMode mode) {
  switch (mode) {
    case LaunchMode::kEager:
      return "Eager";
    case LaunchMode::kCaptured:
      return "Captured";
    case LaunchMode::kReplayed3:
      return "Replayed3";
  }
  return "Unknown";
}

absl::Status FillDevice(const Context& context, DevicePtr base, uint8_t byte,
                        int64_t bytes) {
  const Context::Scope scope = context.MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  PERMAFROST_RETURN_IF_ERROR(CuStatus(
      context.api().MemsetD8(base.value(), byte, static_cast<size_t>(bytes)),
      "cuMemsetD8"));
  return CuStatus(context.api().StreamSynchronize(nullptr),
                  "cuStreamSynchronize");
}

absl::Status CopyToDevice(const Context& context, DevicePtr base,
                          const void* from, int64_t bytes) {
  const Context::Scope scope = context.MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  PERMAFROST_RETURN_IF_ERROR(CuStatus(
      context.api().MemcpyHtoD(base.value(), from, static_cast<size_t>(bytes)),
      "cuMemcpyHtoD"));
  return CuStatus(context.api().StreamSynchronize(nullptr),
                  "cuStreamSynchronize");
}

void KernelTest::SetUp() {
  DriverTest::SetUp();
  if (HasFatalFailure()) return;
  if (soft()) {
    soft()->EnableInitcheck(true);
    soft()->SetQuiet(true);
  }
  absl::StatusOr<MoeKernels> kernels = MoeKernels::Load(context());
  ASSERT_OK(kernels);
  kernels_ = std::make_unique<MoeKernels>(*std::move(kernels));
  ASSERT_OK_AND_ASSIGN(stream_, Stream::Create(context()));
}

void KernelTest::TearDown() {
  for (const std::string& report : TakeReports()) {
    ADD_FAILURE() << "unexpected report: " << report;
  }
}

std::vector<std::string> KernelTest::TakeReports() {
  if (!soft()) return {};
  return soft()->TakeReports();
}

void KernelTest::MarkUndefined(DevicePtr base, int64_t bytes) {
  if (soft() && bytes > 0) {
    EXPECT_TRUE(soft()->MarkUndefined(base, bytes));
  }
}

absl::Status KernelTest::Run(
    LaunchMode mode, const std::function<absl::Status(CUstream)>& enqueue,
    const std::function<absl::Status()>& prepare,
    const std::function<void()>& check) {
  const Context::Scope scope = context()->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  if (mode == LaunchMode::kEager) {
    PERMAFROST_RETURN_IF_ERROR(prepare());
    PERMAFROST_RETURN_IF_ERROR(enqueue(stream()));
    PERMAFROST_RETURN_IF_ERROR(stream_.Synchronize());
    check();
    return absl::OkStatus();
  }
  PERMAFROST_RETURN_IF_ERROR(CuStatus(
      api().StreamBeginCapture(stream(), CU_STREAM_CAPTURE_MODE_GLOBAL),
      "cuStreamBeginCapture"));
  absl::Status status = enqueue(stream());
  CUgraph raw = nullptr;
  status.Update(
      CuStatus(api().StreamEndCapture(stream(), &raw), "cuStreamEndCapture"));
  const Graph graph = Graph::Adopt(context(), raw);
  PERMAFROST_RETURN_IF_ERROR(status);
  PERMAFROST_ASSIGN_OR_RETURN(const GraphExec exec,
                              GraphExec::Instantiate(context(), graph.get()));
  const int launches = mode == LaunchMode::kReplayed3 ? 3 : 1;
  for (int i = 0; i < launches; ++i) {
    PERMAFROST_RETURN_IF_ERROR(prepare());
    PERMAFROST_RETURN_IF_ERROR(
        CuStatus(api().GraphLaunch(exec.get(), stream()), "cuGraphLaunch"));
    PERMAFROST_RETURN_IF_ERROR(stream_.Synchronize());
    check();
  }
  return absl::OkStatus();
}

ModelConfig TinyMoeConfig(int64_t hidden, int64_t expert_width, int64_t experts,
                          int64_t topk) {
  ModelConfig config;
  config.model_type = "qwen3_moe";
  config.source = "tiny";
  config.hidden_size = hidden;
  config.num_layers = 1;
  config.num_attention_heads = 1;
  config.num_kv_heads = 1;
  config.head_dim = hidden;
  config.vocab_size = 16;
  config.intermediate_size = topk * expert_width;
  config.num_experts = experts;
  config.experts_per_token = topk;
  config.moe_intermediate_size = expert_width;
  config.normalize_topk = true;
  return config;
}

std::vector<float> TestData::Floats(int64_t count, float magnitude) {
  std::vector<float> values;
  values.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values.push_back(Unit() * magnitude);
  return values;
}

std::vector<uint16_t> TestData::Bf16s(int64_t count, float magnitude) {
  std::vector<uint16_t> values;
  values.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(FloatToBf16(Unit() * magnitude));
  }
  return values;
}

std::vector<uint8_t> TestData::E4m3s(int64_t count) {
  std::vector<uint8_t> values;
  values.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(FloatToE4m3(Unit() * 14.0F));
  }
  return values;
}

std::vector<float> TestData::Scales(int64_t count, float magnitude) {
  std::vector<float> values;
  values.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(magnitude * (1.0F + 0.5F * Unit()));
  }
  return values;
}

std::vector<int32_t> TestData::TopKIds(int64_t rows, int64_t experts,
                                       int64_t topk) {
  std::vector<int32_t> ids;
  for (int64_t row = 0; row < rows; ++row) {
    const size_t first = ids.size();
    while (ids.size() < first + static_cast<size_t>(topk)) {
      const auto id = static_cast<int32_t>(Below(experts));
      if (std::find(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end(),
                    id) == ids.end()) {
        ids.push_back(id);
      }
    }
  }
  return ids;
}

}  // namespace permafrost::kernels::testing
