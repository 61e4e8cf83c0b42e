// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_PTX_IMAGE_CACHE_H_
#define SOFTCUDA_PTX_IMAGE_CACHE_H_

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace softcuda::ptx {

class Module;

/// The images that were decoded last, by their text: a program that loads one
/// again, as tests and engines with several workers do, gets it without the
/// parser, which is what the driver's cache of compiled kernels gives it too.
///
/// Only a module without variables may be added: variables are memory of one
/// load, and their addresses are in the code.
///
/// Threads: any.
/// Cost: a comparison of the texts of one size.
class ImageCache {
 public:
  /// Held beyond their last use: enough for a program's images and their
  /// planted twins.
  static constexpr size_t kImages = 4;

  static ImageCache& Get();

  /// Null when it is not there.
  std::shared_ptr<const Module> Find(std::string_view text, int capability);
  void Add(std::string_view text, int capability,
           std::shared_ptr<const Module> module);

 private:
  struct Image {
    std::string text;
    int capability = 0;
    std::shared_ptr<const Module> module;
  };

  std::mutex mutex_;
  std::list<Image> images_;  // the one used last comes first
};

}  // namespace softcuda::ptx

#endif  // SOFTCUDA_PTX_IMAGE_CACHE_H_
