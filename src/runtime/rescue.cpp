// Undoes assignments, defers failed batches and computes single values of them.
#include "runtime/rescue.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/pool.h"
#include "core/log_once.h"
#include "graph/record/evaluation.h"
#include "plan/plan.h"
#include "runtime/indices/index_checks.h"
#include "runtime/indices/index_results.h"
#include "runtime/plan_cache.h"
#include "volta/error.h"
#include "volta/log.h"
#include "volta/transfers.h"

namespace volta::plan {

using graph::Batch;
using graph::Node;
using graph::NodeState;
using graph::Recorder;

namespace {

// Salts the key of a deferred batch, which has no assignments any more, so that it never matches a
// regular one.
constexpr std::uint64_t kDeferredWord = 0xA51DE;

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  } catch (...) {
    return "an unknown error";
  }
}

void warn_of_fallback(const DeviceEntry& entry, const Node& node) {
  log_once(fmt::format("no memory for a result at {}:{}", node.place.file(), node.place.line()),
           LogLevel::warning,
           fmt::format("{}: {} has no memory for its result, the CPU computes it ({}:{})",
                       graph::op_info(node.op).name, to_string(entry.device), node.place.file(),
                       node.place.line()));
}

}  // namespace

void mark_failed(Node& node, const std::exception_ptr& error) {
  if (node.state.load(std::memory_order_relaxed) != NodeState::Pending) return;
  node.own_errors().error = error;
  node.state.store(NodeState::Failed, std::memory_order_release);
}

void mark_lost(const DeviceRuntime& runtime, const Batch& batch, const Overwritten& overwritten) {
  const auto error = std::make_exception_ptr(BackendError(fmt::format(
      "{}: a value is lost, as the step that updates it in place failed halfway; load it again: {}",
      to_string(runtime.entry.device), text_of(overwritten.error))));
  for (const graph::JournalEntry& entry : batch.journal) mark_failed(*entry.previous, error);
  for (const std::uint32_t leaf : overwritten.leaves) {
    Node& node = *batch.leaves[leaf].node;
    node.own_errors().error = error;
    node.host.reset();
    node.state.store(NodeState::Failed, std::memory_order_release);
    graph::release(std::exchange(node.buffer, nullptr));
  }
}

void undo_assignments(Recorder& recorder, Batch& batch, const std::exception_ptr& error) {
  const bool left = graph::leave_to_owner(recorder, batch.journal);
  for (const graph::JournalEntry& entry : batch.journal) {
    // Both nodes are the same if the step has not assigned the variable.
    if (entry.assigned != entry.previous) mark_failed(*entry.assigned, error);
  }
  if (left) return;
  for (const graph::JournalEntry& entry : batch.journal) graph::undo_assignment(entry);
}

void return_to_its_place(Recorder& deferred, Batch& batch) {
  const std::lock_guard guard(deferred.lock);
  for (Node* node : batch.nodes) {
    if (node->state.load(std::memory_order_relaxed) == NodeState::Pending)
      node->recorder.store(&deferred, std::memory_order_release);
  }
  batch.update_live();
  std::swap(deferred.batch, batch);
}

void defer(DeviceRuntime& runtime, Recorder& recorder, Batch& batch, Failure failure) {
  Recorder* home = &recorder;
  if (!recorder.is_deferred) {
    if (runtime.spare_deferred.empty()) {
      // Never freed, because another thread may still read it.
      runtime.spare_deferred.push_back(new Recorder);
      runtime.spare_deferred.back()->entry = &runtime.entry;
      runtime.spare_deferred.back()->is_deferred = true;
    }
    home = runtime.spare_deferred.back();
    runtime.spare_deferred.pop_back();
    runtime.deferred.push_back(home);
  }
  batch.drop_journal();
  batch.hash.mix(kDeferredWord);
  const MemoryStats memory = runtime.entry.pool.stats();
  home->failure_reported.store(failure.is_reported, std::memory_order_relaxed);
  home->lacked_memory = failure.lacked_memory;
  home->in_use_then = memory.in_use;
  home->limit_then = memory.limit;
  return_to_its_place(*home, batch);
}

bool still_lacks_memory(const Recorder& recorder) {
  if (!recorder.is_deferred || !recorder.lacked_memory) return false;
  const MemoryStats memory = recorder.entry->pool.stats();
  return memory.limit == recorder.limit_then && memory.in_use >= recorder.in_use_then;
}

void drop_deferred(DeviceRuntime& runtime) {
  std::erase_if(runtime.deferred, [&](Recorder* recorder) {
    Batch dropped;
    {
      const std::lock_guard guard(recorder->lock);
      recorder->batch.update_live();
      if (recorder->batch.live != 0) return false;
      std::swap(dropped, recorder->batch);
      for (Node* node : dropped.nodes) node->recorder.store(nullptr, std::memory_order_release);
    }
    dropped.reset();
    runtime.spare_deferred.push_back(recorder);
    return true;
  });
}

bool compute_alone(DeviceRuntime& runtime, Batch& batch, std::size_t stream, const Node& node) {
  try {
    const std::vector<bool> none(batch.leaves.size(), false);
    const auto plan = build_plan(batch, none, runtime.entry, runtime.groupings, &node);
    prepare(runtime, *plan, batch, stream, Unknown::Time);
    execute(runtime, *plan, batch, true);
    retire(runtime, *plan);
    return true;
  } catch (...) {  // the error of the whole batch is reported instead
    return false;
  }
}

void compute_previous(DeviceRuntime& runtime, Batch& batch, std::size_t stream,
                      std::span<const std::uint32_t> lost) {
  std::set<const Node*> wanted;
  for (const graph::JournalEntry& entry : batch.journal) {
    const Node* node = entry.previous;
    if (node->state.load(std::memory_order_relaxed) != NodeState::Pending) continue;
    const std::vector<bool> below = lost.empty() ? std::vector<bool>() : batch.leaves_below({node});
    if (std::none_of(lost.begin(), lost.end(), [&](std::uint32_t leaf) { return below[leaf]; }))
      wanted.insert(node);
  }
  if (wanted.empty()) return;
  for (Node* node : batch.nodes) node->live = wanted.contains(node);
  try {
    const std::vector<bool> none(batch.leaves.size(), false);
    const auto plan = build_plan(batch, none, runtime.entry, runtime.groupings);
    prepare(runtime, *plan, batch, stream, Unknown::Time);
    execute(runtime, *plan, batch, true);
    retire(runtime, *plan);
  } catch (...) {  // the error of the whole batch is reported instead
  }
  batch.update_live();
}

bool is_out_of_memory(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const OutOfMemory&) {
    return true;
  } catch (...) {
    return false;
  }
}

bool compute_on_cpu(DeviceRuntime& runtime, Batch& batch, const Node* only,
                    bool for_want_of_memory) {
  using graph::HostCopy;
  try {
    DeviceEntry& cpu = device_entry(Device::cpu());
    GroupingCache groupings;
    const std::vector<bool> none(batch.leaves.size(), false);
    const auto plan = build_plan(batch, none, cpu, groupings, only);
    const PlanSteps& steps = plan->steps;
    std::uint64_t bytes = steps.arena_bytes;
    for (const std::uint64_t output : steps.output_bytes) bytes += output;
    if (const auto room = cpu.backend.free_memory(cpu.index); room && bytes > *room) return false;
    plan->executable = cpu.backend.prepare(cpu.index, steps);
    if (!batch.sites.empty()) plan->checks = std::make_shared<graph::IndexLog>(*plan->executable);

    const auto place_of = [](std::span<const std::byte> memory) {
      return Address{const_cast<std::byte*>(memory.data()), 0};
    };
    const std::vector<bool> needed =
        batch.leaves_below(only != nullptr ? std::vector<const Node*>{only} : batch.live_nodes());
    std::vector<Address> leaves(batch.leaves.size()), outputs;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      Node* leaf = batch.leaves[i].node;
      const TransferReason reason("placement", leaf->place, graph::op_info(leaf->op).name);
      if (needed[i]) leaves[i] = place_of(graph::observe(leaf));
    }
    std::vector<HostCopy> made;
    for (const std::uint64_t output : steps.output_bytes) {
      made.emplace_back(output);
      outputs.push_back(place_of(made.back().bytes));
    }
    const HostCopy arena(steps.arena_bytes);
    std::vector<std::uint64_t> args;
    for (const std::uint32_t arg : plan->arg_map) args.push_back(batch.args[arg]);
    std::vector<std::unique_ptr<HostCopy>> values;
    const Node* largest = nullptr;
    for (const Result& result : plan->results) {
      values.push_back(std::make_unique<HostCopy>(result.kind == Result::Kind::Output
                                                      ? made[result.number]
                                                      : *batch.leaves[result.number].node->host));
      const Node* node = batch.nodes[result.node];
      if (largest == nullptr || node->shape.numel() > largest->shape.numel()) largest = node;
    }

    std::uint64_t run = 0;
    if (plan->checks) {
      plan->checks->sites = batch.sites;
      run = plan->checks->begin_run();
    }
    plan->executable->run(leaves, outputs, place_of(arena.bytes), args);
    verify_finished(*plan);
    note_dependences(*plan, batch, run);
    retire(runtime, *plan);
    if (for_want_of_memory) warn_of_fallback(runtime.entry, *largest);
    for (std::size_t i = 0; i < values.size(); ++i) {
      Node* node = batch.nodes[plan->results[i].node];
      node->host = std::move(values[i]);
      if (only == nullptr) {
        node->inputs = nullptr;
        node->inputs_count = 0;
      }
      node->state.store(NodeState::Computed, std::memory_order_release);
    }
    return true;
  } catch (...) {  // the error of the whole batch is reported instead
    return false;
  }
}

}  // namespace volta::plan
