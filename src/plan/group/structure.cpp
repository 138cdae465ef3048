// Structure hashes, and the cache of groupings.
#include "plan/group/structure.h"

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <utility>

#include "core/heap_bytes.h"
#include "plan/calls/call.h"
#include "plan/group/walker.h"

namespace volta::plan {

bool lay_out(const Values& values, Grouping& grouping) {
  Walker walker(values, grouping);
  for (const GroupId g : grouping.groups.ids()) {
    Group& group = grouping.groups[g];
    if (group.is_call) {
      // Its results may have different shapes.
      group.space = space_of_root(values, group.roots.front());
      continue;
    }
    // Reductions come first, because the other roots are laid over their spaces.
    std::optional<Space> space;
    for (const bool reduces : {true, false}) {
      for (const int root : group.roots) {
        const Value& v = values[root];
        if (v.is_over_rows() != reduces) continue;
        const Space own = space_of_root(values, root);
        space = space ? common_space(*space, own) : own;
        if (!space) return false;
      }
    }
    group.space = std::move(*space);
    if (group.roots.size() == 1) continue;
    for (const int root : group.roots) {
      if (!walker.fits(root, g)) return false;
    }
  }
  return true;
}

namespace {

std::uint64_t bytes_of(const Grouping& grouping) {
  std::uint64_t bytes = sizeof(Grouping) + heap_bytes(grouping.groups.items()) +
                        heap_bytes(grouping.group_of.items()) +
                        heap_bytes(grouping.stored.items()) + heap_bytes(grouping.needed.items()) +
                        heap_bytes(grouping.point.items());
  for (const Group& group : grouping.groups) {
    bytes += heap_bytes(group.space.dims) + heap_bytes(group.space.reduced) +
             heap_bytes(group.roots) + heap_bytes(group.once) + heap_bytes(group.again);
  }
  return bytes;
}

}  // namespace

graph::Hash structure_of(const Values& values, const std::vector<int>& outputs) {
  graph::Hash hash;
  std::unordered_map<std::int64_t, std::uint64_t> names;  // sizes numbered in order of appearance
  const auto mix_size = [&](std::int64_t size) {
    if (size <= 1) return hash.mix(static_cast<std::uint64_t>(size));
    const std::uint64_t name = names.try_emplace(size, names.size() + 1).first->second;
    hash.mix(name << 8 |
             static_cast<std::uint64_t>(std::bit_width(static_cast<std::uint64_t>(size))));
  };
  for (const Value& v : values) {
    hash.mix(static_cast<std::uint64_t>(v.kind) | static_cast<std::uint64_t>(v.dtype) << 8 |
             static_cast<std::uint64_t>(v.op) << 16 | static_cast<std::uint64_t>(v.reduce) << 24 |
             static_cast<std::uint64_t>(v.shape.rank()) << 32 |
             static_cast<std::uint64_t>(v.stored) << 40);
    // Grouping only depends on how a call reads its operands, not on its attributes.
    if (v.call != nullptr) hash.mix(v.call->alternative());
    for (const int in : v.in) hash.mix(static_cast<std::uint64_t>(in));
    for (const std::int64_t size : v.shape) mix_size(size);
    // Attributes of slices and pads are sizes, and only their class matters. Other attributes are
    // axes and flags.
    const bool offsets = v.kind == ValueKind::Shrink || v.kind == ValueKind::Pad;
    if (offsets) {
      for (const std::int64_t offset : v.attrs) hash.mix(offset == 0 ? 0 : 1);
    } else if (v.kind == ValueKind::Affine) {
      for (const std::int64_t number : v.attrs)
        hash.mix(number < 0 ? 3 : static_cast<std::uint64_t>(std::min<std::int64_t>(number, 2)));
    } else if (v.kind == ValueKind::Reduce || v.kind == ValueKind::Permute ||
               v.kind == ValueKind::Iota || v.kind == ValueKind::Scan ||
               v.kind == ValueKind::Join) {
      for (const std::int64_t attr : v.attrs) hash.mix(static_cast<std::uint64_t>(attr));
    }
  }
  for (const int id : outputs) hash.mix(static_cast<std::uint64_t>(id));
  return hash;
}

std::optional<Grouping> GroupingCache::find(const graph::Hash& structure, const Values& values) {
  const Grouping* found = groupings_.find(structure);
  if (found == nullptr) return std::nullopt;
  Grouping grouping = *found;
  if (grouping.stored.size() != values.size() || !lay_out(values, grouping)) return std::nullopt;
  return grouping;
}

void GroupingCache::insert(const graph::Hash& structure, Grouping grouping) {
  // Spaces belong to the sizes, which may be open in one plan.
  for (Group& group : grouping.groups) group.space = {};
  const std::uint64_t bytes = bytes_of(grouping);
  groupings_.insert(structure, std::move(grouping), bytes);
}

}  // namespace volta::plan
