// Joins roots into groups.
#include "plan/group/fusion.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "plan/lower/visits.h"

namespace volta::plan {
namespace {

// Adds the elements of another sorted list.
template <class T>
void merge_sorted(std::vector<T>& list, const std::vector<T>& other) {
  const auto middle = static_cast<std::ptrdiff_t>(list.size());
  list.insert(list.end(), other.begin(), other.end());
  std::inplace_merge(list.begin(), list.begin() + middle, list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

template <class T>
void sort_unique(std::vector<T>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

SpaceSizes sizes_of(const Space& space) {
  SpaceSizes sizes;
  for (std::size_t d = 0; d < space.dims.size(); ++d) {
    const std::int64_t extent = space.dims[d];
    sizes.all *= extent;
    if (space.reduced[d]) {
      sizes.reduces = true;
    } else {
      sizes.kept *= extent;
    }
  }
  return sizes;
}

}  // namespace

bool agree(const Rows& a, const Rows& b) {
  const bool scans = a.scans || b.scans, back = a.scans_back || b.scans_back;
  const bool reduces = a.reduces || b.reduces;
  if (back && (scans || reduces)) return false;
  if (a.bound < 0 && b.bound < 0) return true;
  return !scans && !back && a.bound == b.bound;
}

Fusion::Fusion(const Values& values, Grouping& grouping, bool massively_parallel,
               PerValue<Walked>& walked)
    : values_(values),
      grouping_(grouping),
      massively_parallel_(massively_parallel),
      walked_(walked),
      walker_(values, grouping) {}

void Fusion::run() {
  start();
  while (!pairs_.empty()) {
    const Pair pair = pairs_.top();
    pairs_.pop();
    if (part(pair.a).version != pair.version_a) continue;
    if (pair.b == Pair::kDeferred) {
      propose_deferred(pair.a);
      continue;
    }
    if (part(pair.b).version != pair.version_b) continue;
    if (auto space = joined(pair.a, pair.b)) join(pair.a, pair.b, std::move(*space));
  }
  finish();
}

// Makes one part per root and queues the pairs that are worth joining.
void Fusion::start() {
  ranked_at_ = visits_.searched;
  part_of_.assign(values_.size(), PartId::none);
  for (const ValueId id : values_.ids()) {
    const bool root = grouping_.stored[id] || at(id).is_over_rows();
    if (!grouping_.needed[id] || at(id).kind == ValueKind::Leaf || !root) continue;
    if (at(id).kind == ValueKind::StepResult) {
      // A further result of a call.
      const PartId call = part_of_[at(id).in[0]];
      part(call).roots.push_back(id);
      part(call).latest = id;
      part_of_[id] = call;
      continue;
    }
    Part fresh;
    fresh.is_call = at(id).is_step();
    fresh.roots = {id};
    fresh.members = {static_cast<int>(parts_.size())};
    fresh.first = fresh.latest = id;
    fresh.phase = at(id).phase;
    const Walked& known = walked(id);
    fresh.space = known.over.front().first;
    fresh.sizes = sizes_of(fresh.space);
    fresh.instructions = known.instructions;
    fresh.reads = known.reads;
    fresh.points = known.points;
    part_of_[id] = parts_.add(std::move(fresh));
  }
  propose_all();
}

const Walked& Fusion::walked(ValueId root) {
  Walked& known = walked_[root];
  if (!known.over.empty()) return known;
  known.instructions = 1;
  Space space = space_of_root(values_, root);
  std::vector<Access> found = walker_.walk(root, space, known.instructions);
  for (const Access& access : found) known.reads.push_back(access.value);
  sort_unique(known.reads);
  add_points(known.points, found);
  sort_unique(known.points);
  known.over.emplace_back(std::move(space), std::move(found));
  return known;
}

const std::vector<Access>& Fusion::accesses(ValueId root, const Space& space) {
  auto& known = walked_[root].over;
  for (const auto& [walked, found] : known) {
    if (walked == space) return found;
  }
  int unused = 0;
  known.emplace_back(space, walker_.walk(root, space, unused));
  return known.back().second;
}

void Fusion::add_points(std::vector<std::uint64_t>& to, const std::vector<Access>& reads) const {
  for (const Access& access : reads) {
    if (!access.known || at(access.value).shape.rank() == 0) continue;
    std::uint64_t hash = static_cast<std::uint64_t>(access.value);
    const auto mix = [&](std::int64_t number) {
      hash = (hash ^ static_cast<std::uint64_t>(number)) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 32;
    };
    for (const std::int64_t coefficient : access.address.coefficient) mix(coefficient);
    mix(access.address.offset);
    to.push_back(hash);
  }
}

// Whether one loop can compute both parts: a value that one computes and the other reads must be
// read at the point where it is computed. If neither needs the other, both must load some element
// at the same point.
bool Fusion::shares_points(const Part& a, const Part& b, const Space& space) {
  bool related = false;
  for (const auto& [from, to] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    const bool reads_other = std::any_of(from->roots.begin(), from->roots.end(), [&](int r) {
      return std::binary_search(to->reads.begin(), to->reads.end(), r);
    });
    if (!reads_other) continue;
    for (const int root : to->roots) {
      for (const Access& access : accesses(root, space)) {
        if (!std::binary_search(from->roots.begin(), from->roots.end(), access.value)) continue;
        if (!access.known) return false;
        const auto own = root_index(values_, access.value, space);
        if (!own) return false;
        if (!(flatten(*own, at(access.value).shape, space.dims.size()) == access.address))
          return false;
        related = true;
      }
    }
  }
  if (related) return true;
  if (at(a.roots.front()).epoch != at(b.roots.front()).epoch || a.phase != b.phase) return false;
  for (const int left : a.roots) {
    for (const Access& x : accesses(left, space)) {
      if (!x.known || at(x.value).shape.rank() == 0 ||
          !std::binary_search(b.reads.begin(), b.reads.end(), x.value)) {
        continue;
      }
      for (const int right : b.roots) {
        const auto& reads = accesses(right, space);
        const bool same = std::any_of(reads.begin(), reads.end(), [&](const Access& y) {
          return y.known && y.value == x.value && y.address == x.address;
        });
        if (same) return true;
      }
    }
  }
  return false;
}

// Whether `from` needs `to` through a third part; one kernel for both would then depend on itself.
// The search alternates between the parts that `from` needs and the parts that need `to`, until the
// two sets meet, a path in the need tree closes the gap between them, or one is exhausted.
bool Fusion::leads_around(PartId from, PartId to) {
  const auto is_known = [&](PartId start, PartId goal) {
    const std::vector<PartId>&starts = part(start).members, &goals = part(goal).members;
    const PartId last = *std::max_element(starts.begin(), starts.end());
    return std::any_of(goals.begin(), goals.end(), [&](PartId member) {
      ++visits_.searched;
      return descends_from(last, member);
    });
  };
  if (visits_.searched - ranked_at_ > 2 * readers_.item_count() + 8 * parts_.size()) rank_parts();
  const int first = part(to).first, latest = part(from).latest;
  const int below = ++seen_, above = ++seen_;
  std::vector<PartId>&needed = below_, &readers = above_;
  needed.assign(1, from);
  readers.assign(1, to);
  for (std::size_t next = 0; next < needed.size() && next < readers.size(); ++next) {
    for (const int value : part(needed[next]).reads) {
      ++visits_.searched;
      const PartId other = part_of_[value];
      if (other.is_none() || other == needed[next] || (next == 0 && other == to)) continue;
      int& mark = mark_[other];
      if (other == to || mark == above) return true;
      // `other` cannot need `to`, which comes later than everything `other` needs.
      if (mark == below || part(other).latest < first) continue;
      if (is_known(other, to)) return true;
      mark = below;
      needed.push_back(other);
    }
    for (const int root : part(readers[next]).roots) {
      for (const PartId start : readers_of(root)) {
        ++visits_.searched;
        const PartId other = owner_of(start);
        if (other == readers[next] || (next == 0 && other == from)) continue;
        int& mark = mark_[other];
        if (other == from || mark == below) return true;
        // `from` cannot need `other`, which comes later than everything `from` needs.
        if (mark == above || part(other).latest > latest) continue;
        mark = above;
        readers.push_back(other);
      }
    }
  }
  return false;
}

// Returns the space of one kernel for both parts, if there is one.
std::optional<Space> Fusion::joined(PartId a, PartId b) {
  const Part &x = part(a), &y = part(b);
  if (x.instructions + y.instructions >= kMaxGroupInstructions) return std::nullopt;
  std::vector<int> buffers;
  std::set_union(x.reads.begin(), x.reads.end(), y.reads.begin(), y.reads.end(),
                 std::back_inserter(buffers));
  if (buffers.size() + x.roots.size() + y.roots.size() > kMaxBuffers) return std::nullopt;
  auto space = common_space(x.space, y.space);
  if (!space) return std::nullopt;
  if (x.space.has_reduce() != y.space.has_reduce()) {
    // Elementwise work may join a reduction if the rows keep the device busy.
    const Part &rows = x.space.has_reduce() ? x : y, &plain = x.space.has_reduce() ? y : x;
    const std::int64_t length = product(*space, true), count = product(*space, false);
    const bool whole = product(plain.space, false) == length * count;
    const bool innermost = space->reduced.back();
    // Rows with a bound are not walked to their end, so work on all elements cannot join them.
    if (whole && rows_of(values_, rows.roots).bound >= 0) return std::nullopt;
    if (whole && !keeps_busy(length, count, innermost, massively_parallel_)) return std::nullopt;
    // A CPU that walks an array column by column loses more than another pass over memory costs,
    // unless the elementwise part needs the columns' results anyway.
    const bool waits = std::any_of(rows.roots.begin(), rows.roots.end(), [&](int root) {
      return std::binary_search(plain.reads.begin(), plain.reads.end(), root);
    });
    if (whole && !innermost && !massively_parallel_ && !waits) return std::nullopt;
  }
  const Rows rows_x = rows_of(values_, x.roots), rows_y = rows_of(values_, y.roots);
  if (x.space.has_reduce() && y.space.has_reduce() && !agree(rows_x, rows_y)) return std::nullopt;
  if ((rows_x.bound >= 0 || rows_y.bound >= 0) &&
      std::count(space->reduced.begin(), space->reduced.end(), true) > 1) {
    return std::nullopt;
  }
  if (leads_around(a, b) || leads_around(b, a)) return std::nullopt;
  if (!shares_points(x, y, *space)) return std::nullopt;
  return space;
}

void Fusion::join(PartId a, PartId b, Space space) {
  Part &x = part(a), &y = part(b);
  for (const int root : y.roots) part_of_[root] = a;
  merge_sorted(x.roots, y.roots);
  merge_sorted(x.reads, y.reads);
  x.members.insert(x.members.end(), y.members.begin(), y.members.end());
  owner_[b] = a;
  // Index entries of `b` now lead to `a`; new ones are needed only if the space has changed.
  const bool is_moved = x.space_id != y.space_id || !(x.space == space);
  if (is_moved) {
    x.space = std::move(space);
    x.sizes = sizes_of(x.space);
    x.points.clear();
    for (const int root : x.roots) add_points(x.points, accesses(root, x.space));
    sort_unique(x.points);
  } else {
    merge_sorted(x.points, y.points);
  }
  x.instructions += y.instructions;
  x.phase = std::max(x.phase, y.phase);
  x.version++;
  x.first = std::min(x.first, y.first);
  x.latest = std::max(x.latest, y.latest);
  raise_latest(a);
  y = Part();
  y.version = -1;
  if (is_moved) enter(a);
  propose_neighbours(a);
}

// Ranks all parts in topological order. Joining an early part with a late one raises the `latest`
// of all readers of the early one; searches then look at most of the graph. The parts are ranked
// anew whenever searches have taken twice as many steps as that takes.
void Fusion::rank_parts() {
  std::vector<std::pair<PartId, std::size_t>> stack;
  Table<PartId, bool> entered(parts_, false);
  int rank = 0;
  for (const PartId start : parts_.ids()) {
    if (entered[start] || parts_[start].version < 0) continue;
    entered[start] = true;
    stack.push_back({start, 0});
    while (!stack.empty()) {
      auto& [number, next] = stack.back();
      Part& ranked = part(number);
      if (next == ranked.reads.size()) {
        ranked.first = ranked.latest = rank++;
        stack.pop_back();
        continue;
      }
      ++visits_.searched;
      const PartId need = part_of_[ranked.reads[next++]];
      if (need.is_none() || entered[need]) continue;
      entered[need] = true;
      stack.push_back({need, 0});
    }
  }
  ranked_at_ = visits_.searched;
}

// Propagates `latest` of a joined part to all parts that need it. Initial parts need no such
// update, because values are numbered in topological order.
void Fusion::raise_latest(PartId number) {
  std::vector<PartId> stack{number};
  while (!stack.empty()) {
    const Part& grown = part(stack.back());
    stack.pop_back();
    for (const int root : grown.roots) {
      for (const PartId start : readers_of(root)) {
        ++visits_.searched;
        const PartId reader = owner_of(start);
        if (part(reader).latest >= grown.latest) continue;
        part(reader).latest = grown.latest;
        stack.push_back(reader);
      }
    }
  }
}

// Turns parts into groups, in order of their first roots. Values that one group computes and
// another reads are stored.
void Fusion::finish() {
  std::vector<std::pair<int, PartId>> order;
  for (const PartId p : parts_.ids()) {
    if (parts_[p].version >= 0) order.push_back({parts_[p].roots.front(), p});
  }
  std::sort(order.begin(), order.end());
  Table<PartId, GroupId> number(parts_);
  int count = 0;
  for (const auto& [root, p] : order) number[p] = count++;
  grouping_.groups.clear();
  grouping_.group_of.assign(values_.size(), GroupId::none);
  for (const auto& [root, p] : order) {
    Part& from = part(p);
    Group group;
    group.is_call = from.is_call;
    group.space = std::move(from.space);
    group.roots = from.roots;
    const GroupId own = grouping_.groups.add(std::move(group));
    for (const int r : from.roots) grouping_.group_of[r] = own;
    needs.add({});
    loads.add({});
    for (const int value : from.reads) {
      const PartId other = part_of_[value];
      if (other == p) continue;
      loads[own].push_back(value);
      if (other.is_none()) continue;
      needs[own].push_back(number[other]);
      grouping_.stored[value] = true;
    }
  }
}

}  // namespace volta::plan
