// Contiguity and alignment of accesses.
#include "kernel/vectors.h"

#include <algorithm>
#include <bit>

#include "kernel/dependence.h"

namespace volta::kernel {
namespace {

// The coefficient of `axis`; literal 0 if it does not occur.
Int coefficient(const Affine& affine, int axis) {
  for (const Term& term : affine.terms) {
    if (term.axis == axis) return term.coefficient;
  }
  return Int::literal(0);
}

// Whether the affine index is a multiple of `vec` at the first point of every group.
bool is_multiple(const Affine& affine, const std::vector<std::int64_t>& ints, int axis, int vec) {
  return affine.offset.in(ints) % vec == 0 &&
         std::all_of(affine.terms.begin(), affine.terms.end(), [&](const Term& term) {
           return term.axis == axis || term.coefficient.in(ints) % vec == 0;
         });
}

}  // namespace

int vector_axis(const Program& program) {
  int par = -1;
  for (int n = 0; n < static_cast<int>(program.axes.size()); ++n) {
    if (program.axes[static_cast<std::size_t>(n)].role == Role::Par) par = n;
  }
  const bool along_row = program.schedule.kind == ScheduleKind::Row && program.schedule.lanes > 1;
  return along_row ? static_cast<int>(program.axes.size()) - 1 : par;
}

bool is_contiguous(const Program& program, int n, int axis,
                   const std::vector<std::uint64_t>& dependence) {
  const Instr& self = program.instrs[static_cast<std::size_t>(n)];
  if ((self.kind != InstrKind::Load && self.kind != InstrKind::Store) || self.once) return false;
  if (!coefficient(self.index, axis).is_literal(1)) return false;
  // A gathered row is contiguous like any other; an index that changes from point to point is not.
  if (self.kind == InstrKind::Load && self.a >= 0 &&
      (dependence[static_cast<std::size_t>(self.a)] >> axis & 1) != 0) {
    return false;
  }
  // A Map must work for any binding, and a mask could end within a group.
  const bool map = program.schedule.kind == ScheduleKind::Map;
  return std::all_of(self.mask.begin(), self.mask.end(), [&](const Bound& bound) {
    const Int step = coefficient(bound.expression, axis);
    return step.is_literal(0) || (!map && step.is_literal(1));
  });
}

bool accesses_allow_vectors(const Program& program, const std::vector<std::int64_t>& ints, int axis,
                            int vec) {
  const std::vector<std::uint64_t> dependence = axis_dependence(program);
  for (int n = 0; n < static_cast<int>(program.instrs.size()); ++n) {
    if (!is_contiguous(program, n, axis, dependence)) continue;
    const Instr& self = program.instrs[static_cast<std::size_t>(n)];
    if (!is_multiple(self.index, ints, axis, vec)) return false;
    if (self.kind == InstrKind::Load && self.a >= 0 && self.value_stride.in(ints) % vec != 0)
      return false;
    for (const Bound& bound : self.mask) {
      if (coefficient(bound.expression, axis).is_literal(0)) continue;
      if (!is_multiple(bound.expression, ints, axis, vec) || bound.high.in(ints) % vec != 0)
        return false;
    }
  }
  return true;
}

bool rows_allow_vectors(const Program& program, const std::vector<std::int64_t>& ints, int axis,
                        int vec) {
  return program.axes[static_cast<std::size_t>(axis)].extent.in(ints) % vec == 0 &&
         accesses_allow_vectors(program, ints, axis, vec);
}

std::vector<bool> peeled_accesses(const Program& program) {
  const int last = static_cast<int>(program.axes.size()) - 1;
  std::uint64_t par = 0;
  for (int n = 0; n <= last; ++n) {
    const Axis& axis = program.axes[static_cast<std::size_t>(n)];
    if (axis.role == Role::Par) par |= std::uint64_t{1} << n;
    // If several Red axes are long, the lines along the last one are not equally aligned.
    if (axis.role == Role::Red && axis.extent.is_literal(1) != (n != last)) return {};
    if (axis.bound >= 0) return {};
  }
  const std::vector<std::uint64_t> dependence = axis_dependence(program);
  const std::vector<bool> live = live_instructions(program);
  const auto takes_groups = [&](int n) {
    const Instr& self = program.instrs[static_cast<std::size_t>(n)];
    return live[static_cast<std::size_t>(n)] && is_contiguous(program, n, last, dependence) &&
           (self.kind == InstrKind::Store || self.a < 0) &&
           std::all_of(self.mask.begin(), self.mask.end(), [&](const Bound& bound) {
             return coefficient(bound.expression, last).is_literal(0);
           });
  };
  const auto axes_of = [&](int n) {
    std::uint64_t axes = 0;
    for (const Term& term : program.instrs[static_cast<std::size_t>(n)].index.terms) {
      if (!term.coefficient.is_literal(0)) axes |= std::uint64_t{1} << term.axis;
    }
    return axes & par;
  };
  const int count = static_cast<int>(program.instrs.size());
  int most = -1;  // the first access that varies over the most axes
  for (int n = 0; n < count; ++n) {
    if (takes_groups(n) && (most < 0 || std::popcount(axes_of(n)) > std::popcount(axes_of(most)))) {
      most = n;
    }
  }
  if (most < 0) return {};
  std::vector<bool> groups;
  for (int n = 0; n < count; ++n) groups.push_back(takes_groups(n) && axes_of(n) == axes_of(most));
  return groups;
}

bool rows_allow_peeled_vectors(const Program& program, const std::vector<std::int64_t>& ints,
                               int vec) {
  const std::vector<bool> groups = peeled_accesses(program);
  const auto first = std::find(groups.begin(), groups.end(), true);
  if (first == groups.end()) return false;
  const Affine& start = program.instrs[static_cast<std::size_t>(first - groups.begin())].index;
  const auto alike = [&](Int a, Int b) { return (a.in(ints)-b.in(ints)) % vec == 0; };
  for (std::size_t n = 0; n < groups.size(); ++n) {
    if (!groups[n]) continue;
    const Affine& index = program.instrs[n].index;
    if (!alike(index.offset, start.offset)) return false;
    for (int axis = 0; axis < static_cast<int>(program.axes.size()); ++axis) {
      if (program.axes[static_cast<std::size_t>(axis)].extent.in(ints) > 1 &&
          !alike(coefficient(index, axis), coefficient(start, axis)))
        return false;
    }
  }
  return true;
}

bool schedule_allows(const Program& program, const std::vector<std::int64_t>& ints) {
  const Schedule& s = program.schedule;
  if (s.kind == ScheduleKind::Map) return true;
  std::int64_t length = 1;
  for (const Axis& axis : program.axes) {
    if (axis.role == Role::Red) length *= axis.extent.in(ints);
  }
  const std::int64_t grouped = s.peeled ? length / s.vec * s.vec : length;
  if (s.items > 0 && grouped > std::int64_t{s.lanes} * s.items) return false;
  if (length < std::int64_t{s.lanes} * s.whole + (s.whole > 0 && s.peeled ? s.vec - 1 : 0))
    return false;
  if (s.peeled) return rows_allow_peeled_vectors(program, ints, s.vec);
  return s.vec == 1 || rows_allow_vectors(program, ints, vector_axis(program), s.vec);
}

bool is_staged(const Program& program, int n, int tile_axis) {
  const Instr& self = program.instrs[static_cast<std::size_t>(n)];
  const int last = static_cast<int>(program.axes.size()) - 1;
  if (self.kind != InstrKind::Load || self.a >= 0 || tile_axis == last) return false;
  if (program.slots[static_cast<std::size_t>(self.slot)].written) return false;
  const Int along_last = coefficient(self.index, last);
  return coefficient(self.index, tile_axis).is_literal(1) && !along_last.is_literal(0) &&
         !along_last.is_literal(1);
}

// The padding keeps a column from lying in one memory bank.
int tile_pitch(DType dtype, int tile) {
  return tile + std::max(1, 4 / static_cast<int>(size_of(dtype)));
}

std::int64_t tile_bytes(const Program& program, int tile_axis, int tile) {
  const std::vector<bool> live = live_instructions(program);
  std::int64_t bytes = 0;
  for (int n = 0; n < static_cast<int>(program.instrs.size()); ++n) {
    if (!live[static_cast<std::size_t>(n)] || !is_staged(program, n, tile_axis)) continue;
    const DType dtype = program.instrs[static_cast<std::size_t>(n)].dtype;
    bytes += static_cast<std::int64_t>(size_of(dtype)) * tile * tile_pitch(dtype, tile);
  }
  return bytes;
}

}  // namespace volta::kernel
