// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "arena/model_presets.h"
#include "permafrost/arena/model_config.h"
#include "support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::kInvalid;
using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

constexpr char kLlama[] =
    R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1,
        "num_attention_heads": 1, "vocab_size": 10, "intermediate_size": 8})";

/// A folder of the test's own, gone when the test ends.
class ModelConfigFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const ::testing::TestInfo* info =
        ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              (std::string("permafrost_") + info->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const char* name, const std::string& text) {
    const std::filesystem::path path = folder_ / name;
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }

  std::filesystem::path folder_;
};

TEST_F(ModelConfigFileTest, PresetsAreListedAndAllLoad) {
  EXPECT_THAT(ModelPresets(), IsSupersetOf({"deepseek-v3", "llama-3.1-8b",
                                            "mixtral-8x7b", "qwen3-30b-a3b"}));
  for (const std::string& preset : ModelPresets()) {
    ASSERT_OK_AND_ASSIGN(const ModelConfig config, LoadModelConfig(preset));
    EXPECT_EQ(config.source, preset);
  }
}

TEST_F(ModelConfigFileTest, PresetsHaveTheFiguresOfTheirModels) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig qwen,
                       LoadModelConfig("qwen3-30b-a3b"));
  EXPECT_EQ(qwen.num_experts, 128);
  EXPECT_EQ(qwen.moe_intermediate_size, 768);
  EXPECT_EQ(qwen.head_dim, 128);
  EXPECT_TRUE(qwen.normalize_topk);
  ASSERT_OK_AND_ASSIGN(const ModelConfig deepseek,
                       LoadModelConfig("deepseek-v3"));
  EXPECT_EQ(deepseek.num_experts, 256);
  EXPECT_EQ(deepseek.shared_expert_intermediate_size, 2048);
  EXPECT_EQ(deepseek.head_dim, 192);
  ASSERT_OK_AND_ASSIGN(const ModelConfig mixtral,
                       LoadModelConfig("mixtral-8x7b"));
  EXPECT_EQ(mixtral.moe_intermediate_size, 14336);
  ASSERT_OK_AND_ASSIGN(const ModelConfig llama,
                       LoadModelConfig("llama-3.1-8b"));
  EXPECT_FALSE(llama.is_moe());
}

TEST_F(ModelConfigFileTest, ReadsAPath) {
  const std::string path = Write("config.json", kLlama);
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, LoadModelConfig(path));
  EXPECT_EQ(config.source, path);
  EXPECT_EQ(config.hidden_size, 64);
}

TEST_F(ModelConfigFileTest, AFileNamedLikeAPresetIsReadByItsPath) {
  const std::string path = Write("deepseek-v3", kLlama);
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, LoadModelConfig(path));
  EXPECT_EQ(config.model_type, "llama");
}

TEST_F(ModelConfigFileTest, NothingThereListsThePresets) {
  for (const std::string& name :
       {std::string("qwen3-30b"), (folder_ / "none.json").string(),
        std::string("deepseek-v3.json"), std::string(),
        std::string(100000, 'x')}) {
    EXPECT_THAT(LoadModelConfig(name),
                StatusIs(kInvalid, AllOf(HasSubstr("no such file"),
                                         HasSubstr("qwen3-30b-a3b"),
                                         HasSubstr("mixtral-8x7b"))));
  }
}

TEST_F(ModelConfigFileTest, AFolderIsRefusedAsOne) {
  EXPECT_THAT(LoadModelConfig(folder_.string()),
              StatusIs(kInvalid, AllOf(HasSubstr("folder"),
                                       HasSubstr(folder_.string()))));
}

TEST_F(ModelConfigFileTest, PathThroughAFileIsNoFile) {
  const std::string path = Write("config.json", kLlama);
  EXPECT_THAT(LoadModelConfig(path + "/config.json"), StatusIs(kInvalid));
}

TEST_F(ModelConfigFileTest, SizeIsLimited) {
  std::string text = kLlama;
  text += std::string((4 << 20) - text.size(), ' ');
  EXPECT_OK(LoadModelConfig(Write("fits.json", text)));
  EXPECT_THAT(LoadModelConfig(Write("large.json", text + " ")),
              StatusIs(kInvalid, HasSubstr("4194304")));
  EXPECT_THAT(LoadModelConfig("/dev/zero"),
              StatusIs(kInvalid, HasSubstr("4194304")));
}

TEST_F(ModelConfigFileTest, ErrorsInAFileNameIt) {
  const std::string path = Write("bad.json", "{\"model_type\": \"llama\"");
  EXPECT_THAT(LoadModelConfig(path),
              StatusIs(kInvalid, AllOf(HasSubstr(path), HasSubstr("line 1"),
                                       HasSubstr("column"))));
}

TEST_F(ModelConfigFileTest, EmptyFileIsNoJson) {
  EXPECT_THAT(LoadModelConfig(Write("empty.json", "")),
              StatusIs(kInvalid, HasSubstr("not valid JSON")));
}

}  // namespace
}  // namespace permafrost
