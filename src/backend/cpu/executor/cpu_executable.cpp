// Executes plans on the CPU. Everything is bound when the plan is prepared; a run only looks up
// addresses and walks the steps.
#include "backend/cpu/executor/cpu_executable.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "backend/common/matmul_program.h"
#include "backend/cpu/executor/block_launch.h"
#include "backend/cpu/library/conv.h"
#include "backend/cpu/library/matmul.h"
#include "backend/cpu/library/scratch.h"
#include "backend/cpu/library/sort.h"
#include "core/counting.h"
#include "core/heap_bytes.h"
#include "core/profiling.h"
#include "core/thread_owned.h"
#include "platform/parallel.h"

namespace volta::cpu {
namespace {

// Below this number of elements a second thread costs more than it gains.
constexpr std::int64_t kSerialWork = 16 * 1024;

// The addresses of a launch's slots. Workers read the table while the calling thread waits for
// them.
struct SlotTable {
  std::vector<void*> slots;
};

// A kernel step: one launch, or the segments of a horizontal one.
struct KernelLaunch {
  std::vector<Launch> segments;
  std::vector<std::int64_t> first_unit;    // of each segment, then the total
  std::vector<std::uint32_t> first_args;   // of each segment
  std::vector<plan::BufferRef> buffers;    // the slots of all segments
  std::vector<std::uint32_t> first_slots;  // of each segment: an index into `buffers`
  std::size_t scratch_bytes = 0;
  std::int64_t grain = 1;
  bool uniform_stores = false;
};

// A library call for a product or a convolution.
template <class Call>
struct CallLaunch {
  std::unique_ptr<Call> call;
  plan::BufferRef a, b, c;
  std::optional<plan::BufferRef> bias = {};
};
using MatmulLaunch = CallLaunch<Matmul>;
using ConvLaunch = CallLaunch<Conv>;

struct LoopLaunch;
using StepLaunch = std::variant<KernelLaunch, MatmulLaunch, ConvLaunch, plan::SortStep,
                                std::unique_ptr<LoopLaunch>>;

// Steps in order, and what running them once counts.
struct StepList {
  std::vector<StepLaunch> steps;
  std::uint64_t launches = 0, library_calls = 0;
};

struct LoopLaunch {
  struct Part {
    std::int64_t first, count;
    StepList list;
  };
  std::vector<Part> parts;
};

// The addresses of one run, or of an iteration of a loop.
struct Addresses {
  std::span<const volta::Address> leaves, outputs;
  volta::Address arena;
  std::int64_t iteration = 0;

  void* operator()(const plan::BufferRef& ref) const {
    return static_cast<std::byte*>(start_of(ref).pointer()) + ref.offset_in(iteration);
  }

 private:
  const volta::Address& start_of(const plan::BufferRef& ref) const {
    switch (ref.kind) {
      case plan::BufferRef::Kind::Leaf:
        return leaves[ref.index];
      case plan::BufferRef::Kind::Output:
        return outputs[ref.index];
      case plan::BufferRef::Kind::Temp:
        break;
    }
    return arena;
  }
};

class CpuExecutable final : public Executable {
 public:
  CpuExecutable(const plan::PlanSteps& steps, ProgramSource& source) : plan_(steps.id) {
    for (std::size_t number = 0; number < steps.steps.size(); ++number) {
      add(steps.steps[number], list_, source);
      numbers_.resize(list_.steps.size(), static_cast<std::uint32_t>(number));
    }
    held.host = sizeof(*this) + heap_bytes(numbers_) + bytes_of(list_);
  }

  void run(std::span<const volta::Address> leaves, std::span<const volta::Address> outputs,
           volta::Address arena, std::span<const std::uint64_t> args) override {
    const Addresses addresses{leaves, outputs, arena};
    std::vector<void*>& slots = ThreadOwned<SlotTable>::get().slots;
    if (slots.size() < most_slots_) slots.resize(most_slots_);
    StepTimes times(*this);
    for (std::size_t i = 0; i < list_.steps.size(); ++i) {
      issued = numbers_[i] + 1;
      run(list_.steps[i], addresses, slots, args);
      times.step_ended();
    }
    times.tell();
    if (list_.launches > 0) count(live_counters().launches, list_.launches);
    if (list_.library_calls > 0) count(live_counters().library_calls, list_.library_calls);
  }

  std::optional<kernel::ErrorRecord> take_error() override {
    if (error_.claimed == 0) return std::nullopt;
    return std::exchange(error_, {});
  }

 private:
  static std::uint64_t bytes_of(const KernelLaunch& launch) {
    std::uint64_t bytes = heap_bytes(launch.segments) + heap_bytes(launch.first_unit) +
                          heap_bytes(launch.first_args) + heap_bytes(launch.buffers) +
                          heap_bytes(launch.first_slots);
    for (const Launch& segment : launch.segments) bytes += host_bytes(segment);
    return bytes;
  }
  template <class Call>
  static std::uint64_t bytes_of(const CallLaunch<Call>& launch) {
    return launch.call->host_bytes();
  }
  static std::uint64_t bytes_of(const plan::SortStep& step) { return heap_bytes(step.label); }
  static std::uint64_t bytes_of(const std::unique_ptr<LoopLaunch>& loop) {
    std::uint64_t bytes = sizeof(LoopLaunch) + heap_bytes(loop->parts);
    for (const LoopLaunch::Part& part : loop->parts) bytes += bytes_of(part.list);
    return bytes;
  }
  static std::uint64_t bytes_of(const StepList& list) {
    std::uint64_t bytes = heap_bytes(list.steps);
    for (const StepLaunch& step : list.steps)
      bytes += std::visit([](const auto& one) { return bytes_of(one); }, step);
    return bytes;
  }

  // Records when the steps of a run begin and end if a profiler is active.
  class StepTimes {
   public:
    explicit StepTimes(const CpuExecutable& executable) {
      if (profiling::session() == 0) return;
      executable_ = &executable;
      ends_.reserve(executable.list_.steps.size() + 1);
      step_ended();
    }
    void step_ended() {
      if (executable_ != nullptr) ends_.push_back(profiling::now());
    }
    void tell() const {
      if (executable_ == nullptr) return;
      std::vector<profiling::Span> spans(ends_.size() - 1);
      for (std::size_t i = 0; i < spans.size(); ++i) {
        spans[i] = {.plan = executable_->plan_,
                    .step = executable_->numbers_[i],
                    .begin = ends_[i],
                    .end = ends_[i + 1]};
      }
      profiling::add(Device::cpu(), spans);
    }

   private:
    const CpuExecutable* executable_ = nullptr;
    std::vector<profiling::Time> ends_;
  };

  void add(const plan::Step& step, StepList& list, ProgramSource& source) {
    if (const auto* kernel = std::get_if<plan::KernelStep>(&step)) {
      add(*kernel, list, source);
    } else if (const auto* matmul = std::get_if<plan::MatmulStep>(&step)) {
      add(*matmul, list, source);
    } else if (const auto* loop = std::get_if<plan::LoopStep>(&step)) {
      add(*loop, list, source);
    } else if (const auto* conv = std::get_if<plan::ConvStep>(&step)) {
      ConvLaunch launch{make_conv(*conv), conv->a, conv->b, conv->c};
      if (conv->has_bias) launch.bias = conv->bias;
      list.steps.emplace_back(std::move(launch));
      ++list.library_calls;
    } else {
      list.steps.emplace_back(std::get<plan::SortStep>(step));
      ++list.launches;
    }
  }

  void add(const plan::LoopStep& step, StepList& list, ProgramSource& source) {
    auto loop = std::make_unique<LoopLaunch>();
    for (const plan::LoopPart& part : step.parts) {
      LoopLaunch::Part& to = loop->parts.emplace_back(part.first, part.count);
      for (const plan::Step& one : part.steps) add(one, to.list, source);
      const auto count = static_cast<std::uint64_t>(part.count);
      list.launches += count * to.list.launches;
      list.library_calls += count * to.list.library_calls;
    }
    list.steps.emplace_back(std::move(loop));
  }

  void add(const plan::KernelStep& step, StepList& list, ProgramSource& source) {
    KernelLaunch launch;
    const std::shared_ptr<const BlockProgram> program = source.compiled(step.program);
    launch.uniform_stores = !program->uniform_stores.empty();
    std::int64_t units = 0, work = 0;
    for (const plan::Binding& binding : step.segments) {
      launch.segments.push_back(bind(program, binding.ints));
      const Launch& bound = launch.segments.back();
      launch.first_unit.push_back(units);
      launch.first_args.push_back(binding.first_arg);
      launch.first_slots.push_back(static_cast<std::uint32_t>(launch.buffers.size()));
      launch.buffers.insert(launch.buffers.end(), binding.buffers.begin(), binding.buffers.end());
      launch.scratch_bytes = std::max(launch.scratch_bytes, bound.scratch_bytes);
      units += bound.units;
      work += bound.units * bound.unit_work;
    }
    launch.first_unit.push_back(units);
    launch.grain = std::max<std::int64_t>(
        1, units == 0 ? 1 : kSerialWork / std::max<std::int64_t>(1, work / units));
    most_slots_ = std::max(most_slots_, launch.buffers.size());
    ++list.launches;
    list.steps.emplace_back(std::move(launch));
  }

  void add(const plan::MatmulStep& step, StepList& list, ProgramSource& source) {
    if (step.m == 0 || step.n == 0 || step.batch == 0) return;
    std::unique_ptr<Matmul> call = make_onednn_matmul(step);
    if (call != nullptr) ++list.library_calls;
    if (call == nullptr && (step.dtype == DType::f32 || step.dtype == DType::f64)) {
      call = make_generic_matmul(step);
      ++list.launches;
    }
    if (call == nullptr) return add(lower_matmul(step), list, source);
    MatmulLaunch launch{std::move(call), step.a, step.b, step.c};
    if (step.has_bias) launch.bias = step.bias;
    list.steps.emplace_back(std::move(launch));
  }

  void run(const StepLaunch& step, const Addresses& addresses, std::vector<void*>& slots,
           std::span<const std::uint64_t> args) {
    if (const auto* kernel = std::get_if<KernelLaunch>(&step)) {
      for (std::size_t n = 0; n < kernel->buffers.size(); ++n)
        slots[n] = addresses(kernel->buffers[n]);
      launch(*kernel, slots.data(), args.data());
    } else if (const auto* product = std::get_if<MatmulLaunch>(&step)) {
      call(*product, addresses);
    } else if (const auto* conv = std::get_if<ConvLaunch>(&step)) {
      call(*conv, addresses);
    } else if (const auto* loop = std::get_if<std::unique_ptr<LoopLaunch>>(&step)) {
      for (const LoopLaunch::Part& part : (*loop)->parts) {
        Addresses now = addresses;
        for (now.iteration = part.first; now.iteration < part.first + part.count; ++now.iteration) {
          for (const StepLaunch& one : part.list.steps) run(one, now, slots, args);
        }
      }
    } else {
      const auto& sort = std::get<plan::SortStep>(step);
      sort_rows(sort, addresses(sort.keys), addresses(sort.indices),
                sort.has_values ? addresses(sort.values) : nullptr);
    }
  }

  template <class Call>
  static void call(const CallLaunch<Call>& launch, const Addresses& addresses) {
    launch.call->run(addresses(launch.a), addresses(launch.b), addresses(launch.c),
                     launch.bias ? addresses(*launch.bias) : nullptr);
  }

  void launch(const KernelLaunch& kernel, void* const* slots, const std::uint64_t* args) {
    const auto memory = [&](std::size_t segment) {
      return LaunchMemory{slots + kernel.first_slots[segment], args + kernel.first_args[segment],
                          &error_};
    };
    platform::parallel_for(
        kernel.first_unit.back(), kernel.grain, [&](std::int64_t begin, std::int64_t end) {
          std::byte* scratch = thread_scratch(kernel.scratch_bytes);
          // The last segment that starts at or before `begin`.
          std::size_t segment = 0;
          if (kernel.segments.size() > 1) {
            segment = static_cast<std::size_t>(
                std::upper_bound(kernel.first_unit.begin(), kernel.first_unit.end() - 1, begin) -
                kernel.first_unit.begin() - 1);
          }
          for (; begin < end; ++segment) {
            const std::int64_t first = kernel.first_unit[segment];
            const std::int64_t stop = std::min(end, kernel.first_unit[segment + 1]);
            if (stop > begin)
              run_units(kernel.segments[segment], memory(segment), scratch, begin - first,
                        stop - first);
            begin = std::max(begin, stop);
          }
        });
    if (!kernel.uniform_stores) return;
    for (std::size_t segment = 0; segment < kernel.segments.size(); ++segment) {
      if (kernel.segments[segment].units == 0) continue;
      run_uniform_stores(kernel.segments[segment], memory(segment),
                         thread_scratch(kernel.scratch_bytes));
    }
  }

  const std::uint32_t plan_;
  kernel::ErrorRecord error_;
  StepList list_;
  std::vector<std::uint32_t> numbers_;  // the number in the plan of each step of the list
  std::size_t most_slots_ = 0;
};

}  // namespace

std::unique_ptr<Executable> make_executable(const plan::PlanSteps& steps, ProgramSource& source) {
  return std::make_unique<CpuExecutable>(steps, source);
}

}  // namespace volta::cpu
