// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "exec_test_support.h"

namespace softcuda::testing {
namespace {

std::string ReadImage(const std::string& name) {
  const std::string path =
      std::string(SOFTCUDA_SURVEY_FOLDER) + "/" + name + ".fatbin";
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(SurveyTest, EveryFormOfTheProductsKernelsIsKnown) {
  const std::string image = ReadImage("moe_kernels");
  for (const int capability : {80, 90}) {
    SCOPED_TRACE(capability);
    Loaded loaded(image.data(), image.size(), capability);
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_GE(loaded.module().kernels().size(), 8u);
  }
}

TEST(SurveyTest, EveryFormOfThePlantedKernelsIsKnown) {
  const std::string image = ReadImage("planted_kernels");
  Loaded loaded(image.data(), image.size());
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_FALSE(loaded.module().kernels().empty());
}

}  // namespace
}  // namespace softcuda::testing
