// Binds memory to the buffers of a plan and launches its steps.
#include "runtime/execute.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <utility>
#include <variant>

#include "backend/exit_guard.h"
#include "backend/pool.h"
#include "core/counting.h"
#include "core/profiling.h"
#include "graph/record/holders.h"
#include "plan/explain.h"
#include "runtime/cache_bounds.h"
#include "runtime/indices/index_checks.h"
#include "runtime/indices/index_results.h"
#include "runtime/placement/device_times.h"
#include "runtime/transfer/upload.h"
#include "volta/error.h"

namespace volta::plan {

using graph::Batch;
using graph::Buffer;
using graph::Node;
using graph::NodeState;

namespace {

void ensure_arena(DeviceRuntime& runtime, std::size_t stream, std::uint64_t bytes) {
  Buffer*& arena = runtime.arenas[stream];
  if (bytes == 0 || (arena != nullptr && arena->bytes >= bytes)) return;
  drop_arena(runtime,
             stream);  // before the allocation, so that the two arenas never exist together
  arena = graph::allocate_buffer(runtime.entry, bytes, stream);
  graph::note_holding(arena, "temporaries of a plan");
}

// Allocates an output. The plan keeps two buffers for each small output, because state often
// alternates between two. A repeated step then asks the pool for nothing and reuses the same
// addresses.
Buffer* output_buffer(DeviceRuntime& runtime, Plan& plan, std::size_t output) {
  DeviceEntry& entry = runtime.entry;
  const std::uint64_t bytes = plan.steps.output_bytes[output];
  if (bytes > kMaxKeptBytes) return graph::allocate_buffer(entry, bytes, plan.steps.stream);
  auto& kept = plan.kept[output];
  for (Buffer* buffer : kept) {
    if (buffer == nullptr || buffer->refs.load(std::memory_order_acquire) != 1) continue;
    buffer->refs.fetch_add(1, std::memory_order_relaxed);
    return buffer;
  }
  Buffer* fresh = graph::allocate_buffer(entry, bytes, plan.steps.stream);
  if (!may_keep(runtime, plan, bytes)) return fresh;
  fresh->kept = true;
  fresh->refs.fetch_add(1, std::memory_order_relaxed);
  entry.cached.kept_outputs.fetch_add(fresh->bytes, std::memory_order_relaxed);
  if (kept[0] != nullptr) release_kept(kept[0]);
  kept[0] = std::exchange(kept[1], fresh);  // the older of the two is dropped
  return fresh;
}

// The buffer of a result that is an unchanged leaf. The result shares the leaf's buffer, unless the
// user owns that memory and may change it: then it gets a copy.
Buffer* shared_or_copied(DeviceEntry& entry, Buffer* leaf) {
  if (!leaf->foreign || leaf->bytes == 0) {
    leaf->refs.fetch_add(1, std::memory_order_relaxed);
    return leaf;
  }
  Buffer* copy = graph::allocate_buffer(entry, leaf->bytes);
  try {
    entry.streams.copy(copy->address, copy->times, leaf->address, leaf->times, leaf->bytes);
  } catch (...) {
    graph::release(copy);
    throw;
  }
  return copy;
}

// The leaves whose memory the first `issued` steps write. Only kernels overwrite leaves, through
// the leaf's own binding or through the output that takes over its memory.
std::vector<std::uint32_t> overwritten_leaves(const Plan& plan, std::size_t issued) {
  std::set<std::uint32_t> leaves;
  for (std::size_t i = 0; i < std::min(issued, plan.steps.steps.size()); ++i) {
    const auto* kernel = std::get_if<KernelStep>(&plan.steps.steps[i]);
    if (kernel == nullptr) continue;
    for (const Binding& segment : kernel->segments) {
      for (std::size_t slot = 0; slot < segment.buffers.size(); ++slot) {
        if (!kernel->program->slots[slot].written) continue;
        const BufferRef& buffer = segment.buffers[slot];
        if (buffer.kind == BufferRef::Kind::Leaf) leaves.insert(buffer.index);
        if (buffer.kind == BufferRef::Kind::Output && plan.donor[buffer.index] >= 0)
          leaves.insert(static_cast<std::uint32_t>(plan.donor[buffer.index]));
      }
    }
  }
  return {leaves.begin(), leaves.end()};
}

// Describes the plan's steps to the profiler.
void tell_plan(const DeviceEntry& entry, const Plan& plan) {
  const PlanSteps& steps = plan.steps;
  if (profiling::knows_plan(steps.id)) return;
  const DeviceFigures nominal = entry.backend.figures(entry.index);
  std::vector<StepInfo> infos;
  for (std::size_t i = 0; i < steps.steps.size(); ++i) {
    const StepCost& cost = steps.costs[i];
    const auto bytes = static_cast<double>(cost.bytes_read + cost.bytes_written);
    const bool known = nominal.bytes_per_second > 0;
    infos.push_back(
        describe(steps.steps[i], cost, known ? nominal : graph::measured_figures(entry, bytes)));
  }
  profiling::add_plan(steps.id, std::move(infos));
}

struct Running {
  Running(DeviceRuntime& the_runtime, std::size_t stream) : runtime(the_runtime) {
    runtime.running = stream;
  }
  ~Running() { runtime.running.reset(); }
  DeviceRuntime& runtime;
};

// Gives the nodes of the batch the buffers that the plan has written or shares.
void give_results(DeviceRuntime& runtime, const Plan& plan, Batch& batch, bool alone) {
  auto shared = runtime.shared.begin();
  for (const Result& result : plan.results) {
    Node* node = batch.nodes[result.node];
    if (result.kind == Result::Kind::Output) {
      node->buffer = runtime.buffers[result.number];
      node->buffer->refs.fetch_add(1, std::memory_order_relaxed);
      graph::note_holding(node->buffer, *node);
    } else {
      node->buffer = *shared++;
    }
    if (!alone) {
      node->inputs = nullptr;
      node->inputs_count = 0;
    }
    node->state.store(NodeState::Computed, std::memory_order_release);
  }
  for (Buffer* buffer : runtime.buffers) graph::release(buffer);
}

// Memory first, then the launches: if memory runs out nothing has happened. If `alone`, other nodes
// of the batch stay pending, so the computed nodes keep their inputs.
void execute_once(DeviceRuntime& runtime, Plan& plan, Batch& batch, bool alone) {
  const std::size_t stream = plan.steps.stream;
  for (const graph::Leaf& leaf : batch.leaves) graph::make_resident(*leaf.node);
  ensure_arena(runtime, stream, plan.steps.arena_bytes);
  Buffer* const arena = runtime.arenas[stream];
  const Running running(runtime, stream);
  runtime.leaves.clear();
  for (const graph::Leaf& leaf : batch.leaves) runtime.leaves.push_back(leaf.node->buffer->address);
  runtime.outputs.clear();
  runtime.buffers.clear();
  runtime.shared.clear();
  std::uint64_t run = 0;
  try {
    for (std::size_t i = 0; i < plan.donor.size(); ++i) {
      Buffer* buffer = nullptr;
      if (plan.donor[i] >= 0) {
        buffer = batch.leaves[static_cast<std::size_t>(plan.donor[i])].node->buffer;
        buffer->refs.fetch_add(1, std::memory_order_relaxed);
      } else {
        buffer = output_buffer(runtime, plan, i);
      }
      runtime.buffers.push_back(buffer);
      runtime.outputs.push_back(buffer->address);
    }
    for (const Result& result : plan.results) {
      if (result.kind == Result::Kind::Output) continue;
      runtime.shared.push_back(
          shared_or_copied(runtime.entry, batch.leaves[result.number].node->buffer));
    }
    runtime.args.clear();
    for (const std::uint32_t arg : plan.arg_map) runtime.args.push_back(batch.args[arg]);
    graph::warn_of_wrong_indices(batch);
    if (plan.checks) {
      plan.checks->sites = batch.sites;
      run = plan.checks->begin_run();
    }
    if (profiling::session() != 0) tell_plan(runtime.entry, plan);
    plan.executable->issued = 0;
    try {
      if (!runtime.entry.device.is_cpu()) wait_for_devices_at_exit();
      const Address temporaries = arena != nullptr ? arena->address : Address{};
      // Created after the copies above, because they are work of the streams too.
      Streams::Run work(runtime.entry.streams, stream);
      for (const graph::Leaf& leaf : batch.leaves) work.reads(leaf.node->buffer->times);
      for (Buffer* buffer : runtime.buffers) work.writes(buffer->times);
      if (arena != nullptr) work.writes(arena->times);
      runtime.entry.streams.compute(work, [&] {
        plan.executable->run(runtime.leaves, runtime.outputs, temporaries, runtime.args);
      });
      runtime.entry.streams.set_room(stream, plan.executable->under_way);
    } catch (...) {
      auto overwritten = overwritten_leaves(plan, plan.executable->issued);
      if (!overwritten.empty()) throw Overwritten{std::current_exception(), std::move(overwritten)};
      throw;
    }
  } catch (...) {
    for (Buffer* buffer : runtime.buffers) graph::release(buffer);
    for (Buffer* buffer : runtime.shared) graph::release(buffer);
    throw;
  }
  if (runtime.entry.device.is_cpu()) verify_finished(plan);
  note_dependences(plan, batch, run);
  give_results(runtime, plan, batch, alone);
  count(live_counters().submits);
  ++runtime.runs;
}

}  // namespace

void verify_finished(const Plan& plan) {
  if (!plan.checks) return;
  try {
    plan.checks->verify_all();
  } catch (...) {  // the values exist; the next read of one asks again
  }
}

// If memory runs out while the arena is larger than this plan needs, the arena is dropped and the
// run is tried again with a smaller one.
void execute(DeviceRuntime& runtime, Plan& plan, Batch& batch, bool alone) {
  const std::size_t stream = plan.steps.stream;
  if (runtime.arenas[stream] != nullptr && runtime.arenas[stream]->bytes > plan.steps.arena_bytes) {
    try {
      return execute_once(runtime, plan, batch, alone);
    } catch (const OutOfMemory&) {
      drop_arena(runtime, stream);
    }
  }
  execute_once(runtime, plan, batch, alone);
}

}  // namespace volta::plan
