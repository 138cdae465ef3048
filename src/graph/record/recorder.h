// The pending nodes of one thread on one device, in one stream, from one submit to the next, and
// the key that identifies them. The key accumulates while recording, so that finding the plan of a
// repeated step walks nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/counting.h"
#include "graph/node.h"
#include "platform/biased_lock.h"

namespace volta::graph {

// Two independent 64-bit lanes: 128 bits against collisions.
struct Hash {
  std::uint64_t a = 0x9E3779B97F4A7C15u, b = 0xD1B54A32D192ED03u;
  void mix(std::uint64_t word) {
    a = (a ^ word) * 0x9FB21C651E98DF25u;
    a ^= a >> 32;
    b = (b + word) * 0xC2B2AE3D27D4EB4Fu;
    b = (b << 29) | (b >> 35);
  }
  friend bool operator==(const Hash&, const Hash&) = default;
};

// Memory for attributes and input lists of pending nodes: freed all at once.
class Bump {
 public:
  void* take(std::size_t bytes) {
    bytes = (bytes + 15) & ~std::size_t{15};
    if (block_ >= blocks_.size() || used_ + bytes > kBlock) return take_new(bytes);
    void* memory = blocks_[block_].get() + used_;
    used_ += bytes;
    return memory;
  }
  void clear() {
    used_ = block_ = 0;
    large_.clear();
  }

 private:
  static constexpr std::size_t kBlock = std::size_t{1} << 16;
  void* take_new(std::size_t bytes);
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::vector<std::unique_ptr<std::byte[]>> large_;
  std::size_t used_ = 0, block_ = 0;
};

// A computed value that pending nodes read.
struct Leaf {
  Node* node = nullptr;
  std::uint32_t journaled = 0;  // holders that are entries of the batch's journal
};

// Where an index is checked, for the message of an IndexError.
struct Site {
  OpId op;
  Place place;
};

// An assignment that a failed submit undoes: the variable, the node it had before the step and the
// one it has.
struct JournalEntry {
  Variable* variable;  // one reference
  // The variable's former holding reference; a plain one where the node is of the same batch, which
  // must not compute it for the journal's sake.
  Node* previous;
  Node* assigned;      // the latest, of the same batch
  std::uint32_t leaf;  // the number that the variable's value has among the batch's leaves
  bool is_state;       // a parameter or the like, that goes on whatever was computed
  bool holds;          // `previous` is a holding reference

  void drop_previous() const { holds ? unhold(previous) : release(previous); }
};

// Everything recorded between two submits.
struct Batch {
  std::vector<Node*> nodes;      // in recording order; the batch holds one reference to each
  std::vector<Leaf> leaves;      // in order of first use; one reference each
  std::vector<Node*> constants;  // referenced constants; one reference each
  std::vector<std::uint64_t> args;
  std::vector<Site> sites;
  std::vector<JournalEntry> journal;
  Bump memory;
  Hash hash;
  bool falls_back = false;  // the CPU may compute it instead (graph/placement.h)
  std::uint64_t live = 0;   // order-free hash of the nodes that somebody holds
  std::uint32_t epochs = 0,
                last_epoch = 0;  // stretches computed again, and the latest (Node::epoch)
  // Open addressing: computed node -> leaf number.
  std::vector<std::pair<Node*, std::uint32_t>> leaf_table;

  static constexpr std::uint32_t kNoLeaf = ~0u;
  std::uint32_t find_leaf(const Node* node) const;
  std::uint32_t leaf_number(Node* node, bool& fresh);  // adds the leaf if it is new
  void reset();                                        // drops every reference
  void drop_journal();
  void drop_from_leaf(const JournalEntry& entry);  // it holds the leaf no more
  // Which nodes are pending and held, found anew: while the batch was in no segment nobody noted
  // it.
  void update_live();
  std::vector<const Node*> live_nodes() const;
  // Per leaf: whether these nodes, which the batch has recorded or reads, are computed from it.
  std::vector<bool> leaves_below(std::vector<const Node*> roots) const;
  bool empty() const { return nodes.empty(); }

 private:
  void grow_leaf_table();
};

// Never freed: another thread may be looking at one.
struct Segment {
  Segment();
  DeviceEntry* entry = nullptr;
  std::atomic<int> stream{0};  // a segment on the shelf gets another
  platform::BiasedLock lock;   // the recording thread owns it
  LiveCounters::Count& recorded = live_counters().nodes_recorded.add_shard();
  Batch batch;
  // Assignments that another thread's submit found failed: only the recording thread may change its
  // variables, and does so before it goes on. Each holds a reference to the node assigned.
  std::vector<JournalEntry> failed;
  std::atomic<bool> has_failed{false};
  bool set_aside = false;  // no thread's: has a batch whose sweep failed (plan/runner.cpp)
  // The number of the first node of the training step that is being recorded: what the batch had
  // before is how the step found it, and what it goes back to if the step fails.
  static constexpr std::uint32_t kNoStep = ~0u;
  std::atomic<std::uint32_t> step_start{kNoStep};
};

// This thread's segment for a device, in the stream that it records into.
Segment& current_segment(DeviceEntry& entry);
// All of this thread's.
std::vector<Segment*>& thread_segments();

inline std::uint64_t live_word(std::uint32_t index) {
  std::uint64_t x = (index + 1) * 0x9E3779B97F4A7C15u;
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9u;
  return x ^ (x >> 32);
}

// Throws ShapeError where the bytes of a tensor are too many to count.
void require_countable(const char* op, const Shape& shape, DType dtype);

// Literals that are part of the key; every other number is an argument.
bool is_key_literal(double value);

// An operation to be recorded. Inputs of other threads are computed first.
struct Operation {
  OpId op;
  DType dtype;  // of the result, or of the first of several
  std::span<Node* const> inputs;
  std::span<const std::int64_t> attrs;
  const Shape& shape;  // as the dtype
  Place place;
};
// Records one operation; the caller receives one holding reference (Held::adopt).
Node* record(const Operation& operation, DeviceEntry& entry);
// Records an operation with several results: `outputs` receives one held `output` node each.
void record_multi(const Operation& operation, DeviceEntry& entry, std::span<const Shape> shapes,
                  std::span<const DType> dtypes, std::span<Node*> outputs);
// A number in every element of a shape: immediate, never pending. One holding reference.
Node* make_constant(double value, std::int64_t integer, const Shape& shape, DType dtype,
                    DeviceEntry& entry);

// Before a step is recorded whose assignments belong together: what was assigned until now stays if
// the step fails. A batch has one such step, the first one that asks.
void begin_step(Segment& segment, std::uint32_t first_node);
inline void begin_step(const Node& first) {
  Segment* segment = first.segment.load(std::memory_order_acquire);
  if (segment != nullptr && segment->step_start.load(std::memory_order_relaxed) == Segment::kNoStep)
      [[unlikely]]
    begin_step(*segment, first.index);
}
// The same for what is recorded next on the device.
void begin_step(DeviceEntry& entry);

// Drops assignments to variables that nobody has any more, and with them the wish for their values.
void drop_dead_assignments(Segment& segment);
// If the segment is another thread's: leaves it the assignments of a batch that is about to fail.
bool leave_to_owner(Segment& segment, std::span<const JournalEntry> journal);
// Gives the variable the node it had before the assigned one failed.
void undo_assignment(const JournalEntry& entry);
// Undoes what other threads left in `failed`: of a segment of the calling thread, or of all.
void undo_failed_assignments(Segment& segment);
void undo_failed_assignments();

// Gives the variable a new node, undone if the submit that computes the node fails. `is_state`: it
// is kept from step to step, not computed with.
void assign_node(const Tensor& variable, Held node, bool is_state = false);

// Where memory is short: lets go of values that only operations read whose results nobody wants,
// of this thread and of threads that have ended.
void drop_unwanted_work(DeviceEntry& entry);
// The same for a batch that was taken: such a leaf stays in it, in memory of no size. Whether there
// was one.
bool drop_unwanted_leaves(Batch& batch, DeviceEntry& entry);

// Runs what this thread has pending on the device, in the stream that it records into.
void submit(DeviceEntry& entry);
// The same, in all streams; of several errors the first is thrown, after the last submit.
void submit_all(DeviceEntry& entry);
// What this thread has pending in a stream, on all devices, for whoever looks at it: errors are
// told there.
void hand_over(int stream) noexcept;
// Makes sure the node is computed (or constant): submits the segment it is pending in, whosever it
// is. Rethrows the error of a failed one.
void ensure_computed(Node* node);
// Throws IndexError if a run of the device met a wrong index and nobody was told. The device has
// finished everything.
void check_device_error(DeviceEntry& entry);

}  // namespace volta::graph
