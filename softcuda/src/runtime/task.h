// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_RUNTIME_TASK_H_
#define SOFTCUDA_RUNTIME_TASK_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <queue>
#include <utility>
#include <vector>

#include "runtime/graph_exec.h"
#include "runtime/operation.h"

// The executor. Streams, events and the legacy stream's rules become edges
// between tasks when work is enqueued, so that running is nothing but picking a
// task whose predecessors are done.
namespace softcuda::runtime {

using Lock = std::unique_lock<std::mutex>;

/// One item of a stream: an operation, a launch of an executable graph, or a
/// marker that is done as soon as its predecessors are.
struct Task {
  uint64_t sequence = 0;
  // Predecessors that are not done, and one more until Submit().
  int pending = 1;
  bool done = false;
  const char* origin = "";
  int device = 0;
  std::shared_ptr<const Operation> operation;
  std::vector<std::shared_ptr<Task>> successors;
  std::chrono::steady_clock::time_point completed;

  // A graph launch.
  std::shared_ptr<Exec> exec;
  std::shared_ptr<const Program> program;
  bool graph_started = false;
  // Nodes that wait for events recorded outside, and for how many.
  std::vector<std::pair<uint32_t, uint32_t>> external_waits;
  // One marker for each event record node, done when that node is.
  std::vector<std::pair<uint32_t, std::shared_ptr<Task>>> record_marks;

  // A run of a conditional node's body, and the launch it is part of.
  std::shared_ptr<Task> parent;
  uint32_t parent_node = 0;

  // A marker that stands between an event and a waiting node of a launch.
  std::shared_ptr<Task> bridged_launch;
  uint32_t bridged_node = 0;

  // Points of check::OperationOrder: of the task, of all that it does, and of
  // the items of a graph launch.
  uint64_t order_begin = 0;
  uint64_t order_end = 0;
  std::vector<uint64_t> item_points;
  // Of items with bodies: where the last body that ran ended.
  std::map<uint32_t, uint64_t> body_ends;
  bool is_kernel = false;

  // Numbers of HostSources, by item; -1 is the task itself.
  std::map<int64_t, uint64_t> host_sources;

  // What this task is behind, and whether somebody waits for it; kept only
  // while work is done late.
  std::vector<std::weak_ptr<Task>> late_behind;
  bool wanted = false;
};

/// Runs tasks on background threads.
///
/// Threads: every method needs the runtime's lock.
class Executor {
 public:
  static constexpr int kEveryDevice = -1;

  /// `mutex` is the runtime's lock.
  explicit Executor(std::mutex* mutex) : mutex_(mutex) {}

  std::shared_ptr<Task> NewTask(const char* origin);
  /// Makes `task` wait for `predecessor`, which may be null or done.
  /// `programmatic`: the predecessor lets it start early.
  static void AddDependency(const std::shared_ptr<Task>& predecessor,
                            const std::shared_ptr<Task>& task,
                            bool programmatic = false);
  /// Lets the task run once its predecessors are done.
  void Submit(const std::shared_ptr<Task>& task);

  /// Blocks, with the lock released, until the task is done.
  void Wait(Lock& lock, const std::shared_ptr<Task>& task);
  /// Blocks until all tasks submitted so far are done; of one device only
  /// where one is given.
  void WaitAll(Lock& lock, int device = kEveryDevice);

  /// Somebody waits for the task, or asks whether it is done: in late mode,
  /// only that lets it run.
  void Want(const std::shared_ptr<Task>& task);

  /// What is enqueued behind the call is ordered by the seed and by nothing
  /// that came before.
  void set_seed(uint64_t seed) {
    seed_ = seed;
    seed_start_ = next_sequence_;
  }
  uint64_t seed() const { return seed_; }

 private:
  // A task that may run, or a node of a graph launch that may.
  struct Ready {
    uint64_t key;
    uint64_t sequence;
    std::shared_ptr<Task> task;
    int64_t node;  // -1: the task itself
    bool operator<(const Ready& other) const {
      return key != other.key             ? key > other.key
             : sequence != other.sequence ? sequence > other.sequence
                                          : node > other.node;
    }
  };
  enum class StepKind : uint8_t {
    kTaskReady,
    kTaskDone,
    kNodeReady,
    kNodeDone
  };
  struct Step {
    StepKind kind;
    std::shared_ptr<Task> task;
    uint32_t node;
  };

  void Propagate(Step first);
  void Apply(const Step& step);
  void OnTaskReady(const std::shared_ptr<Task>& task);
  void OnTaskDone(const std::shared_ptr<Task>& task);
  void OnNodeReady(const std::shared_ptr<Task>& task, uint32_t node);
  void OnNodeDone(const std::shared_ptr<Task>& task, uint32_t node);
  void StartGraph(const std::shared_ptr<Task>& task);
  void RunConditional(const std::shared_ptr<Task>& task, uint32_t node,
                      bool is_first);
  void PushReady(const std::shared_ptr<Task>& task, int64_t node);
  bool MayRun(const Task& task) const;
  void ReleaseDeferred();
  void WakeWorkers();
  bool MayStart() const;
  void WorkerLoop();
  void RunOne(Lock& lock);

  std::mutex* mutex_;
  std::condition_variable work_cv_;
  std::condition_variable done_cv_;
  int waiters_ = 0;
  uint64_t seed_ = 0;
  uint64_t seed_start_ = 0;  // the sequence when the seed was set
  uint64_t next_sequence_ = 1;
  std::map<uint64_t, int> outstanding_;  // devices by sequence
  std::priority_queue<Ready> ready_;
  // Items that could run, but that nobody waits for yet.
  std::vector<Ready> deferred_;
  uint64_t wanted_below_ = 0;  // all tasks with smaller sequences are wanted
  std::vector<Step> steps_;
  bool propagating_ = false;
  int threads_ = 0;
  int idle_ = 0;
  int active_ = 0;
  std::chrono::steady_clock::time_point last_start_;
};

}  // namespace softcuda::runtime

#endif  // SOFTCUDA_RUNTIME_TASK_H_
