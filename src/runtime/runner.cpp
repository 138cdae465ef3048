// Submitting: takes the batch out of its recorder, finds or builds its plan and runs it.
#include "runtime/runner.h"

#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#include "backend/exit_guard.h"
#include "backend/fork_guard.h"
#include "core/profiling.h"
#include "graph/record/evaluation.h"
#include "graph/record/recorder.h"
#include "runtime/cache_bounds.h"
#include "runtime/device_runtime.h"
#include "runtime/execute.h"
#include "runtime/indices/index_checks.h"
#include "runtime/plan_cache.h"
#include "runtime/rescue.h"
#include "volta/error.h"

namespace volta::plan {
namespace {

using graph::Batch;
using graph::Node;
using graph::Recorder;

// Runs a batch. If memory runs out, values that the batch holds but no wanted result reads are
// freed, and the batch is tried once more.
void run_batch(DeviceRuntime& runtime, Batch& batch, std::size_t stream,
               graph::Familiarity& familiarity) {
  try {
    execute(runtime, find_or_build(runtime, batch, stream, familiarity), batch, false);
  } catch (const OutOfMemory&) {
    if (!graph::drop_unwanted_leaves(batch, runtime.entry)) throw;
    execute(runtime, find_or_build(runtime, batch, stream, familiarity), batch, false);
  }
  count_plan(runtime, runtime.plans.front());  // the plan that ran
}

// Takes the batch out of the recorder, which can then record the next one.
std::unique_ptr<Batch> take_batch(DeviceRuntime& runtime, Recorder& recorder) {
  graph::drop_dead_assignments(recorder);
  std::unique_ptr<Batch> batch;
  if (runtime.spare.empty()) {
    batch = std::make_unique<Batch>();
  } else {
    batch = std::move(runtime.spare.back());
    runtime.spare.pop_back();
  }
  const std::lock_guard guard(recorder.lock);
  std::swap(*batch, recorder.batch);
  recorder.step_start.store(Recorder::kNoStep, std::memory_order_relaxed);
  for (Node* node : batch->nodes) node->recorder.store(nullptr, std::memory_order_release);
  return batch;
}

void give_back(DeviceRuntime& runtime, std::unique_ptr<Batch> batch) {
  batch->reset();
  runtime.spare.push_back(std::move(batch));
}

// Waits if the recorder's stream has too much unfinished work (Streams::make_room). To be called
// before taking the device's lock.
void make_room(const DeviceEntry& entry, const Recorder& recorder) {
  entry.streams.make_room(compute_stream_of(entry, recorder));
}

// Runs everything pending in the recorder. If that fails and `observed` is given, that node is
// computed alone, and the error is thrown only if this fails too. A deferred batch that still lacks
// memory begins with the observed node alone.
void submit_recorder(Recorder& recorder, Node* observed, bool reports_error) {
  DeviceEntry& entry = *recorder.entry;
  const profiling::HostSpan span(entry.device.is_cpu() ? "running" : "submitting");
  const std::lock_guard device_guard(entry.lock);
  require_not_forked(entry);
  DeviceRuntime& runtime = runtime_of(entry);
  const std::size_t stream = compute_stream_of(entry, recorder);
  if (!runtime.deferred.empty()) drop_deferred(runtime);
  std::unique_ptr<Batch> batch = take_batch(runtime, recorder);
  if (batch->live == 0) return give_back(runtime, std::move(batch));
  const bool alone_first = observed != nullptr && still_lacks_memory(recorder);
  if (alone_first && compute_alone(runtime, *batch, stream, *observed)) {
    return_to_its_place(recorder, *batch);
    return give_back(runtime, std::move(batch));
  }
  std::exception_ptr error;
  try {
    if (!entry.device.is_cpu() && process_is_ending()) {
      if (compute_on_cpu(runtime, *batch, nullptr, false))
        return give_back(runtime, std::move(batch));
      throw DeviceError(to_string(entry.device) +
                        ": the process is ending, and the device computes no more");
    }
    run_batch(runtime, *batch, stream, recorder.familiarity);
    return give_back(runtime, std::move(batch));
  } catch (const Overwritten& overwritten) {
    undo_assignments(recorder, *batch, overwritten.error);
    compute_previous(runtime, *batch, stream, overwritten.leaves);
    mark_lost(runtime, *batch, overwritten);
    for (Node* node : batch->nodes) mark_failed(*node, overwritten.error);
    give_back(runtime, std::move(batch));
    std::rethrow_exception(overwritten.error);
  } catch (...) {
    error = std::current_exception();
  }
  // A single node may fit where the batch does not; assignments need the whole batch.
  const bool falls_back = batch->falls_back && !entry.device.is_cpu() && is_out_of_memory(error);
  const bool whole = falls_back && (observed == nullptr || !batch->journal.empty());
  if (whole && compute_on_cpu(runtime, *batch, nullptr))
    return give_back(runtime, std::move(batch));
  const bool rescued =
      observed != nullptr && ((!alone_first && compute_alone(runtime, *batch, stream, *observed)) ||
                              (falls_back && compute_on_cpu(runtime, *batch, observed)));
  undo_assignments(recorder, *batch, error);
  compute_previous(runtime, *batch, stream, {});
  defer(runtime, recorder, *batch, {reports_error && !rescued, is_out_of_memory(error)});
  give_back(runtime, std::move(batch));
  if (!rescued) std::rethrow_exception(error);
}

}  // namespace
}  // namespace volta::plan

namespace volta::graph {

void submit(Recorder& recorder, bool reports_error) {
  plan::make_room(*recorder.entry, recorder);
  plan::submit_recorder(recorder, nullptr, reports_error);
}

void ensure_computed(Node* node) {
  if (node->state.load(std::memory_order_acquire) == NodeState::Pending) {
    if (node->entry->streams.several()) [[unlikely]] {
      if (const Recorder* recorder = node->recorder.load(std::memory_order_acquire))
        plan::make_room(*node->entry, *recorder);
    }
    const std::lock_guard device_guard(node->entry->lock);
    // No other thread submits under the device's lock, so the node is either in a recorder or
    // computed.
    Recorder* recorder = node->recorder.load(std::memory_order_acquire);
    if (recorder != nullptr) plan::submit_recorder(*recorder, node, true);
  }
  if (node->state.load(std::memory_order_acquire) == NodeState::Failed) {
    const std::exception_ptr error = node->errors->error;
    // The program that catches the error continues with the previous values.
    undo_failed_assignments();
    std::rethrow_exception(error);
  }
}

void check_device_error(DeviceEntry& entry) {
  const std::lock_guard device_guard(entry.lock);
  for (const plan::DeviceRuntime::Entry& cached : plan::runtime_of(entry).plans) {
    IndexLog* const checks = cached.plan->checks.get();
    if (checks == nullptr) continue;
    checks->verify_all();
    if (IndexLog::Failure* failure = checks->unreported()) {
      failure->reported = true;
      std::rethrow_exception(failure->error);
    }
  }
}

}  // namespace volta::graph
