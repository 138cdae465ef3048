// Assignments to variables, and undoing them where the batch fails that computes the new values.
#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "graph/autocast.h"
#include "graph/recording_state.h"
#include "graph/segment.h"

namespace volta::graph {

void undo_failed_assignments(Segment& segment) {
  if (!segment.has_failed.load(std::memory_order_relaxed)) return;
  std::vector<JournalEntry> failed;
  {
    const std::lock_guard guard(segment.lock);
    // The other thread leaves the assignments first and then marks the nodes.
    const auto marked =
        std::partition(segment.failed.begin(), segment.failed.end(), [](const JournalEntry& entry) {
          return entry.assigned->state.load(std::memory_order_acquire) == NodeState::Pending;
        });
    failed.assign(marked, segment.failed.end());
    segment.failed.erase(marked, segment.failed.end());
    segment.has_failed.store(!segment.failed.empty(), std::memory_order_relaxed);
  }
  for (const JournalEntry& entry : failed) {
    undo_assignment(entry);
    entry.drop_previous();
    release(entry.assigned);
    release(entry.variable);
  }
}

void drop_dead_assignments(Segment& segment) {
  std::vector<JournalEntry> dead;  // dropped outside the lock, which dropping a holder takes
  {
    const std::lock_guard guard(segment.lock);
    auto& journal = segment.batch.journal;
    std::size_t kept = 0;
    for (const JournalEntry& entry : journal) {
      // The journal has the only reference: nobody can take another.
      if (entry.variable->refs.load(std::memory_order_acquire) == 1) {
        segment.batch.drop_from_leaf(entry);
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

void begin_step(Segment& segment, std::uint32_t first_node) {
  std::vector<Node*> dropped;  // outside the lock, which dropping a holder takes
  {
    const std::lock_guard guard(segment.lock);
    if (segment.step_start.load(std::memory_order_relaxed) != Segment::kNoStep) return;
    Batch& batch = segment.batch;
    // Another thread may have taken the batch since: then the next node begins the step.
    const auto count = static_cast<std::uint32_t>(batch.nodes.size());
    segment.step_start.store(std::min(first_node, count), std::memory_order_relaxed);
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
  Segment& segment = current_segment(entry);
  if (segment.step_start.load(std::memory_order_relaxed) == Segment::kNoStep)
    begin_step(segment, Batch::kNoLeaf);
}

void undo_assignment(const JournalEntry& entry) {
  // Computed after all, or assigned again since: nothing to undo.
  if (entry.variable->node.get() != entry.assigned ||
      entry.assigned->state.load(std::memory_order_acquire) != NodeState::Failed) {
    return;
  }
  entry.variable->node = Held(entry.previous);
}

bool leave_to_owner(Segment& segment, std::span<const JournalEntry> journal) {
  // Without an owner it is that of a thread that has ended.
  if (!segment.lock.owned_by_other()) return false;
  const std::lock_guard guard(segment.lock);
  for (const JournalEntry& entry : journal) {
    entry.variable->refs.fetch_add(1, std::memory_order_relaxed);
    hold(entry.previous);
    retain(entry.assigned);
    segment.failed.push_back(entry);
    segment.failed.back().holds = true;
  }
  segment.has_failed.store(true, std::memory_order_relaxed);
  return true;
}

void undo_failed_assignments() {
  for (Segment* segment : thread_segments()) undo_failed_assignments(*segment);
}

namespace {
// The entry of a variable that was assigned to earlier in the batch.
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

// What the variable goes back to if the batch fails: its value in memory, or what the batch had
// recorded for it before the step. What the step itself made has nothing to go back to, and stays
// pending.
void add_entry(Segment& segment, Variable& target, Node* assigned, bool is_state) {
  Batch& batch = segment.batch;
  JournalEntry entry{&target, target.node.get(), assigned, Batch::kNoLeaf, is_state, false};
  if (entry.previous->state.load(std::memory_order_acquire) == NodeState::Pending) {
    const std::uint32_t start = segment.step_start.load(std::memory_order_relaxed);
    if (start == Segment::kNoStep || entry.previous->index >= start) return;
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

// Notes in the locked segment that the variable will have one of its nodes.
void journal(Segment& segment, Variable& target, Node* assigned, bool is_state) {
  Batch& batch = segment.batch;
  const bool pending = target.node->state.load(std::memory_order_acquire) == NodeState::Pending;
  JournalEntry* entry = pending ? entry_of(batch, target) : nullptr;
  if (entry != nullptr) {
    entry->assigned = assigned;
    entry->is_state = is_state;
  } else {
    add_entry(segment, target, assigned, is_state);
    if (pending) return;
    entry = &batch.journal.back();
  }
  // Which value replaces which leaf decides whose buffer it takes over.
  batch.hash.mix(std::uint64_t{assigned->index} << 32 | 0xA5);
  batch.hash.mix(entry->leaf);
}
}  // namespace

void assign_node(const Tensor& variable, Held node, bool is_state) {
  Variable* target = TensorAccess::variable(variable);
  if (recording_state.casts != nullptr) [[unlikely]]
    forget_cast(*target);
  if (target->node->state.load(std::memory_order_acquire) == NodeState::Failed)
    undo_failed_assignments();
  if (const Segment* home = node->segment.load(std::memory_order_acquire); home != nullptr) {
    Node* previous = target->node.get();
    if (previous->state.load(std::memory_order_acquire) == NodeState::Pending &&
        previous->segment.load(std::memory_order_acquire) != home) [[unlikely]]
      ensure_computed(previous);  // of another stream: something to go back to
  }
  if (const float forgone = target->node->forgone.load(std::memory_order_relaxed); forgone != 0)
    node->forgone.store(forgone, std::memory_order_relaxed);
  if (Segment* segment = node->segment.load(std::memory_order_acquire)) {
    const std::lock_guard guard(segment->lock);
    if (node->segment.load(std::memory_order_relaxed) == segment)
      journal(*segment, *target, node.get(), is_state);
  }
  target->node = std::move(node);
}

}  // namespace volta::graph
