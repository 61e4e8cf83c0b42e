// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "ptx/control_flow.h"

namespace softcuda::ptx {
namespace {

using Flow = DraftInst::Flow;

bool ResolveTargets(Draft* draft, std::string* error) {
  for (DraftInst& inst : draft->code) {
    if (inst.flow != Flow::kJump) continue;
    const uint32_t position = draft->labels[inst.target];
    if (position >= draft->code.size()) {
      *error = "a jump to a label that is nowhere";
      return false;
    }
    inst.target = position;
  }
  return true;
}

// A thread that jumps to an exit is gone, and must be: others may meet at a
// barrier before they come to that exit.
void TurnJumpsIntoExits(Draft* draft) {
  const exec::Form* exit = exec::FormTable::Get().Find(".exit");
  for (DraftInst& inst : draft->code) {
    if (inst.flow != Flow::kJump) continue;
    uint32_t target = inst.target;
    for (int hops = 0; hops < 16; ++hops) {
      const DraftInst& at = draft->code[target];
      if (at.flow != Flow::kJump || at.IsGuarded()) break;
      target = at.target;
    }
    const DraftInst& last = draft->code[target];
    if (last.flow == Flow::kExit && !last.IsGuarded()) {
      inst.flow = Flow::kExit;
      inst.form = exit;
    }
  }
}

void FindBlocks(const Draft& draft, ControlFlow* flow) {
  const size_t count = draft.code.size();
  std::vector<bool> leads(count + 1, false);
  leads[0] = true;
  for (size_t k = 0; k < count; ++k) {
    if (draft.code[k].flow == Flow::kNone) continue;
    leads[k + 1] = true;
    if (draft.code[k].flow == Flow::kJump) leads[draft.code[k].target] = true;
  }
  flow->block_of.resize(count);
  for (uint32_t k = 0; k < count; ++k) {
    if (leads[k]) {
      flow->blocks.emplace_back();
      flow->blocks.back().begin = k;
    }
    flow->blocks.back().end = k + 1;
    flow->block_of[k] = static_cast<uint32_t>(flow->blocks.size() - 1);
  }
  for (uint32_t b = 0; b < flow->blocks.size(); ++b) {
    BasicBlock& block = flow->blocks[b];
    const DraftInst& last = draft.code[block.end - 1];
    if (last.flow == Flow::kJump) {
      block.successors.push_back(flow->block_of[last.target]);
    }
    const bool falls_through = last.flow == Flow::kNone || last.IsGuarded();
    if (falls_through && b + 1 < flow->blocks.size() &&
        (block.successors.empty() || block.successors[0] != b + 1)) {
      block.successors.push_back(b + 1);
    }
  }
}

// Dominators of the reversed graph, whose root is a virtual block behind all
// exits (Cooper, Harvey, Kennedy).
void FindPostDominators(const Draft& draft, ControlFlow* flow) {
  const uint32_t count = static_cast<uint32_t>(flow->blocks.size());
  const uint32_t root = count;
  std::vector<std::vector<uint32_t>> predecessors(count + 1);
  for (uint32_t b = 0; b < count; ++b) {
    for (const uint32_t s : flow->blocks[b].successors) {
      predecessors[s].push_back(b);
    }
    const DraftInst& last = draft.code[flow->blocks[b].end - 1];
    if (last.flow == Flow::kExit) predecessors[root].push_back(b);
  }
  // Post-order of the reversed graph from the root, without recursion.
  std::vector<uint32_t> order;
  std::vector<uint32_t> number(count + 1, ControlFlow::kNone);
  std::vector<bool> seen(count + 1, false);
  std::vector<std::pair<uint32_t, size_t>> stack = {{root, 0}};
  seen[root] = true;
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    if (next < predecessors[node].size()) {
      const uint32_t p = predecessors[node][next++];
      if (!seen[p]) {
        seen[p] = true;
        stack.emplace_back(p, 0);
      }
    } else {
      number[node] = static_cast<uint32_t>(order.size());
      order.push_back(node);
      stack.pop_back();
    }
  }
  std::vector<uint32_t> idom(count + 1, ControlFlow::kNone);
  idom[root] = root;
  const auto intersect = [&](uint32_t a, uint32_t b) {
    while (a != b) {
      while (number[a] < number[b]) a = idom[a];
      while (number[b] < number[a]) b = idom[b];
    }
    return a;
  };
  bool changed = true;
  while (changed) {
    changed = false;
    for (size_t k = order.size() - 1; k-- > 0;) {
      const uint32_t node = order[k];
      uint32_t best = ControlFlow::kNone;
      const auto consider = [&](uint32_t s) {
        if (idom[s] == ControlFlow::kNone) return;
        best = best == ControlFlow::kNone ? s : intersect(best, s);
      };
      for (const uint32_t s : flow->blocks[node].successors) consider(s);
      const DraftInst& last = draft.code[flow->blocks[node].end - 1];
      if (last.flow == Flow::kExit) consider(root);
      if (best != idom[node]) {
        idom[node] = best;
        changed = true;
      }
    }
  }
  flow->post_dominator.assign(count, ControlFlow::kNone);
  for (uint32_t b = 0; b < count; ++b) {
    if (idom[b] != ControlFlow::kNone && idom[b] != root) {
      flow->post_dominator[b] = idom[b];
    }
  }
}

}  // namespace

bool AnalyzeControlFlow(Draft* draft, ControlFlow* flow, std::string* error) {
  if (!ResolveTargets(draft, error)) return false;
  TurnJumpsIntoExits(draft);
  FindBlocks(*draft, flow);
  FindPostDominators(*draft, flow);
  return true;
}

}  // namespace softcuda::ptx
