// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/task_order.h"

#include <cstddef>

#include "check/operation_order.h"
#include "check/report.h"

namespace softcuda::runtime {
namespace {

using check::OperationOrder;

OperationOrder& Order() { return OperationOrder::Get(); }

}  // namespace

bool TracksOrder() { return check::Reporter::Get().racecheck_enabled(); }

void PlaceTask(Task* task) {
  if (!TracksOrder()) return;
  task->order_begin = task->order_end = Order().AddOperation();
}

void OrderTasks(const Task& before, Task* task, bool programmatic) {
  if (task->order_begin == OperationOrder::kNone) return;
  if (!programmatic) {
    Order().AddEdge(before.order_end, task->order_begin);
    return;
  }
  Order().SplitEarly(task->order_begin);
  Order().AddProgrammaticEdge(before.order_end, task->order_begin);
  // What follows in the stream follows both.
  const OperationOrder::Point end = Order().AddPoint();
  Order().AddEdge(task->order_end, end);
  Order().AddEdge(before.order_end, end);
  task->order_end = end;
}

void PlaceGraphItems(Task* launch) {
  if (launch->order_begin == OperationOrder::kNone) return;
  const Topology& topology = *launch->exec->topology;
  std::vector<uint64_t>& points = launch->item_points;
  for (size_t i = 0; i < topology.items.size(); ++i) {
    points.push_back(Order().AddOperation());
    Order().AddEdge(launch->order_begin, points.back());
  }
  for (const bool programmatic : {true, false}) {
    for (size_t i = 0; i < topology.items.size(); ++i) {
      const Topology::Item& item = topology.items[i];
      for (uint32_t k = 0; k < item.successor_count; ++k) {
        const uint32_t edge = item.first_successor + k;
        if (topology.programmatic[edge] != programmatic) continue;
        const uint64_t next = points[topology.successors[edge]];
        if (programmatic) {
          Order().SplitEarly(next);
          Order().AddProgrammaticEdge(points[i], next);
        } else {
          Order().AddEdge(points[i], next);
        }
      }
    }
  }
  launch->order_end = Order().AddPoint();
  Order().AddEdge(launch->order_begin, launch->order_end);
  for (const uint64_t point : points) {
    Order().AddEdge(point, launch->order_end);
  }
}

void OrderBeforeItem(const Task& before, const Task& launch, uint32_t item) {
  if (item < launch.item_points.size()) {
    Order().AddEdge(before.order_end, launch.item_points[item]);
  }
}

void OrderBehindItem(const Task& launch, uint32_t item, const Task& mark) {
  if (item < launch.item_points.size()) {
    Order().AddEdge(launch.item_points[item], mark.order_begin);
  }
}

void OrderBody(Task* launch, uint32_t item, Task* body) {
  if (item >= launch->item_points.size() ||
      body->order_begin == OperationOrder::kNone) {
    return;
  }
  const uint64_t point = launch->item_points[item];
  Order().AddEdge(Order().SplitEarly(point), body->order_begin);
  Order().AddEdge(launch->body_ends[item], body->order_begin);
  PlaceGraphItems(body);
  Order().AddEdgeToLate(body->order_end, point);
  launch->body_ends[item] = body->order_end;
}

uint64_t PointOf(const Task& task, int64_t item) {
  if (item < 0) return task.order_begin;
  const auto index = static_cast<size_t>(item);
  return index < task.item_points.size() ? task.item_points[index]
                                         : OperationOrder::kNone;
}

void NoteDone(const Task& task, int64_t item) {
  const uint64_t point = PointOf(task, item);
  if (point != OperationOrder::kNone) Order().FinishWithoutAccess(point);
}

void NoteHostWaited(const Task& task) {
  if (task.order_end != OperationOrder::kNone) {
    Order().HostWaitedFor(task.order_end);
  }
}

}  // namespace softcuda::runtime
