// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_RUNTIME_TASK_ORDER_H_
#define SOFTCUDA_RUNTIME_TASK_ORDER_H_

#include <cstdint>

#include "runtime/task.h"

// From tasks to points of check::OperationOrder. While the racecheck is off,
// tasks have no points and every function here does nothing.
//
// Threads: the runtime's lock is held.
namespace softcuda::runtime {

/// Whether edges from work that is done must be kept too: that it is done is
/// chance, and orders nothing.
bool TracksOrder();

/// Gives a new task its point.
void PlaceTask(Task* task);

/// `task` follows `before` in a stream or through an event. `programmatic`:
/// only where its kernel waits.
void OrderTasks(const Task& before, Task* task, bool programmatic);

/// Gives the items of a graph launch their points and edges.
void PlaceGraphItems(Task* launch);

/// An event outside orders an item, or an item orders an event's mark.
void OrderBeforeItem(const Task& before, const Task& launch, uint32_t item);
void OrderBehindItem(const Task& launch, uint32_t item, const Task& mark);

/// A body of a conditional item runs, behind the item's beginning and the
/// bodies before it.
void OrderBody(Task* launch, uint32_t item, Task* body);

/// The point of a task, or of one of its items (-1: the task itself).
uint64_t PointOf(const Task& task, int64_t item);

/// A task or an item is done, whether it was run or not.
void NoteDone(const Task& task, int64_t item);

/// The host learned that the task is done.
void NoteHostWaited(const Task& task);

}  // namespace softcuda::runtime

#endif  // SOFTCUDA_RUNTIME_TASK_ORDER_H_
