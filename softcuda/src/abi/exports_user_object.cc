// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// User objects, whose lifetime graphs can extend.
#include <algorithm>
#include <cstdint>
#include <memory>

#include "abi/cuda_abi.h"
#include "runtime/call.h"

using softcuda::runtime::Api;
using softcuda::runtime::Call;
using softcuda::runtime::UserObject;
using softcuda::runtime::UserObjectHold;

extern "C" {

CUresult CUDAAPI cuUserObjectCreate(CUuserObject* handle, void* pointer,
                                    CUhostFn destroy, unsigned int references,
                                    unsigned int flags) {
  Call call(Api::kUserObjectCreate);
  if (!call.ok()) return call.result();
  if (handle == nullptr || destroy == nullptr || references == 0 ||
      references > INT32_MAX || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto object = std::make_shared<UserObject>();
  object->pointer = pointer;
  object->destroy = destroy;
  object->references = references;
  object->owned = references;
  object->handle = call.runtime().user_objects.Add(object);
  *handle = object->handle;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuUserObjectRetain(CUuserObject handle, unsigned int count) {
  Call call(Api::kUserObjectRetain);
  if (!call.ok()) return call.result();
  if (count == 0 || count > INT32_MAX) return CUDA_ERROR_INVALID_VALUE;
  const auto object = call.Find(handle);
  if (object == nullptr) return call.Fail();
  object->references += count;
  object->owned += count;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuUserObjectRelease(CUuserObject handle, unsigned int count) {
  Call call(Api::kUserObjectRelease);
  if (!call.ok()) return call.result();
  const auto object = call.Find(handle);
  if (object == nullptr) return call.Fail();
  if (count == 0 || count > object->owned) return CUDA_ERROR_INVALID_VALUE;
  object->owned -= count;
  // Without a reference of its own the caller may not name it any more.
  if (object->owned == 0) call.runtime().user_objects.Erase(handle);
  ReleaseUserObject(object, count);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphRetainUserObject(CUgraph graph_handle,
                                         CUuserObject handle,
                                         unsigned int count,
                                         unsigned int flags) {
  Call call(Api::kGraphRetainUserObject);
  if (!call.ok()) return call.result();
  const auto graph = call.Find(graph_handle);
  if (graph == nullptr) return call.Fail();
  const auto object = call.Find(handle);
  if (object == nullptr) return call.Fail();
  const bool move = flags == CU_GRAPH_USER_OBJECT_MOVE;
  if (count == 0 || count > INT32_MAX || (flags != 0 && !move) ||
      (move && count > object->owned)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (move) {
    object->owned -= count;
    if (object->owned == 0) call.runtime().user_objects.Erase(handle);
  } else {
    object->references += count;
  }
  graph->user_objects.emplace_back(object, count);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphReleaseUserObject(CUgraph graph_handle,
                                          CUuserObject handle,
                                          unsigned int count) {
  Call call(Api::kGraphReleaseUserObject);
  if (!call.ok()) return call.result();
  const auto graph = call.Find(graph_handle);
  if (graph == nullptr) return call.Fail();
  const auto object = call.Find(handle);
  if (object == nullptr) return call.Fail();
  uint64_t held = 0;
  for (const UserObjectHold& hold : graph->user_objects) {
    if (hold.object() == object) held += hold.count();
  }
  if (count == 0 || count > held) return CUDA_ERROR_INVALID_VALUE;
  uint64_t left = count;
  for (UserObjectHold& hold : graph->user_objects) {
    if (hold.object() != object) continue;
    const uint64_t given_back = std::min(left, hold.count());
    hold.Drop(given_back);
    left -= given_back;
  }
  std::erase_if(graph->user_objects,
                [](const UserObjectHold& hold) { return hold.count() == 0; });
  return CUDA_SUCCESS;
}

}  // extern "C"
