// Decides whether values that several kernels need are stored or recomputed in each of them.
#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "plan/group/fusion.h"
#include "plan/group/grouping.h"
#include "plan/lower/visits.h"

namespace volta::plan {
namespace {

std::int64_t bytes_of(const Value& v) {
  return v.shape.numel() * static_cast<std::int64_t>(size_of(v.dtype));
}

bool is_free(const Value& v) {
  return v.kind == ValueKind::Const || v.kind == ValueKind::Arg || v.kind == ValueKind::Size ||
         v.kind == ValueKind::Iota;
}

// The dominator tree of the values that a kernel computes in place or reads. A kernel needs a value
// only for another one if every path from its roots to the value leads through the other one. The
// tree is stored as intervals of a preorder walk.
struct Dominators {
  struct Node {
    ValueId value;
    int enter = 0, leave = 0;
  };
  using NodeId = Id<Node>;
  Table<NodeId, Node> nodes;  // by descending values, so that users of a value come before it

  bool contains(ValueId id) const { return find(id) != nullptr; }

  // Whether the kernel reads `source` only for `id`; nothing if it does not read `source` at all.
  std::optional<bool> is_only_for(ValueId source, ValueId id) const {
    const Node *s = find(source), *i = find(id);
    if (s == nullptr) return std::nullopt;
    return i != nullptr && is_below(*s, *i);
  }

  // Whether the first value is needed only for the second one.
  static bool is_below(const Node& s, const Node& i) {
    return i.enter <= s.enter && s.enter < i.leave;
  }
  const Node* find(ValueId id) const {
    const auto place =
        std::lower_bound(nodes.begin(), nodes.end(), id,
                         [](const Node& n, ValueId wanted) { return n.value > wanted; });
    return place == nodes.end() || place->value != id ? nullptr : &*place;
  }
};

class Finder {
 public:
  Finder(const Values& values, const Grouping& grouping,
         const Table<GroupId, std::vector<GroupId>>& needs,
         const Table<GroupId, std::vector<int>>& loads, const PerValue<bool>& stored)
      : values_(values),
        grouping_(grouping),
        needs_(needs),
        loads_(loads),
        stored_(stored),
        walker_(values, grouping),
        seen_(values, 0),
        place_(values),
        in_memory_(memory_of_kernels()),
        dominators_(grouping.groups),
        users_(values.size(), computed_in_place()),
        loaders_(values.size(), all_loads()) {}

  struct Candidate {
    std::int64_t saved;
    ValueId id;
    std::vector<GroupId> groups;
  };
  // Returns candidates in order of value number.
  std::vector<Candidate> run() {
    sums_ = reads_sums();
    std::vector<Candidate> candidates;
    for (const ValueId id : values_.ids()) {
      const std::span<const GroupId> users = users_[id];
      if (users.empty() || (users.size() < 2 && !sums_[id])) continue;
      if (auto candidate = valued(id, users)) candidates.push_back(std::move(*candidate));
    }
    return candidates;
  }

  // Evaluates a candidate again after other values were chosen. Groups that computed the value only
  // for a chosen one no longer use it.
  std::optional<Candidate> again(ValueId id) {
    std::vector<GroupId> users;
    for (const GroupId group : users_[id]) {
      if (dominators_of(group).contains(id)) users.push_back(group);
    }
    if (users.empty() || (users.size() < 2 && !sums_[id])) return std::nullopt;
    return valued(id, users);
  }

  // From now on the groups of the candidate read its value from memory.
  void choose(const Candidate& candidate) {
    in_memory_[candidate.id] = true;
    for (const GroupId group : candidate.groups) dominators_[group] = {};
  }

 private:
  const Value& at(ValueId id) const { return values_[id]; }
  GroupId group_of(ValueId id) const { return grouping_.group_of[id]; }
  bool in_memory(ValueId id) const { return in_memory_[id] != 0; }
  // Whether the value is a reduction that lies in memory only because other kernels read it.
  bool is_spared(ValueId id) const { return at(id).kind == ValueKind::Reduce && !stored_[id]; }

  // Whether the kernel of the group computes the value from its operands.
  bool is_expanded(ValueId id, GroupId group) const {
    return group_of(id) == group || !in_memory(id);
  }

  // Starts a new search; see() returns true for the first visit of a value with its mark.
  int fresh_mark() { return ++mark_; }
  bool see(ValueId id, int mark) {
    ++visits_.shared;
    int& seen = seen_[id];
    return std::exchange(seen, mark) != mark;
  }

  PerValue<std::uint8_t> memory_of_kernels() const {
    PerValue<std::uint8_t> in_memory(values_);
    for (const ValueId id : values_.ids()) in_memory[id] = grouping_.in_memory(values_, id);
    return in_memory;
  }

  // Pairs of (value, group) for all scalar operations and gathers that a group computes in place.
  std::vector<std::pair<ValueId, GroupId>> computed_in_place() {
    std::vector<std::pair<ValueId, GroupId>> users;
    std::vector<ValueId> stack;
    for (const GroupId group : grouping_.groups.ids()) {
      const int mark = fresh_mark();
      const auto push_operands = [&](ValueId id) {
        for (const ValueId in : at(id).in) {
          if (!in.is_none()) stack.push_back(in);
        }
      };
      for (const ValueId root : grouping_.groups[group].roots) push_operands(root);
      while (!stack.empty()) {
        const ValueId id = stack.back();
        stack.pop_back();
        if (!see(id, mark) || in_memory(id) || is_free(at(id))) continue;
        const bool sharable = at(id).kind == ValueKind::Scalar || at(id).kind == ValueKind::Gather;
        if (sharable && !grouping_.point[id]) users.push_back({id, group});
        push_operands(id);
      }
    }
    return users;
  }

  std::vector<std::pair<ValueId, GroupId>> all_loads() const {
    std::vector<std::pair<ValueId, GroupId>> pairs;
    for (const GroupId g : loads_.ids()) {
      for (const ValueId value : loads_[g]) pairs.push_back({value, g});
    }
    return pairs;
  }

  // For each value, whether computing it reads a reduction that is in memory only for its readers.
  PerValue<bool> reads_sums() const {
    PerValue<bool> sums(values_, false);
    for (const ValueId id : values_.ids()) {
      for (const ValueId in : values_[id].in) {
        if (in.is_none()) continue;
        if (in_memory(in) ? is_spared(in) : sums[in]) sums[id] = true;
      }
    }
    return sums;
  }

  // The values in memory that computing `id` reads.
  std::vector<ValueId> sources_of(ValueId id) {
    std::vector<ValueId> sources, stack{id};
    const int mark = fresh_mark();
    while (!stack.empty()) {
      const ValueId next = stack.back();
      stack.pop_back();
      for (const ValueId in : at(next).in) {
        if (!in.is_none() && see(in, mark)) (in_memory(in) ? sources : stack).push_back(in);
      }
    }
    std::sort(sources.begin(), sources.end());
    return sources;
  }

  const Dominators& dominators_of(GroupId group) {
    Dominators& tree = dominators_[group];
    if (tree.nodes.empty()) build(tree, group);
    return tree;
  }

  // The values that the group computes in place or reads, users of a value before it.
  std::vector<ValueId> values_of(GroupId group) {
    const std::vector<int>& roots = grouping_.groups[group].roots;
    std::vector<ValueId> ids(roots.begin(), roots.end());
    const int mark = fresh_mark();
    for (const ValueId root : ids) see(root, mark);
    for (std::size_t next = 0; next < ids.size(); ++next) {
      if (!is_expanded(ids[next], group)) continue;
      for (const ValueId in : at(ids[next]).in) {
        if (!in.is_none() && group_of(in) != group && see(in, mark)) ids.push_back(in);
      }
    }
    std::sort(ids.begin(), ids.end(), std::greater<>());
    return ids;
  }

  void build(Dominators& tree, GroupId group) {
    using NodeId = Dominators::NodeId;
    auto& nodes = tree.nodes;
    for (const ValueId id : values_of(group)) place_[id] = nodes.add({id});
    // Users of a value come before it, so its dominator is known when it is reached.
    constexpr NodeId kNotReached = -2;
    Table<NodeId, NodeId> above(nodes, kNotReached);
    Table<NodeId, int> depth(nodes, 0);
    const auto meet = [&](NodeId a, NodeId b) {
      while (a != b) {
        ++visits_.shared;
        const int depth_a = a.is_none() ? -1 : depth[a];
        const int depth_b = b.is_none() ? -1 : depth[b];
        NodeId& deeper = depth_a >= depth_b ? a : b;
        deeper = above[deeper];
      }
      return a;
    };
    for (const NodeId i : nodes.ids()) {
      const ValueId id = nodes[i].value;
      if (group_of(id) == group) above[i] = NodeId::none;
      depth[i] = above[i].is_none() ? 0 : depth[above[i]] + 1;
      if (!is_expanded(id, group)) continue;
      for (const ValueId in : at(id).in) {
        if (in.is_none() || group_of(in) == group) continue;
        NodeId& to = above[place_[in]];
        to = to == kNotReached ? i : meet(to, i);
      }
    }
    number(tree, above);
  }

  // Numbers the nodes in preorder, given the dominator of each.
  static void number(Dominators& tree, const Table<Dominators::NodeId, Dominators::NodeId>& above) {
    using NodeId = Dominators::NodeId;
    auto& nodes = tree.nodes;
    Table<NodeId, int> size(nodes, 1), next(nodes, 0);
    for (const NodeId i : nodes.ids().backwards()) {
      if (!above[i].is_none()) size[above[i]] += size[i];
    }
    int first = 0;
    for (const NodeId i : nodes.ids()) {
      int& begin = above[i].is_none() ? first : next[above[i]];
      nodes[i].enter = begin;
      begin += size[i];
      nodes[i].leave = begin;
      next[i] = nodes[i].enter + 1;
    }
  }

  // Computing a value reads no more elements of a source than it has itself, as with a slice or a
  // few rows.
  std::int64_t bytes_read_of(ValueId source, ValueId id) const {
    return std::min(at(source).shape.numel(), at(id).shape.numel()) *
           static_cast<std::int64_t>(size_of(at(source).dtype));
  }

  // The bytes that the group reads from memory only to compute the value in place.
  std::int64_t bytes_read_for(ValueId id, GroupId group, const std::vector<ValueId>& sources) {
    const Dominators& tree = dominators_of(group);
    const Dominators::Node* node = tree.find(id);
    if (node == nullptr) return 0;
    visits_.shared += sources.size();
    std::int64_t bytes = 0;
    for (const ValueId source : sources) {
      const Dominators::Node* s = tree.find(source);
      if (s != nullptr && Dominators::is_below(*s, *node)) bytes += bytes_read_of(source, id);
    }
    return bytes;
  }

  // A group that computes an operand of the value and could store the value too, if there is one.
  GroupId producer_of(ValueId id, std::span<const GroupId> users,
                      const std::vector<ValueId>& sources) {
    for (const ValueId source : sources) {
      const GroupId group = group_of(source);
      if (group.is_none() || at(source).is_step()) continue;
      if (std::find(users.begin(), users.end(), group) != users.end()) continue;
      const auto& needs = needs_[group];
      const bool early = std::all_of(sources.begin(), sources.end(), [&](ValueId other) {
        const GroupId from = group_of(other);
        return from.is_none() || from == group ||
               std::find(needs.begin(), needs.end(), from) != needs.end();
      });
      if (early && walker_.fits(id, group)) return group;
    }
    return GroupId::none;
  }

  // Whether all reads of the source serve only to compute the value.
  bool is_read_only_for(ValueId source, ValueId id) {
    const std::span<const GroupId> groups = loaders_[source];
    return std::all_of(groups.begin(), groups.end(), [&](GroupId group) {
      ++visits_.shared;
      return dominators_of(group).is_only_for(source, id).value_or(true);
    });
  }

  std::optional<Candidate> valued(ValueId id, std::span<const GroupId> users) {
    const std::vector<ValueId> sources = sources_of(id);
    Sharing sharing{.value_bytes = bytes_of(at(id))};
    // The most bytes that one kernel saves if the value is stored: reading its sources, and storing
    // temporary ones.
    std::int64_t most = 0;
    for (const ValueId source : sources)
      most += bytes_read_of(source, id) + (is_spared(source) ? bytes_of(at(source)) : 0);
    if (most <= sharing.value_bytes) return std::nullopt;  // storing cannot pay off
    for (const GroupId group : users)
      sharing.operand_bytes.push_back(bytes_read_for(id, group, sources));
    std::vector<GroupId> groups(users.begin(), users.end());
    if (const GroupId producer = producer_of(id, users, sources); !producer.is_none()) {
      const auto& loads = loads_[producer];
      sharing.producer_bytes = 0;
      for (const ValueId source : sources) {
        const bool own = group_of(source) == producer;
        if (!own && std::find(loads.begin(), loads.end(), source) == loads.end())
          sharing.producer_bytes += bytes_read_of(source, id);
        if (own && is_spared(source) && is_read_only_for(source, id))
          sharing.spared_bytes += bytes_of(at(source));
      }
      groups.push_back(producer);
    } else if (users.size() < 2) {
      return std::nullopt;
    }
    const std::int64_t saved = storing_saves(sharing);
    if (saved <= 0) return std::nullopt;
    return Candidate{saved, id, std::move(groups)};
  }

  const Values& values_;
  const Grouping& grouping_;
  const Table<GroupId, std::vector<GroupId>>& needs_;
  const Table<GroupId, std::vector<int>>& loads_;
  const PerValue<bool>& stored_;
  Walker walker_;
  Visits& visits_ = visits();
  int mark_ = 0;
  PerValue<int> seen_;                  // the mark of the last visit
  PerValue<Dominators::NodeId> place_;  // its position in the tree that is being built
  // Whether kernels read the value from memory: it was there or has been chosen.
  PerValue<std::uint8_t> in_memory_;
  PerValue<bool> sums_;  // whether computing it reads such sums (reads_sums)
  Table<GroupId, Dominators> dominators_;
  Lists<ValueId, GroupId> users_;    // the groups that compute a value in place
  Lists<ValueId, GroupId> loaders_;  // the groups that read it from memory
};

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
  // The kernel that stores the value still reads its operands; it is assumed to be the one that
  // reads most. It may become a kernel of its own, whose launch costs as much as moving a few
  // kilobytes.
  constexpr std::int64_t kLaunchBytes = 4096;
  return read - largest - sharing.value_bytes * kernels - kLaunchBytes;
}

// Marks values that are better stored than recomputed, the ones that save most first. Storing one
// value changes the costs of others in the same groups, so these are evaluated again when their
// turn comes. The residuals of a deep network, each computed from all the earlier ones, are thus
// chosen in one round. Values that then save much less than the first one wait for the next round:
// the changed groups may share a kernel by then.
bool Grouper::store_more(PerValue<bool>& stored) const {
  constexpr std::int64_t kSmaller = 4;
  Finder finder(values_, grouping_, needs_, loads_, stored);
  struct Entry {
    Finder::Candidate candidate;
    int evaluated;  // the number of values that were chosen before the candidate was evaluated
  };
  std::vector<Entry> queue;
  const auto is_later = [](const Entry& a, const Entry& b) {
    if (a.candidate.saved != b.candidate.saved) return a.candidate.saved < b.candidate.saved;
    return a.candidate.id > b.candidate.id;
  };
  for (auto& candidate : finder.run()) queue.push_back({std::move(candidate), 0});
  std::make_heap(queue.begin(), queue.end(), is_later);
  Table<GroupId, int> changed(grouping_.groups, 0);
  int chosen = 0;
  const std::int64_t most = queue.empty() ? 0 : queue.front().candidate.saved;
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), is_later);
    const Entry entry = std::move(queue.back());
    queue.pop_back();
    const Finder::Candidate& candidate = entry.candidate;
    const bool is_stale = std::any_of(candidate.groups.begin(), candidate.groups.end(),
                                      [&](GroupId g) { return changed[g] > entry.evaluated; });
    if (is_stale) {
      auto again = finder.again(candidate.id);
      if (again && again->saved >= most / kSmaller) {
        queue.push_back({std::move(*again), chosen});
        std::push_heap(queue.begin(), queue.end(), is_later);
      }
      continue;
    }
    finder.choose(candidate);
    ++chosen;
    for (const GroupId g : candidate.groups) changed[g] = chosen;
    stored[candidate.id] = true;
  }
  return chosen > 0;
}

}  // namespace volta::plan
