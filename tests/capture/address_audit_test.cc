// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/capture/address_audit.h"

#include <gtest/gtest.h>

#include <vector>

#include "permafrost/driver/faulting_driver.h"
#include "permafrost/driver/status.h"
#include "tests/capture/capture_fixture.h"

namespace permafrost {
namespace {

using ::permafrost::testing::CaptureTest;
using ::permafrost::testing::kBufferBytes;
using ::permafrost::testing::MakeCopyStep;
using ::permafrost::testing::ScaleSignature;
using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// Every test plants one fault, expects the finding that names it, and puts the
// clean twin beside it.
class AddressAuditTest : public CaptureTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(CaptureTest::SetUp());
    ASSERT_OK(Prepare(MakeCopyStep(context()), {{2}}, /*guard_bytes=*/256));
  }

  AuditReport Audit(CUgraph graph) {
    const ArenaView view = arena().view();
    AuditScope scope;
    scope.arena = &view;
    scope.externals = externals_;
    scope.signatures = &signatures_;
    return AuditGraph(
        driver_for_audit_ == nullptr ? *driver() : *driver_for_audit_, graph,
        scope, policy_);
  }

  // Records, audits, and drops the graph.
  AuditReport AuditOf(const std::function<absl::Status(CUstream)>& record) {
    absl::StatusOr<Graph> graph = Record(record);
    EXPECT_OK(graph);
    if (!graph.ok()) return AuditReport();
    return Audit(graph->get());
  }

  AuditReport AuditScale(DevicePtr dst, DevicePtr src, int32_t count) {
    return AuditOf([&](CUstream stream) {
      return kernels().Scale(stream, dst, src, count, 1.0f);
    });
  }

  absl::Status CopyToDevice(DevicePtr dst, const void* host, size_t bytes,
                            CUstream stream) {
    return CuStatus(api().MemcpyHtoDAsync(dst.value(), host, bytes, stream),
                    "cuMemcpyHtoDAsync");
  }

  void UseSignature(const KernelSignature& signature) {
    signatures_ = SignatureSet();
    ASSERT_OK(signatures_.Add(signature));
  }

  std::vector<ExternalRegion> externals_;
  SignatureSet signatures_;
  AuditPolicy policy_;
  DriverRef driver_for_audit_;
};

auto IsFinding(FindingKind kind, const std::string& node,
               const std::string& param, const std::string& buffer) {
  return AllOf(
      Field(&AuditFinding::kind, kind), Field(&AuditFinding::node, node),
      Field(&AuditFinding::param, param), Field(&AuditFinding::buffer, buffer),
      Field(&AuditFinding::is_error, true));
}

TEST_F(AddressAuditTest, ACleanGraphHasNoFindingAndFullCoverage) {
  UseSignature(ScaleSignature());
  const AuditReport report = AuditOf([&](CUstream stream) -> absl::Status {
    PERMAFROST_RETURN_IF_ERROR(CuStatus(
        api().MemsetD32Async(Buffer("scratch").base.value(), 0, 16, stream),
        "cuMemsetD32Async"));
    PERMAFROST_RETURN_IF_ERROR(kernels().Scale(stream, Buffer("scratch").base,
                                               Buffer("input").base, 16, 2.0f));
    return CuStatus(
        api().MemcpyDtoDAsync(Buffer("output").base.value(),
                              Buffer("scratch").base.value(), 64, stream),
        "cuMemcpyDtoDAsync");
  });
  EXPECT_THAT(report.findings, IsEmpty()) << report.ToText();
  EXPECT_OK(report.ToStatus());
  const AuditCoverage& seen = report.coverage;
  EXPECT_EQ(seen.nodes, 3);
  EXPECT_EQ(seen.kernel_nodes, 1);
  EXPECT_EQ(seen.memset_nodes, 1);
  EXPECT_EQ(seen.memcpy_nodes, 1);
  EXPECT_EQ(seen.other_nodes, 0);
  // Two of the kernel, two of the copy, one of the fill.
  EXPECT_EQ(seen.address_bytes, 5 * 8);
  EXPECT_EQ(seen.opaque_bytes, 0);
  EXPECT_EQ(seen.param_bytes, seen.address_bytes + seen.scalar_bytes);
  ASSERT_EQ(report.addresses.size(), 5u);
  EXPECT_EQ(report.addresses[1].node, "k_scale");
  EXPECT_EQ(report.addresses[1].param, "dst");
  EXPECT_EQ(report.addresses[1].buffer, "scratch");
  EXPECT_EQ(report.addresses[1].address, Buffer("scratch").base);
}

TEST_F(AddressAuditTest, B06AForeignAddressIsNamedWithNodeAndParameter) {
  UseSignature(ScaleSignature());
  ASSERT_OK_AND_ASSIGN(const DeviceBuffer stray,
                       DeviceBuffer::Allocate(context(), 4096));
  const AuditReport report = AuditScale(Buffer("output").base, stray.ptr(), 16);
  ASSERT_EQ(report.findings.size(), 1u) << report.ToText();
  EXPECT_EQ(report.findings[0].kind, FindingKind::kForeignAddress);
  EXPECT_EQ(report.findings[0].param, "src");
  EXPECT_EQ(report.findings[0].address, stray.ptr());
  EXPECT_THAT(report.ToStatus(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("foreign address"),
                             HasSubstr("node 0 (k_scale)"),
                             HasSubstr("parameter 'src'"),
                             HasSubstr(stray.ptr().ToString()))));

  // Declared, it is no stranger.
  externals_ = {{"weights", stray.ptr(), 4096, Access::kRead, 0}};
  const AuditReport twin = AuditScale(Buffer("output").base, stray.ptr(), 16);
  EXPECT_THAT(twin.findings, IsEmpty()) << twin.ToText();
}

TEST_F(AddressAuditTest, AFreedAddressIsNotMapped) {
  UseSignature(ScaleSignature());
  ASSERT_OK_AND_ASSIGN(DeviceBuffer stray,
                       DeviceBuffer::Allocate(context(), 4096));
  const DevicePtr address = stray.ptr();
  ASSERT_OK(stray.Destroy());
  const AuditReport report = AuditScale(Buffer("output").base, address, 16);
  ASSERT_EQ(report.findings.size(), 1u) << report.ToText();
  EXPECT_EQ(report.findings[0].kind, FindingKind::kNotMapped);

  // Not even a declaration helps: the driver is asked.
  externals_ = {{"weights", address, 4096, Access::kRead, 0}};
  const AuditReport declared = AuditScale(Buffer("output").base, address, 16);
  EXPECT_THAT(declared.findings,
              UnorderedElementsAre(IsFinding(FindingKind::kNotMapped, "k_scale",
                                             "src", "weights")));
}

TEST_F(AddressAuditTest, AnExtentPastTheBuffersEndIsOutOfRange) {
  UseSignature(ScaleSignature());
  const int32_t fits = kBufferBytes / 4;
  const AuditReport twin =
      AuditScale(Buffer("output").base, Buffer("input").base, fits);
  EXPECT_THAT(twin.findings, IsEmpty()) << twin.ToText();

  const AuditReport report =
      AuditScale(Buffer("output").base, Buffer("input").base, fits + 1);
  EXPECT_THAT(
      report.findings,
      UnorderedElementsAre(
          IsFinding(FindingKind::kOutOfRange, "k_scale", "dst", "output"),
          IsFinding(FindingKind::kOutOfRange, "k_scale", "src", "input")));
  EXPECT_THAT(report.findings[0].message, HasSubstr("limit passed by 4 bytes"));
}

TEST_F(AddressAuditTest, ANegativeCountIsOutOfRange) {
  UseSignature(ScaleSignature());
  const AuditReport report = AuditOf([&](CUstream stream) {
    return kernels().Sum(stream, Buffer("output").base, Buffer("input").base,
                         -1);
  });
  // No signature of k_sum yet: opaque, and that is said instead.
  EXPECT_GT(report.error_count(), 0);
  signatures_ = kernels().signatures();
  const AuditReport known = AuditOf([&](CUstream stream) {
    return kernels().Sum(stream, Buffer("output").base, Buffer("input").base,
                         -1);
  });
  EXPECT_THAT(known.findings,
              UnorderedElementsAre(IsFinding(FindingKind::kOutOfRange, "k_sum",
                                             "src", "input")));
}

TEST_F(AddressAuditTest, AnAddressInAGapNamesTheBufferBefore) {
  UseSignature(ScaleSignature());
  const AuditReport report =
      AuditScale(Buffer("output").base + kBufferBytes, Buffer("input").base, 1);
  EXPECT_THAT(report.findings,
              UnorderedElementsAre(IsFinding(FindingKind::kOutOfRange,
                                             "k_scale", "dst", "output")));
  EXPECT_THAT(report.findings[0].message,
              HasSubstr("1 bytes past the end of 'output'"));
}

TEST_F(AddressAuditTest, NullIsAFindingUnlessTheSignatureAllowsIt) {
  UseSignature(ScaleSignature());
  const AuditReport report = AuditScale(DevicePtr(), Buffer("input").base, 16);
  EXPECT_THAT(report.findings,
              UnorderedElementsAre(
                  IsFinding(FindingKind::kNullAddress, "k_scale", "dst", "")));

  KernelSignature nullable = ScaleSignature();
  nullable.params[0].nullable = true;
  UseSignature(nullable);
  const AuditReport twin = AuditScale(DevicePtr(), Buffer("input").base, 16);
  EXPECT_THAT(twin.findings, IsEmpty()) << twin.ToText();
}

TEST_F(AddressAuditTest, WritingAReadOnlyRegionIsAViolation) {
  UseSignature(ScaleSignature());
  ASSERT_OK_AND_ASSIGN(const DeviceBuffer weights,
                       DeviceBuffer::Allocate(context(), 4096));
  externals_ = {{"weights", weights.ptr(), 4096, Access::kRead, 0}};
  const AuditReport report =
      AuditScale(weights.ptr(), Buffer("input").base, 16);
  EXPECT_THAT(report.findings,
              UnorderedElementsAre(IsFinding(FindingKind::kAccessViolation,
                                             "k_scale", "dst", "weights")));
  const AuditReport fill = AuditOf([&](CUstream stream) {
    return CuStatus(api().MemsetD8Async(weights.get(), 0, 16, stream), "fill");
  });
  EXPECT_THAT(fill.findings,
              UnorderedElementsAre(IsFinding(FindingKind::kAccessViolation,
                                             "memset", "dst", "weights")));
  const AuditReport copy = AuditOf([&](CUstream stream) {
    return CuStatus(
        api().MemcpyDtoDAsync(weights.get(), Buffer("input").base.value(), 16,
                              stream),
        "copy");
  });
  EXPECT_THAT(copy.findings,
              UnorderedElementsAre(IsFinding(FindingKind::kAccessViolation,
                                             "memcpy", "dst", "weights")));

  externals_[0].access = Access::kReadWrite;
  const AuditReport twin = AuditScale(weights.ptr(), Buffer("input").base, 16);
  EXPECT_THAT(twin.findings, IsEmpty()) << twin.ToText();
  externals_[0].access = Access::kWrite;
  const AuditReport read = AuditScale(Buffer("output").base, weights.ptr(), 16);
  EXPECT_THAT(read.findings,
              UnorderedElementsAre(IsFinding(FindingKind::kAccessViolation,
                                             "k_scale", "src", "weights")));
}

TEST_F(AddressAuditTest, PageableHostMemoryInACopyIsAFinding) {
  const std::vector<float> pageable(16, 1.0f);
  const AuditReport report = AuditOf([&](CUstream stream) {
    return CopyToDevice(Buffer("input").base, pageable.data(), 64, stream);
  });
  EXPECT_THAT(report.findings,
              UnorderedElementsAre(
                  IsFinding(FindingKind::kPageableHost, "memcpy", "src", "")));

  ASSERT_OK_AND_ASSIGN(const PinnedBuffer pinned,
                       PinnedBuffer::Allocate(context(), 64));
  const AuditReport twin = AuditOf([&](CUstream stream) {
    return CopyToDevice(Buffer("input").base, pinned.data(), 64, stream);
  });
  EXPECT_THAT(twin.findings, IsEmpty()) << twin.ToText();
}

TEST_F(AddressAuditTest, ACopyOrFillPastABufferIsOutOfRange) {
  const auto fill = [&](size_t bytes) {
    return AuditOf([&](CUstream stream) {
      return CuStatus(
          api().MemsetD8Async(Buffer("output").base.value(), 0, bytes, stream),
          "fill");
    });
  };
  EXPECT_THAT(fill(kBufferBytes).findings, IsEmpty());
  EXPECT_THAT(fill(kBufferBytes + 1).findings,
              UnorderedElementsAre(IsFinding(FindingKind::kOutOfRange, "memset",
                                             "dst", "output")));
  const AuditReport copy = AuditOf([&](CUstream stream) {
    return CuStatus(api().MemcpyDtoDAsync(Buffer("output").base.value(),
                                          Buffer("input").base.value() + 1,
                                          kBufferBytes, stream),
                    "copy");
  });
  EXPECT_THAT(copy.findings,
              UnorderedElementsAre(IsFinding(FindingKind::kOutOfRange, "memcpy",
                                             "src", "input")));
}

TEST_F(AddressAuditTest, HostAndOtherNodesAreRefused) {
  CUgraph raw = nullptr;
  ASSERT_EQ(api().GraphCreate(&raw, 0), CUDA_SUCCESS);
  const Graph graph = Graph::Adopt(context(), raw);
  CUgraphNode node = nullptr;
  CUDA_HOST_NODE_PARAMS host = {};
  host.fn = [](void*) {};
  ASSERT_EQ(api().GraphAddHostNode(&node, raw, nullptr, 0, &host),
            CUDA_SUCCESS);
  ASSERT_EQ(api().GraphAddEmptyNode(&node, raw, nullptr, 0), CUDA_SUCCESS);
  const AuditReport report = Audit(raw);
  EXPECT_THAT(report.findings,
              UnorderedElementsAre(
                  IsFinding(FindingKind::kHostNode, "host", "", ""),
                  IsFinding(FindingKind::kUnsupportedNode, "empty", "", "")));
  EXPECT_EQ(report.findings[1].node_index, 1);
  EXPECT_EQ(report.coverage.other_nodes, 2);
}

CUresult CUDAAPI SayMemAlloc(CUgraphNode, CUgraphNodeType* type) {
  *type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  return CUDA_SUCCESS;
}

// The table has no call that makes such a node, so the driver is made to say
// that an ordinary one is.
TEST_F(AddressAuditTest, AnAllocationNodeIsRefused) {
  ASSERT_OK_AND_ASSIGN(
      const Graph graph, Record([&](CUstream stream) {
        return CuStatus(
            api().MemsetD8Async(Buffer("output").base.value(), 0, 16, stream),
            "fill");
      }));
  DriverApi table = api();
  table.GraphNodeGetType = &SayMemAlloc;
  driver_for_audit_ = Driver::WithApi(driver(), table);
  EXPECT_THAT(Audit(graph.get()).findings,
              UnorderedElementsAre(IsFinding(FindingKind::kAllocationNode,
                                             "mem_alloc", "", "")));
}

TEST_F(AddressAuditTest, AKernelWithoutASignatureIsOpaque) {
  const AuditReport report =
      AuditScale(Buffer("output").base, Buffer("input").base, 16);
  EXPECT_EQ(report.coverage.opaque_bytes, 24);
  EXPECT_EQ(report.coverage.param_bytes, 24);
  int opaque = 0;
  std::vector<std::string> possible;
  for (const AuditFinding& finding : report.findings) {
    if (finding.kind == FindingKind::kOpaqueParameter) ++opaque;
    if (finding.kind == FindingKind::kPossibleAddress) {
      possible.push_back(finding.buffer);
    }
  }
  EXPECT_EQ(opaque, 4) << report.ToText();
  EXPECT_THAT(possible, UnorderedElementsAre("output", "input"));
}

TEST_F(AddressAuditTest, AnAddressInsideAStructIsFoundAsPossible) {
  ASSERT_OK_AND_ASSIGN(const DeviceBuffer stray,
                       DeviceBuffer::Allocate(context(), 4096));
  const AuditReport report = AuditOf(
      [&](CUstream stream) { return kernels().Opaque(stream, stray.ptr()); });
  bool found = false;
  for (const AuditFinding& finding : report.findings) {
    found |= finding.kind == FindingKind::kPossibleAddress &&
             finding.address == stray.ptr();
  }
  EXPECT_TRUE(found) << report.ToText();

  // A signature may describe the inside of a struct.
  KernelSignature inside{
      "k_opaque", {ScaleSignature().params[0], ScaleSignature().params[2]}};
  inside.params[0].extent = Extent{4, {}};
  inside.params[1].offset_bytes = 8;
  inside.params[1].size_bytes = 8;
  UseSignature(inside);
  const AuditReport twin = AuditOf([&](CUstream stream) {
    return kernels().Opaque(stream, Buffer("output").base);
  });
  EXPECT_THAT(twin.findings, IsEmpty()) << twin.ToText();
  EXPECT_EQ(twin.coverage.address_bytes, 8);
  EXPECT_EQ(twin.coverage.scalar_bytes, 8);
}

TEST_F(AddressAuditTest, BytesThatASignatureLeavesOutStayOpaque) {
  KernelSignature partial = ScaleSignature();
  partial.params.pop_back();
  UseSignature(partial);
  const AuditReport report =
      AuditScale(Buffer("output").base, Buffer("input").base, 16);
  EXPECT_THAT(report.findings,
              UnorderedElementsAre(IsFinding(FindingKind::kOpaqueParameter,
                                             "k_scale", "param 3", "")));
  EXPECT_EQ(report.coverage.opaque_bytes, 4);
}

TEST_F(AddressAuditTest, ASignatureThatTheDriverContradictsIsAFinding) {
  KernelSignature wrong = ScaleSignature();
  wrong.params[3].offset_bytes = 24;
  UseSignature(wrong);
  const AuditReport report =
      AuditScale(Buffer("output").base, Buffer("input").base, 16);
  EXPECT_EQ(report.findings[0].kind, FindingKind::kSignatureMismatch);
  EXPECT_EQ(report.findings[0].param, "factor");
  EXPECT_EQ(report.coverage.opaque_bytes, 24);
}

TEST_F(AddressAuditTest, AnEmptyGraphIsAFinding) {
  const AuditReport report = AuditOf([](CUstream) { return absl::OkStatus(); });
  EXPECT_THAT(report.findings, UnorderedElementsAre(IsFinding(
                                   FindingKind::kEmptyGraph, "", "", "")));
}

TEST_F(AddressAuditTest, WhatCannotBeReadIsAnErrorWithTheCall) {
  UseSignature(ScaleSignature());
  policy_.Allow(FindingKind::kUnreadable);
  ASSERT_OK_AND_ASSIGN(const Graph graph, Record([&](CUstream stream) {
                         return kernels().Scale(stream, Buffer("output").base,
                                                Buffer("input").base, 16, 1.0f);
                       }));
  const auto faulting = FaultingDriver::Wrap(driver());
  driver_for_audit_ = faulting->driver();
  int64_t calls = 0;
  for (int64_t n = 1;; ++n) {
    faulting->FailCall(n, CUDA_ERROR_UNKNOWN);
    const AuditReport report = Audit(graph.get());
    const std::string failed = faulting->last_failed_call();
    faulting->Disarm();
    if (failed.empty()) break;
    ++calls;
    EXPECT_EQ(report.error_count(), 1) << failed << report.ToText();
    EXPECT_THAT(report.ToStatus(),
                StatusIs(absl::StatusCode::kInternal, HasSubstr(failed)));
  }
  EXPECT_GT(calls, 8);
  EXPECT_OK(Audit(graph.get()).ToStatus());
}

TEST_F(AddressAuditTest, AnAllowedFindingIsReportedAndNoError) {
  ASSERT_OK_AND_ASSIGN(const DeviceBuffer stray,
                       DeviceBuffer::Allocate(context(), 4096));
  UseSignature(ScaleSignature());
  policy_.Allow(FindingKind::kForeignAddress);
  const AuditReport report = AuditScale(Buffer("output").base, stray.ptr(), 16);
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_FALSE(report.findings[0].is_error);
  EXPECT_EQ(report.error_count(), 0);
  EXPECT_OK(report.ToStatus());
}

TEST_F(AddressAuditTest, ParametersInAnExtraBlockAreRead) {
  UseSignature(ScaleSignature());
  CUgraph raw = nullptr;
  ASSERT_EQ(api().GraphCreate(&raw, 0), CUDA_SUCCESS);
  const Graph graph = Graph::Adopt(context(), raw);
  struct {
    CUdeviceptr dst;
    CUdeviceptr src;
    int32_t count;
    float factor;
  } block = {Buffer("output").base.value(), Buffer("input").base.value(), 16,
             2.0f};
  size_t bytes = sizeof(block);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &block,
                   CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  CUDA_KERNEL_NODE_PARAMS params = {};
  params.func = kernels().scale();
  params.gridDimX = params.gridDimY = params.gridDimZ = 1;
  params.blockDimX = 32;
  params.blockDimY = params.blockDimZ = 1;
  params.extra = extra;
  CUgraphNode node = nullptr;
  ASSERT_EQ(api().GraphAddKernelNode(&node, raw, nullptr, 0, &params),
            CUDA_SUCCESS);
  const AuditReport report = Audit(raw);
  EXPECT_THAT(report.findings, IsEmpty()) << report.ToText();
  ASSERT_EQ(report.addresses.size(), 2u);
  EXPECT_EQ(report.addresses[0].address, Buffer("output").base);
}

}  // namespace
}  // namespace permafrost
