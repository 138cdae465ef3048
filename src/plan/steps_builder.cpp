// Donation, horizontal merging, the arena.
#include "plan/steps_builder.h"

#include <algorithm>
#include <map>
#include <set>

namespace volta::plan {

using kernel::Affine;
using kernel::Instr;
using kernel::InstrKind;

namespace {

std::uint64_t bytes_of(const Value& v) {
  return static_cast<std::uint64_t>(v.shape.numel()) * size_of(v.dtype);
}

bool same_index(const Affine& a, const Affine& b, const std::vector<std::int64_t>& ints) {
  if (a.terms.size() != b.terms.size() || a.offset.in(ints) != b.offset.in(ints)) return false;
  for (std::size_t t = 0; t < a.terms.size(); ++t) {
    if (a.terms[t].axis != b.terms[t].axis) return false;
    if (a.terms[t].coefficient.in(ints) != b.terms[t].coefficient.in(ints)) return false;
  }
  return true;
}

// Why the kernel may not write the buffer of slot `leaf` in place of slot `output`; null if it may:
// every read of an element is by the thread that writes it, before it does.
const char* in_the_way(const KernelDraft& kernel, int leaf, int output) {
  // With several lanes to a row, all of them read what the first one writes; and an element of a
  // row may be read again in a later phase.
  const bool row = kernel.program.schedule.kind == kernel::ScheduleKind::Row;
  if (row && kernel.program.schedule.lanes > 1) return "threads share its rows";
  const Instr* store = nullptr;
  for (const Instr& instr : kernel.program.instrs) {
    if (instr.kind == InstrKind::Store && instr.slot == output) store = &instr;
  }
  if (store == nullptr || store->once || !store->mask.empty()) return "not all of it is written";
  // One element of a kernel with rows: what does not depend on them is computed apart from them,
  // and on the CPU once more for the stores at the end.
  if (row && store->index.terms.empty()) return "it is one element beside rows";
  // Every point has an element of its own.
  for (int axis = 0; axis < static_cast<int>(kernel.program.axes.size()); ++axis) {
    if (kernel.program.axes[static_cast<std::size_t>(axis)].role != kernel::Role::Par) continue;
    const bool indexed = std::any_of(store->index.terms.begin(), store->index.terms.end(),
                                     [&](const kernel::Term& term) { return term.axis == axis; });
    if (!indexed) return "several threads read it";
  }
  const bool at_the_store = std::all_of(
      kernel.program.instrs.begin(), kernel.program.instrs.end(), [&](const Instr& instr) {
        if (instr.kind == InstrKind::Search && instr.slot == leaf) return false;
        if (instr.kind != InstrKind::Load || instr.slot != leaf) return true;
        const bool along_row = std::any_of(
            instr.index.terms.begin(), instr.index.terms.end(), [&](const kernel::Term& t) {
              return kernel.program.axes[static_cast<std::size_t>(t.axis)].role ==
                     kernel::Role::Red;
            });
        return instr.a < 0 && instr.mask.empty() && !along_row &&
               same_index(instr.index, store->index, kernel.ints);
      });
  return at_the_store ? nullptr : "it is read at other places than the result is written";
}

// One slot for both: the program says that it updates in place.
void merge_slots(KernelDraft& kernel, int leaf, int output) {
  kernel.program.slots[static_cast<std::size_t>(leaf)].written = true;
  auto& instrs = kernel.program.instrs;
  const auto load = std::find_if(instrs.begin(), instrs.end(), [&](const Instr& instr) {
    return instr.kind == InstrKind::Load && instr.slot == leaf;
  });
  const Affine index = load->index;  // word for word, so that the text shows them equal
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
  kernel.in_place.push_back(kernel.slot_values[static_cast<std::size_t>(output)]);
  kernel.program.slots.erase(kernel.program.slots.begin() + output);
  kernel.slot_values.erase(kernel.slot_values.begin() + output);
}

// steps x steps bits: which steps a step needs, directly or not.
class Reach {
 public:
  explicit Reach(const std::vector<std::vector<int>>& needs) : words_((needs.size() + 63) / 64) {
    bits_.assign(needs.size() * words_, 0);
    for (std::size_t s = 0; s < needs.size(); ++s) {  // needs[s] are all < s
      for (const int n : needs[s]) {
        const std::size_t need = static_cast<std::size_t>(n);
        for (std::size_t w = 0; w < words_; ++w) bits_[s * words_ + w] |= bits_[need * words_ + w];
        bits_[s * words_ + need / 64] |= std::uint64_t{1} << (need % 64);
      }
    }
  }
  bool needs(std::size_t step, std::size_t other) const {
    return (bits_[step * words_ + other / 64] >> (other % 64) & 1) != 0;
  }

 private:
  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

// Per step the earlier steps it must follow: producers of what it reads, and readers of what it
// overwrites.
std::vector<std::vector<int>> step_needs(const std::vector<StepDraft>& steps) {
  int values = 0;
  for (const StepDraft& step : steps) {
    for (const int value : step.reads) values = std::max(values, value + 1);
    for (const int value : step.writes) values = std::max(values, value + 1);
  }
  // Several where each writes a part.
  std::vector<std::vector<int>> producers(static_cast<std::size_t>(values));
  std::vector<std::vector<int>> readers(static_cast<std::size_t>(values));
  std::vector<std::vector<int>> needs(steps.size());
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const int step = static_cast<int>(s);
    for (const int value : steps[s].reads) {
      for (const int from : producers[static_cast<std::size_t>(value)]) {
        if (from != step) needs[s].push_back(from);
      }
    }
    for (const int value : steps[s].writes) {
      for (const int reader : readers[static_cast<std::size_t>(value)]) {
        if (reader != step) needs[s].push_back(reader);
      }
      producers[static_cast<std::size_t>(value)].push_back(step);
    }
    for (const int value : steps[s].reads) readers[static_cast<std::size_t>(value)].push_back(step);
  }
  return needs;
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
bool donate_slot(KernelDraft& kernel, int output, std::size_t step,
                 const std::vector<Value>& values, const std::map<int, std::size_t>& last_read,
                 const std::set<int>& reserved, bool any, Donation& donation) {
  const int value = kernel.slot_values[static_cast<std::size_t>(output)];
  const Value& to = values[static_cast<std::size_t>(value)];
  const auto own = donation.predecessor.find(value);
  for (int leaf = 0; leaf < static_cast<int>(kernel.slot_values.size()); ++leaf) {
    const kernel::Slot& slot = kernel.program.slots[static_cast<std::size_t>(leaf)];
    const int source = kernel.slot_values[static_cast<std::size_t>(leaf)];
    const Value& from = values[static_cast<std::size_t>(source)];
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
      Donation::Refusal& refused = donation.refused[static_cast<std::size_t>(value)];
      if (refused.leaf < 0 || is_own) refused = {from.number, why};
      continue;
    }
    donation.donor[static_cast<std::size_t>(value)] = from.number;
    merge_slots(kernel, leaf, output);
    return true;
  }
  return false;
}

}  // namespace

void donate(std::vector<StepDraft>& steps, const std::vector<Value>& values, Donation& donation) {
  donation.donor.assign(values.size(), -1);
  donation.refused.assign(values.size(), {});
  std::map<int, std::size_t> last_read;  // value -> step
  std::set<int> reserved;                // leaves that a successor should have
  for (std::size_t s = 0; s < steps.size(); ++s) {
    for (const int value : steps[s].reads) last_read[value] = s;
  }
  for (const auto& [value, leaf] : donation.predecessor) reserved.insert(leaf);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    if (steps[s].segments.empty()) continue;
    KernelDraft& kernel = steps[s].segments.front();
    for (const bool any : {false, true}) {
      for (int output = 0; output < static_cast<int>(kernel.slot_values.size()); ++output) {
        const std::size_t value =
            static_cast<std::size_t>(kernel.slot_values[static_cast<std::size_t>(output)]);
        const bool written = kernel.program.slots[static_cast<std::size_t>(output)].written;
        const ValueKind kind = values[value].kind;
        // The parts of a join are written one by one, while others may still read the leaf.
        const bool whole = kind != ValueKind::Leaf && kind != ValueKind::Join;
        if (!written || !donation.is_output[value] || !whole) continue;
        // A donation renumbers the slots: look at them from the start.
        if (donate_slot(kernel, output, s, values, last_read, reserved, any, donation)) output = -1;
      }
    }
    steps[s].collect();
  }
}

namespace {

// The text by which kernels merge. Vectors and tiles of a Map serve any size: they do not divide.
std::string merging_text(kernel::Program program) {
  if (program.schedule.kind == kernel::ScheduleKind::Map) {
    program.schedule.vec = 1;
    program.schedule.tile = 0;
    program.schedule.tile_axis = -1;
  }
  return kernel::to_text(program);
}

// The schedule of the segment that moves most.
kernel::Schedule common_schedule(const std::vector<KernelDraft>& segments) {
  const auto most = std::max_element(
      segments.begin(), segments.end(), [](const KernelDraft& a, const KernelDraft& b) {
        return a.bytes_read + a.bytes_written < b.bytes_read + b.bytes_written;
      });
  kernel::Schedule schedule = most->program.schedule;
  schedule.horizontal = true;
  return schedule;
}

// Of steps that could be merged where the last of them stands, those whose operands may wait for
// it: the nearest, until the temporaries that live longer for it are too many bytes.
std::vector<std::size_t> worth_waiting(const std::vector<StepDraft>& steps,
                                       const std::vector<std::size_t>& candidates,
                                       const std::vector<Value>& values,
                                       const std::vector<bool>& is_output) {
  const std::size_t last = candidates.back();
  std::set<int> read_later;  // by the last one or after it
  for (std::size_t s = last; s < steps.size(); ++s)
    read_later.insert(steps[s].reads.begin(), steps[s].reads.end());
  std::vector<std::size_t> chosen{last};
  std::uint64_t extended = 0;
  for (std::size_t k = candidates.size() - 1; k-- > 0;) {
    const std::size_t s = candidates[k];
    std::uint64_t bytes = 0;
    for (const int value : steps[s].reads) {
      const std::size_t v = static_cast<std::size_t>(value);
      const bool temporary = values[v].kind != ValueKind::Leaf && !is_output[v];
      if (temporary && read_later.insert(value).second) bytes += bytes_of(values[v]);
    }
    if (extended + bytes > kMaxExtendedBytes) break;
    extended += bytes;
    chosen.push_back(s);
  }
  std::reverse(chosen.begin(), chosen.end());
  return chosen;
}

// Merges some steps of the kind that do not need each other; false if there is nothing left to try.
bool merge_some(std::vector<StepDraft>& steps, int kind, const std::vector<Value>& values,
                const std::vector<bool>& is_output) {
  std::vector<std::size_t> members;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    if (steps[s].kind == kind) members.push_back(s);
  }
  if (members.size() < 2) return false;
  const Reach reach(step_needs(steps));
  std::vector<std::size_t> chosen;
  for (const std::size_t s : members) {
    const bool free = std::none_of(chosen.begin(), chosen.end(), [&](std::size_t c) {
      return reach.needs(s, c) || reach.needs(c, s);
    });
    if (free) chosen.push_back(s);
  }
  if (chosen.size() < 2) return false;
  chosen = worth_waiting(steps, chosen, values, is_output);
  if (chosen.size() < 2) {
    steps[chosen.front()].kind = -1;
    return true;
  }
  // All of them run where the last one stood; whoever needs an earlier one moves behind.
  const std::size_t last = chosen.back();
  StepDraft target;
  for (const std::size_t s : chosen)
    target.segments.push_back(std::move(steps[s].segments.front()));
  const kernel::Schedule schedule = common_schedule(target.segments);
  for (KernelDraft& segment : target.segments) segment.program.schedule = schedule;
  target.collect();
  std::vector<StepDraft> merged, after;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    if (std::binary_search(chosen.begin(), chosen.end(), s)) continue;
    const bool behind = s > last || std::any_of(chosen.begin(), chosen.end(),
                                                [&](std::size_t c) { return reach.needs(s, c); });
    (behind ? after : merged).push_back(std::move(steps[s]));
  }
  merged.push_back(std::move(target));
  for (StepDraft& step : after) merged.push_back(std::move(step));
  steps = std::move(merged);
  return true;
}

}  // namespace

std::vector<StepDraft> merge_horizontally(std::vector<StepDraft> steps,
                                          const std::vector<Value>& values,
                                          const std::vector<bool>& is_output) {
  std::map<std::string, int> kinds;
  for (StepDraft& step : steps) {
    if (step.segments.empty()) continue;
    std::string text = merging_text(step.segments.front().program);
    const Value& first = values[static_cast<std::size_t>(step.writes.front())];
    if (first.epoch != 0) text += std::to_string(first.epoch);
    if (first.stage != 0) text += " stage " + std::to_string(first.stage);
    step.kind = kinds.try_emplace(text, static_cast<int>(kinds.size())).first->second;
  }
  for (const auto& [text, kind] : kinds) {
    while (merge_some(steps, kind, values, is_output)) {
    }
  }
  return steps;
}

std::uint64_t place_temporaries(std::vector<StepDraft>& steps, const std::vector<Value>& values,
                                const std::vector<bool>& is_output,
                                std::vector<std::int64_t>& offset) {
  struct Interval {
    int value;
    std::size_t first, last;
    std::uint64_t bytes;
  };
  std::map<int, Interval> intervals;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    for (const auto* list : {&steps[s].writes, &steps[s].reads}) {
      for (const int value : *list) {
        const std::size_t v = static_cast<std::size_t>(value);
        if (values[v].kind == ValueKind::Leaf || is_output[v]) continue;
        const auto [it, fresh] = intervals.try_emplace(
            value, Interval{value, s, s, (bytes_of(values[v]) + 255) & ~255ull});
        it->second.last = s;
      }
    }
  }
  std::vector<Interval> order;
  for (const auto& [value, interval] : intervals) order.push_back(interval);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    if (steps[s].scratch_bytes > 0)
      order.push_back({-1 - static_cast<int>(s), s, s, (steps[s].scratch_bytes + 255) & ~255ull});
  }
  // Large first: the classic order for first fit.
  std::sort(order.begin(), order.end(), [](const Interval& a, const Interval& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.value < b.value;
  });
  std::vector<std::pair<Interval, std::uint64_t>> placed;
  std::uint64_t arena = 0;
  for (const Interval& interval : order) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> taken;
    for (const auto& [other, at] : placed) {
      if (other.first <= interval.last && interval.first <= other.last)
        taken.push_back({at, at + other.bytes});
    }
    std::sort(taken.begin(), taken.end());
    std::uint64_t at = 0;
    for (const auto& [begin, end] : taken) {
      if (at + interval.bytes <= begin) break;
      at = std::max(at, end);
    }
    if (interval.value >= 0) {
      offset[static_cast<std::size_t>(interval.value)] = static_cast<std::int64_t>(at);
    } else {
      steps[interval.first].scratch_offset = at;
    }
    placed.push_back({interval, at});
    arena = std::max(arena, at + interval.bytes);
  }
  return arena;
}

}  // namespace volta::plan
