// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_RUNTIME_OBJECTS_H_
#define SOFTCUDA_RUNTIME_OBJECTS_H_

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ptx/module.h"

// The objects behind streams, events, modules and captures. The runtime's lock
// guards all of them, except where a member says otherwise.
namespace softcuda::runtime {

struct Capture;
struct Graph;
struct Node;
struct Task;

/// An edge's upstream end, as streams, events and nodes keep it.
struct Dependency {
  std::shared_ptr<Node> node;
  CUgraphEdgeData edge = {};
};

enum class StreamKind : uint8_t { kCreated, kLegacy, kPerThread };

struct Stream {
  StreamKind kind = StreamKind::kCreated;
  CUstream handle = nullptr;
  int device = 0;
  unsigned int flags = 0;
  int priority = 0;
  uint64_t id = 0;
  CUsynchronizationPolicy sync_policy = CU_SYNC_POLICY_AUTO;
  // The newest item enqueued; the next one follows it.
  std::shared_ptr<Task> last;
  // Set while the stream belongs to a capture, broken or not.
  std::shared_ptr<Capture> capture;
  // What the next recorded node will depend on.
  std::vector<Dependency> dependencies;
  // Arrays that cuStreamGetCaptureInfo handed out.
  std::vector<CUgraphNode> info_nodes;
  std::vector<CUgraphEdgeData> info_edges;

  bool blocking() const { return (flags & CU_STREAM_NON_BLOCKING) == 0; }
};

enum class EventState : uint8_t { kEmpty, kRecorded, kCaptured };

struct Event {
  CUevent handle = nullptr;
  int device = 0;
  unsigned int flags = 0;
  EventState state = EventState::kEmpty;
  std::shared_ptr<Task> work;            // kRecorded
  std::shared_ptr<Capture> capture;      // kCaptured
  std::vector<Dependency> dependencies;  // kCaptured

  bool timing() const { return (flags & CU_EVENT_DISABLE_TIMING) == 0; }
};

enum class CaptureStatus : uint8_t { kActive, kInvalidated, kEnded };

struct Capture {
  uint64_t id = 0;
  std::shared_ptr<Graph> graph;
  bool to_user_graph = false;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  uint64_t thread_id = 0;
  CaptureStatus status = CaptureStatus::kActive;
  Stream* origin = nullptr;      // compared only, never dereferenced
  std::vector<Stream*> members;  // the origin too; alive while listed

  bool active() const { return status == CaptureStatus::kActive; }
};

/// A loaded image. Functions, and through them queued work and executable
/// graphs, keep it alive after cuModuleUnload.
struct LoadedModule {
  CUmodule handle = nullptr;
  std::shared_ptr<const ptx::Module> image;
  CUlibrary library = nullptr;  // null for a module of its own
  int device = 0;               // of a module of its own
  std::atomic<bool> unloaded{false};
  // Handles given out, by kernel name.
  std::map<std::string, CUfunction> functions;
};

/// What cuFuncSetAttribute and cuKernelSetAttribute can change.
struct FunctionAttributes {
  int max_dynamic_shared_bytes = 0;
  int shared_carveout = -1;
  int cluster_width = 0;
  int cluster_height = 0;
  int cluster_depth = 0;
  int non_portable_cluster_size = 0;
  int cluster_scheduling_policy = 0;
};

/// A kernel of a module, behind a CUfunction, a CUkernel or both.
struct Function {
  CUfunction handle = nullptr;
  CUkernel kernel_handle = nullptr;
  std::shared_ptr<LoadedModule> module;
  const ptx::Kernel* kernel = nullptr;
  FunctionAttributes attributes;
  bool loaded = false;  // asked for by cuFuncLoad, or launched
};

struct Library {
  CUlibrary handle = nullptr;
  std::shared_ptr<LoadedModule> module;
  std::map<std::string, CUkernel> kernels;
};

/// A reference-counted user object. The count of all references is atomic: the
/// last one may go with an executable graph, with or without the lock.
struct UserObject {
  CUuserObject handle = nullptr;
  void* pointer = nullptr;
  CUhostFn destroy = nullptr;
  std::atomic<uint64_t> references{0};
  uint64_t owned = 0;  // the references that are the caller's own
};

/// References that a graph or an executable graph holds; gives them back when
/// it is destroyed.
class UserObjectHold {
 public:
  UserObjectHold(std::shared_ptr<UserObject> object, uint64_t count)
      : object_(std::move(object)), count_(count) {}
  UserObjectHold(UserObjectHold&& other) noexcept
      : object_(std::move(other.object_)), count_(other.count_) {
    other.count_ = 0;
  }
  UserObjectHold& operator=(UserObjectHold&& other) noexcept {
    std::swap(object_, other.object_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~UserObjectHold() { Drop(count_); }

  const std::shared_ptr<UserObject>& object() const { return object_; }
  uint64_t count() const { return count_; }
  /// Gives `count` references back.
  void Drop(uint64_t count);
  /// A second hold with as many references of its own.
  UserObjectHold Copy() const;

 private:
  std::shared_ptr<UserObject> object_;
  uint64_t count_;
};

/// Takes references away; the last one calls the destructor on a thread of its
/// own, because it may run anything but CUDA calls.
void ReleaseUserObject(const std::shared_ptr<UserObject>& object,
                       uint64_t count);

}  // namespace softcuda::runtime

#endif  // SOFTCUDA_RUNTIME_OBJECTS_H_
