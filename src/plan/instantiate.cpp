// From a draft to a plan: sizes become numbers, and temporaries get their places.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "kernel/observer.h"
#include "plan/calls/call.h"
#include "plan/codegen/schedule.h"
#include "plan/draft.h"

namespace volta::plan {
namespace {

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
    const kernel::Schedule schedule = choose_schedule(*program, kernel.segments[k].ints, largest[k],
                                                      massively_parallel, step.aligned);
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

// Makes steps of drafts by computing their numbers. At other sizes than those of planning, makes
// nothing if the plan is not for them.
class StepMaker {
 public:
  using Number = std::function<std::int64_t(Extent)>;  // gives the number of an extent

  StepMaker(const DeviceEntry& entry, bool resized, const Number& number)
      : entry_(entry), resized_(resized), number_(number) {}

  // Places the temporaries of loops in their scratch memory, and returns how large it is.
  std::uint64_t place_loop(const Draft::Looped& loop);
  // At other sizes than those of planning: the workspace that a library needs for a call; nothing
  // if it does not take the call.
  std::optional<std::uint64_t> workspace_of(const Draft::Draw& from) const;
  // Where the temporaries of the plan lie; for the steps made from then on.
  void set_offsets(std::vector<std::uint64_t> offsets) { offsets_ = std::move(offsets); }
  bool make(const std::vector<Draft::Draw>& drafts, std::vector<Step>& steps,
            std::vector<StepCost>& costs);

 private:
  std::uint64_t bytes_of(Extent extent) const {
    return static_cast<std::uint64_t>(number_(extent));
  }
  BufferRef placed(const Draft::Place& place) const;
  bool resize(const Draft::Draw& from, Step& step) const;
  bool make_call(const Draft::Draw& from, Step& step, StepCost& cost);
  bool make_loop(const Draft::Draw& from, LoopStep& step);
  bool make_kernel(const Draft::Draw& from, KernelStep& kernel, StepCost& cost);

  const DeviceEntry& entry_;
  const bool resized_;
  const Number& number_;
  std::vector<std::uint64_t> offsets_;
  // Of the part of a loop that is being made: where its scratch memory and its temporaries lie.
  std::uint64_t scratch_ = 0;
  const std::vector<std::uint64_t>* own_offsets_ = nullptr;
  // For each part of each loop, where its temporaries lie in the scratch memory.
  std::map<const Draft::LoopPart*, std::vector<std::uint64_t>> loop_offsets_;
  std::vector<std::int64_t> largest_, moved_;
  std::vector<BufferRef> reads_, writes_;
  std::vector<CallBuffer> read_sizes_, written_sizes_;
};

std::uint64_t StepMaker::place_loop(const Draft::Looped& loop) {
  const std::uint64_t carried = bytes_of(loop.carried_bytes);
  std::uint64_t most = 0;
  for (const Draft::LoopPart& part : loop.parts) {
    std::vector<std::uint64_t> bytes, &offsets = loop_offsets_[&part];
    for (const Temporary& temporary : part.temporaries) bytes.push_back(bytes_of(temporary.bytes));
    most = std::max(most, place_temporaries(part.temporaries, bytes, offsets));
    for (std::uint64_t& offset : offsets) offset += carried;
  }
  return carried + most;
}

BufferRef StepMaker::placed(const Draft::Place& place) const {
  BufferRef buffer = place.buffer;
  if (buffer.kind == BufferRef::Kind::Temp) {
    buffer.offset = place.own ? scratch_ + (*own_offsets_)[buffer.index] : offsets_[buffer.index];
    buffer.index = 0;
  }
  buffer.offset += bytes_of(place.start);
  buffer.stride = number_(place.stride);
  return buffer;
}

bool StepMaker::make(const std::vector<Draft::Draw>& drafts, std::vector<Step>& steps,
                     std::vector<StepCost>& costs) {
  steps.reserve(drafts.size());
  for (const Draft::Draw& from : drafts) {
    Step& step = steps.emplace_back(from.step);
    StepCost& cost = costs.emplace_back();
    const bool made = from.segments.empty() ? make_call(from, step, cost)
                                            : make_kernel(from, std::get<KernelStep>(step), cost);
    if (!made) return false;
  }
  return true;
}

// Gives a call the sizes of the plan. Returns false if the backend does not take it then.
bool StepMaker::resize(const Draft::Draw& from, Step& step) const {
  const Call& call = *call_of(step);
  std::vector<std::int64_t> sizes;
  for (const Extent extent : from.sizes) sizes.push_back(number_(extent));
  if (!sizes.empty() && !call.resize(step, sizes)) return false;
  std::visit(
      [](auto& one) {
        if constexpr (requires { one.may_time; }) one.may_time = false;
      },
      step);
  if (!call.asks_support(step)) return true;
  const CallSupport support = entry_.backend.takes(entry_.index, step);
  std::visit(
      [&](auto& one) {
        if constexpr (requires { one.workspace_bytes; })
          one.workspace_bytes = support.workspace_bytes;
      },
      step);
  return support.taken;
}

std::optional<std::uint64_t> StepMaker::workspace_of(const Draft::Draw& from) const {
  Step step = from.step;
  if (!resize(from, step)) return std::nullopt;
  return std::visit(
      []<class S>(const S& one) -> std::uint64_t {
        if constexpr (requires { one.workspace_bytes; }) return one.workspace_bytes;
        return 0;
      },
      step);
}

bool StepMaker::make_call(const Draft::Draw& from, Step& step, StepCost& cost) {
  const Call& call = *call_of(step);
  if (resized_ && !resize(from, step)) return false;
  if (from.loop != nullptr && !make_loop(from, std::get<LoopStep>(step))) return false;
  const auto add = [&](const std::vector<Draft::Buffer>& list, std::vector<BufferRef>& to,
                       std::vector<CallBuffer>& sizes) {
    to.clear();
    sizes.clear();
    for (const Draft::Buffer& buffer : list) {
      to.push_back(placed(buffer.place));
      sizes.push_back({buffer.dtype, number_(buffer.elements)});
    }
  };
  add(from.reads, reads_, read_sizes_);
  add(from.writes, writes_, written_sizes_);
  std::uint64_t scratch = 0;
  if (from.scratch >= 0) {
    const auto number = static_cast<std::size_t>(from.scratch);
    scratch = own_offsets_ != nullptr ? scratch_ + (*own_offsets_)[number] : offsets_[number];
  }
  bind(step, reads_, writes_, {BufferRef::Kind::Temp, 0, scratch});
  cost = call.cost(step, read_sizes_, written_sizes_);
  return true;
}

bool StepMaker::make_loop(const Draft::Draw& from, LoopStep& step) {
  scratch_ = offsets_[static_cast<std::size_t>(from.scratch)];
  bool made = true;
  for (const Draft::LoopPart& part : from.loop->parts) {
    LoopPart& to = step.parts.emplace_back();
    to.first = number_(part.first);
    to.count = number_(part.count);
    own_offsets_ = &loop_offsets_.at(&part);
    made = made && make(part.steps, to.steps, to.costs);
  }
  own_offsets_ = nullptr;
  return made;
}

bool StepMaker::make_kernel(const Draft::Draw& from, KernelStep& kernel, StepCost& cost) {
  largest_.clear();
  moved_.clear();
  for (const Draft::Segment& segment : from.segments) {
    Binding& binding = kernel.segments.emplace_back();
    binding.first_arg = segment.first_arg;
    binding.ints.reserve(segment.ints.size());
    for (const Extent extent : segment.ints) binding.ints.push_back(number_(extent));
    for (const Draft::Place& place : segment.buffers) binding.buffers.push_back(placed(place));
    const StepCost part{.bytes_read = bytes_of(segment.bytes_read),
                        .bytes_written = bytes_of(segment.bytes_written),
                        .operations = bytes_of(segment.operations)};
    cost.bytes_read += part.bytes_read;
    cost.bytes_written += part.bytes_written;
    cost.operations += part.operations;
    largest_.push_back(number_(segment.largest));
    moved_.push_back(static_cast<std::int64_t>(part.bytes_read + part.bytes_written));
  }
  if (!resized_) return true;
  kernel.program =
      rescheduled(kernel.program, from, kernel, largest_, moved_, !entry_.device.is_cpu());
  return kernel.program != nullptr;
}

}  // namespace

std::unique_ptr<Plan> instantiate(const Draft& draft, const DeviceEntry& entry, bool resized,
                                  std::uint32_t id,
                                  const std::function<std::int64_t(Extent)>& number) {
  const auto bytes_of = [&](Extent extent) { return static_cast<std::uint64_t>(number(extent)); };
  auto plan = std::make_unique<Plan>();
  PlanSteps& steps = plan->steps;
  steps.id = id;
  StepMaker maker(entry, resized, number);
  std::vector<std::uint64_t> bytes, offsets;
  for (const Temporary& temporary : draft.temporaries) bytes.push_back(bytes_of(temporary.bytes));
  for (const Draft::Draw& step : draft.steps) {
    if (step.scratch < 0) continue;
    std::uint64_t& scratch = bytes[static_cast<std::size_t>(step.scratch)];
    if (step.loop != nullptr) {
      scratch = maker.place_loop(*step.loop);
    } else if (resized && call_of(step.step)->asks_support(step.step)) {
      const std::optional<std::uint64_t> workspace = maker.workspace_of(step);
      if (!workspace) return nullptr;
      scratch = *workspace;
    }
  }
  steps.arena_bytes = place_temporaries(draft.temporaries, bytes, offsets);
  for (const Extent extent : draft.leaf_bytes) steps.leaf_bytes.push_back(bytes_of(extent));
  for (const Extent extent : draft.output_bytes) steps.output_bytes.push_back(bytes_of(extent));
  maker.set_offsets(std::move(offsets));
  if (!maker.make(draft.steps, steps.steps, steps.costs)) return nullptr;
  plan->results = draft.results;
  plan->donor = draft.donor;
  plan->arg_map = draft.arg_map;
  plan->checked = draft.checked;
  steps.arg_words = static_cast<std::uint32_t>(plan->arg_map.size());
  plan->kept.resize(steps.output_bytes.size());
  return plan;
}

}  // namespace volta::plan
