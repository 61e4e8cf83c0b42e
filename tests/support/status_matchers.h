// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// GoogleTest matchers for absl::Status and absl::StatusOr.

#ifndef PERMAFROST_TESTS_SUPPORT_STATUS_MATCHERS_H_
#define PERMAFROST_TESTS_SUPPORT_STATUS_MATCHERS_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace permafrost::testing {

/// What most refusals return.
inline constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

inline const absl::Status& GetStatus(const absl::Status& status) {
  return status;
}
template <typename T>
const absl::Status& GetStatus(const absl::StatusOr<T>& status_or) {
  return status_or.status();
}

/// Matches an OK Status or StatusOr.
class IsOkMatcher {
 public:
  using is_gtest_matcher = void;

  template <typename StatusLike>
  bool MatchAndExplain(const StatusLike& value,
                       ::testing::MatchResultListener* listener) const {
    const absl::Status& status = GetStatus(value);
    if (!status.ok()) *listener << "which is " << status.ToString();
    return status.ok();
  }
  void DescribeTo(std::ostream* out) const { *out << "is OK"; }
  void DescribeNegationTo(std::ostream* out) const { *out << "is not OK"; }
};

inline IsOkMatcher IsOk() { return {}; }

/// Matches a Status or StatusOr by its code and its text.
class StatusIsMatcher {
 public:
  using is_gtest_matcher = void;

  StatusIsMatcher(absl::StatusCode code,
                  ::testing::Matcher<const std::string&> message)
      : code_(code), message_(std::move(message)) {}

  template <typename StatusLike>
  bool MatchAndExplain(const StatusLike& value,
                       ::testing::MatchResultListener* listener) const {
    const absl::Status& status = GetStatus(value);
    *listener << "which is " << status.ToString();
    return status.code() == code_ &&
           message_.Matches(std::string(status.message()));
  }
  void DescribeTo(std::ostream* out) const {
    *out << "has code " << absl::StatusCodeToString(code_)
         << " and a message that ";
    message_.DescribeTo(out);
  }
  void DescribeNegationTo(std::ostream* out) const {
    *out << "has another code than " << absl::StatusCodeToString(code_)
         << " or a message that ";
    message_.DescribeNegationTo(out);
  }

 private:
  absl::StatusCode code_;
  ::testing::Matcher<const std::string&> message_;
};

/// StatusIs(absl::StatusCode::kNotFound, HasSubstr("hidden_states"))
inline StatusIsMatcher StatusIs(
    absl::StatusCode code,
    ::testing::Matcher<const std::string&> message = ::testing::_) {
  return StatusIsMatcher(code, std::move(message));
}

}  // namespace permafrost::testing

// The expression may contain commas, as in a template argument list.
#define EXPECT_OK(...) EXPECT_THAT((__VA_ARGS__), ::permafrost::testing::IsOk())
#define ASSERT_OK(...) ASSERT_THAT((__VA_ARGS__), ::permafrost::testing::IsOk())

// Declares a variable from a StatusOr, or ends the test:
//   ASSERT_OK_AND_ASSIGN(Stream stream, Stream::Create(context));
#define ASSERT_OK_AND_ASSIGN(declaration, ...)                      \
  PERMAFROST_TEST_ASSIGN_IMPL(                                      \
      PERMAFROST_TEST_CONCAT(permafrost_test_status_or_, __LINE__), \
      declaration, __VA_ARGS__)
#define PERMAFROST_TEST_ASSIGN_IMPL(temporary, declaration, ...) \
  auto temporary = (__VA_ARGS__);                                \
  ASSERT_OK(temporary);                                          \
  declaration = std::move(temporary).value()
#define PERMAFROST_TEST_CONCAT(a, b) PERMAFROST_TEST_CONCAT_IMPL(a, b)
#define PERMAFROST_TEST_CONCAT_IMPL(a, b) a##b

#endif  // PERMAFROST_TESTS_SUPPORT_STATUS_MATCHERS_H_
