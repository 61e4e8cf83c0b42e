// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_CHECK_OPERATION_ORDER_H_
#define SOFTCUDA_CHECK_OPERATION_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "check/access_log.h"
#include "check/report.h"

namespace softcuda::check {

/// What a finished operation says of itself.
struct OperationRecord {
  std::string what;    ///< "kernel k_x", "copy", "memset"
  std::string kernel;  ///< name of the kernel, or empty
  std::string origin;  ///< "cuGraphLaunch, graph node 4"
  /// What it accessed before a kernel waited for the operations that its
  /// programmatic edges come from, and after; without such edges, either.
  AccessSet early;
  AccessSet late;
  /// Whether the kernel waited (griddepcontrol.wait).
  bool waited = false;
};

/// Which operations are ordered, and the races between those that are not.
///
/// Streams, events, graph edges and waits of the host become edges between
/// points; an operation is a point, or two when it has programmatic edges. An
/// operation that finishes is compared with those that finished before and
/// that no path leads from. So the order in which operations happen to run
/// does not matter for what is found.
///
/// Memory: the accesses of the kKept latest operations; older ones are
/// forgotten, and so are those that the host has waited for.
/// Threads: any.
class OperationOrder {
 public:
  using Point = uint64_t;
  static constexpr Point kNone = 0;  ///< ordered with everything
  static constexpr size_t kKept = 4096;

  /// The process's order. Never destroyed.
  static OperationOrder& Get();

  /// A new point, behind what the host has waited for so far.
  Point AddPoint();
  /// A point that Finish will be called for.
  Point AddOperation();
  /// The operation has programmatic edges: its early accesses are at a point
  /// of their own, which is returned; later edges to it are those of AddEdge.
  Point SplitEarly(Point operation);
  /// Nothing at `after` starts before all at `before` is done. Either may be
  /// kNone, which does nothing.
  void AddEdge(Point before, Point after);
  /// The same, where the early part of `after` need not wait.
  void AddEdgeToLate(Point before, Point after);
  /// An edge that counts only if the kernel at `after` waits.
  void AddProgrammaticEdge(Point before, Point after);

  /// The host knows that everything up to the point is done: what it enqueues
  /// from now on comes behind it.
  void HostWaitedFor(Point point);
  /// The same for every point up to now, or those below `end`.
  Point next_point();
  void HostWaitedForAllBelow(Point end);

  /// Compares a finished operation with the others, and keeps it. `describe`
  /// says in words what lies at an address. Calling it a second time for one
  /// point, or for none, does nothing.
  void Finish(Point operation, OperationRecord record,
              const std::function<std::string(uint64_t, uint64_t)>& describe,
              Reporter& reporter);
  /// These bytes, of the key space of access sets, begin a new life: what
  /// operations did to them before is no longer compared.
  void ForgetBytes(uint64_t begin, uint64_t end);

  /// An operation that accessed nothing, or was not run.
  void FinishWithoutAccess(Point operation);

 private:
  struct Node {
    std::vector<Point> before;
    std::vector<Point> before_if_waited;
    Point early = kNone;
    // The host knew it was done before this point was made; 0 while it does
    // not.
    Point known_at = 0;
  };
  struct Kept {
    Point point = kNone;
    Point early = kNone;
    OperationRecord record;
  };

  Node* FindLocked(Point point);
  Point AddPointLocked();
  std::set<Point> PastLocked(Point point);
  bool IsKnownLocked(Point before, Point after);
  void CompareLocked(
      const OperationRecord& mine, const AccessSet& accesses, Point point,
      const std::function<std::string(uint64_t, uint64_t)>& describe,
      std::vector<Report>* reports);
  void ForgetLocked();

  std::mutex mutex_;
  // Points first_, first_ + 1, ...; older ones are ordered with everything.
  std::deque<Node> nodes_;
  Point first_ = 1;
  std::set<Point> unfinished_;
  std::list<Kept> kept_;
};

}  // namespace softcuda::check

#endif  // SOFTCUDA_CHECK_OPERATION_ORDER_H_
