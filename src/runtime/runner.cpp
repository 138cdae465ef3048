// Plan cache and execution.
#include "plan/runner.h"

#include <algorithm>
#include <array>
#include <exception>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "backend/pool.h"
#include "core/counting.h"
#include "core/exit_guard.h"
#include "core/fork_guard.h"
#include "core/log_once.h"
#include "core/profiling.h"
#include "core/registry.h"
#include "graph/device_times.h"
#include "graph/holders.h"
#include "graph/host.h"
#include "graph/index_checks.h"
#include "graph/mirrors.h"
#include "graph/transfers.h"
#include "graph/upload.h"
#include "plan/check.h"
#include "plan/explain.h"
#include "plan/index_results.h"
#include "plan/plan.h"
#include "plan/structure.h"
#include "plan/tuner.h"
#include "volta/error.h"
#include "volta/log.h"

namespace volta::plan {

using graph::Batch;
using graph::Buffer;
using graph::kHolder;
using graph::kReference;
using graph::Node;
using graph::NodeState;
using graph::Segment;

namespace {

struct Key {
  graph::Hash hash;
  std::uint64_t live = 0;
  friend bool operator==(const Key&, const Key&) = default;
};
// Sets the key of a batch that was set aside apart: its assignments are gone.
constexpr std::uint64_t kAsideWord = 0xA51DE;

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    return key.hash.a ^ (key.live * 0x9E3779B97F4A7C15u);
  }
};

// Where plans run: the cache, an arena that all plans of a lane share, batches to record into.
struct DeviceState {
  explicit DeviceState(DeviceEntry& e) : entry(e) {}
  struct Entry {
    Key key;
    std::unique_ptr<Plan> plan;
  };
  DeviceEntry& entry;
  std::uint64_t runs = 0;
  std::list<Entry> plans;  // most recently used first
  std::unordered_map<Key, std::list<Entry>::iterator, KeyHash> by_key;
  GroupingCache groupings;
  std::array<Buffer*, kComputeLanes> arenas{};
  std::optional<std::size_t> running;  // the lane in which a plan is being given its memory
  std::vector<std::unique_ptr<Batch>> spare;
  std::vector<Segment*> aside, free_aside;  // with batches whose sweep failed, and for the next
  // Reused between runs: a steady-state step allocates nothing.
  std::vector<Address> leaves, outputs;
  std::vector<std::uint64_t> args;
  std::vector<Buffer*> buffers, shared;
  std::vector<bool> donatable;
};

void drop_arena(DeviceState& state, std::size_t lane) {
  if (Buffer* arena = std::exchange(state.arenas[lane], nullptr)) graph::release(arena);
}

// An arena is as large as the largest plan so far wanted it; who needs memory more may have it.
void trim(DeviceEntry& entry) {
  const std::lock_guard guard(entry.lock);
  auto& state = *static_cast<DeviceState*>(entry.plans);
  for (std::size_t lane = 0; lane < kComputeLanes; ++lane) {
    if (state.running != lane) drop_arena(state, lane);
  }
}

// The entry is locked, and lives as long as the process.
DeviceState& state_of(DeviceEntry& entry) {
  if (entry.plans == nullptr) {
    entry.plans = new DeviceState(entry);
    entry.trim = &trim;
  }
  return *static_cast<DeviceState*>(entry.plans);
}

// A leaf may be overwritten if nobody but the batch (and its journal) will see its value again.
// Scalars are left alone: nothing is gained, and equal ones share a buffer at first.
bool is_donatable(const graph::Leaf& leaf) {
  const Node& node = *leaf.node;
  return node.shape.rank() > 0 && node.buffer != nullptr && node.buffer->pool_owned &&
         node.buffer->refs.load(std::memory_order_acquire) == 1u + (node.buffer->kept ? 1u : 0u) &&
         node.counts.load(std::memory_order_acquire) == kReference + kHolder * leaf.journaled;
}

// The lane that runs what was recorded for a stream. Steps that are checked one by one are all in
// the first, as is what they are compared with.
std::size_t lane_of(const DeviceEntry& entry, const Segment& segment) {
  return checks_steps() ? 0 : entry.lanes.lane_of(segment.stream.load(std::memory_order_relaxed));
}

Key key_of(const Batch& batch, std::size_t lane, std::vector<bool>& donatable) {
  Key key{batch.hash, batch.live};
  if (lane != 0) key.hash.mix(lane);
  donatable.assign(batch.leaves.size(), false);
  std::uint64_t bits = 1;
  for (std::size_t i = 0; i < batch.leaves.size(); ++i) {
    donatable[i] = is_donatable(batch.leaves[i]);
    bits = bits << 1 | (donatable[i] ? 1 : 0);
    if (i % 62 == 61) {
      key.hash.mix(bits);
      bits = 1;
    }
  }
  key.hash.mix(bits);
  return key;
}

void ensure_arena(DeviceState& state, std::size_t lane, std::uint64_t bytes) {
  Buffer*& arena = state.arenas[lane];
  if (bytes == 0 || (arena != nullptr && arena->bytes >= bytes)) return;
  drop_arena(state, lane);  // first: both at once would be the peak
  arena = graph::allocate_buffer(state.entry, bytes, lane);
  graph::note_holding(arena, "temporaries of a plan");
}

// Memory of an output. Small ones are kept by the plan, two each (a state that moves between two
// buffers finds both again), so that a repeated step asks the pool for nothing and finds its
// addresses unchanged.
Buffer* output_buffer(DeviceEntry& entry, Plan& plan, std::size_t output) {
  const std::uint64_t bytes = plan.steps.output_bytes[output];
  if (bytes > kMaxKeptBytes) return graph::allocate_buffer(entry, bytes, plan.steps.lane);
  auto& kept = plan.kept[output];
  for (Buffer* buffer : kept) {
    if (buffer == nullptr || buffer->refs.load(std::memory_order_acquire) != 1) continue;
    buffer->refs.fetch_add(1, std::memory_order_relaxed);
    return buffer;
  }
  Buffer* fresh = graph::allocate_buffer(entry, bytes, plan.steps.lane);
  fresh->kept = true;
  fresh->refs.fetch_add(1, std::memory_order_relaxed);
  if (kept[0] != nullptr) {
    kept[0]->kept = false;
    graph::release(kept[0]);
  }
  kept[0] = std::exchange(kept[1], fresh);  // the older of the two goes first
  return fresh;
}

// The buffer of a result that is a leaf's value as it is. A user's memory may change from now on:
// the result gets a copy.
Buffer* shared_or_copied(DeviceEntry& entry, Buffer* leaf) {
  if (!leaf->foreign || leaf->bytes == 0) {
    leaf->refs.fetch_add(1, std::memory_order_relaxed);
    return leaf;
  }
  Buffer* copy = graph::allocate_buffer(entry, leaf->bytes);
  try {
    entry.lanes.copy(copy->address, copy->times, leaf->address, leaf->times, leaf->bytes);
  } catch (...) {
    graph::release(copy);
    throw;
  }
  return copy;
}

// A run failed, and its first steps may have overwritten these leaves.
struct Overwritten {
  std::exception_ptr error;
  std::vector<std::uint32_t> leaves;
};

// The leaves in whose memory the first `issued` steps write. Only kernels do that, under the name
// of the leaf or of the output that takes it over.
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

// What a plan's steps are, for the profiler.
void tell_plan(const DeviceEntry& entry, const Plan& plan) {
  const PlanSteps& steps = plan.steps;
  if (profiling::knows_plan(steps.id)) return;
  const DeviceFigures nominal = entry.backend.figures(entry.index);
  std::vector<StepInfo> infos;
  for (std::size_t i = 0; i < steps.steps.size(); ++i) {
    const Work& work = steps.work[i];
    const auto bytes = static_cast<double>(work.bytes_read + work.bytes_written);
    const bool known = nominal.bytes_per_second > 0;
    infos.push_back(
        describe(steps.steps[i], work, known ? nominal : graph::measured_figures(entry, bytes)));
  }
  profiling::add_plan(steps.id, std::move(infos));
}

struct Running {
  Running(DeviceState& the_state, std::size_t lane) : state(the_state) { state.running = lane; }
  ~Running() { state.running.reset(); }
  DeviceState& state;
};

// Asks for the indices that a plan of the CPU has met.
void verify_finished(const Plan& plan) {
  if (!plan.checks) return;
  try {
    plan.checks->verify_all();
  } catch (...) {  // the values are there: who looks at them asks again
  }
}

// Memory first, then the launches: if memory runs out nothing has happened. `alone`: other nodes of
// the batch stay pending, and need the recipes of those computed now.
void execute_once(DeviceState& state, Plan& plan, Batch& batch, bool alone) {
  const std::size_t lane = plan.steps.lane;
  for (const graph::Leaf& leaf : batch.leaves) graph::make_resident(*leaf.node);
  ensure_arena(state, lane, plan.steps.arena_bytes);
  Buffer* const arena = state.arenas[lane];
  const Running running(state, lane);
  state.leaves.clear();
  for (const graph::Leaf& leaf : batch.leaves) state.leaves.push_back(leaf.node->buffer->address);
  state.outputs.clear();
  state.buffers.clear();
  state.shared.clear();
  std::uint64_t run = 0;
  try {
    for (std::size_t i = 0; i < plan.donor.size(); ++i) {
      Buffer* buffer = nullptr;
      if (plan.donor[i] >= 0) {
        buffer = batch.leaves[static_cast<std::size_t>(plan.donor[i])].node->buffer;
        buffer->refs.fetch_add(1, std::memory_order_relaxed);
      } else {
        buffer = output_buffer(state.entry, plan, i);
      }
      state.buffers.push_back(buffer);
      state.outputs.push_back(buffer->address);
    }
    for (const Result& result : plan.results) {
      if (result.kind == Result::Kind::Output) continue;
      state.shared.push_back(
          shared_or_copied(state.entry, batch.leaves[result.number].node->buffer));
    }
    state.args.clear();
    for (const std::uint32_t arg : plan.arg_map) state.args.push_back(batch.args[arg]);
    graph::warn_of_wrong_indices(batch);
    if (plan.checks) {
      plan.checks->sites = batch.sites;
      run = plan.checks->begin_run();
    }
    if (profiling::session() != 0) tell_plan(state.entry, plan);
    plan.executable->issued = 0;
    try {
      if (!state.entry.device.is_cpu()) wait_for_devices_at_exit();
      const Address temporaries = arena != nullptr ? arena->address : Address{};
      // Not before the copies above, which are work as well.
      Lanes::Run work(state.entry.lanes, lane);
      for (const graph::Leaf& leaf : batch.leaves) work.reads(leaf.node->buffer->times);
      for (Buffer* buffer : state.buffers) work.writes(buffer->times);
      if (arena != nullptr) work.writes(arena->times);
      state.entry.lanes.compute(work, [&] {
        plan.executable->run(state.leaves, state.outputs, temporaries, state.args);
      });
      state.entry.lanes.set_room(lane, plan.executable->under_way);
    } catch (...) {
      auto overwritten = overwritten_leaves(plan, plan.executable->issued);
      if (!overwritten.empty()) throw Overwritten{std::current_exception(), std::move(overwritten)};
      throw;
    }
  } catch (...) {
    for (Buffer* buffer : state.buffers) graph::release(buffer);
    for (Buffer* buffer : state.shared) graph::release(buffer);
    throw;
  }
  if (state.entry.device.is_cpu()) verify_finished(plan);
  note_dependences(plan, batch, run);
  auto shared = state.shared.begin();
  for (const Result& result : plan.results) {
    Node* node = batch.nodes[result.node];
    if (result.kind == Result::Kind::Output) {
      node->buffer = state.buffers[result.number];
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
  for (Buffer* buffer : state.buffers) graph::release(buffer);
  count(live_counters().submits);
  ++state.runs;
}

// Where memory runs out although the arena is larger than this plan wants it, the arena is made
// anew.
void execute(DeviceState& state, Plan& plan, Batch& batch, bool alone) {
  const std::size_t lane = plan.steps.lane;
  if (state.arenas[lane] != nullptr && state.arenas[lane]->bytes > plan.steps.arena_bytes) {
    try {
      return execute_once(state, plan, batch, alone);
    } catch (const OutOfMemory&) {
      drop_arena(state, lane);
    }
  }
  execute_once(state, plan, batch, alone);
}

void mark_failed(Node& node, const std::exception_ptr& error) {
  if (node.state.load(std::memory_order_relaxed) != NodeState::Pending) return;
  node.own_doubts().error = error;
  node.state.store(NodeState::Failed, std::memory_order_release);
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  } catch (...) {
    return "an unknown error";
  }
}

// Values that a failed run has overwritten, and what variables were to go back to and is computed
// from those: whoever looks at one is told so, instead of being given what is there now. Nobody but
// the batch and its journal has them.
void mark_lost(const DeviceState& state, const Batch& batch, const Overwritten& overwritten) {
  const auto error = std::make_exception_ptr(BackendError(fmt::format(
      "{}: a value is lost, as the step that updates it in place failed halfway; load it again: {}",
      to_string(state.entry.device), text_of(overwritten.error))));
  for (const graph::JournalEntry& entry : batch.journal) mark_failed(*entry.previous, error);
  for (const std::uint32_t leaf : overwritten.leaves) {
    Node& node = *batch.leaves[leaf].node;
    node.own_doubts().error = error;
    node.host.reset();
    node.state.store(NodeState::Failed, std::memory_order_release);
    graph::release(std::exchange(node.buffer, nullptr));
  }
}

// Memory that the backend takes for itself may be what the pool only keeps; that goes back first.
// Then the plan runs without what is for speed, and in the end caches of others go too.
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
  steps.frugal = true;
  if (auto executable = attempt()) return executable;
  trim(entry);
  graph::give_up_mirrors(entry);
  entry.pool.empty_cache();
  return entry.backend.prepare(entry.index, steps);
}

void prepare(DeviceState& state, Plan& plan, const Batch& batch, std::size_t lane) {
  plan.steps.lane = static_cast<std::uint32_t>(lane);
  if (!state.entry.device.is_cpu())
    tune(state.entry.backend, state.entry.index, plan.steps, Unknown::Time);
  if (checks_steps() && !state.entry.device.is_cpu()) {
    plan.executable = std::make_unique<CheckedSteps>(state.entry, plan.steps);
  } else {
    plan.executable = prepared(state.entry, plan.steps);
  }
  if (!batch.sites.empty()) plan.checks = std::make_shared<graph::IndexLog>(*plan.executable);
}

// Before a plan goes: nobody can ask it later for the indices it met.
void retire(DeviceState& state, const Plan& plan) {
  if (!plan.checks) return;
  try {
    if (plan.checks->open()) {
      state.entry.backend.synchronize(state.entry.index);
      plan.checks->verify_all();
    }
  } catch (...) {
    plan.checks->fail(std::current_exception());
  }
  plan.checks->close();
}

Plan& find_or_build(DeviceState& state, Batch& batch, std::size_t lane) {
  const Key key = key_of(batch, lane, state.donatable);
  if (const auto found = state.by_key.find(key); found != state.by_key.end()) {
    state.plans.splice(state.plans.begin(), state.plans, found->second);
    return *found->second->plan;
  }
  auto plan = [&] {
    const profiling::HostSpan span("planning");
    return build_plan(batch, state.donatable, state.entry, state.groupings);
  }();
  count(live_counters().plans_built);
  {
    const profiling::HostSpan span("compiling");
    prepare(state, *plan, batch, lane);
  }
  state.plans.push_front({key, std::move(plan)});
  state.by_key[key] = state.plans.begin();
  if (state.plans.size() > kMaxPlans) {
    retire(state, *state.plans.back().plan);
    state.by_key.erase(state.plans.back().key);
    state.plans.pop_back();
  }
  return *state.plans.front().plan;
}

// Where memory runs out although the batch has values that nothing wanted reads, those go.
void run_batch(DeviceState& state, Batch& batch, std::size_t lane) {
  try {
    execute(state, find_or_build(state, batch, lane), batch, false);
  } catch (const OutOfMemory&) {
    if (!graph::drop_unwanted_leaves(batch, state.entry)) throw;
    execute(state, find_or_build(state, batch, lane), batch, false);
  }
}

// Parameters get their last good node back; whoever still looks at the node that failed is told
// why.
void undo_assignments(Segment& segment, Batch& batch, const std::exception_ptr& error) {
  const bool left = graph::leave_to_owner(segment, batch.journal);
  for (const graph::JournalEntry& entry : batch.journal) {
    // The same where the step has not assigned the variable.
    if (entry.assigned != entry.previous) mark_failed(*entry.assigned, error);
  }
  if (left) return;
  for (const graph::JournalEntry& entry : batch.journal) graph::undo_assignment(entry);
}

// A batch whose sweep failed leaves the segment, or every later sweep would fail too. What is held
// of it stays pending, in a segment that no thread records into: whoever looks has it tried again,
// the whole and then the cone of what is looked at.
void set_aside(DeviceState& state, Segment& segment, Batch& batch) {
  Segment* home = &segment;
  if (!segment.set_aside) {
    if (state.free_aside.empty()) {
      state.free_aside.push_back(new Segment);  // never freed: another thread may be looking at it
      state.free_aside.back()->entry = &state.entry;
      state.free_aside.back()->set_aside = true;
    }
    home = state.free_aside.back();
    state.free_aside.pop_back();
    state.aside.push_back(home);
  }
  batch.drop_journal();
  batch.hash.mix(kAsideWord);
  const std::lock_guard guard(home->lock);
  for (Node* node : batch.nodes) {
    if (node->state.load(std::memory_order_relaxed) == NodeState::Pending)
      node->segment.store(home, std::memory_order_release);
  }
  batch.update_live();
  std::swap(home->batch, batch);
}

// Frees what was set aside and is wanted no more.
void drop_aside(DeviceState& state) {
  std::erase_if(state.aside, [&](Segment* segment) {
    Batch dropped;
    {
      const std::lock_guard guard(segment->lock);
      segment->batch.update_live();
      if (segment->batch.live != 0) return false;
      std::swap(dropped, segment->batch);
      for (Node* node : dropped.nodes) node->segment.store(nullptr, std::memory_order_release);
    }
    dropped.reset();
    state.free_aside.push_back(segment);
    return true;
  });
}

// Takes what was recorded out of the segment, which is then free to record on.
std::unique_ptr<Batch> take_batch(DeviceState& state, Segment& segment) {
  graph::drop_dead_assignments(segment);
  std::unique_ptr<Batch> batch;
  if (state.spare.empty()) {
    batch = std::make_unique<Batch>();
  } else {
    batch = std::move(state.spare.back());
    state.spare.pop_back();
  }
  const std::lock_guard guard(segment.lock);
  std::swap(*batch, segment.batch);
  segment.step_start.store(Segment::kNoStep, std::memory_order_relaxed);
  for (Node* node : batch->nodes) node->segment.store(nullptr, std::memory_order_release);
  return batch;
}

void give_back(DeviceState& state, std::unique_ptr<Batch> batch) {
  batch->reset();
  state.spare.push_back(std::move(batch));
}

// Computes one node of a batch whose sweep failed; false if that fails as well.
bool compute_alone(DeviceState& state, Batch& batch, std::size_t lane, const Node& node) {
  try {
    const std::vector<bool> none(batch.leaves.size(), false);
    const auto plan = build_plan(batch, none, state.entry, state.groupings, &node);
    prepare(state, *plan, batch, lane);
    execute(state, *plan, batch, true);
    retire(state, *plan);
    return true;
  } catch (...) {  // the sweep's error is the one to report
    return false;
  }
}

// Computes, of a batch that failed, what its variables go back to where that is pending itself:
// the initial values of a model whose first step does not fit. Without `lost` leaves; what cannot
// be computed now stays pending.
void compute_previous(DeviceState& state, Batch& batch, std::size_t lane,
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
    const auto plan = build_plan(batch, none, state.entry, state.groupings);
    prepare(state, *plan, batch, lane);
    execute(state, *plan, batch, true);
    retire(state, *plan);
  } catch (...) {  // the sweep's error is the one to report
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

void warn_of_fallback(const DeviceEntry& entry, const Node& node) {
  log_once(fmt::format("no memory for a result at {}:{}", node.place.file(), node.place.line()),
           LogLevel::warning,
           fmt::format("{}: {} has no memory for its result, the CPU computes it ({}:{})",
                       graph::op_info(node.op).name, to_string(entry.device), node.place.file(),
                       node.place.line()));
}

// Where the device has no memory the CPU computes the live nodes, or just `only`, from values that
// it fetches. They stay nodes of the device; their values are the host's until a batch that runs
// on the device uses them (graph::make_resident). False if that fails as well.
bool compute_on_cpu(DeviceState& state, Batch& batch, const Node* only,
                    bool for_want_of_memory = true) {
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
    retire(state, *plan);
    if (for_want_of_memory) warn_of_fallback(state.entry, *largest);
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
  } catch (...) {  // the sweep's error is the one to report
    return false;
  }
}

}  // namespace

void submit_segment(Segment& segment) {
  make_room(*segment.entry, segment);
  submit_segment(segment, nullptr);
}

void make_room(const DeviceEntry& entry, const Segment& segment) {
  entry.lanes.make_room(lane_of(entry, segment));
}

void submit_segment(Segment& segment, Node* observed) {
  DeviceEntry& entry = *segment.entry;
  const profiling::HostSpan span(entry.device.is_cpu() ? "running" : "submitting");
  const std::lock_guard device_guard(entry.lock);
  require_not_forked(entry);
  DeviceState& state = state_of(entry);
  const std::size_t lane = lane_of(entry, segment);
  if (!state.aside.empty()) drop_aside(state);
  std::unique_ptr<Batch> batch = take_batch(state, segment);
  if (batch->live == 0) return give_back(state, std::move(batch));
  std::exception_ptr error;
  try {
    if (!entry.device.is_cpu() && process_is_ending()) {
      if (compute_on_cpu(state, *batch, nullptr, false)) return give_back(state, std::move(batch));
      throw DeviceError(to_string(entry.device) +
                        ": the process is ending, and the device computes no more");
    }
    run_batch(state, *batch, lane);
    return give_back(state, std::move(batch));
  } catch (const Overwritten& overwritten) {
    undo_assignments(segment, *batch, overwritten.error);
    compute_previous(state, *batch, lane, overwritten.leaves);
    mark_lost(state, *batch, overwritten);
    for (Node* node : batch->nodes) mark_failed(*node, overwritten.error);
    give_back(state, std::move(batch));
    std::rethrow_exception(overwritten.error);
  } catch (...) {
    error = std::current_exception();
  }
  // Alone the node may fit; assignments are of the batch as a whole.
  const bool falls_back = batch->falls_back && !entry.device.is_cpu() && is_out_of_memory(error);
  const bool whole = falls_back && (observed == nullptr || !batch->journal.empty());
  if (whole && compute_on_cpu(state, *batch, nullptr)) return give_back(state, std::move(batch));
  const bool rescued =
      observed != nullptr && (compute_alone(state, *batch, lane, *observed) ||
                              (falls_back && compute_on_cpu(state, *batch, observed)));
  undo_assignments(segment, *batch, error);
  compute_previous(state, *batch, lane, {});
  set_aside(state, segment, *batch);
  give_back(state, std::move(batch));
  if (!rescued) std::rethrow_exception(error);
}

Explanation explain_segment(Segment& segment, const SavedFor& saved_for) {
  DeviceEntry& entry = *segment.entry;
  const std::lock_guard device_guard(entry.lock);
  const std::lock_guard guard(segment.lock);
  if (segment.batch.live == 0) return {};
  std::vector<bool> donatable;
  key_of(segment.batch, 0, donatable);
  Account account{{}, entry.backend.figures(entry.index), saved_for};
  const auto plan =
      build_plan(segment.batch, donatable, entry, state_of(entry).groupings, nullptr, &account);
  if (!entry.device.is_cpu()) tune(entry.backend, entry.index, plan->steps, Unknown::Leave);
  account.add_steps(plan->steps);
  return std::move(account.explanation);
}

CacheStats cache_stats(Device device) {
  DeviceEntry& entry = device_entry(device);
  const std::lock_guard guard(entry.lock);
  const DeviceState& state = state_of(entry);
  CacheStats stats;
  stats.runs = state.runs;
  stats.plans = state.plans.size();
  stats.groupings = state.groupings.size();
  stats.programs = entry.backend.program_count(entry.index);
  stats.sites = static_cast<std::size_t>(
      std::count_if(state.plans.begin(), state.plans.end(),
                    [](const DeviceState::Entry& e) { return e.plan->checks != nullptr; }));
  for (const Buffer* arena : state.arenas) stats.arena_bytes += arena != nullptr ? arena->bytes : 0;
  if (!state.plans.empty()) stats.latest_arena = state.plans.front().plan->steps.arena_bytes;
  return stats;
}

}  // namespace volta::plan

namespace volta::graph {

void ensure_computed(Node* node) {
  if (node->state.load(std::memory_order_acquire) == NodeState::Pending) {
    if (node->entry->lanes.several()) [[unlikely]] {
      if (const Segment* segment = node->segment.load(std::memory_order_acquire))
        plan::make_room(*node->entry, *segment);
    }
    const std::lock_guard device_guard(node->entry->lock);
    // Under the device's lock nobody else is submitting: it is in a segment, or done.
    Segment* segment = node->segment.load(std::memory_order_acquire);
    if (segment != nullptr) plan::submit_segment(*segment, node);
  }
  if (node->state.load(std::memory_order_acquire) == NodeState::Failed) {
    const std::exception_ptr error = node->doubts->error;
    undo_failed_assignments();  // who hears of the failure goes on with what was before it
    std::rethrow_exception(error);
  }
}

void check_device_error(DeviceEntry& entry) {
  const std::lock_guard device_guard(entry.lock);
  for (const auto& [key, plan] : plan::state_of(entry).plans) {
    if (!plan->checks) continue;
    plan->checks->verify_all();
    if (IndexLog::Failure* failure = plan->checks->unreported()) {
      failure->reported = true;
      std::rethrow_exception(failure->error);
    }
  }
}

}  // namespace volta::graph
