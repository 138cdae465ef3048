// Grouping: the largest set one iteration space covers.
#include "plan/grouping.h"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

#include "plan/fusion.h"

namespace volta::plan {
namespace {

// Kernels larger than this are cut: compile time and registers, not correctness.
constexpr std::size_t kMaxInstructions = 160;

std::int64_t bytes_of(const Value& v) {
  return v.shape.numel() * static_cast<std::int64_t>(size_of(v.dtype));
}

bool is_free(const Value& v) {
  return v.kind == ValueKind::Const || v.kind == ValueKind::Arg || v.kind == ValueKind::Size ||
         v.kind == ValueKind::Iota;
}

}  // namespace

std::int64_t storing_saves(const Sharing& sharing) {
  std::int64_t read = sharing.spared_bytes, largest = 0;
  for (const std::int64_t bytes : sharing.operand_bytes) {
    read += bytes;
    largest = std::max(largest, bytes);
  }
  const std::int64_t kernels = static_cast<std::int64_t>(sharing.operand_bytes.size());
  if (sharing.producer_bytes >= 0) {
    return read - sharing.producer_bytes - sharing.value_bytes * (1 + kernels);
  }
  // The kernel that stores it reads its operands still: taken to be the one with most to read. And
  // it may become a kernel of its own, which costs as much as moving a few kilobytes.
  constexpr std::int64_t kLaunchBytes = 4096;
  return read - largest - sharing.value_bytes * kernels - kLaunchBytes;
}

int reshape_base(const std::vector<Value>& values, int id) {
  while (values[static_cast<std::size_t>(id)].kind == ValueKind::Reshape) {
    id = values[static_cast<std::size_t>(id)].in[0];
  }
  return id;
}

Grouper::Grouper(const std::vector<Value>& values, const std::vector<int>& outputs,
                 const std::vector<bool>& must_store, bool wide_device)
    : values_(values), outputs_(outputs), must_store_(must_store), wide_device_(wide_device) {}

Grouping Grouper::run() {
  grouping_.needed.assign(values_.size(), false);
  grouping_.stored.assign(values_.size(), false);
  mark_needed();
  mark_stored();
  mark_finished();
  mark_points();
  limit_size();
  // Each round stores more values that groups would compute for themselves; bounded, since planning
  // time is too.
  constexpr int kMaxRounds = 16;
  std::vector<bool> stored = grouping_.stored;
  const std::vector<bool> asked = stored;
  for (int round = 0; round < kMaxRounds; ++round) {
    grouping_.stored = stored;
    Fusion fusion(values_, grouping_, wide_device_);
    fusion.run();
    needs_ = std::move(fusion.needs);
    loads_ = std::move(fusion.loads);
    if (round + 1 == kMaxRounds || !store_more(stored)) break;
  }
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
  // Attention and products write all of their results.
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const Value& v = values_[i];
    if (v.kind == ValueKind::StepResult && at(v.in[0]).kind != ValueKind::Sort)
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
    // A binary search is done once, not by everybody who needs its result.
    if (values_[i].is_step() || values_[i].kind == ValueKind::Search) stored[i] = true;
    if (must_store_[i] || values_[i].stored) store(static_cast<int>(i));
  }
  for (const int id : outputs_) store(id);
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (!grouping_.needed[i]) continue;
    const Value& v = values_[i];
    if (v.kind == ValueKind::Gather || v.kind == ValueKind::Search || v.kind == ValueKind::Sort)
      store(v.in[0]);
    if (v.kind == ValueKind::Conv) {
      for (const int in : v.in) {
        if (in >= 0) store(in);
      }
    }
    if (v.kind == ValueKind::Attention) {
      for (const int in : v.in) {
        if (in >= 0 && strided_view(values_, stored, in).base < 0) store(in);
      }
    }
    if (v.kind == ValueKind::Matmul) {
      for (const std::size_t more : {2, 3}) {
        if (v.in[more] >= 0) store(v.in[more]);
      }
      for (int side = 0; side < 2; ++side) {
        if (matrix_view(values_, stored, v.in[static_cast<std::size_t>(side)]).base < 0) {
          store(v.in[static_cast<std::size_t>(side)]);
        }
      }
    }
  }
}

namespace {
// Operations that take many instructions.
bool is_costly(const Value& v) {
  using kernel::ScalarOp;
  return v.kind == ValueKind::Scalar && is_floating(v.dtype) &&
         ((v.op >= ScalarOp::exp && v.op <= ScalarOp::erf) || v.op == ScalarOp::div ||
          v.op == ScalarOp::fmod || v.op == ScalarOp::pow || v.op == ScalarOp::atan2);
}
}  // namespace

// Whether the value is computed from a reduction of as many results over far fewer elements than
// those that read it: by a kernel that comes before theirs in any case.
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

// What every element of a large value would compute from a small one by a costly operation, a mean
// from a sum, is finished where the sum is.
void Grouper::mark_finished() {
  constexpr std::int64_t kRepeats = 32;
  // Per value: the elements that read it, through operations that cost next to nothing, if they are
  // many times its own.
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
      if (size <= 1) continue;  // a single number is computed once by each thread
      if (v.kind == ValueKind::Expand && v.shape.numel() / size >= kRepeats)
        readers[operand] = std::max(readers[operand], v.shape.numel());
      if (is_cheap(v) && !grouping_.stored[i])
        readers[operand] = std::max(readers[operand], readers[i]);
    }
  }
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (!grouping_.needed[i] || readers[i] == 0 || !is_costly(values_[i])) continue;
    if (grouping_.stored[i] || !finishes_reduction(static_cast<int>(i), readers[i])) continue;
    // With the little that follows it.
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
      if (grouping_.stored[operand] || at(in).is_over_rows()) continue;
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
  return v.kind == ValueKind::Leaf || ((stored[i] || v.is_over_rows()) && !is_free(v) && !point[i]);
}

// Scalar operations and gathers that are not roots, with the groups that compute them.
std::map<int, std::vector<int>> Grouper::computed_in_place() const {
  std::map<int, std::vector<int>> users;
  std::vector<int> stack;
  std::vector<int> seen(values_.size(), -1);
  for (std::size_t g = 0; g < grouping_.groups.size(); ++g) {
    const int group = static_cast<int>(g);
    const auto push_operands = [&](int id) {
      for (const int in : at(id).in) {
        if (in >= 0) stack.push_back(in);
      }
    };
    for (const int root : grouping_.groups[g].roots) push_operands(root);
    while (!stack.empty()) {
      const int id = stack.back();
      stack.pop_back();
      int& visited = seen[static_cast<std::size_t>(id)];
      if (visited == group || grouping_.in_memory(values_, id) || is_free(at(id))) continue;
      visited = group;
      const bool sharable = at(id).kind == ValueKind::Scalar || at(id).kind == ValueKind::Gather;
      if (sharable && !grouping_.point[static_cast<std::size_t>(id)]) users[id].push_back(group);
      push_operands(id);
    }
  }
  return users;
}

// Values in memory that computing `from` reads, without what only `skipped` needs; the roots of
// `group` are not looked at.
std::vector<int> Grouper::sources_of(const std::vector<int>& from, int skipped, int group) const {
  std::vector<int> sources, stack = from;
  std::set<int> seen;
  while (!stack.empty()) {
    const int id = stack.back();
    stack.pop_back();
    for (const int in : at(id).in) {
      if (in < 0 || in == skipped || !seen.insert(in).second) continue;
      if (grouping_.group_of[static_cast<std::size_t>(in)] == group && group >= 0) continue;
      (grouping_.in_memory(values_, in) ? sources : stack).push_back(in);
    }
  }
  std::sort(sources.begin(), sources.end());
  return sources;
}

// A value reads no more elements of a source than it has itself (a slice, a few rows).
std::int64_t Grouper::bytes_read_of(int source, int id) const {
  return std::min(at(source).shape.numel(), at(id).shape.numel()) *
         static_cast<std::int64_t>(size_of(at(source).dtype));
}

// What the group reads from memory to compute the value in place and for nothing else.
std::int64_t Grouper::bytes_read_for(int id, int group) const {
  const std::vector<int>& roots = grouping_.groups[static_cast<std::size_t>(group)].roots;
  const std::vector<int> all = sources_of(roots, -1, group), rest = sources_of(roots, id, group);
  std::int64_t bytes = 0;
  for (const int source : all) {
    if (!std::binary_search(rest.begin(), rest.end(), source)) bytes += bytes_read_of(source, id);
  }
  return bytes;
}

// A group that computes an operand of the value and could store the value itself; -1 if none.
int Grouper::producer_of(int id, const std::vector<int>& users,
                         const std::vector<int>& sources) const {
  for (const int source : sources) {
    const int group = grouping_.group_of[static_cast<std::size_t>(source)];
    if (group < 0 || at(source).is_step()) continue;
    if (std::find(users.begin(), users.end(), group) != users.end()) continue;
    const auto& needs = needs_[static_cast<std::size_t>(group)];
    const bool early = std::all_of(sources.begin(), sources.end(), [&](int other) {
      const int from = grouping_.group_of[static_cast<std::size_t>(other)];
      return from < 0 || from == group ||
             std::find(needs.begin(), needs.end(), from) != needs.end();
    });
    if (early && fits(values_, grouping_, id, group)) return group;
  }
  return -1;
}

// Marks values that are better stored than computed where they are used: those that save most
// first, and of each group one at a time, since storing one changes what the others cost.
bool Grouper::store_more(std::vector<bool>& stored) const {
  struct Candidate {
    std::int64_t saved;
    int id;
    std::vector<int> groups;
  };
  std::vector<Candidate> candidates;
  for (auto& [id, users] : computed_in_place()) {
    const std::vector<int> sources = sources_of({id}, -1, -1);
    Sharing sharing{.value_bytes = bytes_of(at(id))};
    // Reductions that are in memory only for the sake of the users.
    std::vector<int> spared;
    for (const int source : sources) {
      if (at(source).kind == ValueKind::Reduce && !stored[static_cast<std::size_t>(source)])
        spared.push_back(source);
    }
    if (users.size() < 2 && spared.empty()) continue;
    for (const int group : users) sharing.operand_bytes.push_back(bytes_read_for(id, group));
    std::vector<int> groups = users;
    if (const int producer = producer_of(id, users, sources); producer >= 0) {
      const auto& loads = loads_[static_cast<std::size_t>(producer)];
      sharing.producer_bytes = 0;
      for (const int source : sources) {
        const bool own = grouping_.group_of[static_cast<std::size_t>(source)] == producer;
        if (!own && std::find(loads.begin(), loads.end(), source) == loads.end())
          sharing.producer_bytes += bytes_read_of(source, id);
      }
      for (const int source : spared) {
        if (grouping_.group_of[static_cast<std::size_t>(source)] != producer) continue;
        const bool only_for_it = std::all_of(loads_.begin(), loads_.end(), [&](const auto& reads) {
          const int group = static_cast<int>(&reads - loads_.data());
          if (std::find(reads.begin(), reads.end(), source) == reads.end()) return true;
          const std::vector<int>& roots = grouping_.groups[static_cast<std::size_t>(group)].roots;
          const std::vector<int> rest = sources_of(roots, id, group);
          return !std::binary_search(rest.begin(), rest.end(), source);
        });
        if (only_for_it) sharing.spared_bytes += bytes_of(at(source));
      }
      groups.push_back(producer);
    } else if (users.size() < 2) {
      continue;
    }
    const std::int64_t saved = storing_saves(sharing);
    if (saved > 0) candidates.push_back({saved, id, std::move(groups)});
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.saved > b.saved; });
  std::set<int> touched;
  for (const Candidate& candidate : candidates) {
    const bool free = std::none_of(candidate.groups.begin(), candidate.groups.end(),
                                   [&](int group) { return touched.count(group) != 0; });
    if (!free) continue;
    touched.insert(candidate.groups.begin(), candidate.groups.end());
    stored[static_cast<std::size_t>(candidate.id)] = true;
  }
  return !candidates.empty();
}

// A one-element result that nobody else reads (a step count) is stored by a kernel that reads the
// same operands anyway.
void Grouper::merge_points() {
  auto& groups = grouping_.groups;
  std::vector<bool> gone(groups.size(), false);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const bool scalars = std::all_of(groups[g].roots.begin(), groups[g].roots.end(),
                                     [&](int root) { return at(root).shape.rank() == 0; });
    if (!groups[g].space.dims.empty() || !scalars || !needs_[g].empty() || loads_[g].empty())
      continue;
    const bool read = std::any_of(needs_.begin(), needs_.end(), [&](const auto& needs) {
      return std::find(needs.begin(), needs.end(), static_cast<int>(g)) != needs.end();
    });
    if (read) continue;
    for (std::size_t h = 0; h < groups.size(); ++h) {
      const auto& dims = groups[h].space.dims;
      const bool empty = std::count(dims.begin(), dims.end(), 0) > 0;
      if (h == g || gone[h] || empty || groups[h].is_call || loads_[h].size() <= loads_[g].size()) {
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
      if (next < needs_[number].size()) {
        const int needed = needs_[number][next++];
        // Values would be read before they are written: an error is better than that.
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
