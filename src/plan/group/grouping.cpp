// Groups values into the largest kernels that one iteration space covers.
#include "plan/group/grouping.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "plan/calls/call.h"
#include "plan/calls/operand_view.h"
#include "plan/group/fusion.h"
#include "plan/lower/visits.h"

namespace volta::plan {
namespace {

// Larger kernels are split; the limit bounds compile time and register use.
constexpr std::size_t kMaxInstructions = 160;

bool is_free(const Value& v) {
  return v.kind == ValueKind::Const || v.kind == ValueKind::Arg || v.kind == ValueKind::Size ||
         v.kind == ValueKind::Iota;
}

}  // namespace

Grouper::Grouper(const Values& values, const std::vector<int>& outputs,
                 const PerValue<bool>& must_store, bool massively_parallel)
    : values_(values),
      outputs_(outputs),
      must_store_(must_store),
      massively_parallel_(massively_parallel),
      worth_storing_(values.size(), false),
      walked_(values.size()),
      marks_(values.size(), 0) {}

Grouper::~Grouper() = default;

// Roots are walked again if something that they read or compute in place is stored now or was
// before, and no longer is.
void Grouper::forget_changed_walks() {
  PerValue<bool> changed(values_);
  const auto is_changed = [&](const Value& v) {
    return std::any_of(v.in.begin(), v.in.end(),
                       [&](ValueId in) { return !in.is_none() && changed[in]; });
  };
  for (const ValueId id : values_.ids()) {
    const Value& v = values_[id];
    const bool in_memory = grouping_.in_memory(values_, id);
    const auto mark =
        static_cast<std::uint8_t>((grouping_.stored[id] ? 1 : 0) | (in_memory ? 2 : 0));
    const bool reads_changed = is_changed(v);
    if (reads_changed) walked_[id] = {};
    // What lies behind a reshape in memory is looked at, too.
    const bool follows = !in_memory || v.kind == ValueKind::Reshape;
    changed[id] = std::exchange(marks_[id], mark) != mark || (reads_changed && follows);
  }
}

Grouping Grouper::run() {
  ++visits().groupings;
  grouping_.needed.assign(values_.size(), false);
  grouping_.stored.assign(values_.size(), false);
  mark_needed();
  mark_stored();
  mark_finished();
  mark_points();
  limit_size();
  // Each round stores more values that several groups would compute for themselves. The number of
  // rounds is limited to bound planning time.
  constexpr int kMaxRounds = 16;
  PerValue<bool> stored = grouping_.stored;
  const PerValue<bool> asked = stored;
  for (const ValueId id : values_.ids()) {
    if (worth_storing_[id] && grouping_.needed[id]) stored[id] = true;
  }
  for (int round = 0; round < kMaxRounds; ++round) {
    ++visits().rounds;
    grouping_.stored = stored;
    forget_changed_walks();
    Fusion fusion(values_, grouping_, massively_parallel_, walked_);
    fusion.run();
    needs_ = std::move(fusion.needs);
    loads_ = std::move(fusion.loads);
    if (round + 1 == kMaxRounds || !store_more(stored)) break;
  }
  for (const ValueId id : values_.ids()) worth_storing_[id] = stored[id] && !asked[id];
  compute_again(asked);
  merge_points();
  order_groups();
  return std::move(grouping_);
}

void Grouper::mark_needed() {
  for (const ValueId id : outputs_) grouping_.needed[id] = true;
  for (const ValueId id : values_.ids().backwards()) {
    if (!grouping_.needed[id]) continue;
    for (const ValueId in : at(id).in) {
      if (!in.is_none()) grouping_.needed[in] = true;
    }
  }
  // Most calls write all of their results, needed or not.
  for (const ValueId id : values_.ids()) {
    const Value& v = values_[id];
    if (v.kind == ValueKind::StepResult && at(v.in[0]).call->writes_all_results())
      grouping_.needed[id] = grouping_.needed[v.in[0]];
  }
}

void Grouper::mark_stored() {
  auto& stored = grouping_.stored;
  const auto store = [&](ValueId id) {
    const ValueId base = reshape_base(values_, id);
    if (at(base).kind != ValueKind::Leaf) stored[base] = true;
  };
  for (const ValueId id : values_.ids()) {
    if (!grouping_.needed[id]) continue;
    const Value& v = values_[id];
    // A binary search runs once, not in every kernel that needs its result.
    if (v.is_step() || v.kind == ValueKind::Search) stored[id] = true;
    if (must_store_[id] || v.stored) store(id);
  }
  for (const ValueId id : outputs_) store(id);
  for (const ValueId id : values_.ids()) {
    if (!grouping_.needed[id]) continue;
    const Value& v = values_[id];
    if (v.kind == ValueKind::Gather || v.kind == ValueKind::Search) store(v.in[0]);
    if (v.kind != ValueKind::Call) continue;
    // Dense operands come first, because other operands may be views of them.
    for (const bool dense : {true, false}) {
      for (std::size_t k = 0; k < v.in.size(); ++k) {
        const OperandLayout layout = v.call->layout(k);
        if (v.in[k].is_none() || (layout == OperandLayout::Dense) != dense) continue;
        if (!lies_as({values_, stored}, v.in[k], layout)) store(v.in[k]);
      }
    }
  }
}

namespace {
// Whether the operation takes many instructions.
bool is_costly(const Value& v) {
  using kernel::ScalarOp;
  return v.kind == ValueKind::Scalar && is_floating(v.dtype) &&
         ((v.op >= ScalarOp::exp && v.op <= ScalarOp::erf) || v.op == ScalarOp::div ||
          v.op == ScalarOp::fmod || v.op == ScalarOp::pow || v.op == ScalarOp::atan2);
}
}  // namespace

// Whether the value is computed from a reduction that has as many results, but far fewer elements
// than `readers`. The reduction's kernel precedes the readers in any case and can finish the value.
bool Grouper::finishes_reduction(ValueId id, std::int64_t readers) const {
  constexpr std::size_t kMost = 32;
  std::vector<ValueId> stack{id}, seen;
  while (!stack.empty() && seen.size() < kMost) {
    const ValueId now = stack.back();
    stack.pop_back();
    const Value& v = at(now);
    if (v.is_over_rows() && v.shape.numel() == at(id).shape.numel() &&
        at(v.in[0]).shape.numel() <= readers / 4) {
      return true;
    }
    const bool inside = v.kind == ValueKind::Scalar || v.kind == ValueKind::Cast || v.is_view();
    if (!inside || grouping_.stored[now]) continue;
    if (std::find(seen.begin(), seen.end(), now) != seen.end()) continue;
    seen.push_back(now);
    for (const ValueId in : v.in) {
      if (!in.is_none()) stack.push_back(in);
    }
  }
  return false;
}

// Stores costly small values, such as a mean, in the kernel of the reduction that they come from,
// so that the elements of a large value do not each compute them again.
void Grouper::mark_finished() {
  constexpr std::int64_t kRepeats = 32;
  // For each value, the number of elements that read it through cheap operations, if they are many
  // times as many as its own.
  PerValue<std::int64_t> readers(values_, 0);
  PerValue<int> users(values_, 0);
  PerValue<ValueId> user(values_);
  const auto is_cheap = [&](const Value& v) {
    return (v.kind == ValueKind::Scalar && !is_costly(v)) || v.kind == ValueKind::Cast ||
           v.kind == ValueKind::Reshape;
  };
  for (const ValueId id : values_.ids().backwards()) {
    const Value& v = values_[id];
    if (!grouping_.needed[id]) continue;
    for (const ValueId in : v.in) {
      if (in.is_none()) continue;
      ++users[in];
      user[in] = id;
      const std::int64_t size = at(in).shape.numel();
      if (size <= 1) continue;  // each thread computes a single number only once
      if (v.kind == ValueKind::Expand && v.shape.numel() / size >= kRepeats)
        readers[in] = std::max<std::int64_t>(readers[in], v.shape.numel());
      if (is_cheap(v) && !grouping_.stored[id]) readers[in] = std::max(readers[in], readers[id]);
    }
  }
  for (const ValueId id : values_.ids()) {
    if (!grouping_.needed[id] || readers[id] == 0 || !is_costly(values_[id])) continue;
    if (grouping_.stored[id] || !finishes_reduction(id, readers[id])) continue;
    // Instead of the value, the result of the cheap operations that follow it is stored.
    ValueId last = id;
    while (users[last] == 1) {
      const ValueId next = user[last];
      const bool follows = values_[next].kind == ValueKind::Scalar && is_cheap(values_[next]) &&
                           readers[next] > 0 && !grouping_.stored[next] &&
                           values_[next].shape.numel() == values_[id].shape.numel();
      if (!follows) break;
      last = next;
    }
    grouping_.stored[last] = true;
  }
}

// Splits chains that are too long for one kernel into stored pieces. `most[id]` is a bound of
// the values that are computed in place for a value, itself included: the sum of its operands'
// bounds, or their number where the sum is too large because operands have values in common.
void Grouper::limit_size() {
  PerValue<std::size_t> most(values_, 0);
  PerValue<ValueId> visited(values_);  // the value for which it was visited last
  std::vector<ValueId> stack;
  const auto is_inlined = [&](ValueId in) {
    return !in.is_none() && most[in] > 0 && !at(in).is_over_rows();
  };
  const auto count = [&](ValueId id) {
    std::size_t members = 0;
    visited[id] = id;
    stack.push_back(id);
    while (!stack.empty()) {
      const Value& v = at(stack.back());
      stack.pop_back();
      ++members;
      for (const ValueId in : v.in) {
        if (!is_inlined(in)) continue;
        if (std::exchange(visited[in], id) != id) stack.push_back(in);
      }
    }
    return members;
  };
  for (const ValueId id : values_.ids()) {
    const Value& v = values_[id];
    if (!grouping_.needed[id] || v.kind == ValueKind::Leaf || is_free(v)) continue;
    std::size_t sum = 1;
    for (const ValueId in : v.in) {
      if (is_inlined(in)) sum += most[in];
    }
    const bool is_cuttable = !v.is_view() && v.kind != ValueKind::Bounded;
    if (sum > kMaxInstructions && is_cuttable) {
      sum = count(id);
      if (sum > kMaxInstructions) grouping_.stored[id] = true;
    }
    most[id] = grouping_.stored[id] ? 0 : std::min(sum, values_.size());
  }
}

// Scalars a few operations away from leaves, such as a step count plus one, are computed wherever
// they are used.
void Grouper::mark_points() {
  constexpr int kMaxPoint = 12;
  grouping_.point.assign(values_.size(), false);
  PerValue<int> size(values_, 0);
  for (const ValueId id : values_.ids()) {
    const Value& v = values_[id];
    const bool cheap = v.kind == ValueKind::Scalar || v.kind == ValueKind::Cast || v.is_view();
    if (!grouping_.needed[id] || v.shape.rank() != 0 || !cheap) continue;
    int total = 1;
    for (const ValueId in : v.in) {
      if (in.is_none()) continue;
      const bool source =
          is_free(at(in)) || (at(in).kind == ValueKind::Leaf && at(in).shape.numel() == 1);
      total += source ? 1 : grouping_.point[in] ? size[in] : kMaxPoint + 1;
    }
    size[id] = total;
    grouping_.point[id] = total <= kMaxPoint;
  }
}

bool Grouping::in_memory(const Values& values, ValueId id) const {
  const Value& v = values[id];
  return v.kind == ValueKind::Leaf ||
         ((stored[id] || v.is_over_rows()) && !is_free(v) && !point[id]);
}

// A one-element result that no other kernel reads, such as a step count, is stored by a kernel that
// reads the same operands anyway.
void Grouper::merge_points() {
  auto& groups = grouping_.groups;
  Table<GroupId, bool> gone(groups, false), is_needed(groups, false);
  for (const std::vector<GroupId>& needs : needs_) {
    for (const GroupId g : needs) is_needed[g] = true;
  }
  PerValue<std::vector<GroupId>> readers(values_);  // the groups that read it, in order
  for (const GroupId g : groups.ids()) {
    for (const ValueId load : loads_[g]) readers[load].push_back(g);
  }
  for (const GroupId g : groups.ids()) {
    const bool scalars = std::all_of(groups[g].roots.begin(), groups[g].roots.end(),
                                     [&](int root) { return at(root).shape.rank() == 0; });
    if (!groups[g].space.dims.empty() || !scalars || !needs_[g].empty() || loads_[g].empty() ||
        is_needed[g]) {
      continue;
    }
    const ValueId rarest = *std::min_element(
        loads_[g].begin(), loads_[g].end(),
        [&](ValueId a, ValueId b) { return readers[a].size() < readers[b].size(); });
    for (const GroupId h : readers[rarest]) {
      ++visits().marked;
      const auto& dims = groups[h].space.dims;
      const bool empty = std::count(dims.begin(), dims.end(), 0) > 0;
      if (h == g || gone[h] || empty || groups[h].is_call || loads_[h].size() <= loads_[g].size()) {
        continue;
      }
      const bool covers = std::all_of(loads_[g].begin(), loads_[g].end(), [&](int load) {
        return std::find(loads_[h].begin(), loads_[h].end(), load) != loads_[h].end();
      });
      if (!covers) continue;
      // The group may have taken over other scalars before.
      for (const auto* roots : {&groups[g].roots, &groups[g].once}) {
        for (const int root : *roots) {
          groups[h].once.push_back(root);
          grouping_.group_of[root] = h;
        }
      }
      gone[g] = true;
      break;
    }
  }
  for (const GroupId g : groups.ids()) {
    if (gone[g]) groups[g].roots.clear();
  }
}

void Grouper::order_groups() {
  auto& groups = grouping_.groups;
  std::vector<GroupId> order;
  Table<GroupId, std::uint8_t> state(groups, 0);
  // Topological order by an iterative depth-first search, starting from the groups in order of
  // their first root.
  for (const GroupId start : groups.ids()) {
    std::vector<std::pair<GroupId, std::size_t>> stack{{start, 0}};
    while (!stack.empty()) {
      auto& [g, next] = stack.back();
      if (state[g] == 2) {
        stack.pop_back();
        continue;
      }
      state[g] = 1;
      if (next < needs_[g].size()) {
        const GroupId needed = needs_[g][next++];
        // Throws instead of letting a cycle read values before they are written.
        if (state[needed] == 1 && needed != g)
          throw std::logic_error("planner: kernels that need each other");
        if (state[needed] == 0) stack.push_back({needed, 0});
        continue;
      }
      state[g] = 2;
      order.push_back(g);
      stack.pop_back();
    }
  }
  Table<GroupId, Group> sorted;
  Table<GroupId, GroupId> renamed(groups);
  for (const GroupId g : order) {
    if (!groups[g].roots.empty()) renamed[g] = sorted.add(std::move(groups[g]));
  }
  groups = std::move(sorted);
  for (GroupId& g : grouping_.group_of) {
    if (!g.is_none()) g = renamed[g];
  }
}

}  // namespace volta::plan
