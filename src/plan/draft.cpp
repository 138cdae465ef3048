// Drafting a plan: lower, group, build kernels, merge.
#include "plan/draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/heap_bytes.h"
#include "kernel/observer.h"
#include "plan/calls/call.h"
#include "plan/calls/loop.h"
#include "plan/codegen/program_drafts.h"
#include "plan/codegen/schedule.h"
#include "plan/expand/rules.h"
#include "plan/group/structure.h"
#include "plan/lower/index_map.h"
#include "plan/passes/passes.h"
#include "plan/steps_builder.h"

namespace volta::plan {
namespace {

// What the graphs of a plan share while they are drafted.
struct DraftContext {
  const DeviceEntry& entry;
  GroupingCache& groupings;
  bool open;         // whether some sizes are open
  std::uint32_t id;  // of the plan, for dumps

  bool massively_parallel() const { return !entry.device.is_cpu(); }
};

// Drafts the step of a group that is a call.
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

// Drafts the kernels and calls of a grouping. If some groups cannot be expressed as kernels,
// `missing` receives the values that must be stored first, and the returned steps are incomplete.
std::vector<StepDraft> steps_of(const Values& values, const Grouping& grouping,
                                bool massively_parallel, ProgramDrafts& programs,
                                std::vector<int>& missing) {
  std::vector<StepDraft> steps;
  programs.start(grouping);
  for (const GroupId g : grouping.groups.ids()) {
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
  for (const GroupId g : grouping.groups.ids()) {
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
    if (missing.empty()) return steps;  // otherwise another grouping is needed at these sizes
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

// For each new value, the leaf whose variable it was assigned to.
std::map<int, int> predecessors(const DraftTask& task, const Graph& graph) {
  std::map<int, int> result;
  for (const Successor& successor : task.successors) {
    result[reshape_base(graph.values, graph.node_values[successor.node])] =
        static_cast<int>(successor.leaf);
  }
  return result;
}

// The values of the results, and the buffers in which they lie.
struct ResultValues {
  explicit ResultValues(const Values& values)
      : is_output(values, false), is_held(values, false), number(values, -1) {}
  std::vector<int> wanted;  // the results' own values
  std::vector<ValueId> outputs;
  std::vector<bool> leaf_kept;  // per leaf: whether a result lies in it
  PerValue<bool> is_output;
  PerValue<bool> is_held;  // an output that somebody holds: it may take over a leaf's buffer
  PerValue<int> number;    // of an output
};

bool shows_channels_second(const Value& v) {
  if (v.kind != ValueKind::Permute || v.shape.rank() < 3) return false;
  const std::vector<std::int64_t> order = channels_second(v.shape.rank());
  return std::equal(v.attrs.begin(), v.attrs.end(), order.begin(), order.end(),
                    [](Extent a, std::int64_t b) { return a.hint() == b && !a.is_open(); });
}

// Every wanted node lies in the buffer of a stored value or of a leaf.
ResultValues collect_results(const DraftTask& task, const Graph& graph, Draft& plan) {
  const Values& values = graph.values;
  ResultValues all(values);
  all.leaf_kept.assign(task.view.leaves().size(), false);
  for (std::uint32_t n = 0; n < task.view.nodes().size(); ++n) {
    const bool wanted = task.only != nullptr ? task.view.nodes()[n] == task.only
                                             : task.view.wanted(n) != Wanted::No;
    if (!wanted) continue;
    ValueId value = graph.node_values[n];
    const bool channels_last =
        task.view.wanted(n) == Wanted::Later && shows_channels_second(values[value]);
    if (channels_last) value = values[value].in[0];
    const ValueId base = reshape_base(values, value);
    const Value& v = values[base];
    all.wanted.push_back(value);
    plan.channels_last.push_back(channels_last);
    if (v.kind == ValueKind::Leaf) {
      all.leaf_kept[static_cast<std::size_t>(v.number)] = true;
      plan.results.push_back({n, Result::Kind::Leaf, static_cast<std::uint32_t>(v.number)});
      continue;
    }
    int& number = all.number[base];
    if (number < 0) {
      number = static_cast<int>(all.outputs.size());
      all.outputs.push_back(base);
      all.is_output[base] = true;
      plan.output_bytes.push_back(v.shape.numel() * size_of(v.dtype));
    }
    if (task.view.wanted(n) != Wanted::Later) all.is_held[base] = true;
    plan.results.push_back({n, Result::Kind::Output, static_cast<std::uint32_t>(number)});
  }
  return all;
}

std::vector<OutputOrigin> origins_of(const std::vector<ValueId>& outputs,
                                     const std::vector<StepDraft>& steps,
                                     const Donation& donation) {
  std::vector<OutputOrigin> origins;
  for (const ValueId value : outputs) {
    OutputOrigin& origin = origins.emplace_back();
    for (std::size_t s = 0; s < steps.size() && origin.step == 0; ++s) {
      const auto& writes = steps[s].writes;
      if (std::find(writes.begin(), writes.end(), value) != writes.end())
        origin.step = static_cast<int>(s) + 1;
    }
    origin.donor = donation.donor[value];
    origin.refused = donation.refused[value].leaf;
    origin.refusal = donation.refused[value].why;
  }
  return origins;
}

// Carried values begin at multiples of this, as temporaries do.
constexpr std::int64_t kPlaceBytes = 256;

// Whether every slice begins where vectors may be loaded.
bool is_aligned(const LoopBodies& bodies) {
  const auto aligned = [](const LoopSlice& slice) {
    return slice.start % kLoopAlignment == 0 && slice.stride % kLoopAlignment == 0;
  };
  return std::all_of(bodies.bodies.begin(), bodies.bodies.end(), [&](const LoopBody& body) {
    return std::all_of(body.leaves.begin(), body.leaves.end(), aligned) &&
           std::all_of(body.results.begin(), body.results.end(), aligned);
  });
}

// The steps of a graph of which some values are held, before they are merged.
std::vector<StepDraft> steps_of(const Values& values, const std::vector<int>& held,
                                const DraftContext& context) {
  return draft_steps(values, context.open, held, context.massively_parallel(), context.groupings);
}

// Drafts from merged steps: finds the place of each value.
class Drafter {
 public:
  Drafter(Draft& plan, const Graph& graph, const DraftContext& context)
      : plan_(plan), graph_(graph), context_(context) {}

  template <class PlaceOf>
  Draft::Draw draw(StepDraft& step, const Values& values, const PlaceOf& place_of) {
    Draft::Draw draw;
    if (step.segments.empty()) {
      draw.step = std::move(step.call.step);
      draw.sizes = std::move(step.call.sizes);
      const auto add = [&](const std::vector<int>& from, std::vector<Draft::Buffer>& to) {
        for (const int value : from)
          to.push_back({place_of(value), values[value].dtype, values[value].shape.numel()});
      };
      add(step.reads, draw.reads);
      add(step.writes, draw.writes);
      return draw;
    }
    KernelStep kernel;
    kernel.label = step.segments.front().label;
    for (KernelDraft& draft : step.segments) {
      Draft::Segment& segment = draw.segments.emplace_back();
      segment.ints = std::move(draft.ints);
      segment.first_arg = static_cast<std::uint32_t>(plan_.arg_map.size());
      for (const int arg : draft.args) plan_.arg_map.push_back(static_cast<std::uint32_t>(arg));
      for (const int value : draft.slot_values) segment.buffers.push_back(place_of(value));
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
    return draw;
  }

  // Drafts the bodies of a loop whose operands, results and scratch memory have their places.
  // `used`: the values that somebody reads or holds.
  void draw_loop(Draft::Draw& draw, const StepDraft& step, const Values& values,
                 const PerValue<bool>& used);

 private:
  struct Memory;  // of a loop
  Draft::LoopPart part_of(LoopBody& body, const Memory& memory, bool aligned,
                          const std::string& name);

  Draft& plan_;
  const Graph& graph_;
  const DraftContext& context_;
};

// Where the slices of a loop are.
struct Drafter::Memory {
  const Loop& loop;
  const Draft::Draw& draw;
  std::vector<int> writer;       // for each result, the number of its buffer among the writes
  std::vector<Extent> carried;   // for each carried value, its offset in the scratch memory
  std::vector<Extent> distance;  // and that between its two places

  Draft::Place at(const LoopSlice& slice, bool writes) const {
    const auto number = static_cast<std::size_t>(slice.number);
    if (slice.kind == LoopSlice::Kind::Carried) {
      BufferRef scratch{BufferRef::Kind::Temp, static_cast<std::uint32_t>(draw.scratch)};
      scratch.walk = writes ? BufferRef::Walk::Written : BufferRef::Walk::Read;
      return {scratch, false, carried[number], distance[number]};
    }
    const BufferRef buffer =
        slice.kind == LoopSlice::Kind::Operand
            ? draw.reads[number].place.buffer
            : draw.writes[static_cast<std::size_t>(writer[number])].place.buffer;
    return {buffer, false, slice.start, slice.stride};
  }
};

void Drafter::draw_loop(Draft::Draw& draw, const StepDraft& step, const Values& values,
                        const PerValue<bool>& used) {
  const Loop& loop = graph_.loop(step.call.loop);
  const auto results = static_cast<std::size_t>(loop.results());
  Memory memory{loop, draw, std::vector<int>(results, -1), {}, {}};
  std::vector<bool> wanted(results, false);
  for (std::size_t w = 0; w < step.writes.size(); ++w) {
    const Value& v = values[step.writes[w]];
    const auto number = static_cast<std::size_t>(v.kind == ValueKind::StepResult ? v.number : 0);
    wanted[number] = used[step.writes[w]];
    memory.writer[number] = static_cast<int>(w);
  }
  LoopBodies bodies = loop.bodies(wanted, context_.entry, &graph::expansion_of);
  auto looped = std::make_shared<Draft::Looped>();
  for (const Extent bytes : bodies.carried) {
    const Extent distance = (bytes + (kPlaceBytes - 1)) / kPlaceBytes * kPlaceBytes;
    memory.carried.push_back(looped->carried_bytes);
    memory.distance.push_back(distance);
    looped->carried_bytes += 2 * distance;
  }
  const bool aligned = is_aligned(bodies);
  for (std::size_t b = 0; b < bodies.bodies.size(); ++b) {
    const std::string name = fmt::format("plan{:05}-loop{}-body{}", context_.id, step.call.loop, b);
    looped->parts.push_back(part_of(bodies.bodies[b], memory, aligned, name));
  }
  for (const Draft::Buffer& buffer : draw.writes)
    std::get<LoopStep>(draw.step).results.push_back({{}, buffer.dtype});
  draw.loop = std::move(looped);
}

// The body is planned as a batch is, but that nothing is overwritten.
Draft::LoopPart Drafter::part_of(LoopBody& body, const Memory& memory, bool aligned,
                                 const std::string& name) {
  Draft::LoopPart part{.first = body.first, .count = body.count};
  run_passes(body.graph, name);
  Values& values = body.graph.values;
  // A leaf with strides lies in its own memory as a part of a join lies in that of the whole.
  for (const ValueId id : values.ids()) {
    Value& v = values[id];
    if (v.kind != ValueKind::Leaf) continue;
    v.home_strides = body.leaves[static_cast<std::size_t>(v.number)].strides;
    if (!v.home_strides.empty()) v.home = id;
  }
  std::vector<int> held;
  PerValue<bool> is_output(values, false);
  PerValue<int> result(values, -1);
  for (std::size_t r = 0; r < body.graph.results.size(); ++r) {
    const ValueId value = body.graph.results[r];
    held.push_back(value);
    is_output[value] = true;
    result[value] = static_cast<int>(r);
  }
  std::vector<StepDraft> steps = steps_of(values, held, context_);
  if (!aligned) {
    for (StepDraft& step : steps) {
      for (KernelDraft& kernel : step.segments)
        kernel.program.schedule =
            choose_schedule(kernel.program, hints(kernel.ints), kernel.largest.hint(),
                            context_.massively_parallel(), false);
    }
  }
  steps = merge_horizontally(std::move(steps), values, is_output);
  const Temporaries temporaries = temporaries_of(steps, values, is_output);
  part.temporaries = temporaries.all;
  const auto place_of = [&](ValueId value) -> Draft::Place {
    const Value& v = values[value];
    if (v.kind == ValueKind::Leaf)
      return memory.at(body.leaves[static_cast<std::size_t>(v.number)], false);
    if (is_output[value])
      return memory.at(body.results[static_cast<std::size_t>(result[value])], true);
    return {{BufferRef::Kind::Temp, static_cast<std::uint32_t>(temporaries.of_value[value])}, true};
  };
  for (std::size_t s = 0; s < steps.size(); ++s) {
    Draft::Draw& draw = part.steps.emplace_back(this->draw(steps[s], values, place_of));
    draw.scratch = temporaries.of_step[s];
    draw.aligned = aligned;
  }
  return part;
}

}  // namespace

Draft draft_plan(const DraftTask& task, const DeviceEntry& entry, GroupingCache& groupings,
                 std::uint32_t id, std::vector<OutputOrigin>* origins) {
  Draft plan;
  const DraftContext context{entry, groupings, task.has_open_sizes, id};
  Graph graph = lower(task.view, task.sizes, entry, &graph::expansion_of);
  run_passes(graph, fmt::format("plan{:05}", id));
  const Values& values = graph.values;
  const ResultValues results = collect_results(task, graph, plan);
  std::vector<StepDraft> steps = steps_of(values, results.wanted, context);
  const std::map<int, int> predecessor = predecessors(task, graph);
  Donation donation{task.donatable, results.leaf_kept, results.is_held, predecessor, {}, {}};
  donate(steps, values, donation);
  steps = merge_horizontally(std::move(steps), values, results.is_output);
  for (const ValueId value : results.outputs) plan.donor.push_back(donation.donor[value]);
  if (origins != nullptr) *origins = origins_of(results.outputs, steps, donation);
  for (const graph::Node* leaf : task.view.leaves())
    plan.leaf_bytes.push_back(task.sizes.shape(*leaf).numel() * size_of(leaf->dtype));
  const Temporaries temporaries = temporaries_of(steps, values, results.is_output);
  plan.temporaries = temporaries.all;
  const auto place_of = [&](ValueId value) -> Draft::Place {
    const auto place = [](BufferRef::Kind kind, int index) -> Draft::Place {
      return {{kind, static_cast<std::uint32_t>(index)}};
    };
    if (values[value].kind == ValueKind::Leaf)
      return place(BufferRef::Kind::Leaf, values[value].number);
    if (results.is_output[value]) return place(BufferRef::Kind::Output, results.number[value]);
    return place(BufferRef::Kind::Temp, temporaries.of_value[value]);
  };
  PerValue<bool> used = results.is_output;
  for (const StepDraft& step : steps) {
    for (const int value : step.reads) used[value] = true;
  }
  Drafter drafter(plan, graph, context);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    Draft::Draw& draw = plan.steps.emplace_back(drafter.draw(steps[s], values, place_of));
    draw.scratch = temporaries.of_step[s];
    if (steps[s].call.loop >= 0) drafter.draw_loop(draw, steps[s], values, used);
  }
  return plan;
}

namespace {

std::size_t bytes_of(const std::vector<Draft::Draw>& steps) {
  std::size_t bytes = heap_bytes(steps);
  for (const Draft::Draw& draw : steps) {
    bytes += heap_bytes(draw.segments) + heap_bytes(draw.sizes) + heap_bytes(draw.reads) +
             heap_bytes(draw.writes);
    for (const Draft::Segment& segment : draw.segments)
      bytes += heap_bytes(segment.ints) + heap_bytes(segment.buffers);
    if (draw.loop != nullptr) {
      for (const Draft::LoopPart& part : draw.loop->parts)
        bytes += sizeof part + bytes_of(part.steps) + heap_bytes(part.temporaries);
    }
    const auto* kernel = std::get_if<KernelStep>(&draw.step);
    if (kernel == nullptr) continue;
    bytes += heap_bytes(kernel->label) + kernel::host_bytes(*kernel->program);
  }
  return bytes;
}

}  // namespace

std::size_t Draft::bytes() const {
  return sizeof *this + bytes_of(steps) + heap_bytes(temporaries) + heap_bytes(leaf_bytes) +
         heap_bytes(output_bytes) + heap_bytes(results) + heap_bytes(donor) + heap_bytes(arg_map) +
         heap_bytes(checked) + heap_bytes(channels_last);
}

}  // namespace volta::plan
