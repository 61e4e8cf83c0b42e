// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "check/operation_order.h"
#include "check/settings.h"
#include "runtime/host_sources.h"
#include "runtime/state.h"
#include "runtime/task.h"
#include "runtime/task_order.h"

namespace softcuda::runtime {
namespace {

// Threads that may exist at once. Items may wait for each other without the
// executor knowing (a kernel that spins on a flag), so it must be able to run
// more of them than there are processors.
constexpr int kMaxThreads = 64;

// An item that has run for so long may be waiting for another one: beyond the
// preferred number of running items, one more is started.
constexpr auto kStall = std::chrono::milliseconds(10);

// In late mode a host that waits without a call, for a flag in memory, must
// see progress in the end.
constexpr auto kLatest = std::chrono::milliseconds(200);

// SplitMix64's finaliser.
uint64_t Mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

uint64_t ItemSeed(uint64_t seed, uint64_t sequence, int64_t node) {
  if (seed == 0) return 0;
  return Mix(seed ^ Mix(sequence ^ Mix(static_cast<uint64_t>(node + 1))));
}

int PreferredActive(uint64_t seed) {
  if (seed != 0) return 1;
  const unsigned int processors = std::thread::hardware_concurrency();
  return static_cast<int>(std::clamp(processors, 2u, 8u));
}

bool NeedsWorker(const Operation& operation) {
  return !std::holds_alternative<EmptyOp>(operation) &&
         !std::holds_alternative<EventRecordOp>(operation) &&
         !std::holds_alternative<ConditionalOp>(operation) &&
         !std::holds_alternative<EventWaitOp>(operation);
}

}  // namespace

std::shared_ptr<Task> Executor::NewTask(const char* origin) {
  auto task = std::make_shared<Task>();
  task->sequence = next_sequence_++;
  task->origin = origin;
  PlaceTask(task.get());
  return task;
}

void Executor::AddDependency(const std::shared_ptr<Task>& predecessor,
                             const std::shared_ptr<Task>& task,
                             bool programmatic) {
  if (predecessor == nullptr) return;
  OrderTasks(*predecessor, task.get(), programmatic);
  if (predecessor->done) return;
  if (check::Settings::Get().late_work()) {
    task->late_behind.push_back(predecessor);
  }
  predecessor->successors.push_back(task);
  ++task->pending;
}

void Executor::Submit(const std::shared_ptr<Task>& task) {
  outstanding_.emplace(task->sequence, task->device);
  if (--task->pending == 0) Propagate({StepKind::kTaskReady, task, 0});
}

void Executor::Wait(Lock& lock, const std::shared_ptr<Task>& task) {
  // The caller's reference may be a stream's, which moves on.
  const std::shared_ptr<Task> awaited = task;
  Want(awaited);
  ++waiters_;
  done_cv_.wait(lock, [&] { return awaited->done; });
  --waiters_;
  NoteHostWaited(*awaited);
}

void Executor::WaitAll(Lock& lock, int device) {
  const uint64_t last = next_sequence_ - 1;
  const uint64_t last_point = check::OperationOrder::Get().next_point();
  wanted_below_ = next_sequence_;
  ReleaseDeferred();
  ++waiters_;
  done_cv_.wait(lock, [&] {
    for (const auto& [sequence, task_device] : outstanding_) {
      if (sequence > last) break;
      if (device == kEveryDevice || device == task_device) return false;
    }
    return true;
  });
  --waiters_;
  check::OperationOrder::Get().HostWaitedForAllBelow(last_point);
}

// Applies steps one after another: a long chain of markers must not become a
// deep recursion.
void Executor::Propagate(Step first) {
  steps_.push_back(std::move(first));
  if (propagating_) return;
  propagating_ = true;
  while (!steps_.empty()) {
    const Step step = std::move(steps_.back());
    steps_.pop_back();
    Apply(step);
  }
  propagating_ = false;
  WakeWorkers();
}

void Executor::Apply(const Step& step) {
  switch (step.kind) {
    case StepKind::kTaskReady:
      OnTaskReady(step.task);
      break;
    case StepKind::kTaskDone:
      OnTaskDone(step.task);
      break;
    case StepKind::kNodeReady:
      OnNodeReady(step.task, step.node);
      break;
    case StepKind::kNodeDone:
      OnNodeDone(step.task, step.node);
      break;
  }
}

void Executor::OnTaskReady(const std::shared_ptr<Task>& task) {
  if (task->exec != nullptr) {
    StartGraph(task);
  } else if (task->operation != nullptr && NeedsWorker(*task->operation)) {
    PushReady(task, -1);
  } else {
    Propagate({StepKind::kTaskDone, task, 0});
  }
}

void Executor::OnTaskDone(const std::shared_ptr<Task>& task) {
  task->done = true;
  NoteDone(*task, -1);
  task->completed = std::chrono::steady_clock::now();
  outstanding_.erase(task->sequence);
  for (auto& successor : task->successors) {
    if (--successor->pending == 0) {
      Propagate({StepKind::kTaskReady, std::move(successor), 0});
    }
  }
  task->successors.clear();
  task->operation.reset();
  // An executable graph refers to its last launch: break the circle.
  task->exec.reset();
  task->program.reset();
  if (task->parent != nullptr) {
    RunConditional(std::exchange(task->parent, nullptr), task->parent_node,
                   /*is_first=*/false);
  }
  if (task->bridged_launch != nullptr) {
    const std::shared_ptr<Task> launch = std::move(task->bridged_launch);
    const uint32_t node = task->bridged_node;
    if (launch->graph_started) {
      if (--launch->exec->pending[node] == 0) {
        Propagate({StepKind::kNodeReady, launch, node});
      }
    } else {
      for (auto& [waiting, count] : launch->external_waits) {
        if (waiting == node) --count;
      }
    }
  }
  if (waiters_ > 0) done_cv_.notify_all();
}

void Executor::StartGraph(const std::shared_ptr<Task>& task) {
  Exec& exec = *task->exec;
  const Topology& topology = *exec.topology;
  task->graph_started = true;
  for (const auto& condition : exec.conditions) {
    if (condition->assigned_at_launch) {
      WriteCondition(*condition, condition->default_value);
    }
  }
  exec.remaining = static_cast<uint32_t>(topology.items.size());
  for (size_t i = 0; i < topology.items.size(); ++i) {
    exec.pending[i] = topology.items[i].in_degree;
  }
  // A root that waits for an event outside the graph has no in-edge to hold it.
  std::vector<uint32_t> held;
  for (const auto& [node, count] : task->external_waits) {
    exec.pending[node] += count;
    if (count > 0) held.push_back(node);
  }
  if (exec.remaining == 0) {
    Propagate({StepKind::kTaskDone, task, 0});
    return;
  }
  for (const uint32_t root : topology.roots) {
    if (std::find(held.begin(), held.end(), root) == held.end()) {
      Propagate({StepKind::kNodeReady, task, root});
    }
  }
}

void Executor::OnNodeReady(const std::shared_ptr<Task>& task, uint32_t node) {
  const Program& program = *task->program;
  if (std::holds_alternative<ConditionalOp>(*program.operations[node])) {
    RunConditional(task, node, /*is_first=*/true);
  } else if (program.enabled[node] && NeedsWorker(*program.operations[node])) {
    PushReady(task, node);
  } else {
    Propagate({StepKind::kNodeDone, task, node});
  }
}

// Starts the body that the condition asks for, or ends the node.
void Executor::RunConditional(const std::shared_ptr<Task>& task, uint32_t node,
                              bool is_first) {
  const auto& operation =
      std::get<ConditionalOp>(*task->program->operations[node]);
  const uint32_t value = ReadCondition(*operation.condition);
  uint32_t body = 0;
  bool runs = false;
  switch (operation.type) {
    case CU_GRAPH_COND_TYPE_IF:
      body = value != 0 ? 0 : 1;
      runs = is_first;
      break;
    case CU_GRAPH_COND_TYPE_WHILE:
      // Where kernels are not run, nothing would ever end the loop.
      runs = value != 0 && (is_first || TheRuntime().execution_enabled);
      break;
    case CU_GRAPH_COND_TYPE_SWITCH:
      body = value;
      runs = is_first;
      break;
  }
  const bool ended = TheRuntime().sticky.load() != CUDA_SUCCESS;
  if (!runs || ended || body >= operation.bodies.size()) {
    Propagate({StepKind::kNodeDone, task, node});
    return;
  }
  const auto run = NewTask("body of a conditional node");
  run->device = task->device;
  run->exec = operation.bodies[body];
  run->program = run->exec->program;
  run->parent = task;
  run->parent_node = node;
  // Whoever waits for the launch waits for its bodies.
  run->wanted = true;
  OrderBody(task.get(), node, run.get());
  Submit(run);
}

void Executor::OnNodeDone(const std::shared_ptr<Task>& task, uint32_t node) {
  NoteDone(*task, node);
  Exec& exec = *task->exec;
  const Topology& topology = *exec.topology;
  for (const auto& [recording, mark] : task->record_marks) {
    if (recording == node && --mark->pending == 0) {
      Propagate({StepKind::kTaskReady, mark, 0});
    }
  }
  const Topology::Item& item = topology.items[node];
  for (uint32_t i = 0; i < item.successor_count; ++i) {
    const uint32_t next = topology.successors[item.first_successor + i];
    if (--exec.pending[next] == 0) {
      Propagate({StepKind::kNodeReady, task, next});
    }
  }
  if (--exec.remaining == 0) Propagate({StepKind::kTaskDone, task, 0});
}

void Executor::PushReady(const std::shared_ptr<Task>& task, int64_t node) {
  const uint64_t key =
      seed_ == 0 ? 0 : ItemSeed(seed_, task->sequence - seed_start_, node);
  if (MayRun(*task)) {
    ready_.push({key, task->sequence, task, node});
  } else {
    deferred_.push_back({key, task->sequence, task, node});
  }
}

bool Executor::MayRun(const Task& task) const {
  return task.wanted || task.sequence < wanted_below_ ||
         !check::Settings::Get().late_work();
}

void Executor::Want(const std::shared_ptr<Task>& task) {
  std::vector<std::shared_ptr<Task>> open = {task};
  while (!open.empty()) {
    const std::shared_ptr<Task> next = std::move(open.back());
    open.pop_back();
    if (next == nullptr || next->done || next->wanted) continue;
    next->wanted = true;
    for (const auto& before : next->late_behind) open.push_back(before.lock());
  }
  ReleaseDeferred();
}

void Executor::ReleaseDeferred() {
  if (deferred_.empty()) return;
  std::erase_if(deferred_, [&](const Ready& item) {
    if (!MayRun(*item.task)) return false;
    ready_.push(item);
    return true;
  });
  WakeWorkers();
}

bool Executor::MayStart() const {
  return !ready_.empty() &&
         (active_ < PreferredActive(seed_) ||
          std::chrono::steady_clock::now() - last_start_ >= kStall);
}

// Keeps one thread idle or on its way while something is ready.
void Executor::WakeWorkers() {
  if (ready_.empty() && deferred_.empty()) return;
  // One thread at least, to look after what is deferred.
  const int wanted = static_cast<int>(
      std::clamp<size_t>(ready_.size(), 1, static_cast<size_t>(kMaxThreads)));
  for (int i = 0; i < std::min(wanted, idle_); ++i) work_cv_.notify_one();
  if (idle_ == 0 && threads_ < kMaxThreads) {
    ++threads_;
    ++idle_;
    std::thread([this] { WorkerLoop(); }).detach();
  }
}

void Executor::WorkerLoop() {
  Lock lock(*mutex_);
  while (true) {
    while (!MayStart()) {
      if (ready_.empty() && !deferred_.empty()) {
        if (work_cv_.wait_for(lock, kLatest) == std::cv_status::timeout &&
            ready_.empty() && !deferred_.empty()) {
          Want(deferred_.front().task);
        }
      } else if (ready_.empty()) {
        work_cv_.wait(lock);
      } else {
        work_cv_.wait_for(lock, kStall);
      }
    }
    --idle_;
    RunOne(lock);
    ++idle_;
  }
}

void Executor::RunOne(Lock& lock) {
  const Ready item = ready_.top();
  ready_.pop();
  ++active_;
  last_start_ = std::chrono::steady_clock::now();
  // Others may be ready: see that a thread is left to take them.
  WakeWorkers();
  Runtime& runtime = TheRuntime();
  const std::shared_ptr<const Operation> operation =
      item.node < 0
          ? item.task->operation
          : item.task->program->operations[static_cast<size_t>(item.node)];
  std::string origin = item.task->origin;
  if (item.node >= 0) origin += ", graph node " + std::to_string(item.node);
  const uint64_t seed = ItemSeed(seed_, item.sequence - seed_start_, item.node);
  const uint64_t point = PointOf(*item.task, item.node);
  const auto known_source = item.task->host_sources.find(item.node);
  const uint64_t source =
      known_source == item.task->host_sources.end() ? 0 : known_source->second;
  lock.unlock();

  const auto sticky = static_cast<CUresult>(runtime.sticky.load());
  if (source != 0 && sticky == CUDA_SUCCESS) {
    HostSources::Get().Check(source, origin);
  } else {
    HostSources::Get().Drop(source);
  }
  if (const auto* host = std::get_if<HostOp>(operation.get())) {
    HostSources::Get().NoteHostFunction();
    ThisThread().in_host_function = true;
    RunHostOperation(*host, sticky);
    ThisThread().in_host_function = false;
  } else if (sticky == CUDA_SUCCESS) {
    const CUresult result = RunOperation(*operation, seed, origin, point);
    if (result != CUDA_SUCCESS) SetStickyError(runtime, result, origin);
  }

  lock.lock();
  --active_;
  if (item.node < 0) {
    Propagate({StepKind::kTaskDone, item.task, 0});
  } else {
    Propagate(
        {StepKind::kNodeDone, item.task, static_cast<uint32_t>(item.node)});
  }
}

void WaitIdle() {
  Runtime& runtime = TheRuntime();
  Lock lock(runtime.mutex);
  runtime.executor.WaitAll(lock);
}

void SetScheduleSeed(uint64_t seed) {
  Runtime& runtime = TheRuntime();
  const Lock lock(runtime.mutex);
  runtime.executor.set_seed(seed);
}

uint64_t ScheduleSeed() {
  Runtime& runtime = TheRuntime();
  const Lock lock(runtime.mutex);
  return runtime.executor.seed();
}

void SetExecution(bool enabled) { TheRuntime().execution_enabled = enabled; }

int64_t KernelsExecuted() { return TheRuntime().kernels_executed.load(); }

}  // namespace softcuda::runtime
