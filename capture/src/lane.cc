// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/capture/lane.h"

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "permafrost/driver/check.h"
#include "permafrost/driver/handles.h"
#include "permafrost/driver/status.h"

namespace permafrost {

struct Lane::State {
  ~State() {
    // Work in flight may still use memory whose owner waits for this lane.
    stream.Synchronize().IgnoreError();
    if (!stream.Destroy().ok()) stream.Destroy().IgnoreError();
  }

  std::string name;
  Stream stream;
  // The thread inside a call, told apart by the address of a thread-local.
  std::atomic<const void*> user{nullptr};
  int nesting = 0;  // written by that thread only
};

Lane::Lane(std::shared_ptr<State> state) : state_(std::move(state)) {}

absl::StatusOr<Lane> Lane::Create(ContextRef context, absl::string_view name) {
  if (name.empty()) {
    return absl::InvalidArgumentError(
        "lane: got an empty name; messages need one");
  }
  auto stream = Stream::Create(std::move(context), CU_STREAM_NON_BLOCKING);
  if (!stream.ok()) {
    return Annotate(stream.status(), absl::StrCat("lane '", name, "'"));
  }
  auto state = std::make_shared<State>();
  state->name = std::string(name);
  state->stream = *std::move(stream);
  return Lane(std::move(state));
}

CUstream Lane::stream() const { return state_->stream.get(); }

const std::string& Lane::name() const { return state_->name; }

const ContextRef& Lane::context() const { return state_->stream.context(); }

absl::Status Lane::Drain() const {
  const Use use(*this);
  const absl::Status status = state_->stream.Synchronize();
  if (status.ok()) return status;
  return Annotate(status, absl::StrCat("draining lane '", name(), "'"));
}

absl::Status Lane::Settle() const {
  const absl::Status status = Drain();
  // When this fails too, the context is broken and no copy runs any more.
  if (!status.ok()) (void)Drain();
  return status;
}

#ifdef PERMAFROST_CHECKED

namespace {
thread_local char this_thread = 0;
}  // namespace

Lane::Use::Use(const Lane& lane) : lane_(lane) {
  State& state = *lane_.state_;
  const void* user = nullptr;
  const bool entered = state.user.compare_exchange_strong(
      user, &this_thread, std::memory_order_acquire);
  PERMAFROST_CHECK(entered || user == &this_thread,
                   "two threads are inside calls on one lane; a lane is used "
                   "by one thread at a time");
  ++state.nesting;
}

Lane::Use::~Use() {
  State& state = *lane_.state_;
  if (--state.nesting == 0) {
    state.user.store(nullptr, std::memory_order_release);
  }
}

#else

Lane::Use::Use(const Lane& lane) : lane_(lane) {}
Lane::Use::~Use() = default;

#endif

}  // namespace permafrost
