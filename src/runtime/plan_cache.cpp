// Builds, tunes and compiles plans, and evicts the least recently used.
#include "runtime/plan_cache.h"

#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "backend/pool.h"
#include "core/counting.h"
#include "core/profiling.h"
#include "graph/record/replicas.h"
#include "runtime/cache_bounds.h"
#include "runtime/check/check.h"
#include "runtime/indices/index_checks.h"
#include "runtime/runner.h"
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

void prepare(DeviceRuntime& runtime, Plan& plan, const Batch& batch, std::size_t stream,
             Unknown unknown) {
  plan.steps.stream = static_cast<std::uint32_t>(stream);
  if (!runtime.entry.device.is_cpu())
    tune(runtime.entry.backend, runtime.entry.index, plan.steps, unknown);
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

namespace {

// The plan of a key, if it is to be used again: a linked one is only for a few times.
Plan* known_plan(DeviceRuntime& runtime, const Key& key) {
  const auto found = runtime.by_key.find(key);
  if (found == runtime.by_key.end()) return nullptr;
  DeviceRuntime::Entry& entry = *found->second;
  if (entry.linked) {
    if (runtime.links.structures.of(entry.linked->structure) >= kMostLinks) {
      evict_plan(runtime, found->second);
      return nullptr;
    }
    runtime.links.structures.note(entry.linked->structure);
  }
  runtime.plans.splice(runtime.plans.begin(), runtime.plans, found->second);
  return entry.plan.get();
}

// Evicts the linked plan used longest ago if there are too many.
void limit_linked_plans(DeviceRuntime& runtime) {
  if (runtime.links.plans <= kMaxLinkedPlans) return;
  auto entry = std::prev(runtime.plans.end());
  while (!entry->linked) --entry;
  evict_plan(runtime, entry);
}

}  // namespace

Plan& find_or_build(DeviceRuntime& runtime, Batch& batch, std::size_t stream,
                    graph::Familiarity& familiarity) {
  const Key key = key_of(batch, stream, runtime.donatable);
  if (Plan* known = known_plan(runtime, key)) {
    note_known(familiarity, batch);
    return *known;
  }
  std::optional<Linked> linked;
  Unknown unknown = Unknown::KeepDefault;
  auto plan = [&] {
    const profiling::HostSpan span("planning");
    graph::Hash structure = structure_of(batch, runtime.donatable);
    structure.mix(stream);
    if (runtime.structures.knows(structure)) {
      note_known(familiarity, batch);
    } else if (may_be_linked(batch)) {
      const auto stretches = note_unknown(familiarity, runtime.links, structure, batch);
      if (stretches != nullptr) {
        linked = {structure, stretches->length()};
        runtime.links.structures.note(structure);
        count(live_counters().plans_linked);
        return link_plan(batch, *stretches, runtime.donatable, runtime.entry, runtime.groupings,
                         runtime.stretches);
      }
    }
    auto resized = runtime.structures.plan_for(batch, structure, runtime.donatable, runtime.entry,
                                               runtime.groupings);
    if (resized != nullptr) return resized;
    count(live_counters().plans_built);
    unknown = Unknown::Time;
    return build_plan(batch, runtime.donatable, runtime.entry, runtime.groupings);
  }();
  {
    const profiling::HostSpan span("compiling");
    prepare(runtime, *plan, batch, stream, unknown);
  }
  runtime.plans.push_front({.key = key, .plan = std::move(plan), .linked = linked});
  runtime.by_key[key] = runtime.plans.begin();
  if (linked) {
    ++runtime.links.plans;
    limit_linked_plans(runtime);
  }
  count_plan(runtime, runtime.plans.front());
  return *runtime.plans.front().plan;
}

}  // namespace volta::plan
