// The recorder: the pending nodes of one thread, device and stream between two submits, and the key
// that identifies them. The key accumulates during recording, so that finding the plan of a
// repeated step needs no walk over the nodes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/counting.h"
#include "graph/record/node.h"
#include "platform/biased_lock.h"

namespace volta::graph {

// Two independent 64-bit hashes, 128 bits together, make collisions improbable.
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
struct HashOfHash {
  std::size_t operator()(const Hash& hash) const { return hash.a; }
};

// Memory for the attributes and input lists of pending nodes. It is freed all at once.
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
  std::uint32_t journaled = 0;  // number of holders that are entries of the batch's journal
};

// The operation and source location of an index check, for the message of IndexError.
struct Site {
  OpId op;
  SourceLocation place;
};

// An assignment that a failed submit undoes.
struct JournalEntry {
  Variable* variable;  // a reference
  // The variable's node before the step. The entry takes over the variable's holding reference,
  // unless the node is in the same batch: then it has a plain reference, since the batch must not
  // compute the node only for the journal.
  Node* previous;
  Node* assigned;      // the latest node assigned, in the same batch
  std::uint32_t leaf;  // the leaf number of `previous` in the batch, or kNoLeaf
  bool is_state;       // the variable is state, such as a parameter, that lives across steps
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
  bool falls_back = false;  // the CPU may compute the batch instead (graph/record/placing.h)
  std::uint64_t live = 0;   // order-independent hash of the nodes that have holders
  std::uint32_t epochs = 0, last_epoch = 0;  // recomputed sections, the latest (Node::epoch)
  // Open addressing: maps computed nodes to leaf numbers.
  std::vector<std::pair<Node*, std::uint32_t>> leaf_table;

  static constexpr std::uint32_t kNoLeaf = ~0u;
  std::uint32_t find_leaf(const Node* node) const;
  std::uint32_t leaf_number(Node* node, bool& fresh);  // adds the leaf if it is new
  void reset();                                        // drops every reference
  void drop_journal();
  void drop_from_leaf(const JournalEntry& entry);  // removes the entry's hold on its leaf
  // Finds the pending nodes that have holders again. While the batch belonged to no recorder,
  // changes were not noted.
  void update_live();
  std::vector<const Node*> live_nodes() const;
  // For each leaf, whether one of `roots` depends on it. Roots are nodes or leaves of the batch.
  std::vector<bool> leaves_below(std::vector<const Node*> roots) const;
  bool empty() const { return nodes.empty(); }

 private:
  void grow_leaf_table();
};

// How the large batches of a recorder were found in the cache of plans so far; of the runtime
// (runtime/linking.h), which changes it under the device's lock.
struct Familiarity {
  std::uint32_t unknown = 0, known = 0;  // in a row
};

// The recorder of one thread for one device and stream. Recorders are never freed, since another
// thread may be reading one.
struct Recorder {
  Recorder();
  DeviceEntry* entry = nullptr;
  std::atomic<int> stream{0};  // changes when a recorder of an ended thread is reused
  platform::BiasedLock lock;   // biased to the recording thread
  LiveCounters::Count& recorded = live_counters().nodes_recorded.add_shard();
  Batch batch;
  // Assignments whose computation failed in another thread's submit. Only the recording thread may
  // change its variables, so it undoes these before it continues. Each entry has a reference to the
  // assigned node.
  std::vector<JournalEntry> failed;
  std::atomic<bool> has_failed{false};
  bool is_deferred = false;  // has no thread, but a deferred batch that failed (runtime/rescue.h)
  std::atomic<bool> failure_reported{false};  // the program received the deferred batch's error
  // For a deferred batch that ran out of memory: the device's memory in use and its limit at that
  // time.
  bool lacked_memory = false;
  std::uint64_t in_use_then = 0, limit_then = 0;
  // Index of the first node of the training step being recorded. If the step fails, variables go
  // back to the values that they had before this node.
  static constexpr std::uint32_t kNoStep = ~0u;
  std::atomic<std::uint32_t> step_start{kNoStep};
  Familiarity familiarity;
};

// This thread's recorder for a device and the thread's current stream.
Recorder& current_recorder(DeviceEntry& entry);
// All recorders of this thread.
std::vector<Recorder*>& thread_recorders();

inline std::uint64_t live_word(std::uint32_t index) {
  std::uint64_t x = (index + 1) * 0x9E3779B97F4A7C15u;
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9u;
  return x ^ (x >> 32);
}

// Throws ShapeError if the size of a tensor in bytes overflows.
void require_countable(const char* op, const Shape& shape, DType dtype);

// Whether a number is a literal of the key; all other numbers are arguments.
bool is_key_literal(double value);

// An operation to be recorded. Inputs that are pending in other threads are computed first.
struct Operation {
  OpId op;
  DType dtype;  // of the result, or of the first result
  std::span<Node* const> inputs;
  std::span<const std::int64_t> attrs;
  const Shape& shape;  // of the result, or of the first result
  SourceLocation place;
};
// Records one operation; the caller receives one holding reference (Held::adopt).
Node* record(const Operation& operation, DeviceEntry& entry);
// Records an operation with several results: `outputs` receives one held `output` node each.
void record_multi(const Operation& operation, DeviceEntry& entry, std::span<const Shape> shapes,
                  std::span<const DType> dtypes, std::span<Node*> outputs);
// A constant node, which has one number in every element and is never pending. The caller receives
// one holding reference.
Node* make_constant(double value, std::int64_t integer, const Shape& shape, DType dtype,
                    DeviceEntry& entry);

// Marks the beginning of a step whose assignments belong together: earlier assignments stay if the
// step fails. A batch has at most one such step, the first.
void begin_step(Recorder& recorder, std::uint32_t first_node);
inline void begin_step(const Node& first) {
  Recorder* recorder = first.recorder.load(std::memory_order_acquire);
  if (recorder != nullptr &&
      recorder->step_start.load(std::memory_order_relaxed) == Recorder::kNoStep) [[unlikely]]
    begin_step(*recorder, first.index);
}
// Begins a step with the next node recorded on the device.
void begin_step(DeviceEntry& entry);

// Drops assignments to variables that no longer have handles, so that their values are not
// computed.
void drop_dead_assignments(Recorder& recorder);
// If another thread owns the recorder, leaves the assignments of a failing batch for that thread to
// undo, and returns true.
bool leave_to_owner(Recorder& recorder, std::span<const JournalEntry> journal);
// If the assigned node failed, gives the variable its previous node back.
void undo_assignment(const JournalEntry& entry);
// Undoes the assignments that other threads left in `failed`, for one recorder of the calling
// thread or for all of them.
void undo_failed_assignments(Recorder& recorder);
void undo_failed_assignments();

// The kind of an assignment. State is kept from step to step; values are only computed with.
enum class Assignment : std::uint8_t {
  Value,   // a value, for example a gradient
  State,   // state that the program sets, for example an initial value
  Update,  // state that the step updates: an optimizer's result, running statistics
};
// Gives the variable a new node. If the submit that computes the node fails, the variable gets the
// value back that it had before the step. An update gets back the value that the variable had at
// the first update, even if the program set it after the step began.
void assign_node(const Tensor& variable, Held node, Assignment as = Assignment::Value);
// Whether a gradient belongs to a failed step whose error was reported. The next backward pass then
// replaces the gradient instead of adding to it.
bool is_of_failed_step(const Node& node);

// Called when memory is short. Frees values that are only inputs of unwanted operations, for this
// thread and for threads that have ended.
void drop_unwanted_work(DeviceEntry& entry);
// Frees such values of a batch that was taken from its recorder. The leaves stay in the batch, with
// empty buffers. Returns whether any value was freed.
bool drop_unwanted_leaves(Batch& batch, DeviceEntry& entry);

// Submits this thread's pending work on the device in the current stream.
void submit(DeviceEntry& entry);
// Submits this thread's pending work on the device in all streams. If several submits fail, the
// first error is thrown after the last submit.
void submit_all(DeviceEntry& entry);
// Submits this thread's pending work in a stream, on all devices, so that other threads can use it.
// Errors are thrown to the threads that read the values.
void hand_over(int stream) noexcept;

}  // namespace volta::graph
