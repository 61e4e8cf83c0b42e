// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/capture/capture_fixture.h"

#include <utility>

#include "permafrost/driver/check.h"
#include "permafrost/driver/status.h"

namespace permafrost::testing {
namespace {

BufferSize Size(const char* name, int64_t bytes, Lifetime lifetime) {
  BufferSize size;
  size.name = name;
  size.bytes = bytes;
  size.element = ElementType::kF32;
  size.lifetime = lifetime;
  size.tag = "step";
  size.meaning = "a test's buffer";
  if (bytes == 0) size.gate_reason = "the test model has no such buffer";
  return size;
}

}  // namespace

ArenaPlan MakeTestPlan(int64_t guard_bytes) {
  PlanOptions options;
  options.guard_bytes = guard_bytes;
  absl::StatusOr<ArenaPlan> plan =
      PlanArena({Size("input", kBufferBytes, Lifetime::kHostWritten),
                 Size("scratch", kBufferBytes, Lifetime::kPerLayer),
                 Size("output", kBufferBytes, Lifetime::kPerStep),
                 Size("state", 64, Lifetime::kState),
                 Size("counter", 64, Lifetime::kPerStep),
                 Size("absent", 0, Lifetime::kPerLayer)},
                options);
  PERMAFROST_CHECK(plan.ok(), "the test's plan is valid");
  return *std::move(plan);
}

Step MakeCopyStep(ContextRef context) {
  return [context = std::move(context)](const StepContext& step) {
    PERMAFROST_ASSIGN_OR_RETURN(const BufferRef input,
                                step.arena.Find("input"));
    PERMAFROST_ASSIGN_OR_RETURN(const BufferRef output,
                                step.arena.Find("output"));
    return CuStatus(
        context->api().MemcpyDtoDAsync(
            output.base.value(), input.base.value(),
            static_cast<size_t>(Floats(step.bucket)) * 4, step.stream),
        "cuMemcpyDtoDAsync");
  };
}

Step MakeScaleStep(const TestKernels& kernels) {
  return [&kernels](const StepContext& step) {
    PERMAFROST_ASSIGN_OR_RETURN(const BufferRef input,
                                step.arena.Find("input"));
    PERMAFROST_ASSIGN_OR_RETURN(const BufferRef scratch,
                                step.arena.Find("scratch"));
    PERMAFROST_ASSIGN_OR_RETURN(const BufferRef output,
                                step.arena.Find("output"));
    const int32_t count = Floats(step.bucket);
    PERMAFROST_RETURN_IF_ERROR(
        kernels.Scale(step.stream, scratch.base, input.base, count, 2.0f));
    return kernels.Scale(step.stream, output.base, scratch.base, count, 3.0f);
  };
}

void CaptureTest::SetUp() {
  ASSERT_NO_FATAL_FAILURE(DriverTest::SetUp());
  scope_.emplace(*context());
  ASSERT_OK(scope_->status());
  if (soft()) soft()->TakeReports();
  ASSERT_OK_AND_ASSIGN(lane_, Lane::Create(context(), "decode"));
  ASSERT_OK_AND_ASSIGN(kernels_, TestKernels::Load(context()));
}

void CaptureTest::TearDown() {
  if (arena_) {
    EXPECT_OK(arena_->Release());
  }
  arena_.reset();
  kernels_.reset();
  lane_.reset();
  scope_.reset();
}

absl::Status CaptureTest::Prepare(const Step& step,
                                  const std::vector<Bucket>& buckets,
                                  int64_t guard_bytes) {
  return PrepareWith(MakeTestPlan(guard_bytes), step, buckets);
}

absl::Status CaptureTest::PrepareWith(ArenaPlan plan, const Step& step,
                                      const std::vector<Bucket>& buckets) {
  PERMAFROST_ASSIGN_OR_RETURN(Arena arena,
                              Arena::Create(context(), std::move(plan)));
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(api().MemsetD8Async(
                   arena.view().base().value(), 0,
                   static_cast<size_t>(arena.view().plan().total_bytes()),
                   lane().stream()),
               "cuMemsetD8Async"));
  PERMAFROST_RETURN_IF_ERROR(lane().Drain());
  PERMAFROST_ASSIGN_OR_RETURN(warm_set_, WarmUp(arena, lane(), step, buckets));
  PERMAFROST_ASSIGN_OR_RETURN(arena_, std::move(arena).Freeze());
  return absl::OkStatus();
}

absl::StatusOr<GraphSet> CaptureTest::Capture(CaptureOptions options) {
  if (options.signatures == nullptr) {
    options.signatures = &kernels().signatures();
  }
  return CaptureAll(arena(), warm_set(), lane(), options);
}

absl::StatusOr<Graph> CaptureTest::Record(
    const std::function<absl::Status(CUstream)>& record) {
  return CaptureStep(lane(), CaptureMode::kGlobal,
                     [&] { return record(lane().stream()); });
}

BufferRef CaptureTest::Buffer(absl::string_view name) const {
  const absl::StatusOr<BufferRef> buffer = arena().view().Find(name);
  PERMAFROST_CHECK(buffer.ok(), "the test's arena has that buffer");
  return *buffer;
}

void CaptureTest::Write(DevicePtr base,
                        const std::vector<float>& values) const {
  EXPECT_EQ(api().MemcpyHtoDAsync(base.value(), values.data(),
                                  values.size() * 4, lane().stream()),
            CUDA_SUCCESS);
  EXPECT_OK(lane().Drain());
}

std::vector<float> CaptureTest::Read(DevicePtr base, int64_t count) const {
  std::vector<float> values(static_cast<size_t>(count));
  EXPECT_EQ(api().MemcpyDtoHAsync(values.data(), base.value(),
                                  values.size() * 4, lane().stream()),
            CUDA_SUCCESS);
  EXPECT_OK(lane().Drain());
  return values;
}

}  // namespace permafrost::testing
