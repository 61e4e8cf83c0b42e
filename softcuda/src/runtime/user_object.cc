// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <thread>

#include "runtime/objects.h"

namespace softcuda::runtime {

void ReleaseUserObject(const std::shared_ptr<UserObject>& object,
                       uint64_t count) {
  if (count == 0 || object->references.fetch_sub(count) != count) return;
  std::thread([destroy = object->destroy, pointer = object->pointer] {
    destroy(pointer);
  }).detach();
}

void UserObjectHold::Drop(uint64_t count) {
  count = std::min(count, count_);
  count_ -= count;
  if (count > 0) ReleaseUserObject(object_, count);
}

UserObjectHold UserObjectHold::Copy() const {
  object_->references.fetch_add(count_);
  return UserObjectHold(object_, count_);
}

}  // namespace softcuda::runtime
