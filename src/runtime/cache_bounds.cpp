// Counts and evicts what the runtime caches for a device.
#include "runtime/cache_bounds.h"

#include <atomic>
#include <iterator>
#include <variant>

#include "backend/pool.h"
#include "core/heap_bytes.h"
#include "platform/memory.h"
#include "runtime/plan_cache.h"
#include "runtime/runner.h"

namespace volta::plan {
namespace {

std::uint64_t bytes_of(const Binding& binding) {
  return heap_bytes(binding.ints) + heap_bytes(binding.buffers);
}

std::uint64_t bytes_of(const KernelStep& step) {
  std::uint64_t bytes = heap_bytes(step.segments) + heap_bytes(step.label);
  for (const Binding& binding : step.segments) bytes += bytes_of(binding);
  return bytes + kernel::host_bytes(*step.program);
}

// Library calls own no memory except their labels and, for attention, its operands.
template <class Call>
std::uint64_t bytes_of(const Call& call) {
  std::uint64_t bytes = heap_bytes(call.label);
  if constexpr (requires { call.reads; }) bytes += heap_bytes(call.reads) + heap_bytes(call.writes);
  return bytes;
}

std::uint64_t bytes_of(const LoopStep& loop) {
  std::uint64_t bytes = heap_bytes(loop.label) + heap_bytes(loop.parts) + heap_bytes(loop.results);
  for (const LoopPart& part : loop.parts) {
    bytes += heap_bytes(part.steps) + heap_bytes(part.costs);
    for (const Step& step : part.steps)
      bytes += std::visit([](const auto& one) { return bytes_of(one); }, step);
  }
  return bytes;
}

bool is_over(const DeviceRuntime& runtime) {
  const DeviceEntry& entry = runtime.entry;
  const std::uint64_t limit = entry.cached.limit.load(std::memory_order_relaxed);
  const SharedBytes shared = entry.backend.shared_bytes(entry.index);
  return runtime.held.host + runtime.groupings.bytes() + runtime.structures.bytes() +
                 runtime.stretches.bytes() + shared.kernels + shared.libraries >
             limit ||
         runtime.held.device > limit;
}

// Publishes the numbers for memory_stats.
void tell(const DeviceRuntime& runtime) {
  CachedBytes& cached = runtime.entry.cached;
  cached.plans.store(runtime.plans.size(), std::memory_order_relaxed);
  cached.plan_host.store(runtime.held.host + runtime.structures.bytes() + runtime.stretches.bytes(),
                         std::memory_order_relaxed);
  cached.plan_device.store(runtime.held.device, std::memory_order_relaxed);
  cached.groupings.store(runtime.groupings.bytes(), std::memory_order_relaxed);
}

void evict_down_to(DeviceRuntime& runtime, std::size_t least, bool all) {
  while (runtime.plans.size() > least &&
         (all || runtime.plans.size() > kMaxPlans || is_over(runtime))) {
    evict_oldest(runtime);
  }
  if (is_over(runtime)) runtime.stretches.clear();
}

}  // namespace

HeldBytes held_by(const Plan& plan) {
  HeldBytes held = plan.executable ? plan.executable->held : HeldBytes{};
  const PlanSteps& steps = plan.steps;
  held.host += sizeof(Plan) + heap_bytes(plan.results) + heap_bytes(plan.donor) +
               heap_bytes(plan.arg_map) + heap_bytes(plan.checked) + heap_bytes(plan.kept) +
               heap_bytes(steps.steps) + heap_bytes(steps.costs) + heap_bytes(steps.leaf_bytes) +
               heap_bytes(steps.output_bytes);
  for (const Step& step : steps.steps)
    held.host += std::visit([](const auto& one) { return bytes_of(one); }, step);
  return held;
}

void count_plan(DeviceRuntime& runtime, DeviceRuntime::Entry& entry) {
  const HeldBytes now = entry.plan->executable->held;
  if (entry.counted && now.host == entry.executable.host && now.device == entry.executable.device)
    return;
  if (!entry.counted) {
    entry.held = held_by(*entry.plan);
    entry.counted = true;
  } else {
    runtime.held.host -= entry.held.host;
    runtime.held.device -= entry.held.device;
    entry.held.host += now.host - entry.executable.host;
    entry.held.device += now.device - entry.executable.device;
  }
  entry.executable = now;
  runtime.held.host += entry.held.host;
  runtime.held.device += entry.held.device;
  evict_down_to(runtime, 1, false);
  tell(runtime);
}

void evict_plan(DeviceRuntime& runtime, std::list<DeviceRuntime::Entry>::iterator entry) {
  retire(runtime, *entry->plan);
  runtime.held.host -= entry->held.host;
  runtime.held.device -= entry->held.device;
  if (entry->linked) --runtime.links.plans;
  runtime.by_key.erase(entry->key);
  runtime.plans.erase(entry);
  // The holes that plans leave in the heap are seldom filled exactly: without this, resident memory
  // goes on growing although the plans do not.
  constexpr unsigned kEvictionsPerReturn = 64;
  static std::atomic<unsigned> evictions{0};
  if (evictions.fetch_add(1, std::memory_order_relaxed) % kEvictionsPerReturn ==
      kEvictionsPerReturn - 1)
    platform::return_free_memory();
}

void evict_oldest(DeviceRuntime& runtime) { evict_plan(runtime, std::prev(runtime.plans.end())); }

void evict(DeviceEntry& entry, bool all) {
  DeviceRuntime& runtime = *entry.runtime;
  if (runtime.running) return;  // its plan is in use
  evict_down_to(runtime, all ? 0 : 1, all);
  if (all) {
    runtime.groupings.clear();
    runtime.structures.clear();
    runtime.stretches.clear();
    runtime.links.stretches.clear();
    runtime.links.structures.clear();
  }
  tell(runtime);
}

bool may_keep(DeviceRuntime& runtime, const Plan& plan, std::uint64_t bytes) {
  const std::atomic<std::uint64_t>& kept = runtime.entry.cached.kept_outputs;
  const auto is_full = [&] {
    return kept.load(std::memory_order_relaxed) + bytes > kMaxKeptOutputs;
  };
  if (!is_full()) return true;
  for (auto entry = runtime.plans.rbegin(); entry != runtime.plans.rend() && is_full(); ++entry) {
    if (entry->plan.get() != &plan) entry->plan->drop_kept();
  }
  return !is_full();
}

}  // namespace volta::plan
