// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "ptx/image_cache.h"

#include <iterator>
#include <utility>

#include "ptx/module.h"

namespace softcuda::ptx {

ImageCache& ImageCache::Get() {
  // Never destroyed: kernels may run until the process ends.
  static ImageCache* const cache = new ImageCache();
  return *cache;
}

std::shared_ptr<const Module> ImageCache::Find(std::string_view text,
                                               int capability) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto image = images_.begin(); image != images_.end(); ++image) {
    if (image->capability != capability || image->text != text) continue;
    images_.splice(images_.begin(), images_, image);
    return image->module;
  }
  return nullptr;
}

void ImageCache::Add(std::string_view text, int capability,
                     std::shared_ptr<const Module> module) {
  // Declared first, so that a module that leaves is destroyed without the lock.
  std::list<Image> dropped;
  const std::lock_guard<std::mutex> lock(mutex_);
  images_.push_front({std::string(text), capability, std::move(module)});
  if (images_.size() > kImages) {
    dropped.splice(dropped.begin(), images_, std::prev(images_.end()));
  }
}

}  // namespace softcuda::ptx
