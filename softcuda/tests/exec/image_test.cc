// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Images of all kinds, good and hostile. None may crash, hang or be read past
// its end; run under AddressSanitizer these tests see that too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "exec_test_support.h"
#include "ptx/image_cache.h"

namespace softcuda::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

std::string KernelFor(const std::string& target, const std::string& name) {
  return ".version 9.0\n.target " + target +
         "\n.address_size 64\n.visible .entry " + name + "() { ret; }\n";
}

struct Entry {
  uint16_t kind = 1;
  uint32_t arch = 90;
  uint64_t flags = 0x11;
  uint32_t compressed_bytes = 0;
  std::string payload;
};

// A container as nvcc writes it.
std::string Fatbin(const std::vector<Entry>& entries) {
  std::string body;
  const auto put = [](std::string* to, size_t at, auto value) {
    std::memcpy(to->data() + at, &value, sizeof(value));
  };
  for (const Entry& entry : entries) {
    std::string header(80, '\0');
    std::string payload = entry.payload;
    payload.resize((payload.size() + 8) / 8 * 8);
    put(&header, 0, entry.kind);
    put(&header, 2, uint16_t{0x0101});
    put(&header, 4, uint32_t{80});
    put(&header, 8, uint64_t{payload.size()});
    put(&header, 16, entry.compressed_bytes);
    put(&header, 28, entry.arch);
    put(&header, 40, entry.flags);
    body += header + payload;
  }
  std::string header(16, '\0');
  put(&header, 0, uint32_t{0xBA55ED50});
  put(&header, 4, uint16_t{1});
  put(&header, 6, uint16_t{16});
  put(&header, 8, uint64_t{body.size()});
  return header + body;
}

std::string PtxFor(uint32_t arch) {
  return KernelFor("sm_" + std::to_string(arch), "k" + std::to_string(arch));
}

TEST(ImageTest, TheHighestArchitectureThatFitsIsTaken) {
  const std::string image = Fatbin({{.arch = 80, .payload = PtxFor(80)},
                                    {.kind = 2,
                                     .payload = "\x7f"
                                                "ELF"},
                                    {.arch = 90, .payload = PtxFor(90)},
                                    {.arch = 100, .payload = PtxFor(100)},
                                    {.arch = 75, .payload = PtxFor(75)}});
  const auto kernel_for = [&](int capability) {
    Loaded loaded(image.data(), image.size(), capability);
    return loaded ? loaded.module().kernels().at(0)->name()
                  : loaded.error().message;
  };
  EXPECT_EQ(kernel_for(90), "k90");
  EXPECT_EQ(kernel_for(89), "k80");
  EXPECT_EQ(kernel_for(75), "k75");
  EXPECT_EQ(kernel_for(120), "k100");
  Loaded loaded(image.data(), image.size(), 70);
  EXPECT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_THAT(loaded.error().message, HasSubstr("compute_75"));
}

TEST(ImageTest, TheSizeOfAnImageIsItsOwn) {
  const std::string text = PtxFor(90);
  const std::string image = Fatbin({{.payload = text}});
  ptx::LoadError error;
  EXPECT_NE(ptx::LoadImage(image.data(), 90, &error), nullptr);
  EXPECT_NE(ptx::LoadImage(text.c_str(), 90, &error), nullptr);
  EXPECT_EQ(ptx::LoadImage(nullptr, 90, &error), nullptr);
  EXPECT_EQ(error.code, CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(ptx::LoadImage("", 90, &error), nullptr);
  EXPECT_EQ(ptx::LoadImage("\x50", 90, &error), nullptr);
}

TEST(ImageTest, WhatCannotRunSaysWhy) {
  const auto error_of = [](const std::string& image) {
    Loaded loaded(image.data(), image.size());
    EXPECT_FALSE(loaded);
    return loaded.error();
  };
  ptx::LoadError error = error_of(Fatbin({{.flags = 0x8011,
                                           .compressed_bytes = 9,
                                           .payload = "\x28\xb5\x2f\xfd"}}));
  EXPECT_EQ(error.code, CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_THAT(error.message, HasSubstr("--no-compress"));

  error = error_of(Fatbin({{.kind = 2,
                            .payload = "\x7f"
                                       "ELF and more"}}));
  EXPECT_EQ(error.code, CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_THAT(error.message,
              AllOf(HasSubstr("cubins"), HasSubstr("--no-compress")));

  error = error_of(
      "\x7f"
      "ELF\x02\x01\x01");
  EXPECT_EQ(error.code, CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_THAT(error.message, HasSubstr("cubin"));

  error = error_of(Fatbin({}));
  EXPECT_EQ(error.code, CUDA_ERROR_NO_BINARY_FOR_GPU);

  error = error_of(std::string("\x01\x02\x03\x04garbage", 11));
  EXPECT_EQ(error.code, CUDA_ERROR_INVALID_IMAGE);

  error = error_of("int main() { return 0; }");
  EXPECT_EQ(error.code, CUDA_ERROR_INVALID_PTX);

  error = error_of(KernelFor("sm_100", "k"));
  EXPECT_EQ(error.code, CUDA_ERROR_NO_BINARY_FOR_GPU);

  error = error_of(KernelFor("sm_89a", "k"));
  EXPECT_EQ(error.code, CUDA_ERROR_NO_BINARY_FOR_GPU);

  error = error_of(KernelFor("gfx90", "k"));
  EXPECT_EQ(error.code, CUDA_ERROR_INVALID_PTX);

  error = error_of(".version 12.0\n.target sm_90\n.address_size 64\n");
  EXPECT_EQ(error.code, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
}

TEST(ImageTest, OpcodeFormsThatAreMissingAreNamedWithTheirLine) {
  const char* forms[] = {
      "wgmma.fence.sync.aligned",
      "tcgen05.wait::ld.sync.aligned",
      "mbarrier.init.shared::cta.b64 [%rd1], 1",
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::"
      "bytes [%rd1], [%rd2, {%r1, %r2}], [%rd3]",
      "barrier.cluster.arrive.aligned",
      "tex.2d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1, %r2}]",
      "add.s33 %r1, %r2, %r3",
  };
  for (const std::string form : forms) {
    SCOPED_TRACE(form);
    Loaded loaded(Ptx(R"(
      .visible .entry uses_it() {
        .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .f32 %f<5>;
        .loc 1 77 3
        )" + form + R"(;
        ret; }
      .file 1 "/src/new.cu")"));
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, CUDA_ERROR_INVALID_PTX);
    EXPECT_THAT(loaded.error().message,
                AllOf(HasSubstr("uses_it"), HasSubstr("/src/new.cu:77"),
                      HasSubstr(form.substr(0, form.find(' '))),
                      HasSubstr("not supported")));
  }
}

TEST(ImageTest, OperandsThatDoNotFitAreRefused) {
  const char* lines[] = {
      "add.u32 %r1, %r2",
      "add.u32 %r1, %r2, %r3, %r4",
      "add.u32 5, %r2, %r3",
      "add.u32 %p1, %r2, %r3",
      "add.u32 %r1, %nothing, %r3",
      "add.u32 %r1, nothing, %r3",
      "ld.global.v2.u32 %r1, [%rd1]",
      "ld.global.v2.u32 {%r1, %r2, %r3}, [%rd1]",
      "ld.global.u32 %r1, %rd1",
      "st.global.u32 [%p1], %r1",
      "bra nowhere",
      "bra %r1",
      "brx.idx %r1, nowhere",
      "call nobody, (%r1)",
      "mov.b64 %rd1, {%r1}",
      "lop3.b32 %r1, %r2, %r3, %r1, %r2",
      "@%r1 bra HERE",
      "add.u32 %r1, !%r2, %r3",
      "mov.u32 %r1, %envreg1",
      "@%p9 add.u32 %r1, %r1, %r1",
  };
  for (const std::string line : lines) {
    SCOPED_TRACE(line);
    Loaded loaded(Ptx(R"(.visible .entry k() {
        .reg .b32 %r<5>; .reg .b64 %rd<4>; .reg .pred %p<4>;
        HERE: )" + line +
                      "; ret; }"));
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, CUDA_ERROR_INVALID_PTX);
    EXPECT_THAT(loaded.error().message,
                AllOf(HasSubstr("k"), HasSubstr("line")));
  }
}

// A text with all the parts that the parser knows.
std::string RichText() {
  return Ptx(R"(
    // comment
    /* another
       one */
    .file 1 "a.cu"
    .extern .shared .align 16 .b8 dyn[];
    .global .align 4 .b8 g[8] = {1, 2, 3, 4};
    .const .align 8 .u64 c = 0x123456789abcdef0;
    .func (.param .b32 ret) f(.param .b32 x) {
      .reg .b32 %a; ld.param.b32 %a, [x]; st.param.b32 [ret], %a; ret; }
    .visible .entry k(.param .u64 out, .param .align 4 .b8 s[12])
      .maxntid 128, 1, 1 .minnctapersm 2
    {
      .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<5>; .reg .f32 %f<4>;
      .shared .align 4 .b8 arr[64];
      .loc 1 3 1
      ld.param.u64 %rd1, [out];
      mov.u32 %r1, %tid.x;
      mov.u32 %r7, dyn;
      LOOP: .pragma "nounroll";
      setp.lt.and.u32 %p1|%p2, %r1, 16, !%p2;
      @!%p1 bra DONE;
      { .reg .b32 %t; add.u32 %t, %r1, 1; mov.u32 %r1, %t; }
      fma.rn.f32 %f1, %f2, 0f3F800000, 0f00000000;
      ld.global.v2.u32 {%r2, %r3}, [%rd1+8];
      atom.global.add.u32 %r4, [g+4], 1;
      shfl.sync.bfly.b32 %r5|%p2, %r1, 1, 31, -1;
      { .param .b32 p0; .param .b32 r0; st.param.b32 [p0], %r1;
        call.uni (r0), f, (p0); ld.param.b32 %r6, [r0]; }
      TS: .branchtargets LOOP, DONE;
      brx.idx %r1, TS;
      bar.sync 0;
      bra.uni LOOP;
      DONE: ret;
    })");
}

TEST(ImageTest, AnImageThatIsLoadedAgainIsDecodedOnce) {
  const std::string text = KernelFor("sm_80", "k");
  ptx::LoadError error;
  const auto first = ptx::LoadImage(text.c_str(), 90, &error);
  ASSERT_NE(first, nullptr) << error.message;
  const std::string copy = text;
  EXPECT_EQ(ptx::LoadImage(copy.c_str(), 90, &error), first);
  EXPECT_NE(ptx::LoadImage(copy.c_str(), 80, &error), first);
  EXPECT_NE(ptx::LoadImage(KernelFor("sm_80", "l").c_str(), 90, &error), first);
}

TEST(ImageTest, ImagesLoadedLongAgoAreDecodedAnew) {
  const std::string text = KernelFor("sm_80", "long_ago");
  ptx::LoadError error;
  const auto first = ptx::LoadImage(text.c_str(), 90, &error);
  for (size_t k = 0; k < ptx::ImageCache::kImages; ++k) {
    const std::string other = KernelFor("sm_80", "k" + std::to_string(k));
    ASSERT_NE(ptx::LoadImage(other.c_str(), 90, &error), nullptr);
  }
  const auto again = ptx::LoadImage(text.c_str(), 90, &error);
  EXPECT_NE(again, first);
  // Who holds it still has it.
  EXPECT_NE(first->Find("long_ago"), nullptr);
}

TEST(ImageTest, EachLoadHasVariablesOfItsOwn) {
  const std::string text =
      ".version 9.0\n.target sm_80\n.address_size 64\n"
      ".visible .global .u32 count = 7;\n.visible .entry k() { ret; }\n";
  ptx::LoadError error;
  const auto first = ptx::LoadImage(text.c_str(), 90, &error);
  const auto second = ptx::LoadImage(text.c_str(), 90, &error);
  ASSERT_NE(first, nullptr) << error.message;
  ASSERT_NE(second, nullptr) << error.message;
  EXPECT_NE(first->FindGlobal("count")->address,
            second->FindGlobal("count")->address);
}

// Loads from an allocation of exactly that size, so that AddressSanitizer sees
// any read past it.
void LoadExactly(std::string_view bytes) {
  const std::unique_ptr<char[]> exact(new char[bytes.size()]);
  std::memcpy(exact.get(), bytes.data(), bytes.size());
  ptx::LoadError error;
  const auto module = ptx::LoadImage(exact.get(), bytes.size(), 90, &error);
  EXPECT_EQ(module != nullptr, error.code == CUDA_SUCCESS);
  EXPECT_EQ(module != nullptr, error.message.empty());
}

TEST(ImageTest, TruncatedAtEveryLength) {
  const std::string text = RichText();
  {
    Loaded whole(text);
    ASSERT_TRUE(whole) << whole.error().message;
    EXPECT_EQ(whole.module().Find("k")->max_threads_per_block(), 128u);
  }
  const std::string image = Fatbin(
      {{.arch = 80, .payload = PtxFor(80)}, {.arch = 90, .payload = text}});
  Loaded whole(image.data(), image.size());
  ASSERT_TRUE(whole) << whole.error().message;
  for (size_t size = 0; size < image.size(); ++size) {
    LoadExactly(std::string_view(image).substr(0, size));
  }
  for (size_t size = 0; size < text.size(); ++size) {
    LoadExactly(std::string_view(text).substr(0, size));
  }
}

TEST(ImageTest, MutatedBytesNeverCrash) {
  const std::string text = RichText();
  const std::string image = Fatbin({{.arch = 80, .payload = PtxFor(80)},
                                    {.kind = 2,
                                     .payload = "\x7f"
                                                "ELF"},
                                    {.arch = 90, .payload = text}});
  std::mt19937 random(99);
  for (const std::string& original : {text, image}) {
    for (int round = 0; round < 3000; ++round) {
      std::string mutated = original;
      const unsigned changes = 1 + random() % 4;
      for (unsigned k = 0; k < changes; ++k) {
        const size_t at = random() % mutated.size();
        switch (random() % 4) {
          case 0:
            mutated[at] = static_cast<char>(random());
            break;
          case 1:
            mutated.erase(at, 1 + random() % 20);
            break;
          case 2: {
            // A piece of the text itself makes more sense, and goes deeper.
            const size_t from = random() % original.size();
            mutated.insert(at, original.substr(from, random() % 40));
            break;
          }
          default:
            mutated[at] = "{}[]();,.<>%@!|-+0123456789"[random() % 27];
            break;
        }
        if (mutated.empty()) mutated = " ";
      }
      LoadExactly(mutated);
    }
  }
}

TEST(ImageTest, DeepAndLargeTextsAreRefusedInTime) {
  std::string deep = ".visible .entry k() {\n";
  for (int k = 0; k < 100000; ++k) deep += "{";
  LoadExactly(Ptx(deep));
  LoadExactly(
      Ptx(".visible .entry k() { add.u32 %r1, " + std::string(100000, '[')));
  LoadExactly(
      Ptx(".visible .entry k() { add.u32 %r1, " + std::string(100000, '!')));
  LoadExactly(Ptx(".global .b8 a[99999999999][99999999999];"));
  LoadExactly(Ptx(".global .b8 a[1099511627776];"));
  LoadExactly(
      Ptx(".visible .entry k() { .shared .b8 a[1099511627776];"
          ".reg .b32 %r; mov.u32 %r, a; ret; }"));
  LoadExactly(
      Ptx(".visible .entry k() { .reg .b32 %r<4000000000>;"
          "mov.u32 %r3999999999, 1; ret; }"));
  // Calls that double at each level.
  std::string doubling = ".func f0() { ret; }\n";
  for (int k = 1; k < 31; ++k) {
    const std::string callee = "f" + std::to_string(k - 1);
    doubling += ".func f" + std::to_string(k) + "() { call " + callee +
                "; call " + callee + "; ret; }\n";
  }
  Loaded loaded(Ptx(doubling + ".visible .entry k() { call f30; ret; }"));
  EXPECT_FALSE(loaded);
  EXPECT_THAT(loaded.error().message, HasSubstr("instructions"));
}

TEST(ImageTest, TwoOfOneNameAreRefused) {
  Loaded kernels(
      Ptx(".visible .entry k() { ret; } .visible .entry k() "
          "{ ret; }"));
  EXPECT_FALSE(kernels);
  Loaded variables(Ptx(".global .u32 a; .global .u32 a;"));
  EXPECT_FALSE(variables);
  Loaded labels(Ptx(".visible .entry k() { L: L: ret; }"));
  EXPECT_FALSE(labels);
  Loaded external(Ptx(".extern .global .u32 elsewhere;"));
  EXPECT_FALSE(external);
  EXPECT_THAT(external.error().message, HasSubstr("elsewhere"));
}

}  // namespace
}  // namespace softcuda::testing
