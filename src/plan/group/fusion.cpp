// Joining roots into groups.
#include "plan/fusion.h"

#include <algorithm>
#include <set>

namespace volta::plan {
namespace {

// Kernels larger than this are not made: compile time and registers, not correctness.
constexpr int kMaxGroupInstructions = 320;
constexpr std::size_t kMaxBuffers = 24;

std::int64_t bytes_of(const Value& v) {
  return v.shape.numel() * static_cast<std::int64_t>(size_of(v.dtype));
}

std::int64_t product(const Space& space, bool reduced) {
  std::int64_t result = 1;
  for (std::size_t d = 0; d < space.dims.size(); ++d) {
    if (space.reduced[d] == reduced) result *= space.dims[d];
  }
  return result;
}

// Cheap test before anything else: could the spaces be one?
bool sizes_agree(const Space& a, const Space& b) {
  const std::int64_t kept_a = product(a, false), kept_b = product(b, false);
  const std::int64_t all_a = kept_a * product(a, true), all_b = kept_b * product(b, true);
  if (a.has_reduce() == b.has_reduce()) return kept_a == kept_b && all_a == all_b;
  return a.has_reduce() ? all_b == all_a || all_b == kept_a : all_a == all_b || all_a == kept_b;
}

void insert_sorted(std::vector<int>& list, int value) {
  const auto place = std::lower_bound(list.begin(), list.end(), value);
  if (place == list.end() || *place != value) list.insert(place, value);
}

// Of sorted lists.
bool are_disjoint(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
  for (auto x = a.begin(), y = b.begin(); x != a.end() && y != b.end();) {
    if (*x == *y) return false;
    ++(*x < *y ? x : y);
  }
  return true;
}

}  // namespace

Space space_of_root(const std::vector<Value>& values, int id) {
  const Value& v = values[static_cast<std::size_t>(id)];
  Space space;
  const bool reduces = v.kind == ValueKind::Reduce, scans = v.kind == ValueKind::Scan;
  const Shape& shape = reduces ? values[static_cast<std::size_t>(v.in[0])].shape : v.shape;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 1) continue;
    space.dims.push_back(shape[d]);
    space.reduced.push_back(
        (reduces && std::find(v.attrs.begin(), v.attrs.end(), d) != v.attrs.end()) ||
        (scans && v.attrs[0] == d));
  }
  return space;
}

std::optional<IndexMap> root_index(const std::vector<Value>& values, int id, const Space& space) {
  const Value& v = values[static_cast<std::size_t>(id)];
  if (v.kind != ValueKind::Reduce) {
    if (auto whole = place_whole(v.shape, space)) return whole;
  }
  return place_kept(v.shape, space);
}

Rows rows_of(const std::vector<Value>& values, const std::vector<int>& roots) {
  Rows rows;
  for (const int root : roots) {
    const Value& v = values[static_cast<std::size_t>(root)];
    if (v.kind == ValueKind::Reduce) {
      rows.reduces = true;
      rows.bound = v.in[1];
    } else if (v.kind == ValueKind::Scan) {
      (v.attrs[1] != 0 ? rows.scans_back : rows.scans) = true;
    }
  }
  return rows;
}

bool agree(const Rows& a, const Rows& b) {
  const bool scans = a.scans || b.scans, back = a.scans_back || b.scans_back;
  const bool reduces = a.reduces || b.reduces;
  if (back && (scans || reduces)) return false;
  if (a.bound < 0 && b.bound < 0) return true;
  return !scans && !back && a.bound == b.bound;
}

// Walks from a root to the roots and leaves it reads.
std::vector<Access> walk(const std::vector<Value>& values, const Grouping& grouping, int id,
                         const Space& space, int& instructions) {
  const auto at = [&](int value) -> const Value& {
    return values[static_cast<std::size_t>(value)];
  };
  const std::size_t axes = space.dims.size();
  struct Visit {
    int id;
    IndexMap index;
    bool known;
  };
  std::vector<Visit> stack;
  std::vector<Access> found;
  // Gathers and products read memory even where others compute the value for themselves.
  const auto push_memory = [&](int value) {
    const auto stored = [&](int n) { return grouping.stored[static_cast<std::size_t>(n)]; };
    while (at(value).is_view() && !stored(value)) value = at(value).in[0];
    if (stored(value) && !grouping.in_memory(values, value))
      found.push_back({value, Linear(axes), false});
  };
  const auto push_operands = [&](const Value& v, const IndexMap& index, bool known) {
    for (std::size_t k = 0; k < v.in.size(); ++k) {
      if (v.in[k] < 0) continue;
      const Value& operand = at(v.in[k]);
      // Searches look at the whole of their table from every point alike; even one element must be
      // in memory by then.
      if (v.kind == ValueKind::Search && k == 0) {
        const int table = reshape_base(values, v.in[k]);
        found.push_back({table, Linear(axes), at(table).shape.numel() > 1});
        continue;
      }
      const bool memory = v.is_step() || (v.kind == ValueKind::Gather && k == 0);
      if (memory) push_memory(v.in[k]);
      const bool whole = v.kind == ValueKind::Matmul && k >= 2;
      if (v.kind == ValueKind::Sort || v.kind == ValueKind::Conv ||
          v.kind == ValueKind::Attention || v.kind == ValueKind::Join || whole) {
        stack.push_back({v.in[k], {}, false});
        continue;
      }
      if (v.kind == ValueKind::Gather) {
        const std::ptrdiff_t rows = at(v.in[1]).shape.rank();
        const bool ids = k == 1 && known;
        stack.push_back(
            {v.in[k], ids ? IndexMap(index.begin(), index.begin() + rows) : IndexMap{}, ids});
      } else if (v.kind == ValueKind::Philox) {
        stack.push_back({v.in[k], {}, operand.shape.rank() == 0});
      } else if (!known) {
        stack.push_back({v.in[k], {}, false});
      } else if (v.is_view()) {
        const int base = reshape_base(values, v.in[k]);
        if (v.kind == ValueKind::Reshape && grouping.in_memory(values, base)) {
          found.push_back({base, flatten(index, v.shape, axes), true});
          continue;
        }
        std::vector<LinearBound> bounds;
        std::optional<AxisSplit> split;
        auto inner = through_view(v, operand.shape, index, space.dims, bounds, split);
        const bool followed = inner.has_value() && bounds.empty();
        stack.push_back({v.in[k], followed ? std::move(*inner) : IndexMap{}, followed});
      } else {
        stack.push_back({v.in[k], index, true});
      }
    }
  };
  const Value& top = at(id);
  if (top.is_over_rows()) {
    for (const int in : {top.in[0], top.in[1]}) {
      if (in < 0) continue;
      auto index =
          in == top.in[0] ? place_whole(at(in).shape, space) : place_kept(at(in).shape, space);
      const bool known = index.has_value();
      stack.push_back({in, known ? std::move(*index) : IndexMap{}, known});
    }
  } else {
    const auto index = root_index(values, id, space);
    push_operands(top, index ? *index : IndexMap{}, index.has_value());
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
    if (grouping.in_memory(values, visit.id)) {
      found.push_back({visit.id, visit.known ? flatten(visit.index, v.shape, axes) : Linear(axes),
                       visit.known});
    } else {
      push_operands(v, visit.index, visit.known);
    }
  }
  return found;
}

bool fits(const std::vector<Value>& values, const Grouping& grouping, int id, int group) {
  const Group& target = grouping.groups[static_cast<std::size_t>(group)];
  const Space& space = target.space;
  if (!root_index(values, id, space)) return false;
  if (rows_of(values, target.roots).bound >= 0 &&
      place_whole(values[static_cast<std::size_t>(id)].shape, space)) {
    return false;
  }
  int unused = 0;
  const std::vector<Access> reads = walk(values, grouping, id, space, unused);
  return std::all_of(reads.begin(), reads.end(), [&](const Access& access) {
    if (grouping.group_of[static_cast<std::size_t>(access.value)] != group) return true;
    const Shape& shape = values[static_cast<std::size_t>(access.value)].shape;
    const auto own = root_index(values, access.value, space);
    return access.known && own && flatten(*own, shape, space.dims.size()) == access.address;
  });
}

Fusion::Fusion(const std::vector<Value>& values, Grouping& grouping, bool wide_device)
    : values_(values), grouping_(grouping), wide_device_(wide_device) {}

void Fusion::run() {
  start();
  while (!pairs_.empty()) {
    const Pair pair = pairs_.top();
    pairs_.pop();
    if (part(pair.a).version != pair.version_a || part(pair.b).version != pair.version_b) continue;
    if (auto space = joined(pair.a, pair.b)) join(pair.a, pair.b, std::move(*space));
  }
  finish();
}

// One part per root, and what joining two of them would save.
void Fusion::start() {
  part_of_.assign(values_.size(), -1);
  readers_.assign(values_.size(), {});
  walked_.assign(values_.size(), {});
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const int id = static_cast<int>(i);
    const bool root = grouping_.stored[i] || at(id).is_over_rows();
    if (!grouping_.needed[i] || at(id).kind == ValueKind::Leaf || !root) continue;
    if (at(id).kind == ValueKind::StepResult) {
      // A further result of a step.
      const int sort = part_of_[static_cast<std::size_t>(at(id).in[0])];
      part(sort).roots.push_back(id);
      part(sort).latest = id;
      part_of_[i] = sort;
      raise_latest(sort);
      continue;
    }
    const int number = static_cast<int>(parts_.size());
    Part fresh;
    fresh.is_call = at(id).is_step();
    fresh.space = space_of_root(values_, id);
    fresh.roots = {id};
    fresh.latest = id;
    fresh.stage = at(id).stage;
    fresh.instructions = 1;
    std::vector<Access> reads = walk(values_, grouping_, id, fresh.space, fresh.instructions);
    for (const Access& access : reads) insert_sorted(fresh.reads, access.value);
    add_points(fresh, reads);
    for (const int value : fresh.reads) readers_[static_cast<std::size_t>(value)].push_back(number);
    walked_[i].emplace_back(fresh.space, std::move(reads));
    part_of_[i] = number;
    parts_.push_back(std::move(fresh));
  }
  find_apart();
  std::vector<int> others;  // each once, however many buffers two parts share
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    others.clear();
    for (const int value : parts_[p].reads) {
      const std::size_t v = static_cast<std::size_t>(value);
      if (part_of_[v] >= 0) others.push_back(part_of_[v]);
      if (at(value).shape.rank() == 0) continue;
      for (const int other : readers_[v]) {
        if (other < static_cast<int>(p)) others.push_back(other);
      }
    }
    std::sort(others.begin(), others.end());
    others.erase(std::unique(others.begin(), others.end()), others.end());
    for (const int other : others) propose(other, static_cast<int>(p));
  }
}

// Calls stay by themselves: what needs another through one is never joined to it. Steps of a
// sequence read the same weights, so that without this all pairs of them would be looked at.
void Fusion::find_apart() {
  constexpr std::size_t kMostWords = std::size_t{1} << 23;
  const std::size_t count = parts_.size();
  bit_of_.assign(count, 0);
  std::size_t kernels = 0;
  for (std::size_t p = 0; p < count; ++p) {
    if (!parts_[p].is_call) bit_of_[p] = kernels++;
  }
  apart_words_ = (kernels + 63) / 64;
  if (count * apart_words_ > kMostWords) apart_words_ = 0;
  if (apart_words_ == 0) return;
  apart_.assign(count * apart_words_, 0);
  std::vector<std::uint64_t> needed(apart_.size(), 0);
  for (std::size_t p = 0; p < count; ++p) {
    for (const int value : parts_[p].reads) {
      if (part_of_[static_cast<std::size_t>(value)] < 0) continue;
      const auto from = static_cast<std::size_t>(part_of_[static_cast<std::size_t>(value)]);
      if (from == p) continue;
      const auto& through = parts_[from].is_call ? needed : apart_;
      for (std::size_t w = 0; w < apart_words_; ++w) {
        apart_[p * apart_words_ + w] |= through[from * apart_words_ + w];
        needed[p * apart_words_ + w] |= needed[from * apart_words_ + w];
      }
      if (parts_[from].is_call) continue;
      needed[p * apart_words_ + bit_of_[from] / 64] |= std::uint64_t{1} << (bit_of_[from] % 64);
    }
  }
}

bool Fusion::are_apart(int a, int b) const {
  const auto needs_through_call = [&](int from, int to) {
    const std::size_t bit = bit_of_[static_cast<std::size_t>(to)];
    const std::size_t row = static_cast<std::size_t>(from) * apart_words_;
    return (apart_[row + bit / 64] >> (bit % 64) & 1) != 0;
  };
  return apart_words_ > 0 && (needs_through_call(a, b) || needs_through_call(b, a));
}

const std::vector<Access>& Fusion::accesses(int root, const Space& space) {
  auto& known = walked_[static_cast<std::size_t>(root)];
  for (const auto& [walked, found] : known) {
    if (walked == space) return found;
  }
  int unused = 0;
  known.emplace_back(space, walk(values_, grouping_, root, space, unused));
  return known.back().second;
}

void Fusion::add_points(Part& to, const std::vector<Access>& reads) const {
  for (const Access& access : reads) {
    if (!access.known || at(access.value).shape.rank() == 0) continue;
    std::uint64_t hash = static_cast<std::uint64_t>(access.value);
    const auto mix = [&](std::int64_t number) {
      hash = (hash ^ static_cast<std::uint64_t>(number)) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 32;
    };
    for (const std::int64_t coefficient : access.address.coefficient) mix(coefficient);
    mix(access.address.offset);
    to.points.push_back(hash);
  }
  std::sort(to.points.begin(), to.points.end());
  to.points.erase(std::unique(to.points.begin(), to.points.end()), to.points.end());
}

// Enters the pair with the bytes that one kernel in place of two need not read. Parts of a buffer
// that many read, the steps of a sequence, make many pairs that have no point in common: of those
// that go over the same space nothing is entered.
void Fusion::propose(int a, int b) {
  if (a == b) return;
  const Part &x = part(std::min(a, b)), &y = part(std::max(a, b));
  if (x.is_call || y.is_call || are_apart(a, b) || !sizes_agree(x.space, y.space)) return;
  if (x.stage != y.stage && x.stage != 0 && y.stage != 0) return;
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
  std::vector<int> both;
  std::set_intersection(x.reads.begin(), x.reads.end(), y.reads.begin(), y.reads.end(),
                        std::back_inserter(both));
  for (const int value : both) {
    if (at(value).shape.rank() > 0) saved += bytes_of(at(value));
  }
  for (const auto& [from, to] : {std::pair(&x, &y), std::pair(&y, &x)}) {
    for (const int root : from->roots) {
      if (std::binary_search(to->reads.begin(), to->reads.end(), root)) saved += bytes_of(at(root));
    }
  }
  if (saved == 0) return;
  pairs_.push({saved, std::min(a, b), std::max(a, b), x.version, y.version});
}

// Whether the parts meet at each point: what one computes and the other reads is read where it is
// computed, and if neither needs the other, something is loaded by both at once.
bool Fusion::shares_points(const Part& a, const Part& b, const Space& space) {
  bool related = false;
  for (const auto& [from, to] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    for (const int root : to->roots) {
      const bool reads_other = std::any_of(from->roots.begin(), from->roots.end(), [&](int r) {
        return std::binary_search(to->reads.begin(), to->reads.end(), r);
      });
      if (!reads_other) continue;
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
  if (at(a.roots.front()).epoch != at(b.roots.front()).epoch || a.stage != b.stage) return false;
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

// Whether `from` needs `to` through a third part: one kernel for both would wait for itself.
bool Fusion::leads_around(int from, int to) {
  const int first = part(to).roots.front();
  std::vector<int> stack;
  std::vector<bool> seen(parts_.size(), false);
  const auto push_needs = [&](int number, bool direct) {
    for (const int value : part(number).reads) {
      const int needed = part_of_[static_cast<std::size_t>(value)];
      if (needed < 0 || needed == number || seen[static_cast<std::size_t>(needed)]) continue;
      if (direct && needed == to) continue;
      // What it needs, and what that needs, ends before `to` begins.
      if (part(needed).latest < first) continue;
      seen[static_cast<std::size_t>(needed)] = true;
      stack.push_back(needed);
    }
  };
  push_needs(from, true);
  while (!stack.empty()) {
    const int number = stack.back();
    stack.pop_back();
    if (number == to) return true;
    push_needs(number, false);
  }
  return false;
}

// The space of one kernel for both parts, if there is one.
std::optional<Space> Fusion::joined(int a, int b) {
  const Part &x = part(a), &y = part(b);
  if (x.instructions + y.instructions >= kMaxGroupInstructions) return std::nullopt;
  std::vector<int> buffers;
  std::set_union(x.reads.begin(), x.reads.end(), y.reads.begin(), y.reads.end(),
                 std::back_inserter(buffers));
  if (buffers.size() + x.roots.size() + y.roots.size() > kMaxBuffers) return std::nullopt;
  auto space = common_space(x.space, y.space);
  if (!space) return std::nullopt;
  if (x.space.has_reduce() != y.space.has_reduce()) {
    // Elementwise work goes along with a reduction where its rows keep the device busy.
    const Part &rows = x.space.has_reduce() ? x : y, &plain = x.space.has_reduce() ? y : x;
    const std::int64_t length = product(*space, true), count = product(*space, false);
    const bool whole = product(plain.space, false) == length * count;
    const bool innermost = space->reduced.back();
    // Nobody goes to the end of a row that has a bound.
    if (whole && rows_of(values_, rows.roots).bound >= 0) return std::nullopt;
    if (whole && !keeps_busy(length, count, innermost, wide_device_)) return std::nullopt;
    // A CPU walks an array along its rows; column by column it loses more than a pass over memory,
    // unless the columns' results are waited for anyway.
    const bool waits = std::any_of(rows.roots.begin(), rows.roots.end(), [&](int root) {
      return std::binary_search(plain.reads.begin(), plain.reads.end(), root);
    });
    if (whole && !innermost && !wide_device_ && !waits) return std::nullopt;
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

void Fusion::join(int a, int b, Space space) {
  Part &x = part(a), &y = part(b);
  for (const int root : y.roots) {
    part_of_[static_cast<std::size_t>(root)] = a;
    insert_sorted(x.roots, root);
  }
  for (const int value : y.reads) {
    insert_sorted(x.reads, value);
    auto& readers = readers_[static_cast<std::size_t>(value)];
    readers.erase(std::find(readers.begin(), readers.end(), b));
    if (std::find(readers.begin(), readers.end(), a) == readers.end()) readers.push_back(a);
  }
  x.space = std::move(space);
  x.points.clear();
  for (const int root : x.roots) add_points(x, accesses(root, x.space));
  x.instructions += y.instructions;
  x.stage = std::max(x.stage, y.stage);
  x.version++;
  x.latest = std::max(x.latest, y.latest);
  raise_latest(a);
  y = Part();
  y.version = -1;
  propose_neighbours(a);
}

// A part that grew by a later root makes all that need it later, which values alone never are.
void Fusion::raise_latest(int number) {
  std::vector<int> stack{number};
  while (!stack.empty()) {
    const Part& grown = part(stack.back());
    stack.pop_back();
    for (const int root : grown.roots) {
      for (const int reader : readers_[static_cast<std::size_t>(root)]) {
        if (part(reader).latest >= grown.latest) continue;
        part(reader).latest = grown.latest;
        stack.push_back(reader);
      }
    }
  }
}

void Fusion::propose_neighbours(int number) {
  std::vector<int> others;
  for (const int value : part(number).reads) {
    const std::size_t v = static_cast<std::size_t>(value);
    if (part_of_[v] >= 0) others.push_back(part_of_[v]);
    if (at(value).shape.rank() > 0)
      others.insert(others.end(), readers_[v].begin(), readers_[v].end());
  }
  for (const int root : part(number).roots) {
    const auto& readers = readers_[static_cast<std::size_t>(root)];
    others.insert(others.end(), readers.begin(), readers.end());
  }
  std::sort(others.begin(), others.end());
  others.erase(std::unique(others.begin(), others.end()), others.end());
  for (const int other : others) propose(number, other);
}

// Parts become groups, in order of their first roots; what one computes and another reads lies in
// memory.
void Fusion::finish() {
  std::vector<int> number(parts_.size(), -1);
  std::vector<std::pair<int, int>> order;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    if (parts_[p].version >= 0) order.push_back({parts_[p].roots.front(), static_cast<int>(p)});
  }
  std::sort(order.begin(), order.end());
  for (std::size_t g = 0; g < order.size(); ++g)
    number[static_cast<std::size_t>(order[g].second)] = static_cast<int>(g);
  grouping_.groups.clear();
  grouping_.group_of.assign(values_.size(), -1);
  for (const auto& [root, p] : order) {
    Part& from = part(p);
    Group group;
    group.is_call = from.is_call;
    group.space = std::move(from.space);
    group.roots = from.roots;
    const int own = number[static_cast<std::size_t>(p)];
    for (const int r : from.roots) grouping_.group_of[static_cast<std::size_t>(r)] = own;
    needs.emplace_back();
    loads.emplace_back();
    for (const int value : from.reads) {
      const int other = part_of_[static_cast<std::size_t>(value)];
      if (other == p) continue;
      loads.back().push_back(value);
      if (other < 0) continue;
      needs.back().push_back(number[static_cast<std::size_t>(other)]);
      grouping_.stored[static_cast<std::size_t>(value)] = true;
    }
    grouping_.groups.push_back(std::move(group));
  }
}

}  // namespace volta::plan
