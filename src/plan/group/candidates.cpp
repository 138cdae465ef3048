// Finds the pairs of parts that are worth joining.
#include <algorithm>
#include <numeric>
#include <optional>

#include "plan/group/fusion.h"
#include "plan/lower/visits.h"

namespace volta::plan {
namespace {

std::int64_t bytes_of(const Value& v) {
  return v.shape.numel() * static_cast<std::int64_t>(size_of(v.dtype));
}

// A cheap first test whether two spaces can have a common refinement.
bool sizes_agree(const SpaceSizes& a, const SpaceSizes& b) {
  if (a.reduces == b.reduces) return a.kept == b.kept && a.all == b.all;
  return a.reduces ? b.all == a.all || b.all == a.kept : a.all == b.all || a.all == b.kept;
}

// Whether two sorted lists have no element in common.
bool are_disjoint(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
  for (auto x = a.begin(), y = b.begin(); x != a.end() && y != b.end();) {
    if (*x == *y) return false;
    ++(*x < *y ? x : y);
  }
  return true;
}

}  // namespace

// Proposes the pairs of the part with every part that `find` adds, each once.
template <class Find>
void Fusion::propose_to(PartId number, const Find& find) {
  ++seen_;
  mark_[number] = seen_;
  others_.clear();
  find([&](PartId other) {
    ++visits_.paired;
    if (!other.is_none() && std::exchange(mark_[other], seen_) != seen_) others_.push_back(other);
  });
  for (const PartId other : others_) propose(number, other);
}

// Lists the initial parts that read each value, in order; owner_of maps them to the parts that they
// were joined into.
void Fusion::index_readers() {
  std::vector<std::pair<ValueId, PartId>> pairs;
  for (const PartId p : parts_.ids()) {
    for (const ValueId value : parts_[p].reads) pairs.push_back({value, p});
  }
  readers_ = Lists<ValueId, PartId>(values_.size(), pairs);
}

Fusion::PartId Fusion::owner_of(PartId number) {
  PartId owner = number;
  while (owner_[owner] != owner) owner = owner_[owner];
  while (owner_[number] != owner) number = std::exchange(owner_[number], owner);
  return owner;
}

// Calls are never joined, so neither are two parts if one depends on the other through a call.
// Steps of a sequence read the same weights, and gradients read the inputs of their layer; without
// this test all pairs of them would be tried. In the need tree, the parent of a part is the
// last of the parts that it needs; dependencies on its ancestors are found without a search.
void Fusion::build_need_tree() {
  need_tree_.assign(parts_.size(), {});
  for (const PartId p : parts_.ids()) {
    NeedNode& node = need_tree_[p];
    node.first_need = needed_.size();
    for (const int value : parts_[p].reads) {
      const PartId from = part_of_[value];
      if (from.is_none() || from == p) continue;
      if (node.first_need < needed_.size() && needed_.back() == from) continue;
      needed_.push_back(from);
      const bool call = part(from).is_call;
      node.parent = std::max(node.parent, from);
      node.most_calls = std::max(node.most_calls, need_tree_[from].most_calls + call);
      // Further results of a call may have greater numbers than readers of its first result.
      parts_[p].latest = std::max(parts_[p].latest, part(from).latest);
    }
    if (node.parent.is_none()) continue;
    const NeedNode& parent = need_tree_[node.parent];
    node.calls = parent.calls + part(node.parent).is_call;
  }
  for (const PartId p : parts_.ids().backwards()) {
    if (const PartId parent = need_tree_[p].parent; !parent.is_none())
      need_tree_[parent].size += need_tree_[p].size;
  }
  Table<PartId, int> next(parts_, 0);
  int first = 0;
  for (const PartId p : parts_.ids()) {
    NeedNode& node = need_tree_[p];
    int& begin = node.parent.is_none() ? first : next[node.parent];
    node.enter = begin;
    begin += node.size;
    next[p] = node.enter + 1;
  }
}

// Indexes the part for finding partners. Two parts over one space are joined for a common operand
// only if they read some element of it at the same point, so values with many readers are indexed
// by point. Parts over different spaces are found by the values they read, if their sizes agree.
void Fusion::enter(PartId number) {
  Part& entered = part(number);
  const auto place = std::find_if(spaces_.begin(), spaces_.end(), [&](const auto& known) {
    return known.first == entered.sizes && known.second == entered.space;
  });
  entered.space_id = static_cast<int>(place - spaces_.begin());
  if (place == spaces_.end()) spaces_.add({entered.sizes, entered.space});
  for (const std::uint64_t point : entered.points) {
    Bucket& bucket = by_point_[{point, entered.space_id}];
    if (bucket.only_searched) continue;
    if (!bucket.entries.empty() && bucket.entries.back().part > number) bucket.is_ordered = false;
    bucket.entries.push_back({number, 0});
    for (const int value : entered.reads) {
      bucket.least_instructions = std::min(bucket.least_instructions, least_instructions_[value]);
    }
    if (bucket.is_ordered || !bucket.is_large()) continue;
    bucket.only_searched = true;
    bucket.roomy = {};
    std::erase_if(bucket.entries,
                  [&](const Entry& entry) { return !has_searched_[owner_of(entry.part)]; });
  }
}

// Adds the parts that read a value or a point that few parts read.
template <class Add>
void Fusion::add_siblings(PartId number, const Add& add) {
  const Part& own = part(number);
  for (const int value : own.reads) {
    add(part_of_[value]);
    if (at(value).shape.rank() == 0) continue;
    if (const auto readers = readers_of(value); readers.size() <= kFew) {
      for (const PartId reader : readers) add(owner_of(reader));
    }
  }
  for (const std::uint64_t point : own.points) {
    const Bucket& bucket = by_point_[{point, own.space_id}];
    if (bucket.is_large()) continue;
    for (const Entry& entry : bucket.entries) add(owner_of(entry.part));
  }
}

// Postpones pairs that share only values with many readers until all pairs that save more have
// been handled. By then most of these parts have been joined, and each step of a sequence depends
// on the one before. One queue entry stands for all postponed pairs of the part.
void Fusion::defer(PartId number) {
  const Part& own = part(number);
  std::int64_t most = 0;
  for (const int value : own.reads) {
    if (at(value).shape.rank() > 0 && readers_of(value).size() > kFew) most += bytes_of(at(value));
  }
  if (most > 0) pairs_.push({most, number, Pair::kDeferred, own.version, 0});
}

void Fusion::propose_deferred(PartId number) {
  has_searched_[number] = true;
  propose_to(number, [&](const auto& add) {
    for (const std::uint64_t point : part(number).points) {
      Bucket& bucket = by_point_[{point, part(number).space_id}];
      if (bucket.is_large()) add_from(bucket, number, add);
    }
    add_from_shelves(number, add);
  });
}

// The classes of demand: how many more buffers a kernel needs at least to take in a part.
constexpr std::array<std::size_t, 4> kDemands = {1, 2, 4, 8};

std::size_t Fusion::Bucket::last_roomy(std::size_t demand, std::size_t count) {
  std::vector<std::size_t>& last = roomy[demand];
  for (std::size_t n = last.size(); n <= entries.size(); ++n) last.push_back(n);
  std::size_t found = count;
  while (last[found] != found) found = last[found];
  while (last[count] != found) count = std::exchange(last[count], found);
  return found;
}

// The class of a part's demand: for each of its roots and of the values that few other parts read.
// Pairs that share such a value are found by add_siblings().
std::size_t Fusion::demand_of(PartId number) const {
  const Part& own = parts_[number];
  std::size_t buffers = own.roots.size();
  for (const ValueId value : own.reads) buffers += readers_of(value).size() <= kFew ? 1 : 0;
  std::size_t demand = 0;
  while (demand + 1 < kDemands.size() && kDemands[demand + 1] <= buffers) ++demand;
  return demand;
}

// Whether the part may take in a part of the bucket with such a demand.
bool Fusion::has_room(const Bucket& bucket, PartId number, std::size_t demand) const {
  const Part& own = parts_[number];
  return own.reads.size() + own.roots.size() + kDemands[demand] <= kMaxBuffers &&
         own.instructions + bucket.least_instructions < kMaxGroupInstructions;
}

// The last entry before `end` whose part has room for the demand. A search finds each part by one
// of its entries; the others are dropped.
std::optional<std::size_t> Fusion::next_with_room(Bucket& bucket, std::size_t demand,
                                                  std::size_t end) {
  for (;;) {
    ++visits_.paired;
    const std::size_t count = bucket.last_roomy(demand, end);
    if (count == 0) return std::nullopt;
    const std::size_t entry = count - 1;
    const PartId number = owner_of(bucket.entries[entry].part);
    auto& [search, later] = met_[number];
    if (!has_room(bucket, number, demand)) {
      bucket.drop(demand, entry);
    } else if (search == search_ && later != entry) {
      std::size_t& first = bucket.entries[later].first;
      first = std::max(first, bucket.entries[entry].first);
      bucket.drop(demand, entry);
    } else {
      search = search_;
      later = entry;
      return entry;
    }
    end = entry;
  }
}

// Adds the parts before this one in the bucket that have room for it, from the nearest on. If the
// part depends on one of them through a call, it depends on all that this one depends on, and the
// search stops there. Parts after this one search for themselves, unless they have done so already.
template <class Add>
void Fusion::add_from(Bucket& bucket, PartId number, const Add& add) {
  auto& entries = bucket.entries;
  const std::size_t demand = demand_of(number);
  if (!has_room(bucket, number, 0)) return;
  std::size_t own = entries.size();
  if (bucket.is_ordered && !bucket.only_searched) {
    for (const PartId member : part(number).members) {
      const auto entry =
          std::lower_bound(entries.begin(), entries.end(), member,
                           [](const Entry& each, PartId wanted) { return each.part < wanted; });
      if (entry == entries.end() || entry->part != member) continue;
      const auto place = static_cast<std::size_t>(entry - entries.begin());
      own = own == entries.size() ? place : std::max(own, place);
    }
  }
  ++search_;
  if (own == entries.size()) {
    for (auto e = next_with_room(bucket, demand, own); e; e = next_with_room(bucket, demand, *e))
      add(owner_of(entries[*e].part));
    if (bucket.only_searched) entries.push_back({number, 0});
    return;
  }
  std::size_t first = own, stop = 0;
  for (auto e = next_with_room(bucket, demand, own); e && *e >= stop;
       e = next_with_room(bucket, demand, *e)) {
    const PartId other = owner_of(entries[*e].part);
    if (other == number) continue;
    if (waits_for(number, other)) {
      stop = std::max(stop, entries[*e].first);
      continue;
    }
    first = *e;
    if (!waits_for(other, number)) add(other);
  }
  entries[own].first = first;
  for (auto e = next_with_room(bucket, demand, bucket.looked); e && *e > own;
       e = next_with_room(bucket, demand, *e)) {
    add(owner_of(entries[*e].part));
  }
  bucket.looked = std::max(bucket.looked, own + 1);
}

// Adds the parts of other spaces that read the same values, that have searched before and that have
// room for this one. Others will find this part when they search.
template <class Add>
void Fusion::add_from_shelves(PartId number, const Add& add) {
  const Part& own = part(number);
  const std::size_t demand = demand_of(number);
  if (own.reads.size() + own.roots.size() >= kMaxBuffers) return;
  for (const int value : own.reads) {
    if (at(value).shape.rank() == 0 || readers_of(value).size() <= kFew) continue;
    auto& shelves = shelves_[value];
    Shelf* place = nullptr;
    for (Shelf& shelf : shelves) {
      if (shelf.space_id == own.space_id) place = &shelf;
      if (shelf.space_id == own.space_id ||
          !sizes_agree(own.sizes, spaces_[shelf.space_id].first)) {
        continue;
      }
      ++search_;
      Bucket& parts = shelf.parts;
      for (auto e = next_with_room(parts, demand, parts.entries.size()); e;
           e = next_with_room(parts, demand, *e)) {
        add(owner_of(parts.entries[*e].part));
      }
    }
    if (place == nullptr) {
      place = &shelves.emplace_back(Shelf{own.space_id, {}});
      place->parts.least_instructions = least_instructions_[value];
    }
    place->parts.entries.push_back({number, 0});
  }
}

// Whether an initial part of `a` depends on an initial part of `b` through a call.
bool Fusion::waits_for(PartId a, PartId b) {
  const auto &from = part(a).members, &to = part(b).members;
  return std::any_of(from.begin(), from.end(), [&](PartId x) {
    return std::any_of(to.begin(), to.end(), [&](PartId y) { return x > y && are_apart(x, y); });
  });
}

// Whether one of two initial parts is known to depend on the other through a call.
bool Fusion::are_apart(PartId a, PartId b) {
  const PartId to = std::min(a, b), from = std::max(a, b);
  const NeedNode& goal = need_tree_[to];
  if (need_tree_[from].most_calls <= goal.most_calls) return false;
  // A short search, because the path to the goal may leave the need tree.
  constexpr std::size_t kMost = 32;
  std::vector<std::pair<PartId, bool>>& stack = path_;
  stack.assign(1, {from, false});
  for (std::size_t looked = 0; looked < kMost && !stack.empty(); ++looked) {
    ++visits_.searched;
    const auto [number, through] = stack.back();
    stack.pop_back();
    const NeedNode& node = need_tree_[number];
    if (descends_from(number, to) && (through || node.calls > goal.calls)) return true;
    const bool last = number.index() + 1 == need_tree_.size();
    const std::size_t end = last ? needed_.size() : (&node + 1)->first_need;
    for (std::size_t n = node.first_need; n < end; ++n) {
      if (needed_[n] >= to) stack.push_back({needed_[n], through || is_call(needed_[n])});
    }
  }
  return false;
}

// Queues the pair with the bytes that one kernel instead of two saves. Parts that read different
// slices of a common buffer, as the steps of a sequence do, share no point; such pairs over the
// same space are dropped.
void Fusion::propose(PartId a, PartId b) {
  ++visits_.paired;
  if (a == b) return;
  const Part &x = part(std::min(a, b)), &y = part(std::max(a, b));
  if (x.is_call || y.is_call || !sizes_agree(x.sizes, y.sizes)) return;
  // One kernel would be too large; joined() would reject the pair.
  if (x.instructions + y.instructions >= kMaxGroupInstructions ||
      std::max(x.reads.size(), y.reads.size()) + x.roots.size() + y.roots.size() > kMaxBuffers) {
    return;
  }
  if (x.phase != y.phase && x.phase != 0 && y.phase != 0) return;
  if (are_apart(a, b)) return;
  const auto reads_root = [](const Part& to, const Part& from) {
    return std::any_of(from.roots.begin(), from.roots.end(), [&](int root) {
      return std::binary_search(to.reads.begin(), to.reads.end(), root);
    });
  };
  if (x.space == y.space && !reads_root(x, y) && !reads_root(y, x) &&
      are_disjoint(x.points, y.points)) {
    return;
  }
  std::int64_t saved = 0;
  for (auto left = x.reads.begin(), right = y.reads.begin();
       left != x.reads.end() && right != y.reads.end();) {
    if (*left != *right) {
      ++(*left < *right ? left : right);
      continue;
    }
    if (at(*left).shape.rank() > 0) saved += bytes_of(at(*left));
    ++left, ++right;
  }
  for (const auto& [from, to] : {std::pair(&x, &y), std::pair(&y, &x)}) {
    for (const int root : from->roots) {
      if (std::binary_search(to->reads.begin(), to->reads.end(), root)) saved += bytes_of(at(root));
    }
  }
  if (saved == 0) return;
  pairs_.push({saved, std::min(a, b), std::max(a, b), x.version, y.version});
}

// Proposes all pairs of the initial parts.
void Fusion::propose_all() {
  index_readers();
  build_need_tree();
  mark_.assign(parts_.size(), 0);
  met_.assign(parts_.size(), {0, 0});
  has_searched_.assign(parts_.size(), false);
  owner_.resize(parts_.size());
  std::iota(owner_.begin(), owner_.end(), 0);
  shelves_.assign(values_.size(), {});
  least_instructions_.assign(values_.size(), kMaxGroupInstructions);
  for (const Part& each : parts_) {
    for (const int value : each.reads) {
      int& least = least_instructions_[value];
      least = std::min(least, each.instructions);
    }
  }
  for (const PartId number : parts_.ids()) {
    if (!is_call(number)) enter(number);
  }
  for (const PartId number : parts_.ids()) {
    if (is_call(number)) continue;
    propose_to(number, [&](const auto& add) {
      add_siblings(number, [&](PartId other) { add(other < number ? other : PartId::none); });
    });
    defer(number);
  }
}

void Fusion::propose_neighbours(PartId number) {
  propose_to(number, [&](const auto& add) {
    add_siblings(number, add);
    for (const int root : part(number).roots) {
      for (const PartId start : readers_of(root)) add(owner_of(start));
    }
  });
  defer(number);
}

}  // namespace volta::plan
