// Buffer donation and horizontal merging of kernels.
#include "plan/steps_builder.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "plan/lower/visits.h"

namespace volta::plan {

using kernel::Affine;
using kernel::Instr;
using kernel::InstrKind;

namespace {

// Uses the sizes of planning: the result affects memory use, never results.
std::uint64_t bytes_of(const Value& v) {
  return static_cast<std::uint64_t>(v.shape.numel().hint()) * size_of(v.dtype);
}

Extent number_of(kernel::Int number, const std::vector<Extent>& ints) {
  return number.is_param ? ints[static_cast<std::size_t>(number.value)] : Extent(number.value);
}

bool same_index(const Affine& a, const Affine& b, const std::vector<Extent>& ints) {
  if (a.terms.size() != b.terms.size() || number_of(a.offset, ints) != number_of(b.offset, ints))
    return false;
  for (std::size_t t = 0; t < a.terms.size(); ++t) {
    if (a.terms[t].axis != b.terms[t].axis) return false;
    if (number_of(a.terms[t].coefficient, ints) != number_of(b.terms[t].coefficient, ints))
      return false;
  }
  return true;
}

// The reason why the kernel may not write output slot `output` into the buffer of slot `leaf`; null
// if it may. It may if every element is read only by the thread that writes it, before it writes.
const char* in_the_way(const KernelDraft& kernel, int leaf, int output) {
  // With several lanes per row, all of them read what the first one writes; and an element of a row
  // may be read again in a later phase.
  const bool row = kernel.program.schedule.kind == kernel::ScheduleKind::Row;
  if (row && kernel.program.schedule.lanes > 1) return "threads share its rows";
  const Instr* store = nullptr;
  for (const Instr& instr : kernel.program.instrs) {
    if (instr.kind == InstrKind::Store && instr.slot == output) store = &instr;
  }
  if (store == nullptr || store->once || !store->mask.empty()) return "not all of it is written";
  // A single element beside rows is computed apart from them, and on the CPU once more for the
  // stores at the end.
  if (row && store->index.terms.empty()) return "it is one element beside rows";
  // Every point must have an element of its own.
  for (int axis = 0; axis < std::ssize(kernel.program.axes); ++axis) {
    if (kernel.axis(axis).role != kernel::Role::Par) continue;
    const bool indexed = std::any_of(store->index.terms.begin(), store->index.terms.end(),
                                     [&](const kernel::Term& term) { return term.axis == axis; });
    if (!indexed) return "several threads read it";
  }
  const bool at_the_store = std::all_of(
      kernel.program.instrs.begin(), kernel.program.instrs.end(), [&](const Instr& instr) {
        if (instr.kind == InstrKind::Search && instr.slot == leaf) return false;
        if (instr.kind != InstrKind::Load || instr.slot != leaf) return true;
        const bool along_row = std::any_of(
            instr.index.terms.begin(), instr.index.terms.end(),
            [&](const kernel::Term& t) { return kernel.axis(t.axis).role == kernel::Role::Red; });
        return instr.a < 0 && instr.mask.empty() && !along_row &&
               same_index(instr.index, store->index, kernel.ints);
      });
  return at_the_store ? nullptr : "it is read at other places than the result is written";
}

// Merges two slots into one that the program updates in place.
void merge_slots(KernelDraft& kernel, int leaf, int output) {
  kernel.slot(leaf).written = true;
  auto& instrs = kernel.program.instrs;
  const auto load = std::find_if(instrs.begin(), instrs.end(), [&](const Instr& instr) {
    return instr.kind == InstrKind::Load && instr.slot == leaf;
  });
  const Affine index = load->index;  // copied verbatim, so that the program text shows them equal
  for (Instr& instr : instrs) {
    const bool reads = instr.kind == InstrKind::Load && instr.slot == leaf;
    const bool writes = instr.kind == InstrKind::Store && instr.slot == output;
    if (reads || writes) instr.index = index;
    if (writes) instr.slot = leaf;
  }
  for (Instr& instr : instrs) {
    const bool uses = instr.kind == InstrKind::Load || instr.kind == InstrKind::Store ||
                      instr.kind == InstrKind::Search;
    if (uses && instr.slot > output) --instr.slot;
  }
  kernel.in_place.push_back(kernel.slot_value(output));
  kernel.program.slots.erase(kernel.program.slots.begin() + output);
  kernel.slot_values.erase(kernel.slot_values.begin() + output);
}

// The nodes of an order are the steps and, after them, barriers: many steps may write parts of a
// value that many others read, and a barrier between them keeps the number of dependencies linear.
struct OrderNode;
using NodeId = Id<OrderNode>;

// The order that steps must keep.
struct Dependencies {
  Table<NodeId, std::vector<NodeId>> needs;  // the earlier nodes that each node must follow
  std::vector<NodeId> order;                 // all nodes
};

// Steps that later ones have to follow: all earlier ones that wrote a value, or that read it.
struct Earlier {
  NodeId barrier;              // follows all of them but the recent ones
  std::vector<NodeId> recent;  // in order

  // Makes the node follow all of them.
  void precede(NodeId node, Dependencies& all) {
    if (recent.size() > 1 || (!barrier.is_none() && !recent.empty())) {
      if (!barrier.is_none()) recent.push_back(barrier);
      barrier = all.needs.add(std::move(recent));
      all.order.push_back(barrier);
      recent.clear();
    }
    auto& needs = all.needs[node];
    if (!barrier.is_none()) needs.push_back(barrier);
    needs.insert(needs.end(), recent.begin(), recent.end());
  }
};

// Steps follow the producers of their operands, and the readers of values that they overwrite.
Dependencies dependencies_of(const std::vector<StepDraft>& steps, const Values& values) {
  PerValue<Earlier> producers(values), readers(values);
  Dependencies all;
  all.needs.resize(steps.size());
  for (const NodeId step : Ids<NodeId>(steps.size())) {
    const StepDraft& draft = steps[step.index()];
    for (const ValueId value : draft.reads) producers[value].precede(step, all);
    for (const ValueId value : draft.writes) readers[value].precede(step, all);
    all.order.push_back(step);
    for (const ValueId value : draft.writes) producers[value].recent.push_back(step);
    for (const ValueId value : draft.reads) readers[value].recent.push_back(step);
  }
  return all;
}

}  // namespace

void StepDraft::collect() {
  if (segments.empty()) return;
  reads.clear();
  writes.clear();
  for (const KernelDraft& kernel : segments) {
    for (std::size_t s = 0; s < kernel.slot_values.size(); ++s) {
      if (kernel.program.slots[s].read) reads.push_back(kernel.slot_values[s]);
      if (kernel.program.slots[s].written) writes.push_back(kernel.slot_values[s]);
    }
    writes.insert(writes.end(), kernel.in_place.begin(), kernel.in_place.end());
  }
}

namespace {

// Tries to write output slot `output` of the kernel into the buffer of one of its leaves.
bool donate_slot(KernelDraft& kernel, int output, std::size_t step, const Values& values,
                 const std::map<int, std::size_t>& last_read, const std::set<int>& reserved,
                 bool any, Donation& donation) {
  const ValueId value = kernel.slot_value(output);
  const Value& to = values[value];
  const auto own = donation.predecessor.find(value);
  for (int leaf = 0; leaf < std::ssize(kernel.slot_values); ++leaf) {
    const kernel::Slot& slot = kernel.slot(leaf);
    const ValueId source = kernel.slot_value(leaf);
    const Value& from = values[source];
    if (from.kind != ValueKind::Leaf || slot.written || from.dtype != to.dtype ||
        from.shape.numel() != to.shape.numel()) {
      continue;
    }
    const bool is_own = own != donation.predecessor.end() && own->second == from.number;
    if (!is_own && (!any || reserved.count(from.number) != 0)) continue;
    const std::size_t number = static_cast<std::size_t>(from.number);
    const char* why = !donation.donatable[number]    ? "somebody else holds it"
                      : donation.returned[number]    ? "it is wanted as it is"
                      : last_read.at(source) != step ? "a later step reads it"
                                                     : in_the_way(kernel, leaf, output);
    if (why != nullptr) {
      Donation::Refusal& refused = donation.refused[value];
      if (refused.leaf < 0 || is_own) refused = {from.number, why};
      continue;
    }
    donation.donor[value] = from.number;
    merge_slots(kernel, leaf, output);
    return true;
  }
  return false;
}

}  // namespace

void donate(std::vector<StepDraft>& steps, const Values& values, Donation& donation) {
  donation.donor = PerValue<int>(values, -1);
  donation.refused = PerValue<Donation::Refusal>(values);
  std::map<int, std::size_t> last_read;  // the last step that reads each value
  std::set<int> reserved;  // leaves whose buffer is meant for the variable's new value
  for (std::size_t s = 0; s < steps.size(); ++s) {
    for (const int value : steps[s].reads) last_read[value] = s;
  }
  for (const auto& [value, leaf] : donation.predecessor) reserved.insert(leaf);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    if (steps[s].segments.empty()) continue;
    KernelDraft& kernel = steps[s].segments.front();
    for (const bool any : {false, true}) {
      for (int output = 0; output < std::ssize(kernel.slot_values); ++output) {
        const ValueId value = kernel.slot_value(output);
        const bool written = kernel.slot(output).written;
        const ValueKind kind = values[value].kind;
        // The parts of a join are written one by one, while other steps may still read the leaf.
        const bool whole = kind != ValueKind::Leaf && kind != ValueKind::Join;
        if (!written || !donation.is_output[value] || !whole) continue;
        // A donation renumbers the slots, so the search starts again.
        if (donate_slot(kernel, output, s, values, last_read, reserved, any, donation)) output = -1;
      }
    }
    steps[s].collect();
  }
}

namespace {

// The schedule of the segment that moves most bytes.
kernel::Schedule common_schedule(const std::vector<KernelDraft>& segments) {
  const auto most = std::max_element(
      segments.begin(), segments.end(), [](const KernelDraft& a, const KernelDraft& b) {
        return (a.bytes_read + a.bytes_written).hint() < (b.bytes_read + b.bytes_written).hint();
      });
  kernel::Schedule schedule = most->program.schedule;
  schedule.horizontal = true;
  return schedule;
}

// Merges steps kind by kind. Each kind is handled in one pass over the steps and barriers from its
// first member to its last one, and their dependencies are collected only once.
class Merger {
 public:
  Merger(std::vector<StepDraft>& steps, const Values& values, const PerValue<bool>& is_output)
      : steps_(steps),
        values_(values),
        is_output_(is_output),
        last_reader_(values),
        waiting_(values, -1) {
    Dependencies all = dependencies_of(steps, values);
    needs_ = std::move(all.needs);
    order_ = std::move(all.order);
    const std::size_t nodes = needs_.size();
    merged_into_.resize(nodes);
    std::iota(merged_into_.begin(), merged_into_.end(), 0);
    place_.resize(nodes);
    for (std::size_t p = 0; p < nodes; ++p) place_[order_[p]] = p;
    depth_.resize(nodes);
    time_.resize(nodes);
    is_member_.resize(nodes);
    for (const NodeId s : Ids<NodeId>(steps.size())) {
      for (const ValueId value : step(s).reads) last_reader_[value] = s;
    }
  }

  void merge(std::vector<NodeId> members);

  // The steps in their final order.
  std::vector<StepDraft> take() {
    std::vector<StepDraft> taken;
    for (const NodeId s : order_) {
      if (s != kMerged && is_step(s)) taken.push_back(std::move(step(s)));
    }
    return taken;
  }

 private:
  // In order_, the place of a step that was merged into another one.
  static constexpr NodeId kMerged = -1;

  // The members of one depth, and the other nodes of it.
  struct Level {
    std::vector<NodeId> members, others;
  };

  bool is_step(NodeId s) const { return s.index() < steps_.size(); }
  StepDraft& step(NodeId s) { return steps_[s.index()]; }
  NodeId merged(NodeId s) {
    NodeId& into = merged_into_[s];
    while (merged_into_[into] != into) into = merged_into_[into];
    return into;
  }
  std::vector<Level> levels_of(std::size_t first, std::size_t last);
  std::size_t time_after_needs(NodeId s, std::size_t first);
  std::size_t worth_waiting(const std::vector<NodeId>& members, std::size_t end,
                            std::size_t last_place);
  void merge_run(std::span<const NodeId> run);
  void reorder(std::size_t first, std::size_t last);

  std::vector<StepDraft>& steps_;
  const Values& values_;
  const PerValue<bool>& is_output_;
  // For each node, the nodes that it must follow; steps that were merged are named by merged().
  Table<NodeId, std::vector<NodeId>> needs_;
  Table<NodeId, NodeId> merged_into_;
  std::vector<NodeId> order_;         // the nodes in order
  Table<NodeId, std::size_t> place_;  // for each node its place there
  // While one kind is merged, for each node: how many members follow one another on a path to it,
  // itself included; the place after which it runs; whether it is a member.
  Table<NodeId, std::size_t> depth_, time_;
  Table<NodeId, bool> is_member_;
  PerValue<NodeId> last_reader_;  // the last step that reads the value
  PerValue<int> waiting_;         // the last run for which it was counted
  int runs_ = 0;
};

// The nodes between two places by their depths. Members of one depth do not need each other.
std::vector<Merger::Level> Merger::levels_of(std::size_t first, std::size_t last) {
  std::vector<Level> levels;
  for (std::size_t p = first; p <= last; ++p) {
    const NodeId s = order_[p];
    ++visits().merged;
    if (s == kMerged) continue;
    std::size_t deepest = 0;
    for (const NodeId from : needs_[s]) {
      ++visits().merged;
      const NodeId need = merged(from);
      if (place_[need] >= first) deepest = std::max(deepest, depth_[need]);
    }
    const bool is_member = is_member_[s];
    const std::size_t depth = deepest + (is_member ? 1 : 0);
    depth_[s] = depth;
    time_[s] = p;
    if (depth == 0) continue;
    levels.resize(std::max(levels.size(), depth));
    Level& level = levels[depth - 1];
    (is_member ? level.members : level.others).push_back(s);
  }
  return levels;
}

// The place of the step, or a later one after which the steps that it needs have run.
std::size_t Merger::time_after_needs(NodeId s, std::size_t first) {
  std::size_t latest = place_[s];
  for (const NodeId from : needs_[s]) {
    ++visits().merged;
    const NodeId need = merged(from);
    if (place_[need] >= first) latest = std::max(latest, time_[need]);
  }
  return latest;
}

// Merged steps run at the position of the last one, so temporaries that the earlier ones read live
// longer. Returns where the run of members begins that ends before `end` and for which these
// temporaries do not exceed kMaxExtendedBytes.
std::size_t Merger::worth_waiting(const std::vector<NodeId>& members, std::size_t end,
                                  std::size_t last_place) {
  const std::size_t last = time_[members[end - 1]];
  const int run = runs_++;
  std::uint64_t extended = 0;
  std::size_t begin = end - 1;
  while (begin > 0) {
    std::uint64_t bytes = 0;
    for (const ValueId value : step(members[begin - 1]).reads) {
      ++visits().merged;
      const Value& v = values_[value];
      if (v.kind == ValueKind::Leaf || is_output_[value]) continue;
      const NodeId reader = merged(last_reader_[value]);
      const bool lives_on = place_[reader] > last_place || time_[reader] >= last;
      if (!lives_on && std::exchange(waiting_[value], run) != run) bytes += bytes_of(v);
    }
    if (extended + bytes > kMaxExtendedBytes) break;
    extended += bytes;
    --begin;
  }
  return begin;
}

// Merges the steps into the last one of them.
void Merger::merge_run(std::span<const NodeId> run) {
  const NodeId last = run.back();
  StepDraft target;
  for (const NodeId s : run) {
    target.segments.push_back(std::move(step(s).segments.front()));
    if (s == last) continue;
    merged_into_[s] = last;
    auto &from = needs_[s], &to = needs_[last];
    to.insert(to.end(), from.begin(), from.end());
    from = {};
  }
  const kernel::Schedule schedule = common_schedule(target.segments);
  for (KernelDraft& segment : target.segments) segment.program.schedule = schedule;
  target.collect();
  step(last) = std::move(target);
}

// Sorts the nodes between two places by their times. A merged step precedes those that moved behind
// it.
void Merger::reorder(std::size_t first, std::size_t last) {
  std::vector<NodeId> sorted;
  for (std::size_t p = first; p <= last; ++p) {
    const NodeId s = order_[p];
    if (s != kMerged && merged(s) == s) sorted.push_back(s);
  }
  const auto key = [&](NodeId s) {
    return std::tuple(time_[s], depth_[s], is_member_[s] ? 0 : 1, place_[s]);
  };
  std::sort(sorted.begin(), sorted.end(), [&](NodeId a, NodeId b) { return key(a) < key(b); });
  const std::size_t begin = last + 1 - sorted.size();
  for (std::size_t p = first; p < begin; ++p) order_[p] = kMerged;
  for (std::size_t k = 0; k < sorted.size(); ++k) {
    order_[begin + k] = sorted[k];
    place_[sorted[k]] = begin + k;
  }
  for (const NodeId s : sorted) {
    if (!is_step(s)) continue;
    for (const ValueId value : step(s).reads) {
      ++visits().merged;
      NodeId& reader = last_reader_[value];
      if (place_[merged(reader)] <= last) reader = s;
    }
  }
}

// Merges steps of one kind that do not need each other. Steps of greater depth are merged only as
// long as every depth before has several.
void Merger::merge(std::vector<NodeId> members) {
  std::sort(members.begin(), members.end(),
            [&](NodeId a, NodeId b) { return place_[a] < place_[b]; });
  const std::size_t first = place_[members.front()], last = place_[members.back()];
  for (const NodeId s : members) is_member_[s] = true;
  bool is_changed = false, is_merging = true;
  for (Level& level : levels_of(first, last)) {
    for (const NodeId s : level.members) time_[s] = time_after_needs(s, first);
    std::sort(level.members.begin(), level.members.end(), [&](NodeId a, NodeId b) {
      return std::pair(time_[a], place_[a]) < std::pair(time_[b], place_[b]);
    });
    is_merging = is_merging && level.members.size() > 1;
    if (!is_merging && !is_changed) break;
    for (std::size_t end = level.members.size(); is_merging && end > 0;) {
      const std::size_t begin = worth_waiting(level.members, end, last);
      if (end - begin > 1) {
        const std::span<const NodeId> all = level.members;
        merge_run(all.subspan(begin, end - begin));
        is_changed = true;
      }
      end = begin;
    }
    for (const NodeId s : level.others) time_[s] = time_after_needs(s, first);
  }
  if (is_changed) reorder(first, last);
  for (const NodeId s : members) is_member_[s] = false;
}

}  // namespace

std::string merging_text(const kernel::Program& program) {
  kernel::Schedule schedule = program.schedule;
  if (schedule.kind == kernel::ScheduleKind::Map) {
    schedule.vec = 1;
    schedule.tile = 0;
    schedule.tile_axis = -1;
  }
  return kernel::to_text(program, schedule);
}

Temporaries temporaries_of(const std::vector<StepDraft>& steps, const Values& values,
                           const PerValue<bool>& is_output) {
  Temporaries result{.all = {}, .of_value = PerValue<int>(values, -1), .of_step = {}};
  // Scratch memory first, then values by number: of equal sizes the first is placed first.
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const Extent scratch = steps[s].call.scratch_bytes;
    const bool is_loop = steps[s].call.loop >= 0;
    const bool needed = steps[s].segments.empty() && (is_loop || scratch.hint() > 0);
    result.of_step.push_back(needed ? static_cast<int>(result.all.size()) : -1);
    if (needed) result.all.push_back({s, s, scratch});
  }
  PerValue<std::size_t> first(values, steps.size()), last(values, 0);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    for (const auto* list : {&steps[s].writes, &steps[s].reads}) {
      for (const int value : *list) {
        first[value] = std::min<std::size_t>(first[value], s);
        last[value] = s;
      }
    }
  }
  for (const ValueId id : values.ids()) {
    const Value& v = values[id];
    if (first[id] == steps.size() || v.kind == ValueKind::Leaf || is_output[id]) continue;
    result.of_value[id] = static_cast<int>(result.all.size());
    result.all.push_back({first[id], last[id], v.shape.numel() * size_of(v.dtype)});
  }
  return result;
}

std::vector<StepDraft> merge_horizontally(std::vector<StepDraft> steps, const Values& values,
                                          const PerValue<bool>& is_output) {
  std::map<std::string, std::vector<NodeId>> kinds;  // the steps of each program text
  for (const NodeId s : Ids<NodeId>(steps.size())) {
    const StepDraft& step = steps[s.index()];
    if (step.segments.empty()) continue;
    std::string text = merging_text(step.segments.front().program);
    const Value& first = values[step.writes.front()];
    if (first.epoch != 0) text += std::to_string(first.epoch);
    if (first.phase != 0) text += " phase " + std::to_string(first.phase);
    kinds[text].push_back(s);
  }
  Merger merger(steps, values, is_output);
  for (auto& [text, alike] : kinds) {
    if (alike.size() > 1) merger.merge(std::move(alike));
  }
  return merger.take();
}

}  // namespace volta::plan
