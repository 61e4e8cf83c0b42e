// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "permafrost/driver/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "tests/support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::IsOk;
using ::permafrost::testing::StatusIs;
using ::testing::Eq;
using ::testing::Not;
using ::testing::Optional;

TEST(CuStatusTest, SuccessIsOk) {
  EXPECT_OK(CuStatus(CUDA_SUCCESS, "cuMemMap", "anything"));
}

TEST(CuStatusTest, TextAndPayloadCarryCallNameAndNumber) {
  const absl::Status status =
      CuStatus(CUDA_ERROR_OUT_OF_MEMORY, "cuMemCreate", "segment 'step'");
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                               Eq("segment 'step': cuMemCreate returned "
                                  "CUDA_ERROR_OUT_OF_MEMORY (2)")));
  EXPECT_THAT(CuResultOf(status), Optional(CUDA_ERROR_OUT_OF_MEMORY));
  EXPECT_EQ(CuCallOf(status), "cuMemCreate");
}

TEST(CuStatusTest, WithoutAWhatTheTextBeginsWithTheCall) {
  EXPECT_EQ(CuStatus(CUDA_ERROR_NOT_FOUND, "cuModuleGetFunction").message(),
            "cuModuleGetFunction returned CUDA_ERROR_NOT_FOUND (500)");
}

TEST(CuStatusTest, CodesFollowTheKindOfFailure) {
  const auto code = [](CUresult result) {
    return CuStatus(result, "cuX").code();
  };
  EXPECT_EQ(code(CUDA_ERROR_INVALID_VALUE), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(CUDA_ERROR_NOT_FOUND), absl::StatusCode::kNotFound);
  EXPECT_EQ(code(CUDA_ERROR_NO_DEVICE), absl::StatusCode::kUnavailable);
  EXPECT_EQ(code(CUDA_ERROR_STUB_LIBRARY), absl::StatusCode::kUnavailable);
  EXPECT_EQ(code(CUDA_ERROR_NOT_SUPPORTED), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(code(CUDA_ERROR_NO_BINARY_FOR_GPU),
            absl::StatusCode::kUnimplemented);
  for (int capture = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
       capture <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD; ++capture) {
    EXPECT_EQ(code(static_cast<CUresult>(capture)),
              absl::StatusCode::kFailedPrecondition)
        << capture;
  }
  EXPECT_EQ(code(CUDA_ERROR_ILLEGAL_ADDRESS), absl::StatusCode::kInternal);
}

TEST(CuStatusTest, StatusesOfNoDriverCallCarryNothing) {
  EXPECT_THAT(CuResultOf(absl::InternalError("x")), Eq(std::nullopt));
  EXPECT_THAT(CuResultOf(absl::OkStatus()), Eq(std::nullopt));
  EXPECT_EQ(CuCallOf(absl::InternalError("x")), "");
}

TEST(CuStatusTest, ResultsOfANewerDriverKeepTheirNumber) {
  const auto unknown = static_cast<CUresult>(998);
  EXPECT_STREQ(CuResultName(unknown), "CUDA_ERROR_UNRECOGNIZED");
  EXPECT_THAT(CuResultOf(CuStatus(unknown, "cuX")), Optional(unknown));
}

TEST(CuStatusTest, NamesAreTheHeaders) {
  EXPECT_STREQ(CuResultName(CUDA_SUCCESS), "CUDA_SUCCESS");
  EXPECT_STREQ(CuResultName(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),
               "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED");
  EXPECT_STREQ(CuResultName(CUDA_ERROR_UNKNOWN), "CUDA_ERROR_UNKNOWN");
}

TEST(AnnotateTest, PrefixesTheTextAndKeepsCodeAndPayload) {
  const absl::Status status =
      Annotate(CuStatus(CUDA_ERROR_NOT_FOUND, "cuX", "a"), "b");
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound,
                               Eq("b: a: cuX returned CUDA_ERROR_NOT_FOUND "
                                  "(500)")));
  EXPECT_THAT(CuResultOf(status), Optional(CUDA_ERROR_NOT_FOUND));
  EXPECT_OK(Annotate(absl::OkStatus(), "b"));
}

absl::StatusOr<std::unique_ptr<int>> MakeInt(bool ok) {
  if (!ok) return absl::NotFoundError("no int");
  return std::make_unique<int>(5);
}

absl::Status Use(bool ok, int* value) {
  PERMAFROST_RETURN_IF_ERROR(MakeInt(true));
  PERMAFROST_ASSIGN_OR_RETURN(const std::unique_ptr<int> made, MakeInt(ok));
  *value = *made;
  return absl::OkStatus();
}

TEST(StatusMacrosTest, AssignMovesTheValueOrReturnsTheStatus) {
  int value = 0;
  EXPECT_OK(Use(true, &value));
  EXPECT_EQ(value, 5);
  value = 0;
  EXPECT_THAT(Use(false, &value),
              StatusIs(absl::StatusCode::kNotFound, Eq("no int")));
  EXPECT_EQ(value, 0);
}

TEST(StatusMatchersTest, TellOkFromNotOkAndCodesApart) {
  EXPECT_THAT(absl::OkStatus(), IsOk());
  EXPECT_THAT(absl::InternalError("x"), Not(IsOk()));
  EXPECT_THAT(absl::InternalError("x"),
              Not(StatusIs(absl::StatusCode::kNotFound)));
  EXPECT_THAT(absl::InternalError("x"),
              Not(StatusIs(absl::StatusCode::kInternal, Eq("y"))));
}

}  // namespace
}  // namespace permafrost
