// explain(): plans the pending operations without running them.
#include "plan/explain.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/registry.h"
#include "core/text.h"
#include "graph/record/apply.h"
#include "graph/record/recorder.h"
#include "plan/plan.h"
#include "runtime/device_runtime.h"
#include "runtime/tune/tuner.h"
#include "volta/execution.h"

namespace volta {
namespace {

// Records for each node which gradients on the tapes behind the tensor have saved it.
void collect_saves(const Tensor& tensor, std::unordered_set<const graph::Tape*>& seen,
                   plan::SavedFor& saved_for) {
  std::vector<const graph::Tape*> stack{graph::TensorAccess::variable(tensor)->tape.get()};
  while (!stack.empty()) {
    const graph::Tape* tape = stack.back();
    stack.pop_back();
    if (tape == nullptr || !seen.insert(tape).second) continue;
    const std::string gradient =
        fmt::format("{} ({})", graph::op_info(tape->op).name, place_text(tape->place));
    const auto keep = [&](const graph::Held& held) {
      if (held) saved_for[held.get()].push_back(gradient);
    };
    for (const graph::Held& held : tape->saved) keep(held);
    for (const graph::Held& held : tape->auxiliary) keep(held);
    keep(tape->output);
    for (const graph::Edge& edge : tape->edges) stack.push_back(edge.tape.get());
  }
}

// The stretches from which submitting the recorder now would link its plan; null if the batch is
// planned as a whole.
std::unique_ptr<plan::Stretches> linked_stretches(const plan::DeviceRuntime& runtime,
                                                  const graph::Recorder& recorder,
                                                  const plan::Key& key,
                                                  const std::vector<bool>& donatable) {
  using namespace plan;  // NOLINT(google-build-using-namespace): its planner is asked here
  const graph::Batch& batch = recorder.batch;
  if (const auto known = runtime.by_key.find(key); known != runtime.by_key.end()) {
    const auto& linked = known->second->linked;
    if (!linked || runtime.links.structures.of(linked->structure) >= kMostLinks) return nullptr;
    return std::make_unique<Stretches>(batch, linked->length);
  }
  graph::Hash structure = structure_of(batch, donatable);
  structure.mix(0);
  if (runtime.structures.knows(structure) || !may_be_linked(batch)) return nullptr;
  return would_be_linked(recorder.familiarity, runtime.links, structure, batch);
}

// Describes the plan that submitting the recorder now would run.
Explanation explain_recorder(graph::Recorder& recorder, const plan::SavedFor& saved_for) {
  using namespace plan;  // NOLINT(google-build-using-namespace): its planner is asked here
  DeviceEntry& entry = *recorder.entry;
  const std::lock_guard device_guard(entry.lock);
  const std::lock_guard guard(recorder.lock);
  if (recorder.batch.live == 0) return {};
  std::vector<bool> donatable;
  const Key key = key_of(recorder.batch, 0, donatable);
  Account account{{}, entry.backend.figures(entry.index), saved_for};
  DeviceRuntime& runtime = runtime_of(entry);
  const auto stretches = linked_stretches(runtime, recorder, key, donatable);
  const auto plan = stretches ? link_plan(recorder.batch, *stretches, donatable, entry,
                                          runtime.groupings, runtime.stretches, &account)
                              : build_plan(recorder.batch, donatable, entry, runtime.groupings,
                                           nullptr, &account);
  if (!entry.device.is_cpu()) tune(entry.backend, entry.index, plan->steps, Unknown::Leave);
  account.add_steps(plan->steps);
  return std::move(account.explanation);
}

}  // namespace

Explanation explain(std::span<const Tensor> tensors) {
  plan::SavedFor saved_for;
  std::unordered_set<const graph::Tape*> tapes;
  for (const Tensor& tensor : tensors) {
    graph::require_defined("explain", tensor);
    collect_saves(tensor, tapes, saved_for);
  }
  Explanation all;
  std::vector<DeviceEntry*> seen;
  for (const Tensor& tensor : tensors) {
    DeviceEntry* entry = &graph::entry_of(tensor);
    if (!tensor.is_pending() || std::find(seen.begin(), seen.end(), entry) != seen.end()) continue;
    seen.push_back(entry);
    graph::Recorder* recorder = graph::node_of(tensor)->recorder.load(std::memory_order_acquire);
    if (recorder == nullptr) continue;
    Explanation part = explain_recorder(*recorder, saved_for);
    all.arena_bytes += part.arena_bytes;
    all.stretches += part.stretches;
    const int before = static_cast<int>(all.steps.size());
    for (StepInfo& step : part.steps) all.steps.push_back(std::move(step));
    for (ResultInfo& result : part.results) {
      if (result.step > 0) result.step += before;
      all.results.push_back(std::move(result));
    }
  }
  return all;
}

Explanation explain(const Tensor& tensor) { return explain({&tensor, 1}); }

}  // namespace volta
