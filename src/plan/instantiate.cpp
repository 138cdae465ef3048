// From a draft to a plan: sizes become numbers, and temporaries get their places.
#include <span>
#include <utility>

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

}  // namespace

std::unique_ptr<Plan> instantiate(const Draft& draft, const DeviceEntry& entry, bool resized,
                                  std::uint32_t id,
                                  const std::function<std::int64_t(Extent)>& number) {
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

}  // namespace volta::plan
