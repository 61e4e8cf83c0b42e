// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "permafrost/driver/check.h"

#include <gtest/gtest.h>

namespace permafrost {
namespace {

TEST(CheckTest, FalseAbortsWithConditionAndMessage) {
  EXPECT_DEATH(PERMAFROST_CHECK(1 + 1 == 3, "arithmetic is broken"),
               "check_test.cc:.*1 \\+ 1 == 3.*arithmetic is broken");
}

TEST(CheckTest, TrueGoesOnAndEvaluatesOnce) {
  int evaluations = 0;
  PERMAFROST_CHECK(++evaluations == 1, "evaluated more than once");
  EXPECT_EQ(evaluations, 1);
}

}  // namespace
}  // namespace permafrost
