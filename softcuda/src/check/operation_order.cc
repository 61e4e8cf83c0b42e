// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "check/operation_order.h"

#include <algorithm>
#include <utility>

namespace softcuda::check {
namespace {

// One pair of operations may conflict in a million bytes; these many pairs of
// source lines say enough.
constexpr size_t kReportsPerPair = 4;

const char* Verb(AccessClass c) {
  switch (c) {
    case AccessClass::kRead:
    case AccessClass::kStrongRead:
      return "read";
    case AccessClass::kWrite:
    case AccessClass::kStrongWrite:
      return "write";
    case AccessClass::kAtomic:
      return "atomic update";
  }
  return "access";
}

std::string Name(const OperationRecord& record, const AccessSite& site) {
  std::string text = record.what;
  if (!site.file.empty()) {
    text += " (" + site.file + ":" + std::to_string(site.line) + ")";
  }
  return text + " of " + record.origin;
}

struct SitePair {
  uint32_t first;
  uint32_t second;
  bool operator==(const SitePair& other) const {
    return first == other.first && second == other.second;
  }
};

}  // namespace

OperationOrder& OperationOrder::Get() {
  static OperationOrder* const order = new OperationOrder;
  return *order;
}

OperationOrder::Node* OperationOrder::FindLocked(Point point) {
  if (point < first_ || point - first_ >= nodes_.size()) return nullptr;
  return &nodes_[point - first_];
}

OperationOrder::Point OperationOrder::AddPointLocked() {
  nodes_.emplace_back();
  return first_ + nodes_.size() - 1;
}

OperationOrder::Point OperationOrder::AddPoint() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return AddPointLocked();
}

OperationOrder::Point OperationOrder::AddOperation() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Point point = AddPointLocked();
  unfinished_.insert(point);
  return point;
}

OperationOrder::Point OperationOrder::SplitEarly(Point operation) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (FindLocked(operation) == nullptr) return kNone;
  const Point early = AddPointLocked();
  Node& node = *FindLocked(operation);
  if (node.early != kNone) {
    nodes_.pop_back();
    return node.early;
  }
  node.early = early;
  FindLocked(early)->before = node.before;
  node.before = {early};
  return early;
}

void OperationOrder::AddEdge(Point before, Point after) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Node* node = FindLocked(after);
  if (node == nullptr || before < first_) return;
  // What holds the operation back holds back its early part.
  if (node->early != kNone) node = FindLocked(node->early);
  node->before.push_back(before);
}

void OperationOrder::AddEdgeToLate(Point before, Point after) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Node* const node = FindLocked(after);
  if (node != nullptr && before >= first_) node->before.push_back(before);
}

void OperationOrder::ForgetBytes(uint64_t begin, uint64_t end) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Kept& kept : kept_) {
    for (AccessSet* set : {&kept.record.early, &kept.record.late}) {
      set->Remove(begin, end);
    }
  }
}

void OperationOrder::AddProgrammaticEdge(Point before, Point after) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Node* const node = FindLocked(after);
  if (node != nullptr && before >= first_) {
    node->before_if_waited.push_back(before);
  }
}

std::set<OperationOrder::Point> OperationOrder::PastLocked(Point point) {
  std::set<Point> past;
  std::vector<Point> open = {point};
  while (!open.empty()) {
    const Point next = open.back();
    open.pop_back();
    const Node* const node = FindLocked(next);
    if (node == nullptr || !past.insert(next).second) continue;
    open.insert(open.end(), node->before.begin(), node->before.end());
  }
  return past;
}

void OperationOrder::HostWaitedFor(Point point) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (point == kNone) return;
  const Point now = first_ + nodes_.size();
  for (const Point done : PastLocked(point)) {
    Node& node = *FindLocked(done);
    if (node.known_at == 0) node.known_at = now;
  }
  ForgetLocked();
}

OperationOrder::Point OperationOrder::next_point() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return first_ + nodes_.size();
}

void OperationOrder::HostWaitedForAllBelow(Point end) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Point now = first_ + nodes_.size();
  for (Point point = first_; point < end && point < now; ++point) {
    Node& node = *FindLocked(point);
    if (node.known_at == 0) node.known_at = now;
  }
  ForgetLocked();
}

bool OperationOrder::IsKnownLocked(Point before, Point after) {
  const Node* const node = FindLocked(before);
  return node == nullptr || (node->known_at != 0 && node->known_at <= after);
}

void OperationOrder::CompareLocked(
    const OperationRecord& mine, const AccessSet& accesses, Point point,
    const std::function<std::string(uint64_t, uint64_t)>& describe,
    std::vector<Report>* reports) {
  if (accesses.empty()) return;
  const std::set<Point> past = PastLocked(point);
  for (const Kept& other : kept_) {
    for (const bool early : {true, false}) {
      const Point other_point = early ? other.early : other.point;
      const AccessSet& others = early ? other.record.early : other.record.late;
      if (others.empty() || past.count(other_point) != 0 ||
          IsKnownLocked(other_point, point)) {
        continue;
      }
      std::vector<SitePair> told;
      FindConflicts(accesses, others, [&](const AccessOverlap& overlap) {
        const SitePair pair = {overlap.first.site, overlap.second.site};
        if (std::find(told.begin(), told.end(), pair) != told.end()) {
          return true;
        }
        told.push_back(pair);
        const AccessSite& site = accesses.SiteOf(overlap.first);
        Report report;
        report.check = "racecheck";
        report.kernel = mine.kernel;
        report.file = site.file;
        report.line = site.line;
        report.has_thread = false;
        report.origin = mine.origin;
        report.address =
            overlap.first.address + (overlap.begin - overlap.first.begin);
        report.bytes = overlap.end - overlap.begin;
        report.what = (mine.kernel.empty() ? mine.what + ": " : "") +
                      std::string(Verb(overlap.first_class)) + " of " +
                      std::to_string(report.bytes) +
                      (report.bytes == 1 ? " byte" : " bytes") +
                      " that no path orders with a " +
                      Verb(overlap.second_class) + " by another operation";
        report.where = describe(report.address, report.bytes);
        report.previous = std::string(Verb(overlap.second_class)) + " by " +
                          Name(other.record, others.SiteOf(overlap.second));
        reports->push_back(std::move(report));
        return told.size() < kReportsPerPair;
      });
    }
  }
}

void OperationOrder::Finish(
    Point operation, OperationRecord record,
    const std::function<std::string(uint64_t, uint64_t)>& describe,
    Reporter& reporter) {
  std::vector<Report> reports;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Node* const node = FindLocked(operation);
    if (node == nullptr || unfinished_.erase(operation) == 0) return;
    const Point early = node->early != kNone ? node->early : operation;
    if (record.waited) {
      node->before.insert(node->before.end(), node->before_if_waited.begin(),
                          node->before_if_waited.end());
    }
    CompareLocked(record, record.early, early, describe, &reports);
    CompareLocked(record, record.late, operation, describe, &reports);
    if (!record.early.empty() || !record.late.empty()) {
      kept_.push_back({operation, early, std::move(record)});
    }
    ForgetLocked();
  }
  for (Report& report : reports) reporter.Add(std::move(report));
}

void OperationOrder::FinishWithoutAccess(Point operation) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (unfinished_.erase(operation) == 0) return;
  // What does nothing does not start early either.
  if (Node* const node = FindLocked(operation)) {
    node->before.insert(node->before.end(), node->before_if_waited.begin(),
                        node->before_if_waited.end());
  }
  ForgetLocked();
}

void OperationOrder::ForgetLocked() {
  const Point next = first_ + nodes_.size();
  const Point oldest_open = unfinished_.empty() ? next : *unfinished_.begin();
  // Whatever still runs was enqueued after the host knew these were done.
  const auto is_behind = [&](Point point) {
    const Node* const node = FindLocked(point);
    return node == nullptr ||
           (node->known_at != 0 && node->known_at <= oldest_open);
  };
  kept_.remove_if([&](const Kept& kept) {
    return is_behind(kept.point) && is_behind(kept.early);
  });
  while (kept_.size() > kKept) kept_.pop_front();
  Point needed = oldest_open;
  for (const Kept& kept : kept_) {
    needed = std::min({needed, kept.point, kept.early});
  }
  while (first_ < needed) {
    nodes_.pop_front();
    ++first_;
  }
}

}  // namespace softcuda::check
