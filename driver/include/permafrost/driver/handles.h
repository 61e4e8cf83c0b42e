// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_DRIVER_HANDLES_H_
#define PERMAFROST_DRIVER_HANDLES_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "permafrost/driver/context.h"
#include "permafrost/driver/device_ptr.h"
#include "permafrost/driver/status.h"

namespace permafrost {

/// Owners of driver objects: each is move-only, keeps its context alive, and
/// destroys its object with that context current.
///
/// A default-made or moved-from owner is empty: `get()` is null, it converts to
/// false, and destroying it does nothing.
///
/// Capture: making and destroying streams, modules, pinned and device memory
///   and executable graphs is unsafe while a stream captures, and breaks that
///   capture; do it before. Events and graphs are safe.
/// Threads: externally synchronised, like the objects they own.
template <typename Kind>
class OwnedHandle {
 public:
  using Raw = typename Kind::Raw;

  OwnedHandle() = default;
  OwnedHandle(ContextRef context, Raw raw)
      : context_(std::move(context)), raw_(raw) {}
  OwnedHandle(OwnedHandle&& other) noexcept
      : context_(std::move(other.context_)),
        raw_(std::exchange(other.raw_, Raw{})) {}
  OwnedHandle& operator=(OwnedHandle&& other) noexcept {
    if (this != &other) {
      DestroyOrLeak();
      context_ = std::move(other.context_);
      raw_ = std::exchange(other.raw_, Raw{});
    }
    return *this;
  }
  ~OwnedHandle() { DestroyOrLeak(); }

  Raw get() const { return raw_; }
  explicit operator bool() const { return raw_ != Raw{}; }
  const ContextRef& context() const { return context_; }

  /// Destroys the object now, and reports what the destructor could not.
  /// Does nothing when empty. A destroy that fails keeps the object, so that it
  /// can be tried again.
  absl::Status Destroy() {
    if (raw_ == Raw{}) return absl::OkStatus();
    const Context::Scope scope = context_->MakeCurrent();
    PERMAFROST_RETURN_IF_ERROR(scope.status());
    PERMAFROST_RETURN_IF_ERROR(
        CuStatus(Kind::Destroy(context_->api(), raw_), Kind::kDestroyCall));
    raw_ = Raw{};
    return absl::OkStatus();
  }

 private:
  // Nobody is left to report to or to try again later, so try twice.
  void DestroyOrLeak() {
    if (!Destroy().ok()) Destroy().IgnoreError();
  }

  ContextRef context_;
  Raw raw_ = Raw{};
};

namespace internal {
// What OwnedHandle needs to know of each object: its handle and its end.
#define PERMAFROST_HANDLE_KIND(kind, raw, destroy)              \
  struct kind {                                                 \
    using Raw = raw;                                            \
    static constexpr const char* kDestroyCall = "cu" #destroy;  \
    static CUresult Destroy(const DriverApi& api, Raw handle) { \
      return api.destroy(handle);                               \
    }                                                           \
  }
PERMAFROST_HANDLE_KIND(StreamKind, CUstream, StreamDestroy);
PERMAFROST_HANDLE_KIND(EventKind, CUevent, EventDestroy);
PERMAFROST_HANDLE_KIND(ModuleKind, CUmodule, ModuleUnload);
PERMAFROST_HANDLE_KIND(GraphKind, CUgraph, GraphDestroy);
PERMAFROST_HANDLE_KIND(GraphExecKind, CUgraphExec, GraphExecDestroy);
PERMAFROST_HANDLE_KIND(PinnedKind, void*, MemFreeHost);
PERMAFROST_HANDLE_KIND(DeviceMemoryKind, CUdeviceptr, MemFree);
#undef PERMAFROST_HANDLE_KIND
}  // namespace internal

/// A stream. Destroying it returns at once; work in it still finishes.
class Stream : public OwnedHandle<internal::StreamKind> {
 public:
  using OwnedHandle::OwnedHandle;

  /// @param flags  CU_STREAM_NON_BLOCKING keeps the stream apart from the
  ///   legacy default stream, whose use would otherwise break a capture.
  static absl::StatusOr<Stream> Create(ContextRef context,
                                       unsigned flags = CU_STREAM_NON_BLOCKING);

  /// Waits until all work enqueued so far is done; reports what failed in it.
  /// Capture: breaks a capture of this stream.
  absl::Status Synchronize() const;
};

/// An event. Without CU_EVENT_DISABLE_TIMING it carries a time stamp.
class Event : public OwnedHandle<internal::EventKind> {
 public:
  using OwnedHandle::OwnedHandle;
  static absl::StatusOr<Event> Create(ContextRef context,
                                      unsigned flags = CU_EVENT_DISABLE_TIMING);
};

/// A loaded image and its functions, which die with it.
class Module : public OwnedHandle<internal::ModuleKind> {
 public:
  using OwnedHandle::OwnedHandle;

  /// @param image  a cubin, a fatbin, or PTX text that ends in a NUL.
  /// Errors: kUnimplemented when the image has no code for the device.
  static absl::StatusOr<Module> Load(ContextRef context, const void* image);

  /// A kernel of the image, loaded onto the device: after this, launching it
  /// loads nothing, which a capture could not bear.
  /// Errors: kNotFound naming the kernel.
  absl::StatusOr<CUfunction> Function(const char* name) const;
};

/// A graph: nodes and edges, not yet executable.
class Graph : public OwnedHandle<internal::GraphKind> {
 public:
  using OwnedHandle::OwnedHandle;

  /// Takes over a graph that the caller owns, such as one from
  /// cuStreamEndCapture. Null makes an empty owner.
  static Graph Adopt(ContextRef context, CUgraph graph);
};

/// An executable graph. It is a snapshot: the graph may change or go after.
class GraphExec : public OwnedHandle<internal::GraphExecKind> {
 public:
  using OwnedHandle::OwnedHandle;

  /// Errors: the text carries the driver's reason, such as an invalid
  ///   structure or a node that is not supported.
  static absl::StatusOr<GraphExec> Instantiate(ContextRef context,
                                               CUgraph graph);
};

/// Page-locked host memory, which the device reaches at the same address.
class PinnedBuffer : public OwnedHandle<internal::PinnedKind> {
 public:
  PinnedBuffer() = default;
  static absl::StatusOr<PinnedBuffer> Allocate(ContextRef context,
                                               int64_t bytes);

  std::byte* data() const { return static_cast<std::byte*>(get()); }
  int64_t bytes() const { return *this ? bytes_ : 0; }

 private:
  PinnedBuffer(ContextRef context, void* data, int64_t bytes)
      : OwnedHandle(std::move(context), data), bytes_(bytes) {}
  int64_t bytes_ = 0;
};

/// Device memory of its own, for weights, test inputs and the like; what a
/// graph touches in every step belongs in an arena. Not cleared.
class DeviceBuffer : public OwnedHandle<internal::DeviceMemoryKind> {
 public:
  DeviceBuffer() = default;

  /// Errors: kResourceExhausted with the byte count.
  static absl::StatusOr<DeviceBuffer> Allocate(ContextRef context,
                                               int64_t bytes);

  DevicePtr ptr() const { return DevicePtr(get()); }
  int64_t bytes() const { return *this ? bytes_ : 0; }

 private:
  DeviceBuffer(ContextRef context, CUdeviceptr data, int64_t bytes)
      : OwnedHandle(std::move(context), data), bytes_(bytes) {}
  int64_t bytes_ = 0;
};

}  // namespace permafrost

#endif  // PERMAFROST_DRIVER_HANDLES_H_
