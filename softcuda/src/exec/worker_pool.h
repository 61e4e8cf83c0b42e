// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_EXEC_WORKER_POOL_H_
#define SOFTCUDA_EXEC_WORKER_POOL_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace softcuda::exec {

/// A few host threads that help those who run kernels. It lives as long as the
/// process: a thread of a library that is unloaded at exit must not be joined
/// from a destructor.
///
/// Threads: any; several callers share the helpers.
class WorkerPool {
 public:
  static WorkerPool& Get();

  /// Threads that one launch can use, the caller's included: the host's cores,
  /// at most 4, or what SOFTCUDA_HOST_THREADS says.
  size_t threads() const { return threads_; }

  /// Calls `work` on this thread and, as far as they are free, on up to
  /// `helpers` others at the same time. Returns when all calls have returned.
  void Run(size_t helpers, const std::function<void()>& work);

 private:
  struct Job {
    const std::function<void()>* work = nullptr;
    size_t wanted = 0;
    size_t running = 0;
  };

  WorkerPool();
  void Help();

  size_t threads_;
  size_t started_ = 0;
  std::mutex mutex_;
  std::condition_variable job_ready_;
  std::condition_variable job_done_;
  std::deque<Job*> jobs_;
};

}  // namespace softcuda::exec

#endif  // SOFTCUDA_EXEC_WORKER_POOL_H_
