// Assignments to variables, which are undone if the batch that computes the new values fails.
#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "graph/record/autocast.h"
#include "graph/record/evaluation.h"
#include "graph/record/recorder.h"
#include "graph/record/recording_state.h"

namespace volta::graph {

void undo_failed_assignments(Recorder& recorder) {
  if (!recorder.has_failed.load(std::memory_order_relaxed)) return;
  std::vector<JournalEntry> failed;
  {
    const std::lock_guard guard(recorder.lock);
    // The submitting thread stores the entries before it marks the nodes as failed, so entries
    // whose node is still pending stay.
    const auto marked = std::partition(
        recorder.failed.begin(), recorder.failed.end(), [](const JournalEntry& entry) {
          return entry.assigned->state.load(std::memory_order_acquire) == NodeState::Pending;
        });
    failed.assign(marked, recorder.failed.end());
    recorder.failed.erase(marked, recorder.failed.end());
    recorder.has_failed.store(!recorder.failed.empty(), std::memory_order_relaxed);
  }
  for (const JournalEntry& entry : failed) {
    undo_assignment(entry);
    entry.drop_previous();
    release(entry.assigned);
    release(entry.variable);
  }
}

void drop_dead_assignments(Recorder& recorder) {
  std::vector<JournalEntry> dead;  // released after unlocking, since dropping a holder locks too
  {
    const std::lock_guard guard(recorder.lock);
    auto& journal = recorder.batch.journal;
    std::size_t kept = 0;
    for (const JournalEntry& entry : journal) {
      // The journal has the only reference, so no other thread can add one.
      if (entry.variable->refs.load(std::memory_order_acquire) == 1) {
        recorder.batch.drop_from_leaf(entry);
        dead.push_back(entry);
      } else {
        journal[kept++] = entry;
      }
    }
    journal.resize(kept);
  }
  for (const JournalEntry& entry : dead) {
    entry.drop_previous();
    release(entry.variable);
  }
}

void begin_step(Recorder& recorder, std::uint32_t first_node) {
  std::vector<Node*> dropped;  // released after unlocking, since dropping a holder locks too
  {
    const std::lock_guard guard(recorder.lock);
    if (recorder.step_start.load(std::memory_order_relaxed) != Recorder::kNoStep) return;
    Batch& batch = recorder.batch;
    // Another thread may have taken the batch in the meantime; the step then begins with the next
    // node.
    const auto count = static_cast<std::uint32_t>(batch.nodes.size());
    recorder.step_start.store(std::min(first_node, count), std::memory_order_relaxed);
    for (JournalEntry& entry : batch.journal) {
      if (!entry.holds) continue;
      batch.drop_from_leaf(entry);
      dropped.push_back(std::exchange(entry.previous, entry.assigned));
      retain(entry.previous);
      entry.holds = false;
    }
  }
  for (Node* node : dropped) unhold(node);
}

void begin_step(DeviceEntry& entry) {
  Recorder& recorder = current_recorder(entry);
  if (recorder.step_start.load(std::memory_order_relaxed) == Recorder::kNoStep)
    begin_step(recorder, Batch::kNoLeaf);
}

void undo_assignment(const JournalEntry& entry) {
  // If the value was computed after all, or the variable was assigned again, there is nothing to
  // undo.
  if (entry.variable->node.get() != entry.assigned ||
      entry.assigned->state.load(std::memory_order_acquire) != NodeState::Failed) {
    return;
  }
  entry.variable->node = Held(entry.previous);
}

bool leave_to_owner(Recorder& recorder, std::span<const JournalEntry> journal) {
  // A recorder without an owner belonged to a thread that has ended.
  if (!recorder.lock.owned_by_other()) return false;
  const std::lock_guard guard(recorder.lock);
  for (const JournalEntry& entry : journal) {
    entry.variable->refs.fetch_add(1, std::memory_order_relaxed);
    hold(entry.previous);
    retain(entry.assigned);
    recorder.failed.push_back(entry);
    recorder.failed.back().holds = true;
  }
  recorder.has_failed.store(true, std::memory_order_relaxed);
  return true;
}

void undo_failed_assignments() {
  for (Recorder* recorder : thread_recorders()) undo_failed_assignments(*recorder);
}

namespace {
// The entry of a variable that was already assigned to in this batch.
JournalEntry* entry_of(Batch& batch, const Variable& variable) {
  auto& journal = batch.journal;
  if (variable.journal_entry < journal.size() &&
      journal[variable.journal_entry].variable == &variable) {
    return &journal[variable.journal_entry];
  }
  const auto found = std::find_if(journal.begin(), journal.end(), [&](const JournalEntry& entry) {
    return entry.variable == &variable;
  });
  return found == journal.end() ? nullptr : &*found;
}

// The variable goes back to its value in memory or to the node that it had before the step. A
// pending value made during the step is restored only after a failed update: it is a parameter of a
// layer that was constructed after the step's first operation. Other values made during the step
// have no earlier value and stay pending.
void add_entry(Recorder& recorder, Variable& target, Node* assigned, Assignment as) {
  Batch& batch = recorder.batch;
  JournalEntry entry{&target,        target.node.get(),       assigned,
                     Batch::kNoLeaf, as != Assignment::Value, false};
  if (entry.previous->state.load(std::memory_order_acquire) == NodeState::Pending) {
    const std::uint32_t start = recorder.step_start.load(std::memory_order_relaxed);
    const bool since = start != Recorder::kNoStep && entry.previous->index >= start;
    if (start == Recorder::kNoStep || (since && as != Assignment::Update)) return;
    retain(entry.previous);
  } else {
    entry.leaf = batch.find_leaf(entry.previous);
    if (entry.leaf != Batch::kNoLeaf) ++batch.leaves[entry.leaf].journaled;
    entry.holds = true;
    target.node.leave();
  }
  target.refs.fetch_add(1, std::memory_order_relaxed);
  target.journal_entry = static_cast<std::uint32_t>(batch.journal.size());
  batch.journal.push_back(entry);
}

// Journals an assignment of one of the batch's nodes to the variable. The recorder is locked.
void journal(Recorder& recorder, Variable& target, Node* assigned, Assignment as) {
  Batch& batch = recorder.batch;
  const bool pending = target.node->state.load(std::memory_order_acquire) == NodeState::Pending;
  JournalEntry* entry = pending ? entry_of(batch, target) : nullptr;
  if (entry != nullptr) {
    entry->assigned = assigned;
    entry->is_state = as != Assignment::Value;
  } else {
    add_entry(recorder, target, assigned, as);
    if (pending) return;
    entry = &batch.journal.back();
  }
  // The key includes which value replaces which leaf, since the value takes over that leaf's
  // buffer.
  batch.hash.mix(std::uint64_t{assigned->index} << 32 | 0xA5);
  batch.hash.mix(entry->leaf);
}
}  // namespace

void assign_node(const Tensor& variable, Held node, Assignment as) {
  Variable* target = TensorAccess::variable(variable);
  if (recording_state.casts != nullptr) [[unlikely]]
    forget_cast(*target);
  if (target->node->state.load(std::memory_order_acquire) == NodeState::Failed)
    undo_failed_assignments();
  if (const Recorder* home = node->recorder.load(std::memory_order_acquire); home != nullptr) {
    Node* previous = target->node.get();
    if (previous->state.load(std::memory_order_acquire) == NodeState::Pending &&
        previous->recorder.load(std::memory_order_acquire) != home) [[unlikely]]
      ensure_computed(previous);  // of another stream; a failure needs a value to restore
  }
  if (const float missed = target->node->missed_seconds.load(std::memory_order_relaxed);
      missed != 0)
    node->missed_seconds.store(missed, std::memory_order_relaxed);
  if (Recorder* recorder = node->recorder.load(std::memory_order_acquire)) {
    const std::lock_guard guard(recorder->lock);
    if (node->recorder.load(std::memory_order_relaxed) == recorder)
      journal(*recorder, *target, node.get(), as);
  }
  target->node = std::move(node);
}

bool is_of_failed_step(const Node& node) {
  const NodeState state = node.state.load(std::memory_order_acquire);
  if (state != NodeState::Pending) return state == NodeState::Failed;
  const Recorder* recorder = node.recorder.load(std::memory_order_acquire);
  return recorder != nullptr && recorder->failure_reported.load(std::memory_order_relaxed);
}

}  // namespace volta::graph
