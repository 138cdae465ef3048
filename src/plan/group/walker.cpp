// Walks from roots to what they read.
#include "plan/group/walker.h"

#include <algorithm>
#include <utility>

#include "plan/lower/visits.h"

namespace volta::plan {

Space space_of_root(const Values& values, ValueId id) {
  const Value& v = values[id];
  Space space;
  const bool reduces = v.kind == ValueKind::Reduce, scans = v.kind == ValueKind::Scan;
  const Shape& shape = reduces ? values[v.in[0]].shape : v.shape;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 1) continue;
    space.dims.push_back(shape[d]);
    space.reduced.push_back(
        (reduces && std::find(v.attrs.begin(), v.attrs.end(), d) != v.attrs.end()) ||
        (scans && v.attrs[0] == d));
  }
  return space;
}

std::optional<IndexMap> root_index(const Values& values, ValueId id, const Space& space) {
  const Value& v = values[id];
  if (v.kind != ValueKind::Reduce) {
    if (auto whole = place_whole(v.shape, space)) return whole;
  }
  return place_kept(v.shape, space);
}

Rows rows_of(const Values& values, const std::vector<int>& roots) {
  Rows rows;
  for (const int root : roots) {
    const Value& v = values[root];
    if (v.kind == ValueKind::Reduce) {
      rows.reduces = true;
      rows.bound = v.in[1];
    } else if (v.kind == ValueKind::Scan) {
      (v.attrs[1] != 0 ? rows.scans_back : rows.scans) = true;
    }
  }
  return rows;
}

Walker::Walker(const Values& values, const Grouping& grouping)
    : values_(values), grouping_(grouping), last_(values, 0) {}

Walker::IndexId Walker::add(IndexMap index) {
  const IndexId next = static_cast<int>(known_++);
  if (next.index() == indices_.size()) return indices_.add(std::move(index));
  indices_[next] = std::move(index);
  return next;
}

void Walker::push(ValueId id, std::optional<IndexMap> index) {
  push(id, index ? add(std::move(*index)) : IndexId::none);
}

// Whether the value has not been visited with this index before.
bool Walker::is_new(const Visit& next) {
  VisitId before = last_[next.id];
  if (before.index() >= visits_.size() || visits_[before].id != next.id) before = VisitId::none;
  for (VisitId v = before; !v.is_none(); v = visits_[v].before) {
    const IndexId index = visits_[v].index;
    if (index == next.index) return false;
    if (!index.is_none() && !next.index.is_none() && indices_[index] == indices_[next.index])
      return false;
  }
  last_[next.id] = visits_.add({next.id, next.index, before});
  return true;
}

// Gathers and steps read memory even if other kernels compute the value in place.
void Walker::read_memory(ValueId id) {
  const auto stored = [&](ValueId n) { return grouping_.stored[n]; };
  while (at(id).is_view() && !stored(id)) id = at(id).in[0];
  if (stored(id) && !grouping_.in_memory(values_, id))
    found_.push_back({id, Linear(space_->dims.size()), false});
}

void Walker::push_through(const Value& view, ValueId id, IndexId index) {
  const IndexMap& outer = indices_[index];
  const ValueId base = reshape_base(values_, id);
  if (view.kind == ValueKind::Reshape && grouping_.in_memory(values_, base)) {
    found_.push_back({base, flatten(outer, view.shape, space_->dims.size()), true});
    return;
  }
  std::vector<LinearBound> bounds;
  std::optional<AxisSplit> split;
  auto inner = through_view(view, at(id).shape, outer, space_->dims, bounds, split);
  if (!bounds.empty()) inner.reset();
  push(id, std::move(inner));
}

void Walker::push_operands(const Value& v, IndexId index) {
  const std::size_t axes = space_->dims.size();
  for (std::size_t k = 0; k < v.in.size(); ++k) {
    const ValueId in = v.in[k];
    if (in.is_none()) continue;
    // A search reads its whole table from every point; the table must be in memory even if it has
    // one element.
    if (v.kind == ValueKind::Search && k == 0) {
      const ValueId table = reshape_base(values_, in);
      found_.push_back({table, Linear(axes), at(table).shape.numel() > 1});
      continue;
    }
    if (v.is_step() || (v.kind == ValueKind::Gather && k == 0)) read_memory(in);
    if (v.kind == ValueKind::Call || v.kind == ValueKind::Join) {
      push(in, IndexId::none);
    } else if (v.kind == ValueKind::Gather) {
      if (k == 1 && !index.is_none()) {
        const IndexMap& all = indices_[index];
        push(in, add(IndexMap(all.begin(), all.begin() + at(in).shape.rank())));
      } else {
        push(in, IndexId::none);
      }
    } else if (v.kind == ValueKind::Philox) {
      push(in, at(in).shape.rank() == 0 ? add({}) : IndexId::none);
    } else if (v.is_view() && !index.is_none()) {
      push_through(v, in, index);
    } else {
      push(in, index);
    }
  }
}

void Walker::push_top(const Value& top, ValueId id) {
  if (!top.is_over_rows()) {
    const auto index = root_index(values_, id, *space_);
    push_operands(top, index ? add(*index) : IndexId::none);
    return;
  }
  for (const ValueId in : {top.in[0], top.in[1]}) {
    if (in.is_none()) continue;
    push(in,
         in == top.in[0] ? place_whole(at(in).shape, *space_) : place_kept(at(in).shape, *space_));
  }
}

std::vector<Access> Walker::walk(ValueId id, const Space& space, int& instructions) {
  const std::size_t axes = space.dims.size();
  space_ = &space;
  known_ = 0;
  visits_.clear();
  found_.clear();
  push_top(at(id), id);
  std::size_t steps = 0;
  for (; !stack_.empty(); ++steps) {
    const Visit next = stack_.back();
    stack_.pop_back();
    if (!is_new(next)) continue;
    ++instructions;
    const Value& v = at(next.id);
    if (!grouping_.in_memory(values_, next.id)) {
      push_operands(v, next.index);
    } else if (next.index.is_none()) {
      found_.push_back({next.id, Linear(axes), false});
    } else {
      const IndexMap& index = indices_[next.index];
      found_.push_back({next.id, flatten(index, v.shape, axes), true});
    }
  }
  visits().walked += steps;
  return {found_.begin(), found_.end()};
}

bool Walker::fits(ValueId id, GroupId group) {
  const Group& target = grouping_.groups[group];
  const Space& space = target.space;
  if (!root_index(values_, id, space)) return false;
  if (rows_of(values_, target.roots).bound >= 0 && place_whole(at(id).shape, space)) return false;
  int unused = 0;
  const std::vector<Access> reads = walk(id, space, unused);
  return std::all_of(reads.begin(), reads.end(), [&](const Access& access) {
    if (grouping_.group_of[access.value] != group) return true;
    const Shape& shape = at(access.value).shape;
    const auto own = root_index(values_, access.value, space);
    return access.known && own && flatten(*own, shape, space.dims.size()) == access.address;
  });
}

}  // namespace volta::plan
