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

Grouper::Grouper(const std::vector<Value>& values, const std::vector<int>& outputs,
                 const std::vector<bool>& must_store, bool massively_parallel)
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
  std::vector<bool> changed(values_.size());
  const auto is_changed = [&](const Value& v) {
    return std::any_of(v.in.begin(), v.in.end(),
                       [&](int in) { return in >= 0 && changed[static_cast<std::size_t>(in)]; });
  };
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const Value& v = values_[i];
    const bool in_memory = grouping_.in_memory(values_, static_cast<int>(i));
    const auto mark =
        static_cast<std::uint8_t>((grouping_.stored[i] ? 1 : 0) | (in_memory ? 2 : 0));
    const bool reads_changed = is_changed(v);
    if (reads_changed) walked_[i] = {};
    // What lies behind a reshape in memory is looked at, too.
    const bool follows = !in_memory || v.kind == ValueKind::Reshape;
    changed[i] = std::exchange(marks_[i], mark) != mark || (reads_changed && follows);
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
  std::vector<bool> stored = grouping_.stored;
  const std::vector<bool> asked = stored;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (worth_storing_[i] && grouping_.needed[i]) stored[i] = true;
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
  for (std::size_t i = 0; i < values_.size(); ++i) worth_storing_[i] = stored[i] && !asked[i];
  compute_again(asked);
  merge_points();
  order_groups();
  return std::move(grouping_);
}

void Grouper::mark_needed() {
  for (const int id : outputs_) grouping_.needed[static_cast<std::size_t>(id)] = true;
  for (int id = static_cast<int>(values_.size()) - 1; id >= 0; --id) {
    if (!grouping_.needed[static_cast<std::size_t>(id)]) continue;
    for (const int in : at(id).in) {
      if (in >= 0) grouping_.needed[static_cast<std::size_t>(in)] = true;
    }
  }
  // Most calls write all of their results, needed or not.
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const Value& v = values_[i];
    if (v.kind == ValueKind::StepResult && at(v.in[0]).call->writes_all_results())
      grouping_.needed[i] = grouping_.needed[static_cast<std::size_t>(v.in[0])];
  }
}

void Grouper::mark_stored() {
  auto& stored = grouping_.stored;
  const auto store = [&](int id) {
    const int base = reshape_base(values_, id);
    if (at(base).kind != ValueKind::Leaf) stored[static_cast<std::size_t>(base)] = true;
  };
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (!grouping_.needed[i]) continue;
    // A binary search runs once, not in every kernel that needs its result.
    if (values_[i].is_step() || values_[i].kind == ValueKind::Search) stored[i] = true;
    if (must_store_[i] || values_[i].stored) store(static_cast<int>(i));
  }
  for (const int id : outputs_) store(id);
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (!grouping_.needed[i]) continue;
    const Value& v = values_[i];
    if (v.kind == ValueKind::Gather || v.kind == ValueKind::Search) store(v.in[0]);
    if (v.kind != ValueKind::Call) continue;
    // Dense operands come first, because other operands may be views of them.
    for (const bool dense : {true, false}) {
      for (std::size_t k = 0; k < v.in.size(); ++k) {
        const OperandLayout layout = v.call->layout(k);
        if (v.in[k] < 0 || (layout == OperandLayout::Dense) != dense) continue;
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
bool Grouper::finishes_reduction(int id, std::int64_t readers) const {
  constexpr std::size_t kMost = 32;
  std::vector<int> stack{id}, seen;
  while (!stack.empty() && seen.size() < kMost) {
    const int now = stack.back();
    stack.pop_back();
    const Value& v = at(now);
    if (v.is_over_rows() && v.shape.numel() == at(id).shape.numel() &&
        at(v.in[0]).shape.numel() <= readers / 4) {
      return true;
    }
    const bool inside = v.kind == ValueKind::Scalar || v.kind == ValueKind::Cast || v.is_view();
    if (!inside || grouping_.stored[static_cast<std::size_t>(now)]) continue;
    if (std::find(seen.begin(), seen.end(), now) != seen.end()) continue;
    seen.push_back(now);
    for (const int in : v.in) {
      if (in >= 0) stack.push_back(in);
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
  std::vector<std::int64_t> readers(values_.size(), 0);
  std::vector<int> users(values_.size(), 0), user(values_.size(), -1);
  const auto is_cheap = [&](const Value& v) {
    return (v.kind == ValueKind::Scalar && !is_costly(v)) || v.kind == ValueKind::Cast ||
           v.kind == ValueKind::Reshape;
  };
  for (std::size_t i = values_.size(); i-- > 0;) {
    const Value& v = values_[i];
    if (!grouping_.needed[i]) continue;
    for (const int in : v.in) {
      if (in < 0) continue;
      const auto operand = static_cast<std::size_t>(in);
      ++users[operand];
      user[operand] = static_cast<int>(i);
      const std::int64_t size = at(in).shape.numel();
      if (size <= 1) continue;  // each thread computes a single number only once
      if (v.kind == ValueKind::Expand && v.shape.numel() / size >= kRepeats)
        readers[operand] = std::max<std::int64_t>(readers[operand], v.shape.numel());
      if (is_cheap(v) && !grouping_.stored[i])
        readers[operand] = std::max(readers[operand], readers[i]);
    }
  }
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (!grouping_.needed[i] || readers[i] == 0 || !is_costly(values_[i])) continue;
    if (grouping_.stored[i] || !finishes_reduction(static_cast<int>(i), readers[i])) continue;
    // Instead of the value, the result of the cheap operations that follow it is stored.
    std::size_t last = i;
    while (users[last] == 1) {
      const auto next = static_cast<std::size_t>(user[last]);
      const bool follows = values_[next].kind == ValueKind::Scalar && is_cheap(values_[next]) &&
                           readers[next] > 0 && !grouping_.stored[next] &&
                           values_[next].shape.numel() == values_[i].shape.numel();
      if (!follows) break;
      last = next;
    }
    grouping_.stored[last] = true;
  }
}

// Splits chains that are too long for one kernel into stored pieces. `most[i]` is a bound of the
// values that are computed in place for value i, itself included: the sum of its operands' bounds,
// or their number where the sum is too large because operands have values in common.
void Grouper::limit_size() {
  std::vector<std::size_t> most(values_.size(), 0);
  std::vector<int> visited(values_.size(), -1), stack;
  const auto is_inlined = [&](int in) {
    return in >= 0 && most[static_cast<std::size_t>(in)] > 0 && !at(in).is_over_rows();
  };
  const auto count = [&](int id) {
    std::size_t members = 0;
    visited[static_cast<std::size_t>(id)] = id;
    stack.push_back(id);
    while (!stack.empty()) {
      const Value& v = at(stack.back());
      stack.pop_back();
      ++members;
      for (const int in : v.in) {
        if (!is_inlined(in)) continue;
        if (std::exchange(visited[static_cast<std::size_t>(in)], id) != id) stack.push_back(in);
      }
    }
    return members;
  };
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const Value& v = values_[i];
    if (!grouping_.needed[i] || v.kind == ValueKind::Leaf || is_free(v)) continue;
    std::size_t sum = 1;
    for (const int in : v.in) {
      if (is_inlined(in)) sum += most[static_cast<std::size_t>(in)];
    }
    const bool is_cuttable = !v.is_view() && v.kind != ValueKind::Bounded;
    if (sum > kMaxInstructions && is_cuttable) {
      sum = count(static_cast<int>(i));
      if (sum > kMaxInstructions) grouping_.stored[i] = true;
    }
    most[i] = grouping_.stored[i] ? 0 : std::min(sum, values_.size());
  }
}

// Scalars a few operations away from leaves, such as a step count plus one, are computed wherever
// they are used.
void Grouper::mark_points() {
  constexpr int kMaxPoint = 12;
  grouping_.point.assign(values_.size(), false);
  std::vector<int> size(values_.size(), 0);
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const Value& v = values_[i];
    const bool cheap = v.kind == ValueKind::Scalar || v.kind == ValueKind::Cast || v.is_view();
    if (!grouping_.needed[i] || v.shape.rank() != 0 || !cheap) continue;
    int total = 1;
    for (const int in : v.in) {
      if (in < 0) continue;
      const std::size_t operand = static_cast<std::size_t>(in);
      const bool source =
          is_free(at(in)) || (at(in).kind == ValueKind::Leaf && at(in).shape.numel() == 1);
      total += source ? 1 : grouping_.point[operand] ? size[operand] : kMaxPoint + 1;
    }
    size[i] = total;
    grouping_.point[i] = total <= kMaxPoint;
  }
}

bool Grouping::in_memory(const std::vector<Value>& values, int id) const {
  const Value& v = values[static_cast<std::size_t>(id)];
  const std::size_t i = static_cast<std::size_t>(id);
  return v.kind == ValueKind::Leaf || ((stored[i] || v.is_over_rows()) && !is_free(v) && !point[i]);
}

// A one-element result that no other kernel reads, such as a step count, is stored by a kernel that
// reads the same operands anyway.
void Grouper::merge_points() {
  auto& groups = grouping_.groups;
  std::vector<bool> gone(groups.size(), false), is_needed(groups.size(), false);
  for (const std::vector<int>& needs : needs_) {
    for (const int g : needs) is_needed[static_cast<std::size_t>(g)] = true;
  }
  // For each value, the groups that read it, in order.
  std::vector<std::vector<int>> readers(values_.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const int load : loads_[g])
      readers[static_cast<std::size_t>(load)].push_back(static_cast<int>(g));
  }
  const auto readers_of = [&](int load) -> const auto& {
    return readers[static_cast<std::size_t>(load)];
  };
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const bool scalars = std::all_of(groups[g].roots.begin(), groups[g].roots.end(),
                                     [&](int root) { return at(root).shape.rank() == 0; });
    if (!groups[g].space.dims.empty() || !scalars || !needs_[g].empty() || loads_[g].empty() ||
        is_needed[g]) {
      continue;
    }
    const int rarest = *std::min_element(loads_[g].begin(), loads_[g].end(), [&](int a, int b) {
      return readers_of(a).size() < readers_of(b).size();
    });
    for (const int reader : readers_of(rarest)) {
      ++visits().marked;
      const auto h = static_cast<std::size_t>(reader);
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
          grouping_.group_of[static_cast<std::size_t>(root)] = static_cast<int>(h);
        }
      }
      gone[g] = true;
      break;
    }
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (gone[g]) groups[g].roots.clear();
  }
}

void Grouper::order_groups() {
  auto& groups = grouping_.groups;
  std::vector<int> order;
  std::vector<std::uint8_t> state(groups.size(), 0);
  // Topological order by an iterative depth-first search, starting from the groups in order of
  // their first root.
  for (std::size_t start = 0; start < groups.size(); ++start) {
    std::vector<std::pair<int, std::size_t>> stack{{static_cast<int>(start), 0}};
    while (!stack.empty()) {
      auto& [g, next] = stack.back();
      const std::size_t number = static_cast<std::size_t>(g);
      if (state[number] == 2) {
        stack.pop_back();
        continue;
      }
      state[number] = 1;
      if (next < needs_[number].size()) {
        const int needed = needs_[number][next++];
        // Throws instead of letting a cycle read values before they are written.
        if (state[static_cast<std::size_t>(needed)] == 1 && needed != g)
          throw std::logic_error("planner: kernels that need each other");
        if (state[static_cast<std::size_t>(needed)] == 0) stack.push_back({needed, 0});
        continue;
      }
      state[number] = 2;
      order.push_back(g);
      stack.pop_back();
    }
  }
  std::vector<Group> sorted;
  std::vector<int> renamed(groups.size(), -1);
  for (const int g : order) {
    if (groups[static_cast<std::size_t>(g)].roots.empty()) continue;
    renamed[static_cast<std::size_t>(g)] = static_cast<int>(sorted.size());
    sorted.push_back(std::move(groups[static_cast<std::size_t>(g)]));
  }
  groups = std::move(sorted);
  for (int& g : grouping_.group_of) {
    if (g >= 0) g = renamed[static_cast<std::size_t>(g)];
  }
}

}  // namespace volta::plan
