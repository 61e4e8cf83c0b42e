// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// A second opinion on an overlay, which must not repeat a mistake of the first:
// it includes nothing of the planner, walks the step's edges from each
// operation instead of keeping a closure, and never forms a live range. It asks
// of single accesses what must hold for the bytes to be right:
//   - accesses of two buffers over the same bytes are ordered;
//   - where an operation needs a buffer's old content, the buffer was
//     overwritten after every earlier access of the other.
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "permafrost/arena/overlay.h"
#include "permafrost/driver/status.h"

namespace permafrost {
namespace {

/// What an operation does with a buffer, over all accesses that it lists.
struct Touch {
  size_t op = 0;
  bool reads = false;
  bool writes_all = false;

  /// A read beside a write means that the old content counts; a write of a part
  /// beside one of the whole does not.
  bool is_fresh_write() const { return writes_all && !reads; }
  bool needs_content() const { return !is_fresh_write(); }
};

class StepWalk {
 public:
  explicit StepWalk(const StepDag& step)
      : step_(step), successors_(step.ops.size()), reached_(step.ops.size()) {
    for (const StepEdge& edge : step.edges) {
      const size_t to = static_cast<size_t>(edge.to);
      const bool waits = edge.kind == EdgeKind::kFull ||
                         (edge.kind == EdgeKind::kProgrammatic &&
                          step.ops[to].waits_on_grid_dependency);
      if (waits) successors_[static_cast<size_t>(edge.from)].push_back(to);
    }
    for (size_t op = 0; op < step.ops.size(); ++op) {
      for (const BufferAccess& access : step.ops[op].accesses) {
        AddTouch(op, access);
      }
    }
  }

  const StepDag& step() const { return step_; }
  const std::string& OpName(size_t op) const { return step_.ops[op].name; }

  const std::vector<Touch>& TouchesOf(const std::string& buffer) const {
    static const std::vector<Touch> kUntouched;
    const auto found = touches_.find(buffer);
    return found == touches_.end() ? kUntouched : found->second;
  }

  /// Whether a path of waiting edges leads from one to the other.
  bool Reaches(size_t from, size_t to) {
    std::vector<char>& reached = reached_[from];
    if (reached.empty()) {
      reached.assign(step_.ops.size(), 0);
      std::vector<size_t> open = successors_[from];
      while (!open.empty()) {
        const size_t op = open.back();
        open.pop_back();
        if (reached[op] != 0) continue;
        reached[op] = 1;
        open.insert(open.end(), successors_[op].begin(), successors_[op].end());
      }
    }
    return reached[to] != 0;
  }

 private:
  void AddTouch(size_t op, const BufferAccess& access) {
    std::vector<Touch>& touches = touches_[access.buffer];
    if (touches.empty() || touches.back().op != op) touches.push_back({op});
    Touch& touch = touches.back();
    touch.reads = touch.reads || access.access != Access::kWrite;
    touch.writes_all = touch.writes_all ||
                       (access.access == Access::kWrite && access.overwrites);
  }

  const StepDag& step_;
  std::vector<std::vector<size_t>> successors_;
  std::vector<std::vector<char>> reached_;
  std::map<std::string, std::vector<Touch>> touches_;
};

/// Two buffers over the same bytes.
struct Pair {
  const PlannedBuffer* a;
  const PlannedBuffer* b;

  bool starts_together() const { return a->offset_bytes == b->offset_bytes; }
};

bool HaveCommonBytes(const PlannedBuffer& a, const PlannedBuffer& b) {
  return a.bytes > 0 && b.bytes > 0 &&
         (a.offset_bytes <= b.offset_bytes
              ? b.offset_bytes - a.offset_bytes < a.bytes
              : a.offset_bytes - b.offset_bytes < b.bytes);
}

std::vector<Pair> PairsOf(const ArenaPlan& plan) {
  std::vector<Pair> pairs;
  for (size_t i = 0; i < plan.buffers().size(); ++i) {
    for (size_t j = i + 1; j < plan.buffers().size(); ++j) {
      const PlannedBuffer& a = plan.buffers()[i];
      const PlannedBuffer& b = plan.buffers()[j];
      if (HaveCommonBytes(a, b)) pairs.push_back({&a, &b});
    }
  }
  return pairs;
}

/// Looks at one pair in one step and stops at its first fault.
class PairCheck {
 public:
  PairCheck(StepWalk& walk, const Pair& pair) : walk_(walk), pair_(pair) {}

  std::vector<OverlayFinding> Run() {
    if (CheckOrders() && CheckContent(*pair_.a, *pair_.b)) {
      CheckContent(*pair_.b, *pair_.a);
    }
    return std::move(findings_);
  }

 private:
  bool CheckOrders() {
    for (const Touch& x : walk_.TouchesOf(pair_.a->name)) {
      for (const Touch& y : walk_.TouchesOf(pair_.b->name)) {
        if (x.op == y.op) {
          if (IsInPlace(x, y)) continue;
          return Fault(*pair_.a, x.op, *pair_.b, y.op,
                       absl::StrCat("'", walk_.OpName(x.op),
                                    "' uses both and does not declare them in "
                                    "place from one start"));
        }
        if (!walk_.Reaches(x.op, y.op) && !walk_.Reaches(y.op, x.op)) {
          return Fault(
              *pair_.a, x.op, *pair_.b, y.op,
              absl::StrCat("no path of edges that order memory leads from '",
                           walk_.OpName(x.op), "' to '", walk_.OpName(y.op),
                           "' or back"));
        }
      }
    }
    return true;
  }

  /// Every content of `kept` that is needed survives the uses of `other`.
  bool CheckContent(const PlannedBuffer& kept, const PlannedBuffer& other) {
    const std::vector<Touch>& touches = walk_.TouchesOf(kept.name);
    for (const Touch& need : touches) {
      if (!need.needs_content()) continue;
      if (!HasWriteBefore(touches, need.op)) {
        return Fault(kept, need.op, other, std::nullopt,
                     absl::StrCat("'", walk_.OpName(need.op), "' needs what '",
                                  kept.name,
                                  "' held before the step, and nothing of this "
                                  "step overwrites it first"));
      }
      for (const Touch& between : walk_.TouchesOf(other.name)) {
        if (between.op == need.op || !walk_.Reaches(between.op, need.op)) {
          continue;
        }
        const bool is_rewritten = std::any_of(
            touches.begin(), touches.end(), [&](const Touch& write) {
              return write.is_fresh_write() &&
                     (walk_.Reaches(between.op, write.op) ||
                      between.op == write.op) &&
                     walk_.Reaches(write.op, need.op);
            });
        if (!is_rewritten) {
          return Fault(
              kept, need.op, other, between.op,
              absl::StrCat("'", walk_.OpName(between.op), "' uses '",
                           other.name, "' before '", walk_.OpName(need.op),
                           "' needs '", kept.name,
                           "', and no operation between them overwrites it"));
        }
      }
      // Of two writes without an order, either may be the last.
      for (const Touch& write : touches) {
        if (write.is_fresh_write() && write.op != need.op &&
            !walk_.Reaches(write.op, need.op) &&
            !walk_.Reaches(need.op, write.op)) {
          return Fault(
              kept, need.op, other, write.op,
              absl::StrCat("'", walk_.OpName(write.op), "' overwrites '",
                           kept.name, "' without an order against '",
                           walk_.OpName(need.op), "'"));
        }
      }
    }
    return true;
  }

  bool HasWriteBefore(const std::vector<Touch>& touches, size_t op) {
    return std::any_of(touches.begin(), touches.end(), [&](const Touch& t) {
      return t.is_fresh_write() && walk_.Reaches(t.op, op);
    });
  }

  bool IsInPlace(const Touch& x, const Touch& y) const {
    const bool x_is_input = x.needs_content() && y.is_fresh_write();
    const bool y_is_input = y.needs_content() && x.is_fresh_write();
    if (!pair_.starts_together() || x_is_input == y_is_input) return false;
    const std::string& input = x_is_input ? pair_.a->name : pair_.b->name;
    const StepOp& op = walk_.step().ops[x.op];
    for (const BufferAccess& access : op.accesses) {
      if (access.buffer == input && access.access != Access::kRead) {
        return false;
      }
    }
    return std::any_of(op.in_place.begin(), op.in_place.end(),
                       [&](const auto& names) {
                         return (names.first == pair_.a->name &&
                                 names.second == pair_.b->name) ||
                                (names.first == pair_.b->name &&
                                 names.second == pair_.a->name);
                       });
  }

  /// Always false, so that a check can return it.
  bool Fault(const PlannedBuffer& first, size_t first_op,
             const PlannedBuffer& second, std::optional<size_t> second_op,
             const std::string& why) {
    findings_.push_back(
        {.step = walk_.step().name,
         .first_buffer = first.name,
         .second_buffer = second.name,
         .first_op = walk_.OpName(first_op),
         .second_op = second_op ? walk_.OpName(*second_op) : "",
         .message = absl::StrCat(
             "step '", walk_.step().name, "': buffers '", first.name, "' [",
             first.offset_bytes, ", ", first.offset_bytes + first.bytes,
             ") and '", second.name, "' [", second.offset_bytes, ", ",
             second.offset_bytes + second.bytes, ") share bytes, and ", why)});
    return false;
  }

  StepWalk& walk_;
  const Pair& pair_;
  std::vector<OverlayFinding> findings_;
};

void Append(std::vector<OverlayFinding> more,
            std::vector<OverlayFinding>& findings) {
  findings.insert(findings.end(), std::make_move_iterator(more.begin()),
                  std::make_move_iterator(more.end()));
}

/// Why the bytes of that buffer are wanted between steps; empty: they are not.
std::string WantedBetweenSteps(const PlannedBuffer& buffer) {
  if (buffer.toucher != Toucher::kDevice) {
    return absl::StrCat("toucher: ", ToucherName(buffer.toucher));
  }
  if (buffer.lifetime != Lifetime::kPerStep &&
      buffer.lifetime != Lifetime::kPerLayer) {
    return absl::StrCat("lifetime: ", LifetimeName(buffer.lifetime));
  }
  return "";
}

}  // namespace

absl::StatusOr<std::vector<OverlayFinding>> VerifyOverlay(const ArenaPlan& plan,
                                                          const StepDag& step) {
  PERMAFROST_RETURN_IF_ERROR(ValidateStepDag(step));
  StepWalk walk(step);
  std::vector<OverlayFinding> findings;
  for (const Pair& pair : PairsOf(plan)) {
    Append(PairCheck(walk, pair).Run(), findings);
  }
  return findings;
}

absl::StatusOr<std::vector<OverlayFinding>> VerifyOverlayOfLane(
    const ArenaPlan& plan, absl::Span<const StepDag> steps) {
  std::vector<OverlayFinding> findings;
  std::set<std::string> accessed;
  for (const StepDag& step : steps) {
    PERMAFROST_ASSIGN_OR_RETURN(std::vector<OverlayFinding> of_step,
                                VerifyOverlay(plan, step));
    Append(std::move(of_step), findings);
    for (const StepOp& op : step.ops) {
      for (const BufferAccess& access : op.accesses) {
        accessed.insert(access.buffer);
      }
    }
  }
  for (const Pair& pair : PairsOf(plan)) {
    const std::pair<const PlannedBuffer*, const PlannedBuffer*> both_ways[] = {
        {pair.a, pair.b}, {pair.b, pair.a}};
    for (const auto& [buffer, other] : both_ways) {
      std::string why = WantedBetweenSteps(*buffer);
      if (why.empty() && accessed.count(buffer->name) == 0) {
        why = "no step accesses it";
      }
      if (why.empty()) continue;
      findings.push_back(
          {.first_buffer = buffer->name,
           .second_buffer = other->name,
           .message = absl::StrCat(
               "buffer '", buffer->name, "' must have bytes of its own (", why,
               ") and shares some with '", other->name, "'")});
    }
  }
  return findings;
}

}  // namespace permafrost
