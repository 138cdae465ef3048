// Grouping: the largest set one iteration space covers.
#include "plan/grouping.h"

#include <algorithm>
#include <map>
#include <set>

namespace volta::plan {
namespace {

// Kernels larger than this are cut: compile time and registers, not correctness.
constexpr std::size_t kMaxInstructions = 160;
constexpr std::size_t kMaxBuffers = 24;

struct Domain {
  std::vector<std::int64_t> dims;
  std::vector<bool> reduced;
};

// The iteration space of a root: of a reduction its operand's shape, else its own.
Domain domain_of(const std::vector<Value>& values, int id) {
  const Value& v = values[static_cast<std::size_t>(id)];
  Domain domain;
  const bool reduces = v.kind == ValueKind::Reduce;
  const Shape& shape = reduces ? values[static_cast<std::size_t>(v.in[0])].shape : v.shape;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 1) continue;
    domain.dims.push_back(shape[d]);
    domain.reduced.push_back(reduces &&
                             std::find(v.attrs.begin(), v.attrs.end(), d) != v.attrs.end());
  }
  return domain;
}

// The index of a shape's dimensions over the axes `which`, skipping dimensions of size 1.
IndexMap identity_index(const Shape& shape, std::size_t axes,
                        const std::vector<std::size_t>& which) {
  IndexMap index;
  std::size_t next = 0;
  for (int d = 0; d < shape.rank(); ++d) {
    index.push_back(shape[d] == 1 ? Linear(axes) : Linear::axis(axes, which[next++]));
  }
  return index;
}

std::vector<std::size_t> all_axes(std::size_t n) {
  std::vector<std::size_t> axes(n);
  for (std::size_t i = 0; i < n; ++i) axes[i] = i;
  return axes;
}

std::vector<std::int64_t> kept_dims(const Group& group) {
  std::vector<std::int64_t> kept;
  for (std::size_t i = 0; i < group.dims.size(); ++i) {
    if (!group.reduced[i]) kept.push_back(group.dims[i]);
  }
  return kept;
}

std::int64_t bytes_of(const Value& v) {
  return v.shape.numel() * static_cast<std::int64_t>(size_of(v.dtype));
}

bool is_free(const Value& v) {
  return v.kind == ValueKind::Const || v.kind == ValueKind::Arg || v.kind == ValueKind::Size ||
         v.kind == ValueKind::Iota;
}

}  // namespace

bool better_stored(std::int64_t value_bytes, std::int64_t operand_bytes, int users) {
  return value_bytes * (1 + users) < operand_bytes * users;
}

bool Group::has_reduce() const {
  return std::find(reduced.begin(), reduced.end(), true) != reduced.end();
}

int reshape_base(const std::vector<Value>& values, int id) {
  while (values[static_cast<std::size_t>(id)].kind == ValueKind::Reshape) {
    id = values[static_cast<std::size_t>(id)].in[0];
  }
  return id;
}

Grouper::Grouper(const std::vector<Value>& values, const std::vector<int>& outputs,
                 const std::vector<bool>& must_store)
    : values_(values), outputs_(outputs), must_store_(must_store) {}

Grouping Grouper::run() {
  grouping_.needed.assign(values_.size(), false);
  grouping_.stored.assign(values_.size(), false);
  mark_needed();
  mark_stored();
  mark_points();
  limit_size();
  // Each round stores one more value that several groups would compute; bounded, since planning
  // time is too.
  constexpr int kMaxRounds = 32;
  for (int round = 0; round < kMaxRounds; ++round) {
    form_groups();
    const std::vector<bool> before = grouping_.stored;
    if (round + 1 < kMaxRounds) share_or_recompute();
    if (before == grouping_.stored) break;
  }
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
}

void Grouper::mark_stored() {
  auto& stored = grouping_.stored;
  const auto store = [&](int id) {
    const int base = reshape_base(values_, id);
    if (at(base).kind != ValueKind::Leaf) stored[static_cast<std::size_t>(base)] = true;
  };
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (!grouping_.needed[i]) continue;
    if (at(static_cast<int>(i)).kind == ValueKind::Matmul) stored[i] = true;
    if (must_store_[i]) store(static_cast<int>(i));
  }
  for (const int id : outputs_) store(id);
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (!grouping_.needed[i]) continue;
    const Value& v = values_[i];
    if (v.kind == ValueKind::Gather) store(v.in[0]);
    if (v.kind == ValueKind::Matmul) {
      for (int side = 0; side < 2; ++side) {
        if (matrix_view(values_, stored, v.in[static_cast<std::size_t>(side)]).base < 0) {
          store(v.in[static_cast<std::size_t>(side)]);
        }
      }
    }
  }
}

// Chains longer than a kernel should be are cut into pieces that are stored.
void Grouper::limit_size() {
  std::vector<std::vector<int>> inlined(values_.size());
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (!grouping_.needed[i]) continue;
    const Value& v = values_[i];
    if (v.kind == ValueKind::Leaf || is_free(v)) continue;
    std::vector<int> members;
    for (const int in : v.in) {
      if (in < 0) continue;
      const std::size_t operand = static_cast<std::size_t>(in);
      if (grouping_.stored[operand] || at(in).kind == ValueKind::Reduce) continue;
      std::vector<int> joined;
      std::set_union(members.begin(), members.end(), inlined[operand].begin(),
                     inlined[operand].end(), std::back_inserter(joined));
      members = std::move(joined);
    }
    members.push_back(static_cast<int>(i));
    const bool cuttable = !v.is_view() && v.kind != ValueKind::Bounded;
    if (members.size() > kMaxInstructions && cuttable) {
      grouping_.stored[i] = true;
      members.clear();
    }
    inlined[i] = std::move(members);
  }
}

// Scalars a few operations away from leaves (a step count plus one) are computed wherever they are
// used.
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
  return v.kind == ValueKind::Leaf ||
         ((stored[i] || v.kind == ValueKind::Reduce) && !is_free(v) && !point[i]);
}

bool Grouper::is_root(int id) const {
  return grouping_.stored[static_cast<std::size_t>(id)] || at(id).kind == ValueKind::Reduce;
}

// Walks from a root to the roots and leaves it reads, with the index of each access.
std::vector<Grouper::Dependency> Grouper::dependencies(int root, std::vector<int>& loads,
                                                       int& instructions) const {
  const Domain domain = domain_of(values_, root);
  const std::size_t axes = domain.dims.size();
  struct Visit {
    int id;
    IndexMap index;
    bool known;
  };
  std::vector<Visit> stack;
  std::vector<Dependency> found;
  const Value& top = at(root);
  // Gathers and products read memory even where others compute the value for themselves.
  const auto push_memory = [&](int id) {
    while (at(id).is_view() && !grouping_.stored[static_cast<std::size_t>(id)]) id = at(id).in[0];
    const bool stored = grouping_.stored[static_cast<std::size_t>(id)];
    if (stored && !grouping_.in_memory(values_, id)) found.push_back({id, {}, false});
  };
  const auto push_operands = [&](const Value& v, const IndexMap& index, bool known) {
    for (std::size_t k = 0; k < v.in.size(); ++k) {
      if (v.in[k] < 0) continue;
      const Value& operand = at(v.in[k]);
      if (v.kind == ValueKind::Gather) {
        const std::size_t rows = static_cast<std::size_t>(at(v.in[1]).shape.rank());
        if (k == 1 && known) {
          stack.push_back(
              {v.in[k], IndexMap(index.begin(), index.begin() + static_cast<std::ptrdiff_t>(rows)),
               true});
        } else {
          if (k == 0) push_memory(v.in[k]);
          stack.push_back({v.in[k], {}, false});
        }
      } else if (v.kind == ValueKind::Philox || !known) {
        stack.push_back(
            {v.in[k], {}, v.kind == ValueKind::Philox ? operand.shape.rank() == 0 : false});
      } else if (v.is_view()) {
        std::vector<LinearBound> bounds;
        std::optional<AxisSplit> split;
        auto inner = through_view(v, operand.shape, index, domain.dims, bounds, split);
        const bool followed = inner.has_value() && bounds.empty();
        stack.push_back({v.in[k], followed ? *inner : IndexMap{}, followed});
      } else {
        stack.push_back({v.in[k], index, true});
      }
    }
  };
  if (top.kind == ValueKind::Reduce) {
    const Shape& shape = at(top.in[0]).shape;
    stack.push_back({top.in[0], identity_index(shape, axes, all_axes(axes)), true});
  } else {
    if (top.kind == ValueKind::Matmul) {
      for (int side = 0; side < 2; ++side) push_memory(top.in[static_cast<std::size_t>(side)]);
    }
    push_operands(top, identity_index(top.shape, axes, all_axes(axes)), true);
  }
  std::set<std::pair<int, std::vector<std::int64_t>>> seen;
  while (!stack.empty()) {
    Visit visit = std::move(stack.back());
    stack.pop_back();
    std::vector<std::int64_t> key{visit.known};
    for (const Linear& e : visit.index) {
      key.insert(key.end(), e.coefficient.begin(), e.coefficient.end());
      key.push_back(e.offset);
    }
    if (!seen.insert({visit.id, std::move(key)}).second) continue;
    const Value& v = at(visit.id);
    ++instructions;
    if (v.kind == ValueKind::Leaf) {
      loads.push_back(visit.id);
    } else if (grouping_.in_memory(values_, visit.id)) {
      found.push_back({visit.id, std::move(visit.index), visit.known});
    } else {
      push_operands(v, visit.index, visit.known);
    }
  }
  return found;
}

// Whether group `from` needs group `to`, directly or through others.
bool Grouper::reaches(int from, int to) const {
  std::vector<int> stack{from};
  std::set<int> seen;
  while (!stack.empty()) {
    const int g = stack.back();
    stack.pop_back();
    if (g == to) return true;
    if (!seen.insert(g).second) continue;
    for (const int next : edges_[static_cast<std::size_t>(g)]) stack.push_back(next);
  }
  return false;
}

bool Grouper::can_join(int root, const std::vector<Dependency>& deps, int number) const {
  const Group& group = grouping_.groups[static_cast<std::size_t>(number)];
  if (group.is_matmul) return false;
  const Domain domain = domain_of(values_, root);
  const Value& v = at(root);
  std::vector<std::size_t> axes;  // of the group, per axis of the root's own domain
  if (domain.dims == group.dims) {
    if (v.kind == ValueKind::Reduce && group.has_reduce() && domain.reduced != group.reduced)
      return false;
    axes = all_axes(domain.dims.size());
  } else if (v.kind != ValueKind::Reduce && group.has_reduce() && domain.dims == kept_dims(group)) {
    for (std::size_t i = 0; i < group.dims.size(); ++i) {
      if (!group.reduced[i]) axes.push_back(i);
    }
  } else {
    return false;
  }
  // A group of plain values turns into one of rows only if the reduced axes are its last: otherwise
  // the values would be walked column by column.
  if (v.kind == ValueKind::Reduce && !group.has_reduce() && !domain.reduced.empty() &&
      !domain.reduced.back()) {
    return false;
  }
  const bool related = std::any_of(deps.begin(), deps.end(), [&](const Dependency& dep) {
    return grouping_.group_of[static_cast<std::size_t>(dep.root)] == number;
  });
  if (!related && v.kind != ValueKind::Reduce && group.has_reduce() && !group.reduced.back())
    return false;
  std::vector<bool> reduced = group.reduced;
  if (v.kind == ValueKind::Reduce) reduced = domain.reduced;
  for (const Dependency& dep : deps) {
    const int other = grouping_.group_of[static_cast<std::size_t>(dep.root)];
    if (other != number) {
      if (reaches(other, number)) return false;
      continue;
    }
    if (!dep.known) return false;
    // The dependency's own place in the group: its dims over all axes, or over the kept ones.
    const Value& d = at(dep.root);
    std::vector<std::size_t> own;
    std::size_t sized = 0;
    for (int k = 0; k < d.shape.rank(); ++k) sized += d.shape[k] != 1;
    const bool whole = d.kind != ValueKind::Reduce && sized == group.dims.size();
    for (std::size_t i = 0; i < group.dims.size(); ++i) {
      if (whole || !reduced[i]) own.push_back(i);
    }
    if (own.size() != sized) return false;
    std::size_t next = 0;
    for (int k = 0; k < d.shape.rank(); ++k) {
      if (d.shape[k] == 1) continue;
      const Linear& e = dep.index[static_cast<std::size_t>(k)];
      const std::size_t wanted = own[next++];
      // e must be exactly the axis `wanted` of the group, seen from the root's own axes.
      const auto position = std::find(axes.begin(), axes.end(), wanted);
      if (position == axes.end()) return false;
      if (!(e ==
            Linear::axis(domain.dims.size(), static_cast<std::size_t>(position - axes.begin())))) {
        return false;
      }
    }
  }
  return true;
}

void Grouper::form_groups() {
  grouping_.groups.clear();
  grouping_.group_of.assign(values_.size(), -1);
  edges_.clear();
  loads_.clear();
  sizes_.clear();
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const int id = static_cast<int>(i);
    if (!grouping_.needed[i] || at(id).kind == ValueKind::Leaf || !is_root(id)) continue;
    std::vector<int> loads;
    int instructions = 1;
    const std::vector<Dependency> deps = dependencies(id, loads, instructions);
    for (const Dependency& dep : deps) loads.push_back(dep.root);
    int chosen = -1;
    if (at(id).kind != ValueKind::Matmul) {
      std::set<int> candidates;
      for (const Dependency& dep : deps)
        candidates.insert(grouping_.group_of[static_cast<std::size_t>(dep.root)]);
      // Groups that read the same buffer over the same space.
      for (std::size_t g = 0; g < loads_.size(); ++g) {
        const bool shares = std::any_of(loads.begin(), loads.end(), [&](int load) {
          return at(load).shape.rank() > 0 &&
                 std::find(loads_[g].begin(), loads_[g].end(), load) != loads_[g].end();
        });
        if (shares) candidates.insert(static_cast<int>(g));
      }
      for (auto g = candidates.rbegin(); g != candidates.rend() && chosen < 0; ++g) {
        const std::size_t number = static_cast<std::size_t>(*g);
        const std::size_t grown =
            static_cast<std::size_t>(sizes_[number]) + static_cast<std::size_t>(instructions);
        if (grown >= 2 * kMaxInstructions ||
            loads_[number].size() + grouping_.groups[number].roots.size() >= kMaxBuffers) {
          continue;
        }
        if (can_join(id, deps, *g)) chosen = *g;
      }
    }
    if (chosen < 0) {
      const Domain domain = domain_of(values_, id);
      Group group;
      group.is_matmul = at(id).kind == ValueKind::Matmul;
      group.dims = domain.dims;
      group.reduced = domain.reduced;
      chosen = static_cast<int>(grouping_.groups.size());
      grouping_.groups.push_back(std::move(group));
      edges_.emplace_back();
      loads_.emplace_back();
      sizes_.push_back(0);
    }
    const std::size_t number = static_cast<std::size_t>(chosen);
    Group& group = grouping_.groups[number];
    if (at(id).kind == ValueKind::Reduce) group.reduced = domain_of(values_, id).reduced;
    group.roots.push_back(id);
    sizes_[number] += instructions;
    grouping_.group_of[i] = chosen;
    for (const Dependency& dep : deps) {
      const int other = grouping_.group_of[static_cast<std::size_t>(dep.root)];
      if (other != chosen) edges_[number].push_back(other);
    }
    for (const int load : loads) {
      if (std::find(loads_[number].begin(), loads_[number].end(), load) == loads_[number].end()) {
        loads_[number].push_back(load);
      }
    }
  }
  // What one group computes and another reads lies in memory.
  for (std::size_t g = 0; g < loads_.size(); ++g) {
    for (const int load : loads_[g]) {
      const int other = grouping_.group_of[static_cast<std::size_t>(load)];
      if (other >= 0 && other != static_cast<int>(g))
        grouping_.stored[static_cast<std::size_t>(load)] = true;
    }
  }
}

// Values that several groups would compute for themselves: stored instead where that moves fewer
// bytes.
void Grouper::share_or_recompute() {
  std::map<int, std::set<int>> users;  // value -> groups that compute it in place
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const int group = grouping_.group_of[i];
    if (group < 0) continue;
    std::vector<int> stack;
    std::set<int> seen;
    for (const int in : at(static_cast<int>(i)).in) {
      if (in >= 0) stack.push_back(in);
    }
    while (!stack.empty()) {
      const int id = stack.back();
      stack.pop_back();
      if (!seen.insert(id).second || grouping_.in_memory(values_, id) || is_free(at(id))) continue;
      const bool sharable = at(id).kind == ValueKind::Scalar || at(id).kind == ValueKind::Gather;
      if (sharable && !grouping_.point[static_cast<std::size_t>(id)]) users[id].insert(group);
      for (const int in : at(id).in) {
        if (in >= 0) stack.push_back(in);
      }
    }
  }
  for (const auto& [id, groups] : users) {
    if (groups.size() < 2) continue;
    // Bytes a kernel reads to compute the value in place.
    std::set<int> sources;
    std::vector<int> stack{id};
    std::set<int> seen;
    while (!stack.empty()) {
      const int v = stack.back();
      stack.pop_back();
      if (!seen.insert(v).second) continue;
      if (v != id && grouping_.in_memory(values_, v)) {
        sources.insert(v);
        continue;
      }
      for (const int in : at(v).in) {
        if (in >= 0) stack.push_back(in);
      }
    }
    std::int64_t bytes = 0;
    for (const int source : sources) bytes += std::min(bytes_of(at(source)), bytes_of(at(id)));
    if (better_stored(bytes_of(at(id)), bytes, static_cast<int>(groups.size()))) {
      grouping_.stored[static_cast<std::size_t>(id)] = true;
      return;  // one at a time: storing this one changes what the others cost
    }
  }
}

// A one-element result that nobody else reads (a step count) is stored by a kernel that reads the
// same operands anyway.
void Grouper::merge_points() {
  auto& groups = grouping_.groups;
  std::vector<bool> gone(groups.size(), false);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const bool scalars = std::all_of(groups[g].roots.begin(), groups[g].roots.end(),
                                     [&](int root) { return at(root).shape.rank() == 0; });
    if (!groups[g].dims.empty() || !scalars || !edges_[g].empty() || loads_[g].empty()) continue;
    const bool read = std::any_of(edges_.begin(), edges_.end(), [&](const auto& needs) {
      return std::find(needs.begin(), needs.end(), static_cast<int>(g)) != needs.end();
    });
    if (read) continue;
    for (std::size_t h = 0; h < groups.size(); ++h) {
      const bool empty = std::count(groups[h].dims.begin(), groups[h].dims.end(), 0) > 0;
      if (h == g || gone[h] || empty || groups[h].is_matmul ||
          loads_[h].size() <= loads_[g].size()) {
        continue;
      }
      const bool covers = std::all_of(loads_[g].begin(), loads_[g].end(), [&](int load) {
        return std::find(loads_[h].begin(), loads_[h].end(), load) != loads_[h].end();
      });
      if (!covers) continue;
      // With what it took over itself.
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
  // Groups in order of their first root, each after the groups it needs. Iterative depth first.
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
      if (next < edges_[number].size()) {
        const int needed = edges_[number][next++];
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

MatrixView Grouper::matrix_view(const std::vector<Value>& values, const std::vector<bool>& stored,
                                int id) {
  const Shape& shape = values[static_cast<std::size_t>(id)].shape;
  // Follow views down to memory, with one axis per dimension of the matrix.
  const std::size_t axes = static_cast<std::size_t>(shape.rank());
  std::vector<std::int64_t> extents(shape.begin(), shape.end());
  IndexMap index;
  for (std::size_t d = 0; d < axes; ++d) index.push_back(Linear::axis(axes, d));
  const Value* v = &values[static_cast<std::size_t>(id)];
  const auto in_memory = [&](int value) {
    const std::size_t i = static_cast<std::size_t>(value);
    return stored[i] || values[i].kind == ValueKind::Leaf;
  };
  while (!in_memory(reshape_base(values, id))) {
    if (!v->is_view()) return {};
    std::vector<LinearBound> bounds;
    std::optional<AxisSplit> split;
    const Shape& inner = values[static_cast<std::size_t>(v->in[0])].shape;
    auto next = through_view(*v, inner, index, extents, bounds, split);
    if (!next || !bounds.empty()) return {};
    index = std::move(*next);
    id = v->in[0];
    v = &values[static_cast<std::size_t>(id)];
  }
  // A reshape of memory needs no following: the element number is the same.
  const Linear address = flatten(index, v->shape, axes);
  MatrixView view;
  view.base = reshape_base(values, id);
  view.offset = address.offset;
  const std::size_t row = axes - 2, column = axes - 1;
  const std::int64_t rows = extents[row], columns = extents[column];
  const std::int64_t r = address.coefficient[row], c = address.coefficient[column];
  if (axes == 3) view.batch_stride = address.coefficient[0];
  if ((c == 1 || columns == 1) && (r >= columns || rows == 1)) {
    view.leading = rows == 1 ? columns : r;
  } else if ((r == 1 || rows == 1) && (c >= rows || columns == 1)) {
    view.transposed = true;
    view.leading = columns == 1 ? rows : c;
  } else {
    return {};
  }
  return view;
}

}  // namespace volta::plan
