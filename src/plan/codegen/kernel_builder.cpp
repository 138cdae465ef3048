// Turns the instructions of a group into its kernel program: merges axes, makes every size, stride
// and offset other than 0 and 1 a parameter, and chooses a schedule.
#include "plan/codegen/kernel_builder.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "plan/codegen/schedule.h"

namespace volta::plan {

using kernel::Affine;
using kernel::Domain;
using kernel::Instr;
using kernel::InstrKind;
using kernel::Int;
using kernel::Role;

namespace {

// Merges adjacent axes of one role if every index walks them as one.
void merge_axes(ProgramDraft& draft) {
  std::vector<Extent>& extents = draft.extents;
  std::vector<Role>& roles = draft.roles;
  std::vector<Linear*> expressions;
  for (InstrDraft& instr : draft.instrs) {
    expressions.push_back(&instr.index);
    for (LinearBound& b : instr.mask) expressions.push_back(&b.expression);
  }
  const auto erase = [&](std::size_t axis) {
    extents.erase(extents.begin() + static_cast<std::ptrdiff_t>(axis));
    roles.erase(roles.begin() + static_cast<std::ptrdiff_t>(axis));
    for (Linear* e : expressions) e->coefficient.erase(e->coefficient.begin() + axis);
  };
  for (std::size_t a = extents.size(); a-- > 0;) {
    const bool last_reduced =
        roles[a] == Role::Red && std::count(roles.begin(), roles.end(), Role::Red) == 1;
    if (extents[a] == 1 && !last_reduced && !draft.unit) erase(a);
  }
  for (std::size_t a = extents.size(); a-- > 1;) {
    const std::size_t outer = a - 1, inner = a;
    if (roles[outer] != roles[inner]) continue;
    const bool one = std::all_of(expressions.begin(), expressions.end(), [&](const Linear* e) {
      return e->coefficient[outer] == e->coefficient[inner] * extents[inner];
    });
    if (!one) continue;
    for (Linear* e : expressions) e->coefficient[outer] = e->coefficient[inner];
    extents[outer] *= extents[inner];
    erase(inner);
  }
}

// The program of a draft, and the numbers that its parameters are bound to.
class Binder {
 public:
  explicit Binder(KernelDraft& result) : result_(result) {}

  void run(const ProgramDraft& draft) {
    kernel::Program& program = result_.program;
    program.slots = draft.slots;
    for (const auto& [arg, dtype] : draft.args) {
      result_.args.push_back(arg);
      program.args.push_back(dtype);
    }
    for (std::size_t a = 0; a < draft.extents.size(); ++a)
      program.axes.push_back({parameter(draft.extents[a]), draft.roles[a], -1});
    if (draft.bound >= 0) program.axes.back().bound = draft.bound;
    program.instrs.reserve(draft.instrs.size());
    for (const InstrDraft& instr : draft.instrs) program.instrs.push_back(bound(instr));
  }

 private:
  Instr bound(const InstrDraft& draft) {
    Instr instr = draft.instr;
    instr.index = affine(draft.index);
    // Sizes are parameters even if they are 0 or 1, so that one kernel serves every size.
    if (draft.is_size) instr.index.offset = parameter(draft.index.offset);
    for (const LinearBound& b : draft.mask)
      instr.mask.push_back({affine(b.expression), parameter(b.high)});
    if (instr.kind == InstrKind::Load && instr.a >= 0)
      instr.value_stride = number(draft.value_stride);
    if (instr.kind == InstrKind::Search) {
      instr.value_stride = number(draft.value_stride);
      instr.high = parameter(draft.high);
    }
    if (instr.kind == InstrKind::Bounded) {
      instr.high = parameter(draft.high);
      instr.site = parameter(draft.site);
    }
    return instr;
  }

  Int number(Extent value) {
    if (value == 0 || value == 1) return Int::literal(value.hint());
    return parameter(value);
  }
  Int parameter(Extent value) {
    result_.ints.push_back(value);
    return Int::param(result_.program.int_params++);
  }
  Affine affine(const Linear& e) {
    Affine result;
    for (std::size_t a = 0; a < e.coefficient.size(); ++a) {
      if (e.coefficient[a] != 0)
        result.terms.push_back({static_cast<int>(a), number(e.coefficient[a])});
    }
    result.offset = number(e.offset);
    return result;
  }

  KernelDraft& result_;
};

// An upper bound on the number of different elements that a load reads.
Extent elements_of(const ProgramDraft& draft, const InstrDraft& load) {
  Extent elements = 1;
  for (std::size_t a = 0; a < draft.extents.size(); ++a) {
    // If a loaded value is part of the address, every point may read a different element.
    if (load.index.coefficient[a] != 0 || load.instr.a >= 0) elements *= draft.extents[a];
  }
  return elements;
}

// Counts the bytes that the kernel moves.
void count_bytes(KernelDraft& result, const ProgramDraft& draft, const Values& values) {
  std::vector<Extent> elements(draft.slots.size(), 0);  // elements read, for each slot
  for (const InstrDraft& instr : draft.instrs) {
    const auto slot = static_cast<std::size_t>(instr.instr.slot);
    if (instr.instr.kind == InstrKind::Load) elements[slot] += elements_of(draft, instr);
    if (instr.instr.kind == InstrKind::Search) elements[slot] += instr.high;
  }
  for (std::size_t s = 0; s < draft.slots.size(); ++s) {
    const Value& v = values[draft.slot_values[s]];
    const Extent all = v.shape.numel();
    if (draft.slots[s].read) result.bytes_read += lesser(elements[s], all) * size_of(v.dtype);
    if (draft.slots[s].written) result.bytes_written += all * size_of(v.dtype);
  }
}

// Counts the operations that the kernel computes.
void count_operations(KernelDraft& result, const ProgramDraft& draft, const Values& values) {
  Extent points = 1, rows = 1;
  for (std::size_t a = 0; a < draft.extents.size(); ++a) {
    points *= draft.extents[a];
    if (draft.roles[a] == Role::Par) rows *= draft.extents[a];
  }
  // Each element that a segmented reduction reads belongs to one segment.
  for (std::size_t s = 0; draft.bound >= 0 && s < draft.slots.size(); ++s) {
    const Extent all = values[draft.slot_values[s]].shape.numel();
    points = s == 0 ? all : greater(points, all);
  }
  const kernel::Analysis analysis = kernel::analyze(result.program);
  for (std::size_t i = 0; i < draft.instrs.size(); ++i) {
    const InstrKind kind = draft.instrs[i].instr.kind;
    const bool works = kind == InstrKind::Op || kind == InstrKind::Cast ||
                       kind == InstrKind::Reduce || kind == InstrKind::Scan;
    if (!works) continue;
    const Domain domain = kind == InstrKind::Reduce ? Domain::Full : analysis.instrs[i].domain;
    result.operations += domain == Domain::Full ? points : domain == Domain::Par ? rows : Extent(1);
  }
}

}  // namespace

KernelBuilder::KernelBuilder(const Values& values, const Grouping& grouping,
                             bool massively_parallel)
    : values_(values),
      grouping_(grouping),
      massively_parallel_(massively_parallel),
      visited_(values, 0) {}

// Finds the values that a group computes for a root, in order.
void KernelBuilder::add_members(GroupId group, ValueId root) {
  ++searches_;
  members_.clear();
  stack_.push_back(root);
  while (!stack_.empty()) {
    const ValueId id = stack_.back();
    stack_.pop_back();
    if (std::exchange(visited_[id], searches_) == searches_) continue;
    const bool own = id == root || grouping_.group_of[id] == group;
    if (!own && grouping_.in_memory(values_, id)) continue;
    const Value& v = values_[id];
    if (!v.is_view() && v.kind != ValueKind::Const && v.kind != ValueKind::Arg)
      members_.push_back(id);
    for (const ValueId in : v.in) {
      if (!in.is_none()) stack_.push_back(in);
    }
  }
  std::sort(members_.begin(), members_.end());
}

// The recorded operations that the roots came from, each once.
std::string KernelBuilder::label_of(GroupId group) {
  std::string label;
  std::vector<std::string_view> seen;
  for (const ValueId root : grouping_.groups[group].roots) {
    add_members(group, root);
    const char* last = nullptr;
    for (const ValueId id : members_) {
      // Labels are names of operations, so most values have that of the value before.
      const char* name = values_[id].label;
      if (std::exchange(last, name) == name || *name == 0) continue;
      if (std::find(seen.begin(), seen.end(), name) != seen.end()) continue;
      seen.emplace_back(name);
      if (!label.empty()) label += ' ';
      label += name;
    }
  }
  return label;
}

KernelDraft KernelBuilder::build(ProgramDraft draft, GroupId group) {
  merge_axes(draft);
  KernelDraft result;
  Binder(result).run(draft);
  for (const ValueId value : draft.slot_values) {
    result.slot_values.push_back(memory_of(values_, value));
    result.largest = greater(result.largest, values_[value].shape.numel());
  }
  result.program.schedule = choose_schedule(result.program, hints(result.ints),
                                            result.largest.hint(), massively_parallel_);
  count_bytes(result, draft, values_);
  count_operations(result, draft, values_);
  result.label = label_of(group);
  return result;
}

}  // namespace volta::plan
