// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/kernel_signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

/// `void scale(float* out, const float* in, int rows)`.
KernelSignature Scale() {
  return {.kernel = "scale",
          .params = {{.name = "out",
                      .offset_bytes = 0,
                      .size_bytes = 8,
                      .kind = ParamKind::kAddress,
                      .role = "result",
                      .access = Access::kWrite,
                      .extent = {.unit_bytes = 4, .factor_params = {2}}},
                     {.name = "in",
                      .offset_bytes = 8,
                      .size_bytes = 8,
                      .kind = ParamKind::kAddress,
                      .role = "input",
                      .access = Access::kRead},
                     {.name = "rows",
                      .offset_bytes = 16,
                      .size_bytes = 4,
                      .kind = ParamKind::kScalar,
                      .role = "rows"}}};
}

TEST(SignatureSetTest, FindsWhatWasAdded) {
  SignatureSet set;
  EXPECT_OK(set.Add(Scale()));
  ASSERT_NE(set.Find("scale"), nullptr);
  EXPECT_EQ(*set.Find("scale"), Scale());
  EXPECT_EQ(set.Find("scal"), nullptr);
}

TEST(SignatureSetTest, PointersOutliveFurtherAdditions) {
  SignatureSet set;
  ASSERT_OK(set.Add(Scale()));
  const KernelSignature* first = set.Find("scale");
  for (int i = 0; i < 100; ++i) {
    KernelSignature other = Scale();
    other.kernel = "kernel" + std::to_string(i);
    ASSERT_OK(set.Add(other));
  }
  EXPECT_EQ(set.Find("scale"), first);
  EXPECT_EQ(set.size(), 101);
}

TEST(SignatureSetTest, ParametersMayBeDeclaredInAnyOrder) {
  KernelSignature signature = Scale();
  std::swap(signature.params[0], signature.params[1]);
  EXPECT_OK(SignatureSet().Add(signature));
}

TEST(SignatureSetTest, SameKernelTwiceIsRefused) {
  SignatureSet set;
  ASSERT_OK(set.Add(Scale()));
  EXPECT_THAT(set.Add(Scale()),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("'scale'")));
}

TEST(SignatureSetTest, OverlapNamesBothParameters) {
  KernelSignature signature = Scale();
  signature.params[2].offset_bytes = 12;
  EXPECT_THAT(SignatureSet().Add(signature),
              StatusIs(kInvalid, AllOf(HasSubstr("'in'"), HasSubstr("'rows'"),
                                       HasSubstr("overlap"))));
}

TEST(SignatureSetTest, RefusesWhatNoKernelCanHave) {
  const auto with = [](auto change) {
    KernelSignature signature = Scale();
    change(signature);
    return SignatureSet().Add(signature);
  };
  using S = KernelSignature;
  EXPECT_THAT(with([](S& s) { s.kernel.clear(); }), StatusIs(kInvalid));
  EXPECT_THAT(with([](S& s) { s.params[2].name.clear(); }),
              StatusIs(kInvalid, HasSubstr("no name")));
  EXPECT_THAT(with([](S& s) { s.params[2].name = "in"; }),
              StatusIs(kInvalid, HasSubstr("'in' is declared twice")));
  EXPECT_THAT(with([](S& s) { s.params[2].offset_bytes = -4; }),
              StatusIs(kInvalid, HasSubstr("'rows'")));
  EXPECT_THAT(with([](S& s) { s.params[2].size_bytes = 0; }),
              StatusIs(kInvalid, HasSubstr("'rows'")));
  EXPECT_THAT(with([](S& s) { s.params[2].size_bytes = INT64_MAX; }),
              StatusIs(kInvalid, HasSubstr("32764")));
  EXPECT_THAT(with([](S& s) { s.params[2].offset_bytes = 32764; }),
              StatusIs(kInvalid, HasSubstr("32764")));
  EXPECT_THAT(with([](S& s) { s.params[1].size_bytes = 4; }),
              StatusIs(kInvalid, HasSubstr("'in'")));
  EXPECT_THAT(with([](S& s) { s.params[2].access = Access::kRead; }),
              StatusIs(kInvalid, HasSubstr("only addresses")));
  EXPECT_THAT(with([](S& s) { s.params[2].nullable = true; }),
              StatusIs(kInvalid, HasSubstr("only addresses")));
  EXPECT_THAT(with([](S& s) { s.params[0].extent.factor_params = {3}; }),
              StatusIs(kInvalid, HasSubstr("factor 3")));
  EXPECT_THAT(with([](S& s) { s.params[0].extent.factor_params = {-1}; }),
              StatusIs(kInvalid, HasSubstr("factor -1")));
  EXPECT_THAT(with([](S& s) { s.params[0].extent.factor_params = {1}; }),
              StatusIs(kInvalid, HasSubstr("'in'")));
  EXPECT_THAT(with([](S& s) { s.params[0].extent.unit_bytes = -4; }),
              StatusIs(kInvalid, HasSubstr("unit_bytes")));
  EXPECT_THAT(with([](S& s) { s.params[0].extent.unit_bytes = 0; }),
              StatusIs(kInvalid, HasSubstr("whole buffer")));
  EXPECT_OK(with([](S&) {}));
}

TEST(SignatureSetTest, MergeTakesAllAndAgreesOnWhatBothHave) {
  SignatureSet mine;
  ASSERT_OK(mine.Add(Scale()));
  SignatureSet theirs;
  ASSERT_OK(theirs.Add(Scale()));
  KernelSignature other = Scale();
  other.kernel = "other";
  ASSERT_OK(theirs.Add(other));
  EXPECT_OK(mine.MergeFrom(theirs));
  EXPECT_EQ(mine.size(), 2);
}

TEST(SignatureSetTest, MergeThatDisagreesChangesNothing) {
  SignatureSet mine;
  ASSERT_OK(mine.Add(Scale()));
  SignatureSet theirs;
  KernelSignature other = Scale();
  other.kernel = "another";
  ASSERT_OK(theirs.Add(other));
  KernelSignature changed = Scale();
  changed.params[1].access = Access::kReadWrite;
  ASSERT_OK(theirs.Add(changed));
  EXPECT_THAT(mine.MergeFrom(theirs),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("'scale'")));
  EXPECT_EQ(mine.size(), 1);
  EXPECT_EQ(*mine.Find("scale"), Scale());
}

}  // namespace
}  // namespace permafrost
