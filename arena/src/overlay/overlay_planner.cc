// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "checked_size.h"
#include "overlay/conflicts.h"
#include "overlay/live_ranges.h"
#include "overlay/lower_bound.h"
#include "overlay/placement.h"
#include "overlay/step_order.h"
#include "permafrost/arena/overlay.h"
#include "permafrost/driver/status.h"
#include "plan_inputs.h"

namespace permafrost {
namespace {

/// Placements before a better bound is looked for: each order and gap once.
constexpr int kFirstPlacements = 16;
constexpr int kConflictingSetNodes = 500;

absl::Status Refuse(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("overlay plan: ", what));
}

/// A step with all that is asked of it more than once.
struct StudiedStep {
  const StepDag* step;
  StepOrder order;
  std::vector<BufferLife> lives;
  /// Where each operation stands in one order that the edges allow, for all
  /// steps together.
  std::vector<int64_t> position;
};

/// A buffer on its way into the plan.
struct Candidate {
  size_t index = 0;  ///< among the sizes
  int64_t padded_bytes = 0;
  bool is_accessed = false;
  std::string kept_because = {};
  std::optional<int64_t> fixed_offset = {};
  int64_t first_use = std::numeric_limits<int64_t>::max();
  int64_t last_use = 0;
};

std::string ReasonOfRow(const BufferSize& size) {
  if (size.sleep == SleepPolicy::kStay) return "it is registered outside";
  if (size.toucher != Toucher::kDevice) return "the host touches it";
  switch (size.lifetime) {
    case Lifetime::kPerStep:
    case Lifetime::kPerLayer:
      return "";
    case Lifetime::kHostWritten:
      return "the host touches it";
    case Lifetime::kConstant:
    case Lifetime::kPersistentSlab:
    case Lifetime::kInitOnce:
    case Lifetime::kState:
      break;
  }
  return absl::StrCat("its content outlives the step (",
                      LifetimeName(size.lifetime), ")");
}

absl::StatusOr<std::vector<StudiedStep>> Study(
    absl::Span<const StepDag> steps) {
  if (steps.empty()) {
    return Refuse(
        "got no steps, limit at least one; which buffers may share "
        "is in the steps");
  }
  std::vector<StudiedStep> studied;
  int64_t operations_before = 0;
  for (const StepDag& step : steps) {
    PERMAFROST_RETURN_IF_ERROR(ValidateStepDag(step));
    StepOrder order(step);
    std::vector<BufferLife> lives = LivesOf(step, order);
    std::vector<int64_t> position(step.ops.size());
    for (size_t i = 0; i < position.size(); ++i) {
      position[static_cast<size_t>(order.TopologicalOrder()[i])] =
          operations_before + static_cast<int64_t>(i);
    }
    operations_before += static_cast<int64_t>(position.size());
    studied.push_back(
        {&step, std::move(order), std::move(lives), std::move(position)});
  }
  return studied;
}

bool IsIn(const BufferSize& size, const PlannedSegment& segment) {
  return size.tag == segment.tag && size.sleep == segment.sleep;
}

/// Everything about one call, so that the stages need not hand it around.
class Planner {
 public:
  Planner(const std::vector<BufferSize>& sizes, const PlanOptions& options,
          const OverlayOptions& overlay_options, std::vector<StudiedStep> steps)
      : sizes_(sizes),
        options_(options),
        overlay_options_(overlay_options),
        steps_(std::move(steps)) {
    for (size_t i = 0; i < sizes_.size(); ++i) by_name_[sizes_[i].name] = i;
  }

  absl::StatusOr<OverlaidPlan> Plan() {
    PERMAFROST_RETURN_IF_ERROR(MakeCandidates());
    PERMAFROST_RETURN_IF_ERROR(ReadOptions());
    PERMAFROST_RETURN_IF_ERROR(ReadSteps());
    KeepApartWhatMustBe();

    for (const BufferSize& size : sizes_) buffers_.push_back(PlannedFrom(size));
    std::vector<PlannedSegment> segments = SegmentsInOrder(buffers_);
    CheckedSize cursor = 0;
    for (PlannedSegment& segment : segments) {
      PERMAFROST_ASSIGN_OR_RETURN(const int64_t height,
                                  PlaceSegment(segment, *cursor.value()));
      segment.offset_bytes = *cursor.value();
      cursor = (cursor + height).AlignUp(options_.granularity_bytes);
      if (!cursor.value()) return TooLarge();
      segment.bytes = *cursor.value() - segment.offset_bytes;
    }
    ListSharing();

    PlanOptions options = options_;
    options.overlay = Overlay::kOn;
    OverlaidPlan result = {
        .plan = ArenaPlan::FromParts(std::move(buffers_), std::move(segments),
                                     *cursor.value(), options),
        .bytes_off = bytes_off_,
        .bytes_on = bytes_on_,
        .pinned_bytes = pinned_bytes_,
        .bound_bytes = bound_bytes_,
        .kept_apart = std::move(kept_apart_),
        .placements_tried = placements_tried_};
    return result;
  }

 private:
  static absl::Status TooLarge() {
    return Refuse("the total is beyond 2^63-1 bytes; lower max_batch_tokens");
  }

  absl::Status MakeCandidates() {
    CheckedSize total = 0;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      if (sizes_[i].bytes == 0) continue;
      const CheckedSize padded =
          (CheckedSize(sizes_[i].bytes) + options_.guard_bytes)
              .AlignUp(kBufferAlignmentBytes);
      total = total + padded;
      // The bound adds up every live range, of which an operation has at most
      // one.
      if (!(total * (total_operations() + 1)).value()) return TooLarge();
      candidate_of_[i] = candidates_.size();
      candidates_.push_back({.index = i,
                             .padded_bytes = *padded.value(),
                             .kept_because = ReasonOfRow(sizes_[i])});
    }
    bytes_off_ = *total.value();
    return absl::OkStatus();
  }

  int64_t total_operations() const {
    int64_t operations = 0;
    for (const StudiedStep& studied : steps_) {
      operations += static_cast<int64_t>(studied.position.size());
    }
    return operations;
  }

  /// The present buffer of that name; an error says what the option was.
  absl::StatusOr<Candidate*> Named(const std::string& name,
                                   absl::string_view option) {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) {
      return Refuse(absl::StrCat(option, ": got '", name,
                                 "', which is no buffer of this arena"));
    }
    const auto candidate = candidate_of_.find(found->second);
    if (candidate == candidate_of_.end()) {
      return Refuse(absl::StrCat(
          option, ": got '", name,
          "', which is absent: ", sizes_[found->second].gate_reason));
    }
    return &candidates_[candidate->second];
  }

  absl::Status ReadOptions() {
    if (overlay_options_.max_placements < 1) {
      return Refuse(absl::StrCat("max_placements: got ",
                                 overlay_options_.max_placements,
                                 ", limit at least 1"));
    }
    for (const std::string& name : overlay_options_.keep_apart) {
      PERMAFROST_ASSIGN_OR_RETURN(Candidate * candidate,
                                  Named(name, "keep_apart"));
      if (candidate->kept_because.empty()) {
        candidate->kept_because = "the options keep it apart";
      }
    }
    for (const FixedPlace& place : overlay_options_.fixed) {
      PERMAFROST_ASSIGN_OR_RETURN(Candidate * candidate,
                                  Named(place.buffer, "fixed"));
      const int64_t offset = place.offset_in_segment_bytes;
      if (offset < 0 || offset % kBufferAlignmentBytes != 0) {
        return Refuse(absl::StrCat("fixed: got offset ", offset, " for '",
                                   place.buffer, "', limit a multiple of ",
                                   kBufferAlignmentBytes, " from 0"));
      }
      if (candidate->fixed_offset) {
        return Refuse(
            absl::StrCat("fixed: got '", place.buffer, "' twice, limit once"));
      }
      if (!(CheckedSize(offset) + bytes_off_).value()) return TooLarge();
      candidate->fixed_offset = offset;
      if (candidate->kept_because.empty()) {
        candidate->kept_because = "the options fix its place";
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadSteps() {
    const std::set<absl::string_view> outside(overlay_options_.outside.begin(),
                                              overlay_options_.outside.end());
    for (const StudiedStep& studied : steps_) {
      for (const StepOp& op : studied.step->ops) {
        for (const BufferAccess& access : op.accesses) {
          if (by_name_.count(access.buffer) != 0 ||
              outside.count(access.buffer) != 0) {
            continue;
          }
          return Refuse(absl::StrCat(
              "step '", studied.step->name, "': operation '", op.name,
              "' accesses '", access.buffer,
              "', which is no buffer of this arena; list it as outside if it "
              "is another's"));
        }
      }
      for (const BufferLife& life : studied.lives) {
        Candidate* const candidate = Find(life.buffer);
        if (candidate == nullptr) continue;
        candidate->is_accessed = true;
        if (!life.kept_because.empty() && candidate->kept_because.empty()) {
          candidate->kept_because = absl::StrCat("step '", studied.step->name,
                                                 "': ", life.kept_because);
        }
        for (const LiveRange& range : life.ranges) {
          for (const int op : range.ops) {
            const int64_t position = studied.position[static_cast<size_t>(op)];
            candidate->first_use = std::min(candidate->first_use, position);
            candidate->last_use = std::max(candidate->last_use, position);
          }
        }
      }
    }
    return absl::OkStatus();
  }

  /// The present buffer of that name, or null.
  Candidate* Find(const std::string& name) {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return nullptr;
    const auto candidate = candidate_of_.find(found->second);
    return candidate == candidate_of_.end() ? nullptr
                                            : &candidates_[candidate->second];
  }

  void KeepApartWhatMustBe() {
    for (Candidate& candidate : candidates_) {
      if (candidate.kept_because.empty() && !candidate.is_accessed) {
        candidate.kept_because = "no step accesses it";
      }
      if (candidate.kept_because.empty()) continue;
      pinned_bytes_ += candidate.padded_bytes;
      kept_apart_.push_back(
          {sizes_[candidate.index].name, candidate.kept_because});
    }
  }

  /// Places the buffers that share with nobody: those with a place, then the
  /// others from the bottom up.
  absl::StatusOr<std::vector<TakenRange>> PlaceKeptApart(
      const std::vector<Candidate*>& kept) {
    std::map<int64_t, const Candidate*> taken;
    const auto end_of =
        [](const std::pair<const int64_t, const Candidate*>& p) {
          return p.first + p.second->padded_bytes;
        };
    for (Candidate* candidate : kept) {
      if (!candidate->fixed_offset) continue;
      const int64_t begin = *candidate->fixed_offset;
      const auto [here, is_new] = taken.emplace(begin, candidate);
      const auto next = std::next(here);
      const Candidate* other = nullptr;
      if (!is_new) {
        other = here->second;
      } else if (here != taken.begin() && end_of(*std::prev(here)) > begin) {
        other = std::prev(here)->second;
      } else if (next != taken.end() && end_of(*here) > next->first) {
        other = next->second;
      }
      if (other != nullptr) {
        return Refuse(absl::StrCat(
            "fixed: '", sizes_[candidate->index].name, "' at ", begin, " and '",
            sizes_[other->index].name, "' at ", *other->fixed_offset,
            " overlap or leave no guard between them"));
      }
    }
    for (Candidate* candidate : kept) {
      if (candidate->fixed_offset) continue;
      int64_t begin = 0;
      for (const auto& range : taken) {
        if (range.first - begin >= candidate->padded_bytes) break;
        begin = end_of(range);
      }
      taken.emplace(begin, candidate);
      buffers_[candidate->index].offset_bytes = begin;
    }
    std::vector<TakenRange> ranges;
    for (const auto& range : taken) {
      buffers_[range.second->index].offset_bytes = range.first;
      ranges.push_back({range.first, end_of(range)});
    }
    return ranges;
  }

  absl::StatusOr<int64_t> PlaceSegment(const PlannedSegment& segment,
                                       int64_t segment_offset) {
    std::vector<Candidate*> kept;
    std::vector<Candidate*> sharing;
    int64_t kept_bytes = 0;
    for (Candidate& candidate : candidates_) {
      if (!IsIn(sizes_[candidate.index], segment)) continue;
      (candidate.kept_because.empty() ? sharing : kept).push_back(&candidate);
      if (!candidate.kept_because.empty()) kept_bytes += candidate.padded_bytes;
    }
    PlacementProblem problem;
    PERMAFROST_ASSIGN_OR_RETURN(problem.taken, PlaceKeptApart(kept));
    const HeaviestSet heaviest = Relate(sharing, problem);
    const Placement placement = Place(kept_bytes, heaviest, problem);
    for (size_t i = 0; i < sharing.size(); ++i) {
      buffers_[sharing[i]->index].offset_bytes = placement.offsets[i];
    }
    for (const Candidate& candidate : candidates_) {
      if (!IsIn(sizes_[candidate.index], segment)) continue;
      int64_t& offset = buffers_[candidate.index].offset_bytes;
      const std::optional<int64_t> in_arena =
          (CheckedSize(offset) + segment_offset).value();
      if (!in_arena) return TooLarge();
      offset = *in_arena;
    }
    bytes_on_ += placement.height_bytes;
    bound_bytes_ += problem.bound_bytes;
    placements_tried_ += placement.placements_tried;
    return placement.height_bytes;
  }

  /// Looks for a placement, and where it stays above what one moment needs, for
  /// a better bound too.
  Placement Place(int64_t kept_bytes, const HeaviestSet& heaviest,
                  PlacementProblem& problem) const {
    const auto aim_for = [&](const HeaviestSet& set) {
      problem.bound_bytes = kept_bytes + set.bytes;
      for (PlacementItem& item : problem.items) item.in_heaviest_set = false;
      for (const size_t item : set.items) {
        problem.items[item].in_heaviest_set = true;
      }
    };
    aim_for(heaviest);
    problem.max_placements =
        std::min(kFirstPlacements, overlay_options_.max_placements);
    Placement first = FindPlacement(problem);
    if (first.height_bytes <= problem.bound_bytes) return first;
    std::vector<int64_t> item_bytes;
    for (const PlacementItem& item : problem.items) {
      item_bytes.push_back(item.bytes);
    }
    aim_for(FindConflictingSet(problem.relations, item_bytes, heaviest,
                               kConflictingSetNodes));
    problem.max_placements = overlay_options_.max_placements;
    Placement second = FindPlacement(problem);
    const int64_t tried = first.placements_tried + second.placements_tried;
    Placement& lower =
        second.height_bytes < first.height_bytes ? second : first;
    lower.placements_tried = tried;
    return std::move(lower);
  }

  /// Fills in the items and how they relate.
  ///
  /// @return what is needed at one moment of a step.
  HeaviestSet Relate(const std::vector<Candidate*>& sharing,
                     PlacementProblem& problem) {
    std::map<absl::string_view, size_t> item_of;
    std::vector<int64_t> item_bytes;
    for (size_t i = 0; i < sharing.size(); ++i) {
      const Candidate& candidate = *sharing[i];
      item_of[sizes_[candidate.index].name] = i;
      item_bytes.push_back(candidate.padded_bytes);
      problem.items.push_back({.bytes = candidate.padded_bytes,
                               .first_use = candidate.first_use,
                               .last_use = candidate.last_use});
    }
    problem.relations = RelationMatrix(sharing.size());
    HeaviestSet heaviest;
    for (const StudiedStep& studied : steps_) {
      std::vector<RangeChain> chains;
      for (const BufferLife& life : studied.lives) {
        const auto item = item_of.find(life.buffer);
        if (item == item_of.end()) continue;
        chains.push_back({item->second, life.buffer, life.ranges});
      }
      const ChainOrder order(*studied.step, studied.order, std::move(chains));
      for (size_t a = 0; a < order.chains().size(); ++a) {
        for (size_t b = a + 1; b < order.chains().size(); ++b) {
          problem.relations.Tighten(order.chains()[a].item,
                                    order.chains()[b].item,
                                    order.RelationOf(a, b));
        }
      }
      HeaviestSet of_step = FindHeaviestSet(order, item_bytes);
      if (of_step.bytes > heaviest.bytes) heaviest = std::move(of_step);
    }
    return heaviest;
  }

  void ListSharing() {
    for (PlannedBuffer& a : buffers_) {
      for (PlannedBuffer& b : buffers_) {
        if (&a == &b || !a.is_present() || !b.is_present() ||
            a.offset_bytes >= b.offset_bytes + b.bytes + options_.guard_bytes ||
            b.offset_bytes >= a.offset_bytes + a.bytes + options_.guard_bytes) {
          continue;
        }
        a.shares_with.push_back(b.name);
      }
      std::sort(a.shares_with.begin(), a.shares_with.end());
    }
  }

  const std::vector<BufferSize>& sizes_;
  const PlanOptions& options_;
  const OverlayOptions& overlay_options_;
  std::vector<StudiedStep> steps_;
  std::map<absl::string_view, size_t> by_name_;
  std::vector<Candidate> candidates_;
  std::map<size_t, size_t> candidate_of_;  ///< by index among the sizes
  std::vector<PlannedBuffer> buffers_;
  std::vector<KeptApart> kept_apart_;
  int64_t bytes_off_ = 0;
  int64_t bytes_on_ = 0;
  int64_t pinned_bytes_ = 0;
  int64_t bound_bytes_ = 0;
  int64_t placements_tried_ = 0;
};

}  // namespace

absl::StatusOr<OverlaidPlan> PlanArenaWithOverlay(
    std::vector<BufferSize> sizes, const PlanOptions& options,
    absl::Span<const StepDag> steps, const OverlayOptions& overlay_options) {
  PERMAFROST_RETURN_IF_ERROR(CheckPlanOptions(options));
  PERMAFROST_RETURN_IF_ERROR(CheckPlanSizes(sizes));
  PERMAFROST_ASSIGN_OR_RETURN(std::vector<StudiedStep> studied, Study(steps));
  return Planner(sizes, options, overlay_options, std::move(studied)).Plan();
}

}  // namespace permafrost
