// Axes, roots and loads.
#include "plan/codegen/emitter.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "plan/group/walker.h"

namespace volta::plan {

using kernel::InstrKind;
using kernel::Role;

Emitter::Emitter(const Values& values, const Grouping& grouping, GroupId group)
    : values_(values), grouping_(grouping), number_(group), group_(grouping.groups[group]) {
  for (const Extent extent : group_.space.dims) pieces_.push_back({extent});
  unit_ = group_.space.dims.empty() &&
          std::any_of(group_.roots.begin(), group_.roots.end(),
                      [&](ValueId root) { return at(root).shape.rank() > 0; });
}

ProgramDraft Emitter::run() {
  for (;;) {
    start();
    try {
      for (const ValueId root : group_.roots) emit_root(root);
      for (const ValueId root : group_.once) emit_once(root);
      // Stores come last, so that everything they overwrite in place has been read.
      for (InstrDraft& store : stores_) draft_.instrs.push_back(std::move(store));
      return std::move(draft_);
    } catch (const AxisSplit& split) {
      split_axis(split);
    }
  }
}

// The axes are pieces of the kept dimensions, then pieces of the reduced ones.
void Emitter::start() {
  draft_ = ProgramDraft{.unit = unit_};
  first_axis_.assign(group_.space.dims.size(), 0);
  stores_.clear();
  memo_.clear();
  places_.clear();
  inside_.clear();
  for (const bool reduced : {false, true}) {
    for (std::size_t d = 0; d < group_.space.dims.size(); ++d) {
      if (group_.space.reduced[d] != reduced) continue;
      first_axis_[d] = axes();
      for (const Extent extent : pieces_[d]) {
        draft_.extents.push_back(extent);
        draft_.roles.push_back(reduced ? Role::Red : Role::Par);
      }
    }
  }
  if (unit_) {
    draft_.extents.push_back(1);
    draft_.roles.push_back(Role::Par);
  }
}

void Emitter::split_axis(const AxisSplit& split) {
  for (std::size_t d = 0; d < pieces_.size(); ++d) {
    if (split.axis < first_axis_[d] || split.axis >= first_axis_[d] + pieces_[d].size()) continue;
    const std::size_t piece = split.axis - first_axis_[d];
    const Extent outer = pieces_[d][piece] / split.inner;
    pieces_[d][piece] = outer;
    pieces_[d].insert(pieces_[d].begin() + static_cast<std::ptrdiff_t>(piece) + 1, split.inner);
    return;
  }
}

// The index of a dimension of the group, composed from its pieces.
Linear Emitter::dim_index(std::size_t dim) const {
  Linear index(axes());
  Extent stride = 1;
  for (std::size_t k = pieces_[dim].size(); k-- > 0;) {
    index.coefficient[first_axis_[dim] + k] = stride;
    stride *= pieces_[dim][k];
  }
  return index;
}

// Rewrites an index over the group's dimensions to one over the kernel's axes.
IndexMap Emitter::over_axes(const IndexMap& over_dims) const {
  IndexMap index;
  for (const Linear& e : over_dims) {
    Linear total(axes());
    for (std::size_t d = 0; d < e.coefficient.size(); ++d)
      total.add(dim_index(d), e.coefficient[d]);
    index.add(std::move(total));
  }
  if (unit_ && !index.empty()) *(index.end() - 1) = Linear::axis(1, 0);
  return index;
}

// Where the group computes a root of its own.
int Emitter::own_index(ValueId root) {
  return places_.indices.number_of(over_axes(root_index(values_, root, group_.space).value()));
}

int Emitter::append(InstrDraft draft) {
  draft.index.coefficient.resize(axes());  // axes without an index have the coefficient 0
  draft_.instrs.push_back(std::move(draft));
  return static_cast<int>(draft_.instrs.size()) - 1;
}

int Emitter::slot_of(ValueId value, bool write) {
  for (std::size_t s = 0; s < draft_.slot_values.size(); ++s) {
    if (draft_.slot_values[s] == value) {
      (write ? draft_.slots[s].written : draft_.slots[s].read) = true;
      return static_cast<int>(s);
    }
  }
  draft_.slots.push_back({at(value).dtype, !write, write});
  draft_.slot_values.push_back(value);
  return static_cast<int>(draft_.slots.size()) - 1;
}

void Emitter::emit_root(ValueId root) {
  const Value& v = at(root);
  const int index = own_index(root);
  const int value = v.kind == ValueKind::Reduce ? emit_reduce(root)
                    : v.kind == ValueKind::Scan ? emit_scan(root)
                                                : emit_value(root, {index});
  if (!grouping_.stored[root]) return;
  InstrDraft store{.instr = {.kind = InstrKind::Store}};
  store.instr.dtype = v.dtype;
  store.instr.a = value;
  store.instr.slot = slot_of(root, true);
  store.index = address_of(v, places_.indices[index], axes());
  stores_.push_back(std::move(store));
}

void Emitter::emit_once(ValueId root) {
  const Value& v = at(root);
  const IndexMap first = v.shape.per_axis(Linear(axes()));
  InstrDraft store{.instr = {.kind = InstrKind::Store}};
  store.instr.a = emit_value(root, {places_.indices.number_of(first)});
  store.instr.dtype = v.dtype;
  store.instr.once = true;
  store.instr.slot = slot_of(root, true);
  store.index = Linear(axes());
  stores_.push_back(std::move(store));
}

int Emitter::emit_reduce(ValueId root) {
  const Key key{Emitted::Value, root, {}};
  if (const auto found = memo_.find(key); found != memo_.end()) return found->second;
  const Value& v = at(root);
  InstrDraft reduce{.instr = {.kind = InstrKind::Reduce}};
  const auto whole = place_whole(at(v.in[0]).shape, group_.space);
  reduce.instr.a = emit(v.in[0], {places_.indices.number_of(over_axes(whole.value()))});
  reduce.instr.dtype = v.dtype;
  reduce.instr.reduce = v.reduce;
  if (!v.in[1].is_none()) draft_.bound = emit_kept(v.in[1]);
  return memo_[key] = append(std::move(reduce));
}

int Emitter::emit_scan(ValueId root) {
  const Key key{Emitted::Value, root, {}};
  if (const auto found = memo_.find(key); found != memo_.end()) return found->second;
  const Value& v = at(root);
  InstrDraft scan{.instr = {.kind = InstrKind::Scan}};
  scan.instr.a = emit(v.in[0], {own_index(root)});
  if (!v.in[1].is_none()) scan.instr.b = emit_kept(v.in[1]);
  scan.instr.dtype = v.dtype;
  scan.instr.reverse = v.attrs[1] != 0;
  return memo_[key] = append(std::move(scan));
}

// Emits a value that has one element per row.
int Emitter::emit_kept(ValueId id) {
  const auto kept = place_kept(at(id).shape, group_.space);
  return emit(id, {places_.indices.number_of(over_axes(kept.value()))});
}

std::size_t Emitter::KeyHash::operator()(const Key& key) const {
  std::uint64_t hash = key.fill;
  for (const int part : {static_cast<int>(key.what), key.value, key.place.index, key.place.mask}) {
    hash = (hash ^ static_cast<std::uint64_t>(part)) * 0x9FB21C651E98DF25u;
    hash ^= hash >> 32;
  }
  return hash;
}

// The value at a place: loaded if it lies in memory, else computed here.
int Emitter::emit(ValueId id, Place place) {
  const bool again = std::find(group_.again.begin(), group_.again.end(), id) != group_.again.end();
  if (!again && grouping_.in_memory(values_, id)) {
    if (!is_own(id)) return emit_load(id, place, 0);
    if (at(id).kind == ValueKind::Reduce) return emit_reduce(id);
    if (at(id).kind == ValueKind::Scan) return emit_scan(id);
  }
  return emit_value(id, place);
}

int Emitter::emit_load(ValueId id, Place place, double fill) {
  const Key key{Emitted::Load, id, place, std::bit_cast<std::uint64_t>(fill)};
  if (const auto found = memo_.find(key); found != memo_.end()) return found->second;
  if (is_empty(id)) return memo_[key] = constant(fill, at(id).dtype);
  InstrDraft load{.instr = {.kind = InstrKind::Load}};
  load.instr.dtype = at(id).dtype;
  load.instr.slot = slot_of(id, false);
  load.instr.constant = fill;
  load.index = address_of(at(id), places_.indices[place.index], axes());
  load.mask = places_.masks[place.mask];
  return memo_[key] = append(std::move(load));
}

int Emitter::emit_load_at(ValueId base, const Linear& address, int mask) {
  const Key key{Emitted::LoadAt, base, {places_.indices.number_of({address}), mask}};
  if (const auto found = memo_.find(key); found != memo_.end()) return found->second;
  if (is_empty(base)) return memo_[key] = constant(0, at(base).dtype);
  InstrDraft load{.instr = {.kind = InstrKind::Load}};
  load.instr.dtype = at(base).dtype;
  load.instr.slot = slot_of(base, false);
  load.index = address;
  load.index.offset += at(base).home_offset;
  load.mask = places_.masks[mask];
  return memo_[key] = append(std::move(load));
}

}  // namespace volta::plan
