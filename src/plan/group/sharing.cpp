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

// One list of numbers per index, all in one array (CSR).
class Lists {
 public:
  // `pairs` are (index, number); the numbers of an index keep their order.
  Lists(std::size_t count, const std::vector<std::pair<int, int>>& pairs) : first_(count + 1, 0) {
    for (const auto& [index, number] : pairs) ++first_[static_cast<std::size_t>(index) + 1];
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    numbers_.resize(pairs.size());
    std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
    for (const auto& [index, number] : pairs)
      numbers_[next[static_cast<std::size_t>(index)]++] = number;
  }
  std::span<const int> operator[](int index) const {
    const auto i = static_cast<std::size_t>(index);
    return {numbers_.data() + first_[i], first_[i + 1] - first_[i]};
  }

 private:
  std::vector<std::size_t> first_;
  std::vector<int> numbers_;
};

// The dominator tree of the values that a kernel computes in place or reads. A kernel needs a value
// only for another one if every path from its roots to the value leads through the other one. The
// tree is stored as intervals of a preorder walk.
struct Sakes {
  std::vector<int> ids;  // descending, so that users of a value come before it
  std::vector<int> enter, leave;

  bool contains(int id) const { return find(id).has_value(); }

  // Whether the kernel reads `source` only for `id`; nothing if it does not read `source` at all.
  std::optional<bool> is_only_for(int source, int id) const {
    const std::optional<std::size_t> s = find(source), i = find(id);
    if (!s) return std::nullopt;
    return i && is_below(*s, *i);
  }

  // Whether the value at place s is needed only for the one at place i.
  bool is_below(std::size_t s, std::size_t i) const {
    return enter[i] <= enter[s] && enter[s] < leave[i];
  }
  std::optional<std::size_t> find(int id) const {
    const auto place = std::lower_bound(ids.begin(), ids.end(), id, std::greater<>());
    if (place == ids.end() || *place != id) return std::nullopt;
    return static_cast<std::size_t>(place - ids.begin());
  }
};

class Finder {
 public:
  Finder(const std::vector<Value>& values, const Grouping& grouping,
         const std::vector<std::vector<int>>& needs, const std::vector<std::vector<int>>& loads,
         const std::vector<bool>& stored)
      : values_(values),
        grouping_(grouping),
        needs_(needs),
        loads_(loads),
        stored_(stored),
        walker_(values, grouping),
        seen_(values.size(), 0),
        place_(values.size(), 0),
        in_memory_(memory_of_kernels()),
        sakes_(grouping.groups.size()),
        users_(values.size(), computed_in_place()),
        loaders_(values.size(), all_loads()) {}

  struct Candidate {
    std::int64_t saved;
    int id;
    std::vector<int> groups;
  };
  // Returns candidates in order of value number.
  std::vector<Candidate> run() {
    sums_ = reads_sums();
    std::vector<Candidate> candidates;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const int id = static_cast<int>(i);
      const std::span<const int> users = users_[id];
      if (users.empty() || (users.size() < 2 && !sums_[i])) continue;
      if (auto candidate = valued(id, users)) candidates.push_back(std::move(*candidate));
    }
    return candidates;
  }

  // Evaluates a candidate again after other values were chosen. Groups that computed the value only
  // for a chosen one no longer use it.
  std::optional<Candidate> again(int id) {
    std::vector<int> users;
    for (const int group : users_[id]) {
      if (sakes_of(group).contains(id)) users.push_back(group);
    }
    if (users.empty() || (users.size() < 2 && !sums_[static_cast<std::size_t>(id)]))
      return std::nullopt;
    return valued(id, users);
  }

  // From now on the groups of the candidate read its value from memory.
  void choose(const Candidate& candidate) {
    in_memory_[static_cast<std::size_t>(candidate.id)] = true;
    for (const int group : candidate.groups) sakes_[static_cast<std::size_t>(group)] = {};
  }

 private:
  const Value& at(int id) const { return values_[static_cast<std::size_t>(id)]; }
  int group_of(int id) const { return grouping_.group_of[static_cast<std::size_t>(id)]; }
  bool in_memory(int id) const { return in_memory_[static_cast<std::size_t>(id)] != 0; }
  // Whether the value is a reduction that lies in memory only because other kernels read it.
  bool is_spared(int id) const {
    return at(id).kind == ValueKind::Reduce && !stored_[static_cast<std::size_t>(id)];
  }

  // Starts a new search; see() returns true for the first visit of a value with its mark.
  int fresh_mark() { return ++mark_; }
  bool see(int id, int mark) {
    ++visits_.shared;
    int& seen = seen_[static_cast<std::size_t>(id)];
    return std::exchange(seen, mark) != mark;
  }

  std::vector<std::uint8_t> memory_of_kernels() const {
    std::vector<std::uint8_t> in_memory(values_.size());
    for (std::size_t i = 0; i < values_.size(); ++i)
      in_memory[i] = grouping_.in_memory(values_, static_cast<int>(i));
    return in_memory;
  }

  // Pairs of (value, group) for all scalar operations and gathers that a group computes in place.
  std::vector<std::pair<int, int>> computed_in_place() {
    std::vector<std::pair<int, int>> users;
    std::vector<int> stack;
    for (std::size_t g = 0; g < grouping_.groups.size(); ++g) {
      const int group = static_cast<int>(g), mark = fresh_mark();
      const auto push_operands = [&](int id) {
        for (const int in : at(id).in) {
          if (in >= 0) stack.push_back(in);
        }
      };
      for (const int root : grouping_.groups[g].roots) push_operands(root);
      while (!stack.empty()) {
        const int id = stack.back();
        stack.pop_back();
        if (!see(id, mark) || in_memory(id) || is_free(at(id))) continue;
        const bool sharable = at(id).kind == ValueKind::Scalar || at(id).kind == ValueKind::Gather;
        if (sharable && !grouping_.point[static_cast<std::size_t>(id)])
          users.push_back({id, group});
        push_operands(id);
      }
    }
    return users;
  }

  std::vector<std::pair<int, int>> all_loads() const {
    std::vector<std::pair<int, int>> pairs;
    for (std::size_t g = 0; g < loads_.size(); ++g) {
      for (const int value : loads_[g]) pairs.push_back({value, static_cast<int>(g)});
    }
    return pairs;
  }

  // For each value, whether computing it reads a reduction that is in memory only for its readers.
  std::vector<bool> reads_sums() const {
    std::vector<bool> sums(values_.size(), false);
    for (std::size_t i = 0; i < values_.size(); ++i) {
      for (const int in : values_[i].in) {
        if (in < 0) continue;
        if (in_memory(in) ? is_spared(in) : sums[static_cast<std::size_t>(in)]) sums[i] = true;
      }
    }
    return sums;
  }

  // The values in memory that computing `id` reads.
  std::vector<int> sources_of(int id) {
    std::vector<int> sources, stack{id};
    const int mark = fresh_mark();
    while (!stack.empty()) {
      const int next = stack.back();
      stack.pop_back();
      for (const int in : at(next).in) {
        if (in >= 0 && see(in, mark)) (in_memory(in) ? sources : stack).push_back(in);
      }
    }
    std::sort(sources.begin(), sources.end());
    return sources;
  }

  const Sakes& sakes_of(int group) {
    Sakes& sakes = sakes_[static_cast<std::size_t>(group)];
    if (sakes.ids.empty()) build(sakes, group);
    return sakes;
  }

  void build(Sakes& sakes, int group) {
    const std::vector<int>& roots = grouping_.groups[static_cast<std::size_t>(group)].roots;
    const auto is_own = [&](int id) { return group_of(id) == group; };
    const auto expands = [&](int id) { return is_own(id) || !in_memory(id); };
    std::vector<int>& ids = sakes.ids;
    const int mark = fresh_mark();
    ids = roots;
    for (const int root : roots) see(root, mark);
    for (std::size_t next = 0; next < ids.size(); ++next) {
      if (!expands(ids[next])) continue;
      for (const int in : at(ids[next]).in) {
        if (in >= 0 && !is_own(in) && see(in, mark)) ids.push_back(in);
      }
    }
    std::sort(ids.begin(), ids.end(), std::greater<>());
    const std::size_t count = ids.size();
    for (std::size_t i = 0; i < count; ++i)
      place_[static_cast<std::size_t>(ids[i])] = static_cast<int>(i);
    // Users of a value come before it, so its dominator is known when it is reached.
    std::vector<int> above(count, -2), depth(count, 0);
    const auto meet = [&](int a, int b) {
      while (a != b) {
        ++visits_.shared;
        const int depth_a = a < 0 ? -1 : depth[static_cast<std::size_t>(a)];
        const int depth_b = b < 0 ? -1 : depth[static_cast<std::size_t>(b)];
        int& deeper = depth_a >= depth_b ? a : b;
        deeper = above[static_cast<std::size_t>(deeper)];
      }
      return a;
    };
    for (std::size_t i = 0; i < count; ++i) {
      if (is_own(ids[i])) above[i] = -1;
      depth[i] = above[i] < 0 ? 0 : depth[static_cast<std::size_t>(above[i])] + 1;
      if (!expands(ids[i])) continue;
      for (const int in : at(ids[i]).in) {
        if (in < 0 || is_own(in)) continue;
        int& to = above[static_cast<std::size_t>(place_[static_cast<std::size_t>(in)])];
        to = to == -2 ? static_cast<int>(i) : meet(to, static_cast<int>(i));
      }
    }
    std::vector<int> size(count, 1), next(count, 0);
    for (std::size_t i = count; i-- > 0;) {
      if (above[i] >= 0) size[static_cast<std::size_t>(above[i])] += size[i];
    }
    sakes.enter.resize(count);
    sakes.leave.resize(count);
    int first = 0;
    for (std::size_t i = 0; i < count; ++i) {
      int& begin = above[i] >= 0 ? next[static_cast<std::size_t>(above[i])] : first;
      sakes.enter[i] = begin;
      begin += size[i];
      sakes.leave[i] = begin;
      next[i] = sakes.enter[i] + 1;
    }
  }

  // Computing a value reads no more elements of a source than it has itself, as with a slice or a
  // few rows.
  std::int64_t bytes_read_of(int source, int id) const {
    return std::min(at(source).shape.numel(), at(id).shape.numel()) *
           static_cast<std::int64_t>(size_of(at(source).dtype));
  }

  // The bytes that the group reads from memory only to compute the value in place.
  std::int64_t bytes_read_for(int id, int group, const std::vector<int>& sources) {
    const Sakes& sakes = sakes_of(group);
    const std::optional<std::size_t> at_id = sakes.find(id);
    if (!at_id) return 0;
    visits_.shared += sources.size();
    std::int64_t bytes = 0;
    for (const int source : sources) {
      const std::optional<std::size_t> s = sakes.find(source);
      if (s && sakes.is_below(*s, *at_id)) bytes += bytes_read_of(source, id);
    }
    return bytes;
  }

  // A group that computes an operand of the value and could store the value too; -1 if there is
  // none.
  int producer_of(int id, std::span<const int> users, const std::vector<int>& sources) {
    for (const int source : sources) {
      const int group = group_of(source);
      if (group < 0 || at(source).is_step()) continue;
      if (std::find(users.begin(), users.end(), group) != users.end()) continue;
      const auto& needs = needs_[static_cast<std::size_t>(group)];
      const bool early = std::all_of(sources.begin(), sources.end(), [&](int other) {
        const int from = group_of(other);
        return from < 0 || from == group ||
               std::find(needs.begin(), needs.end(), from) != needs.end();
      });
      if (early && walker_.fits(id, group)) return group;
    }
    return -1;
  }

  // Whether all reads of the source serve only to compute the value.
  bool is_read_only_for(int source, int id) {
    const std::span<const int> groups = loaders_[source];
    return std::all_of(groups.begin(), groups.end(), [&](int group) {
      ++visits_.shared;
      return sakes_of(group).is_only_for(source, id).value_or(true);
    });
  }

  std::optional<Candidate> valued(int id, std::span<const int> users) {
    const std::vector<int> sources = sources_of(id);
    Sharing sharing{.value_bytes = bytes_of(at(id))};
    // The most bytes that one kernel saves if the value is stored: reading its sources, and storing
    // temporary ones.
    std::int64_t most = 0;
    for (const int source : sources)
      most += bytes_read_of(source, id) + (is_spared(source) ? bytes_of(at(source)) : 0);
    if (most <= sharing.value_bytes) return std::nullopt;  // storing cannot pay off
    for (const int group : users)
      sharing.operand_bytes.push_back(bytes_read_for(id, group, sources));
    std::vector<int> groups(users.begin(), users.end());
    if (const int producer = producer_of(id, users, sources); producer >= 0) {
      const auto& loads = loads_[static_cast<std::size_t>(producer)];
      sharing.producer_bytes = 0;
      for (const int source : sources) {
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

  const std::vector<Value>& values_;
  const Grouping& grouping_;
  const std::vector<std::vector<int>>&needs_, &loads_;
  const std::vector<bool>& stored_;
  Walker walker_;
  Visits& visits_ = visits();
  int mark_ = 0;
  std::vector<int> seen_;   // for each value, the mark of the last visit
  std::vector<int> place_;  // for each value, its position in the ids being built
  // For each value, whether kernels read it from memory: it was there or has been chosen.
  std::vector<std::uint8_t> in_memory_;
  std::vector<bool> sums_;  // for each value, whether computing it reads such sums (reads_sums)
  std::vector<Sakes> sakes_;
  Lists users_;    // for each value, the groups that compute it in place
  Lists loaders_;  // for each value, the groups that read it from memory
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
bool Grouper::store_more(std::vector<bool>& stored) const {
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
  std::vector<int> changed(grouping_.groups.size(), 0);
  int chosen = 0;
  const std::int64_t most = queue.empty() ? 0 : queue.front().candidate.saved;
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), is_later);
    const Entry entry = std::move(queue.back());
    queue.pop_back();
    const Finder::Candidate& candidate = entry.candidate;
    const bool is_stale = std::any_of(candidate.groups.begin(), candidate.groups.end(), [&](int g) {
      return changed[static_cast<std::size_t>(g)] > entry.evaluated;
    });
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
    for (const int g : candidate.groups) changed[static_cast<std::size_t>(g)] = chosen;
    stored[static_cast<std::size_t>(candidate.id)] = true;
  }
  return chosen > 0;
}

}  // namespace volta::plan
