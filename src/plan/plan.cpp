// Planning a batch: lower, group, build kernels, merge. The result may have open sizes; plans are
// made from it by computing its numbers and placing its temporaries in memory.
#include "plan/plan.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <span>
#include <stdexcept>
#include <utility>

#include "backend/registry.h"
#include "kernel/observer.h"
#include "plan/arena.h"
#include "plan/calls/call.h"
#include "plan/codegen/program_drafts.h"
#include "plan/codegen/schedule.h"
#include "plan/expand/rules.h"
#include "plan/explain.h"
#include "plan/group/structure.h"
#include "plan/lower/index_map.h"
#include "plan/passes/passes.h"
#include "plan/steps_builder.h"

namespace volta::plan {
namespace {

std::uint32_t next_plan_id() {
  static std::atomic<std::uint32_t> id{1};
  return id.fetch_add(1, std::memory_order_relaxed);
}

// The call that the group is.
StepDraft call_step(const Values& values, const Grouping& grouping, const Group& group,
                    bool massively_parallel) {
  const Value& v = values[group.roots.front()];
  StepDraft step;
  step.call = v.call->draft({values, grouping.stored}, v, group.roots.size(), massively_parallel);
  for (std::size_t k = 0; k < step.call.reads.size(); ++k) {
    if (step.call.reads[k] < 0) throw NeedsStore{v.in[k]};
    step.reads.push_back(memory_of(values, step.call.reads[k]));
  }
  step.writes = group.roots;
  return step;
}

// The kernels and calls of a grouping. Of groups that turn out not to be expressible `missing` is
// told the values that have to lie in memory; the steps are all of them if there are none.
std::vector<StepDraft> steps_of(const Values& values, const Grouping& grouping,
                                bool massively_parallel, ProgramDrafts& programs,
                                std::vector<int>& missing) {
  std::vector<StepDraft> steps;
  programs.start(grouping);
  for (std::size_t g = 0; g < grouping.groups.size(); ++g) {
    const Group& group = grouping.groups[g];
    if (values[group.roots.front()].kind == ValueKind::Join) continue;
    StepDraft& step = steps.emplace_back();
    try {
      if (group.is_call) {
        step = call_step(values, grouping, group, massively_parallel);
      } else {
        programs.emit(g);
      }
    } catch (const NeedsStore& needs) {
      missing.push_back(needs.value);
    }
  }
  if (!missing.empty()) return steps;
  KernelBuilder builder(values, grouping, massively_parallel);
  std::size_t next = 0;
  for (std::size_t g = 0; g < grouping.groups.size(); ++g) {
    if (values[grouping.groups[g].roots.front()].kind == ValueKind::Join) continue;
    StepDraft& step = steps[next++];
    if (!grouping.groups[g].is_call)
      step.segments.push_back(builder.build(std::move(programs[g]), g));
    step.collect();
  }
  return steps;
}

// The values at the sizes of planning.
Values with_plain_sizes(const Values& values) {
  Values result = values;
  const auto close = [](std::vector<Extent>& extents) {
    for (Extent& extent : extents) extent = extent.hint();
  };
  for (Value& v : result) {
    v.shape = Shape(v.shape.hint());
    close(v.attrs);
    close(v.home_strides);
    v.home_offset = v.home_offset.hint();
  }
  return result;
}

// Groups and their kernels: as for an earlier batch of the same structure if that works out at
// these sizes. Values that groups cannot compute in place are stored, all of them at once, and
// grouping starts again: layers of a network are alike, and each may have one.
//
// Grouping goes by the sizes of planning: it is a choice, not a condition. That its groups are
// right for other sizes too is found out when they are laid out and when their kernels are made.
std::vector<StepDraft> draft_steps(const Values& values, bool open, const std::vector<int>& outputs,
                                   bool massively_parallel, GroupingCache& cache) {
  const Values closed = open ? with_plain_sizes(values) : Values();
  const Values& numbers = open ? closed : values;
  const graph::Hash structure = structure_of(numbers, outputs);
  std::vector<int> missing;
  ProgramDrafts programs(values);
  if (auto known = cache.find(structure, values)) {
    std::vector<StepDraft> steps = steps_of(values, *known, massively_parallel, programs, missing);
    if (missing.empty()) return steps;  // else another cut is needed at these sizes
    programs.keep(std::move(*known));
  }
  PerValue<bool> must_store(values, false);
  Grouper grouper(numbers, outputs, must_store, massively_parallel);
  for (;;) {
    Grouping grouping = grouper.run();
    if (open && !lay_out(values, grouping))
      throw std::logic_error("planner: groups do not fit the sizes they were made for");
    missing.clear();
    std::vector<StepDraft> steps =
        steps_of(values, grouping, massively_parallel, programs, missing);
    if (missing.empty()) {
      cache.insert(structure, std::move(grouping));
      return steps;
    }
    programs.keep(std::move(grouping));
    const PerValue<bool> before = must_store;
    for (const int value : missing) {
      const ValueId base = reshape_base(values, value);
      if (before[base]) throw std::logic_error("planner: a stored value cannot be read back");
      must_store[base] = true;
    }
  }
}

// Per node: whether it depends on an index that the batch checks.
std::vector<bool> checked_nodes(const graph::Batch& batch) {
  std::vector<bool> checked(batch.nodes.size(), false);
  if (batch.sites.empty()) return checked;
  for (std::size_t n = 0; n < batch.nodes.size(); ++n) {
    const std::span<graph::Node* const> inputs = batch.nodes[n]->input_span();
    checked[n] =
        checks_indices(batch.nodes[n]->op) ||
        std::any_of(inputs.begin(), inputs.end(), [&](const graph::Node* input) {
          return input->index < n && batch.nodes[input->index] == input && checked[input->index];
        });
  }
  return checked;
}

// Which leaf's variable each new value was assigned to.
std::map<int, int> predecessors(const graph::Batch& batch, const Graph& graph) {
  std::map<int, int> result;
  for (const graph::JournalEntry& entry : batch.journal) {
    if (entry.leaf == graph::Batch::kNoLeaf) continue;
    result[reshape_base(graph.values, graph.node_values[entry.assigned->index])] =
        static_cast<int>(entry.leaf);
  }
  return result;
}

// What planning makes of a batch: a plan whose numbers are extents.
struct Draft {
  struct Segment {  // of a kernel
    std::vector<Extent> ints;
    std::vector<BufferRef> buffers;
    std::uint32_t first_arg = 0;
    Extent largest = 0, bytes_read = 0, bytes_written = 0, operations = 0;
  };
  struct Buffer {  // that a call reads or writes
    BufferRef buffer;
    DType dtype;
    Extent elements;
  };
  // References to temporaries name them by `index`.
  struct Draw {
    Step step;
    std::vector<Segment> segments;  // none: a call
    bool overwrites = false;        // a kernel that writes into the buffer of a leaf
    std::vector<Extent> sizes;
    std::vector<Buffer> reads, writes;
    int scratch = -1;  // the temporary that is its scratch memory
  };
  std::vector<Draw> steps;
  std::vector<Temporary> temporaries;
  std::vector<Extent> leaf_bytes, output_bytes;
  std::vector<Result> results;
  std::vector<int> donor;
  std::vector<std::uint32_t> arg_map;
  std::vector<bool> checked;

  template <class Visit>
  void visit_extents(const Visit& visit) const;
};

template <class Visit>
void Draft::visit_extents(const Visit& visit) const {
  for (const Draw& step : steps) {
    for (const Segment& segment : step.segments) {
      for (const Extent extent : segment.ints) visit(extent);
      for (const Extent extent :
           {segment.largest, segment.bytes_read, segment.bytes_written, segment.operations}) {
        visit(extent);
      }
    }
    for (const Extent extent : step.sizes) visit(extent);
    for (const auto* list : {&step.reads, &step.writes}) {
      for (const Buffer& buffer : *list) visit(buffer.elements);
    }
  }
  for (const Temporary& temporary : temporaries) visit(temporary.bytes);
  for (const Extent extent : leaf_bytes) visit(extent);
  for (const Extent extent : output_bytes) visit(extent);
}

Draft draft_plan(const graph::Batch& batch, const BatchSizes& sizes, bool open,
                 const std::vector<bool>& donatable, const DeviceEntry& entry,
                 GroupingCache& groupings, const graph::Node* only, Account* account,
                 std::uint32_t id) {
  Draft plan;
  const bool massively_parallel = !entry.device.is_cpu();
  Graph graph = lower(batch, sizes, entry, &graph::expansion_of);
  run_passes(graph, id);
  const Values& values = graph.values;

  // Results: every held node lies in the buffer of a stored value or of a leaf.
  std::vector<int> held_values, output_values;
  const std::vector<bool> checked = checked_nodes(batch);
  std::vector<bool> leaf_kept(batch.leaves.size(), false);
  PerValue<bool> is_output(values, false);
  PerValue<int> output_number(values, -1);
  for (const graph::Node* node : batch.nodes) {
    if (only != nullptr ? node != only : !node->live) continue;
    const ValueId base = reshape_base(values, graph.node_values[node->index]);
    const Value& v = values[base];
    held_values.push_back(graph.node_values[node->index]);
    plan.checked.push_back(checked[node->index]);
    if (v.kind == ValueKind::Leaf) {
      leaf_kept[static_cast<std::size_t>(v.number)] = true;
      plan.results.push_back(
          {node->index, Result::Kind::Leaf, static_cast<std::uint32_t>(v.number)});
      continue;
    }
    int& number = output_number[base];
    if (number < 0) {
      number = static_cast<int>(output_values.size());
      output_values.push_back(base);
      is_output[base] = true;
      plan.output_bytes.push_back(v.shape.numel() * size_of(v.dtype));
    }
    plan.results.push_back({node->index, Result::Kind::Output, static_cast<std::uint32_t>(number)});
  }

  std::vector<StepDraft> steps =
      draft_steps(values, open, held_values, massively_parallel, groupings);
  const std::map<int, int> predecessor = predecessors(batch, graph);
  Donation donation{donatable, leaf_kept, is_output, predecessor, {}, {}};
  donate(steps, values, donation);
  steps = merge_horizontally(std::move(steps), values, is_output);
  for (const int value : output_values) plan.donor.push_back(donation.donor[value]);
  const Temporaries temporaries = temporaries_of(steps, values, is_output);
  plan.temporaries = temporaries.all;
  for (const graph::Leaf& leaf : batch.leaves)
    plan.leaf_bytes.push_back(sizes.shape(*leaf.node).numel() * size_of(leaf.node->dtype));

  const auto buffer = [&](ValueId value) {
    if (values[value].kind == ValueKind::Leaf)
      return BufferRef{BufferRef::Kind::Leaf, static_cast<std::uint32_t>(values[value].number), 0};
    if (is_output[value])
      return BufferRef{BufferRef::Kind::Output, static_cast<std::uint32_t>(output_number[value]),
                       0};
    return BufferRef{BufferRef::Kind::Temp, static_cast<std::uint32_t>(temporaries.of_value[value]),
                     0};
  };
  if (account != nullptr) account->add_results(batch, plan.results, output_values, steps, donation);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    StepDraft& step = steps[s];
    Draft::Draw& draw = plan.steps.emplace_back();
    if (step.segments.empty()) {
      draw.step = std::move(step.call.step);
      draw.sizes = std::move(step.call.sizes);
      draw.scratch = temporaries.of_step[s];
      const auto add = [&](const std::vector<int>& from, std::vector<Draft::Buffer>& to) {
        for (const int value : from)
          to.push_back({buffer(value), values[value].dtype, values[value].shape.numel()});
      };
      add(step.reads, draw.reads);
      add(step.writes, draw.writes);
      continue;
    }
    KernelStep kernel;
    kernel.label = step.segments.front().label;
    for (KernelDraft& draft : step.segments) {
      Draft::Segment& segment = draw.segments.emplace_back();
      segment.ints = std::move(draft.ints);
      segment.first_arg = static_cast<std::uint32_t>(plan.arg_map.size());
      for (const int arg : draft.args) plan.arg_map.push_back(static_cast<std::uint32_t>(arg));
      for (const int value : draft.slot_values) segment.buffers.push_back(buffer(value));
      segment.largest = draft.largest;
      segment.bytes_read = draft.bytes_read;
      segment.bytes_written = draft.bytes_written;
      segment.operations = draft.operations;
      draw.overwrites = draw.overwrites || !draft.in_place.empty();
    }
    kernel.program =
        std::make_shared<const kernel::Program>(std::move(step.segments.front().program));
    kernel::validate(*kernel.program);
    kernel::report_program(*kernel.program);
    draw.step = std::move(kernel);
  }
  return plan;
}

// Whether kernels with these schedules may be merged: only Maps accept any binding.
bool merge_alike(kernel::Schedule a, kernel::Schedule b) {
  for (kernel::Schedule* schedule : {&a, &b}) {
    schedule->horizontal = false;
    if (schedule->kind != kernel::ScheduleKind::Map) continue;
    schedule->vec = 1;
    schedule->tile = 0;
    schedule->tile_axis = -1;
  }
  return a == b;
}

// The program of a kernel at other sizes than those of planning: the same one with the schedule
// that planning would have chosen. Null if planning would have decided otherwise by that schedule.
std::shared_ptr<const kernel::Program> rescheduled(
    const std::shared_ptr<const kernel::Program>& program, const Draft::Draw& step,
    const KernelStep& kernel, std::span<const std::int64_t> largest,
    std::span<const std::int64_t> bytes, bool massively_parallel) {
  kernel::Schedule chosen;
  std::int64_t most = -1;
  for (std::size_t k = 0; k < kernel.segments.size(); ++k) {
    const kernel::Schedule schedule =
        choose_schedule(*program, kernel.segments[k].ints, largest[k], massively_parallel);
    if (kernel.segments.size() > 1 && !merge_alike(schedule, program->schedule)) return nullptr;
    if (bytes[k] > most) most = bytes[k], chosen = schedule;
  }
  chosen.horizontal = program->schedule.horizontal;
  if (chosen == program->schedule) return program;
  // Leaves are overwritten only where no threads share a row.
  if (step.overwrites && chosen.lanes > 1 && chosen.kind == kernel::ScheduleKind::Row)
    return nullptr;
  auto changed = std::make_shared<kernel::Program>(*program);
  changed->schedule = chosen;
  kernel::report_program(*changed);
  return changed;
}

// A plan from a draft. `number` gives the number of an extent. At other sizes than those of
// planning, null if the plan is not for them.
template <class Number>
std::unique_ptr<Plan> instantiate(const Draft& draft, const DeviceEntry& entry, bool resized,
                                  std::uint32_t id, const Number& number) {
  const auto bytes_of = [&](Extent extent) { return static_cast<std::uint64_t>(number(extent)); };
  auto plan = std::make_unique<Plan>();
  PlanSteps& steps = plan->steps;
  steps.id = id;
  std::vector<std::uint64_t> bytes, offsets;
  for (const Temporary& temporary : draft.temporaries) bytes.push_back(bytes_of(temporary.bytes));
  steps.arena_bytes = place_temporaries(draft.temporaries, bytes, offsets);
  for (const Extent extent : draft.leaf_bytes) steps.leaf_bytes.push_back(bytes_of(extent));
  for (const Extent extent : draft.output_bytes) steps.output_bytes.push_back(bytes_of(extent));
  const auto placed = [&](BufferRef buffer) {
    if (buffer.kind != BufferRef::Kind::Temp) return buffer;
    return BufferRef{BufferRef::Kind::Temp, 0, offsets[buffer.index]};
  };
  std::vector<std::int64_t> numbers, largest, moved;
  std::vector<BufferRef> reads, writes;
  std::vector<CallBuffer> read_sizes, written_sizes;
  steps.steps.reserve(draft.steps.size());
  for (const Draft::Draw& from : draft.steps) {
    Step& step = steps.steps.emplace_back(from.step);
    if (from.segments.empty()) {
      const Call& call = *call_of(step);
      if (resized) {
        numbers.clear();
        for (const Extent extent : from.sizes) numbers.push_back(number(extent));
        if (!numbers.empty() && !call.resize(step, numbers)) return nullptr;
        if (call.asks_support(step) && !entry.backend.takes(entry.index, step).taken)
          return nullptr;
      }
      const auto add = [&](const std::vector<Draft::Buffer>& list, std::vector<BufferRef>& to,
                           std::vector<CallBuffer>& sizes) {
        to.clear();
        sizes.clear();
        for (const Draft::Buffer& buffer : list) {
          to.push_back(placed(buffer.buffer));
          sizes.push_back({buffer.dtype, number(buffer.elements)});
        }
      };
      add(from.reads, reads, read_sizes);
      add(from.writes, writes, written_sizes);
      const std::uint64_t scratch =
          from.scratch >= 0 ? offsets[static_cast<std::size_t>(from.scratch)] : 0;
      bind(step, reads, writes, {BufferRef::Kind::Temp, 0, scratch});
      steps.costs.push_back(call.cost(step, read_sizes, written_sizes));
      continue;
    }
    auto& kernel = std::get<KernelStep>(step);
    StepCost& cost = steps.costs.emplace_back();
    largest.clear();
    moved.clear();
    for (const Draft::Segment& segment : from.segments) {
      Binding& binding = kernel.segments.emplace_back();
      binding.first_arg = segment.first_arg;
      binding.ints.reserve(segment.ints.size());
      for (const Extent extent : segment.ints) binding.ints.push_back(number(extent));
      for (const BufferRef& buffer : segment.buffers) binding.buffers.push_back(placed(buffer));
      const StepCost part{.bytes_read = bytes_of(segment.bytes_read),
                          .bytes_written = bytes_of(segment.bytes_written),
                          .operations = bytes_of(segment.operations)};
      cost.bytes_read += part.bytes_read;
      cost.bytes_written += part.bytes_written;
      cost.operations += part.operations;
      largest.push_back(number(segment.largest));
      moved.push_back(static_cast<std::int64_t>(part.bytes_read + part.bytes_written));
    }
    if (!resized) continue;
    kernel.program =
        rescheduled(kernel.program, from, kernel, largest, moved, !entry.device.is_cpu());
    if (kernel.program == nullptr) return nullptr;
  }
  plan->results = draft.results;
  plan->donor = draft.donor;
  plan->arg_map = draft.arg_map;
  plan->checked = draft.checked;
  steps.arg_words = static_cast<std::uint32_t>(plan->arg_map.size());
  plan->kept.resize(steps.output_bytes.size());
  return plan;
}

class OpenPlanOfDraft final : public OpenPlan {
 public:
  OpenPlanOfDraft(SizePattern pattern, Draft draft, OpenSizes::Formulas formulas,
                  const DeviceEntry& entry)
      : pattern_(std::move(pattern)),
        draft_(std::move(draft)),
        formulas_(std::move(formulas)),
        entry_(entry) {}

  std::unique_ptr<Plan> plan_for(std::span<const std::int64_t> sizes) override {
    if (!pattern_.symbols_of(sizes, symbols_) || !formulas_.evaluate(symbols_, values_))
      return nullptr;
    return instantiate(draft_, entry_, true, next_plan_id(),
                       [&](Extent extent) { return formulas_.value(extent, values_); });
  }
  std::vector<std::string> guards() const override { return formulas_.guard_texts(); }
  std::size_t bytes() const override {
    std::size_t bytes = sizeof *this + pattern_.bytes() + formulas_.bytes();
    draft_.visit_extents([&](Extent) { bytes += sizeof(Extent); });
    return bytes + draft_.steps.size() * sizeof(Draft::Draw);
  }

 private:
  SizePattern pattern_;
  Draft draft_;
  OpenSizes::Formulas formulas_;
  const DeviceEntry& entry_;
  std::vector<std::int64_t> symbols_, values_;  // of the last batch
};

}  // namespace

Plan::Plan() = default;

Plan::~Plan() { drop_kept(); }

void Plan::drop_kept() {
  for (auto& pair : kept) {
    for (graph::Buffer*& buffer : pair) {
      if (buffer != nullptr) release_kept(std::exchange(buffer, nullptr));
    }
  }
}

void release_kept(graph::Buffer* buffer) {
  buffer->kept = false;
  buffer->entry->cached.kept_outputs.fetch_sub(buffer->bytes, std::memory_order_relaxed);
  graph::release(buffer);
}

std::unique_ptr<Plan> build_plan(const graph::Batch& batch, const std::vector<bool>& donatable,
                                 const DeviceEntry& entry, GroupingCache& groupings,
                                 const graph::Node* only, Account* account) {
  const std::uint32_t id = next_plan_id();
  const Draft draft =
      draft_plan(batch, BatchSizes(batch), false, donatable, entry, groupings, only, account, id);
  return instantiate(draft, entry, false, id, [](Extent extent) { return extent.hint(); });
}

std::unique_ptr<OpenPlan> build_open_plan(const graph::Batch& batch, SizePattern pattern,
                                          const std::vector<bool>& donatable,
                                          const DeviceEntry& entry, GroupingCache& groupings) {
  OpenSizes open;
  const BatchSizes sizes(batch, pattern.extents(sizes_of(batch), open));
  Draft draft =
      draft_plan(batch, sizes, true, donatable, entry, groupings, nullptr, nullptr, next_plan_id());
  std::vector<Extent> wanted;
  draft.visit_extents([&](Extent extent) { wanted.push_back(extent); });
  return std::make_unique<OpenPlanOfDraft>(std::move(pattern), std::move(draft),
                                           open.formulas(wanted), entry);
}

}  // namespace volta::plan
