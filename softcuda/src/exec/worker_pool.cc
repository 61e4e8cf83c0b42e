// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "exec/worker_pool.h"

#include <algorithm>
#include <cstdlib>
#include <thread>

namespace softcuda::exec {

WorkerPool& WorkerPool::Get() {
  static WorkerPool* const pool = new WorkerPool;
  return *pool;
}

WorkerPool::WorkerPool() {
  threads_ = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, 4);
  if (const char* wanted = std::getenv("SOFTCUDA_HOST_THREADS")) {
    const long count = std::strtol(wanted, nullptr, 10);
    if (count >= 1) threads_ = static_cast<size_t>(std::min(count, 64L));
  }
}

void WorkerPool::Run(size_t helpers, const std::function<void()>& work) {
  const size_t wanted = std::min(helpers, threads_ - 1);
  Job job;
  job.work = &work;
  job.wanted = wanted;
  if (wanted != 0) {
    const std::lock_guard<std::mutex> lock(mutex_);
    while (started_ < threads_ - 1) {
      std::thread([this] { Help(); }).detach();
      ++started_;
    }
    jobs_.push_back(&job);
  }
  // `job` is read under the lock only: awake helpers change it from here on.
  if (wanted == 1) {
    job_ready_.notify_one();
  } else if (wanted > 1) {
    job_ready_.notify_all();
  }
  work();
  if (wanted == 0) return;
  std::unique_lock<std::mutex> lock(mutex_);
  // Helpers that have not come by now are not needed any more.
  job.wanted = 0;
  const auto queued = std::find(jobs_.begin(), jobs_.end(), &job);
  if (queued != jobs_.end()) jobs_.erase(queued);
  job_done_.wait(lock, [&job] { return job.running == 0; });
}

void WorkerPool::Help() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    job_ready_.wait(lock, [this] { return !jobs_.empty(); });
    Job* job = jobs_.front();
    if (--job->wanted == 0) jobs_.pop_front();
    ++job->running;
    lock.unlock();
    (*job->work)();
    lock.lock();
    if (--job->running == 0) job_done_.notify_all();
  }
}

}  // namespace softcuda::exec
