// Builds, tunes and compiles plans, and evicts the least recently used.
#include "runtime/plan_cache.h"

#include <exception>
#include <memory>
#include <utility>

#include "backend/pool.h"
#include "core/counting.h"
#include "core/profiling.h"
#include "graph/record/replicas.h"
#include "runtime/cache_bounds.h"
#include "runtime/check/check.h"
#include "runtime/indices/index_checks.h"
#include "runtime/runner.h"
#include "runtime/tune/tuner.h"
#include "volta/error.h"

namespace volta::plan {

using graph::Batch;

namespace {

// Prepares a plan. If the backend runs out of memory, the pool's cached chunks are released and the
// plan is prepared again in its low-memory form; if that fails too, arenas and replicas are
// released.
std::unique_ptr<Executable> prepared(DeviceEntry& entry, PlanSteps& steps) {
  const auto attempt = [&]() -> std::unique_ptr<Executable> {
    try {
      return entry.backend.prepare(entry.index, steps);
    } catch (const OutOfMemory&) {
      return nullptr;
    }
  };
  if (auto executable = attempt()) return executable;
  entry.pool.empty_cache();
  steps.low_memory = true;
  if (auto executable = attempt()) return executable;
  trim(entry);
  graph::give_up_replicas(entry);
  entry.pool.empty_cache();
  return entry.backend.prepare(entry.index, steps);
}

}  // namespace

void prepare(DeviceRuntime& runtime, Plan& plan, const Batch& batch, std::size_t stream) {
  plan.steps.stream = static_cast<std::uint32_t>(stream);
  if (!runtime.entry.device.is_cpu())
    tune(runtime.entry.backend, runtime.entry.index, plan.steps, Unknown::Time);
  if (checks_steps() && !runtime.entry.device.is_cpu()) {
    plan.executable = std::make_unique<CheckedSteps>(runtime.entry, plan.steps);
  } else {
    plan.executable = prepared(runtime.entry, plan.steps);
  }
  if (!batch.sites.empty()) plan.checks = std::make_shared<graph::IndexLog>(*plan.executable);
}

void retire(DeviceRuntime& runtime, const Plan& plan) {
  if (!plan.checks) return;
  try {
    if (plan.checks->open()) {
      runtime.entry.backend.synchronize(runtime.entry.index);
      plan.checks->verify_all();
    }
  } catch (...) {
    plan.checks->fail(std::current_exception());
  }
  plan.checks->close();
}

Plan& find_or_build(DeviceRuntime& runtime, Batch& batch, std::size_t stream) {
  const Key key = key_of(batch, stream, runtime.donatable);
  if (const auto found = runtime.by_key.find(key); found != runtime.by_key.end()) {
    runtime.plans.splice(runtime.plans.begin(), runtime.plans, found->second);
    return *found->second->plan;
  }
  auto plan = [&] {
    const profiling::HostSpan span("planning");
    graph::Hash structure = structure_of(batch, runtime.donatable);
    structure.mix(stream);
    auto resized = runtime.structures.plan_for(batch, structure, runtime.donatable, runtime.entry,
                                               runtime.groupings);
    if (resized != nullptr) return resized;
    count(live_counters().plans_built);
    return build_plan(batch, runtime.donatable, runtime.entry, runtime.groupings);
  }();
  {
    const profiling::HostSpan span("compiling");
    prepare(runtime, *plan, batch, stream);
  }
  runtime.plans.push_front({key, std::move(plan)});
  runtime.by_key[key] = runtime.plans.begin();
  count_plan(runtime, runtime.plans.front());
  return *runtime.plans.front().plan;
}

}  // namespace volta::plan
