// Recording: nodes, leaves, arguments and the accumulating key.
#include "graph/segment.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <exception>
#include <iterator>
#include <mutex>
#include <string>

#include "core/counting.h"
#include "core/registry.h"
#include "core/thread_owned.h"
#include "graph/placement.h"
#include "graph/recording_state.h"
#include "plan/runner.h"
#include "platform/fork.h"
#include "volta/error.h"

namespace volta::graph {
namespace {

// A submit happens by itself after this many nodes, counted from the last one, so that cuts repeat.
constexpr std::size_t kNodeLimit = 8192;

// Drops what was recorded if nobody wants it; tells whether the segment is empty.
bool clear_if_unheld(Segment& segment) {
  drop_dead_assignments(segment);
  Batch dropped;
  {
    const std::lock_guard guard(segment.lock);
    if (segment.batch.live != 0) return false;
    std::swap(dropped, segment.batch);
    segment.step_start.store(Segment::kNoStep, std::memory_order_relaxed);
    for (Node* node : dropped.nodes) node->segment.store(nullptr, std::memory_order_release);
  }
  dropped.reset();
  return true;
}

struct SegmentShelf {
  platform::ForkMutex mutex;
  std::vector<Segment*> free, all;
};
SegmentShelf& shelf() {
  static auto* s = new SegmentShelf;
  return *s;
}

// The segments of one thread. When the thread ends they go to the shelf with what others still hold
// pending in them: whoever looks at it submits it. Nothing is run here, where other thread-local
// things are gone already. Segments are never freed, since another thread may be looking at one.
struct ThreadSegments {
  std::vector<Segment*> segments;
  ~ThreadSegments() {
    const std::lock_guard guard(shelf().mutex);
    for (Segment* segment : segments) {
      undo_failed_assignments(*segment);
      clear_if_unheld(*segment);
      segment->lock.disown();
      shelf().free.push_back(segment);
    }
  }
};

// In a forked process: the other threads are not there any more, and their segments go to the shelf
// as if they had ended.
void shelve_of_other_threads() {
  const std::lock_guard guard(shelf().mutex);
  for (Segment* segment : shelf().all) {
    if (!segment->lock.owned_by_other()) continue;
    segment->lock.disown();
    undo_failed_assignments(*segment);
    shelf().free.push_back(segment);
  }
}

// What an input is: the low bits of the word that begins it in the key.
enum class InputKind : std::uint64_t { Pending, Leaf, Literal, Argument };
std::uint64_t key_word(InputKind kind, std::uint32_t number) {
  return static_cast<std::uint64_t>(kind) | std::uint64_t{number} << 2;
}

// An input that is first met: its kind and number, dtype and rank in one word, then its sizes.
void mix_new(Hash& hash, InputKind kind, std::uint32_t number, const Node& node) {
  hash.mix(key_word(kind, number) | static_cast<std::uint64_t>(node.dtype) << 40 |
           static_cast<std::uint64_t>(node.shape.rank() + 1) << 56);
  for (const std::int64_t size : node.shape) hash.mix(static_cast<std::uint64_t>(size));
}

std::uint64_t arg_word(const Node& constant) {
  return is_floating(constant.dtype) ? std::bit_cast<std::uint64_t>(constant.value)
                                     : static_cast<std::uint64_t>(constant.integer);
}

inline void mix_input(Hash& hash, Batch& batch, Segment& segment, Node* input) {
  const NodeState state = input->state.load(std::memory_order_acquire);
  if (state == NodeState::Pending && input->segment.load(std::memory_order_relaxed) == &segment) {
    hash.mix(key_word(InputKind::Pending, input->index));
  } else if (state == NodeState::Constant) {
    if (is_key_literal(input->value)) {
      mix_new(hash, InputKind::Literal, 0, *input);
      hash.mix(std::bit_cast<std::uint64_t>(input->value));
    } else {
      mix_new(hash, InputKind::Argument, 0, *input);
      batch.args.push_back(arg_word(*input));
    }
    retain(input);
    batch.constants.push_back(input);
  } else {
    bool fresh = false;
    const std::uint32_t number = batch.leaf_number(input, fresh);
    if (fresh) {
      mix_new(hash, InputKind::Leaf, number, *input);
    } else {
      hash.mix(key_word(InputKind::Leaf, number));
    }
  }
}

inline Node* append(Segment& segment, OpId op, const Shape& shape, DType dtype, Place place) {
  Node* node = new_node(op, shape, dtype, segment.entry);
  node->place = place;
  node->index = static_cast<std::uint32_t>(segment.batch.nodes.size());
  node->segment.store(&segment, std::memory_order_release);
  node->counts.store(kReference, std::memory_order_relaxed);  // the batch's
  segment.batch.nodes.push_back(node);
  return node;
}

void give_to_caller(Segment& segment, Node* node) {
  node->counts.store(kReference + kHolder, std::memory_order_relaxed);
  node->live = true;
  segment.batch.live ^= live_word(node->index);
}

// An input that is not ready to be used in this segment: another thread's, or one being submitted,
// or failed.
Node* unsettled(std::span<Node* const> inputs, const Segment& segment) {
  for (Node* input : inputs) {
    const NodeState state = input->state.load(std::memory_order_acquire);
    if (state == NodeState::Computed || state == NodeState::Constant) continue;
    if (state == NodeState::Pending && input->segment.load(std::memory_order_acquire) == &segment)
      continue;
    return input;
  }
  return nullptr;
}

using SegmentLock = std::unique_lock<platform::BiasedLock>;

// Submits a full batch, or computes the input that is in the way.
[[gnu::noinline]] void make_ready(Segment& segment, Node* unsettled, SegmentLock& lock) {
  lock.unlock();
  if (unsettled != nullptr) {
    ensure_computed(unsettled);
  } else {
    plan::submit_segment(segment);
  }
  lock.lock();
}

// Locks the segment with room for a node and all inputs usable.
inline SegmentLock lock_for(Segment& segment, std::span<Node* const> inputs) {
  SegmentLock lock(segment.lock);
  for (;;) {
    const bool full = segment.batch.nodes.size() >= kNodeLimit;
    Node* waiting = full ? nullptr : unsettled(inputs, segment);
    if (!full && waiting == nullptr) return lock;
    make_ready(segment, waiting, lock);
  }
}

inline std::uint64_t word_of(const Shape& shape) {
  auto word = static_cast<std::uint64_t>(shape.rank());
  for (const std::int64_t size : shape)
    word = word * 0x9E3779B97F4A7C15u + static_cast<std::uint64_t>(size);
  return word;
}

inline Node* append_operation(Segment& segment, const Operation& operation) {
  const auto& [op, dtype, inputs, attrs, shape, place] = operation;
  Batch& batch = segment.batch;
  Hash hash = batch.hash;  // in registers meanwhile
  auto** kept_inputs =
      static_cast<Node**>(batch.memory.take(inputs.size_bytes() + attrs.size_bytes()));
  auto* kept_attrs = reinterpret_cast<std::int64_t*>(kept_inputs + inputs.size());
  hash.mix(static_cast<std::uint64_t>(op) | static_cast<std::uint64_t>(dtype) << 16 |
           static_cast<std::uint64_t>(attrs.size()) << 24 | std::uint64_t{inputs.size()} << 32);
  for (std::size_t i = 0; i < attrs.size(); ++i) {
    hash.mix(static_cast<std::uint64_t>(attrs[i]));
    kept_attrs[i] = attrs[i];
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    mix_input(hash, batch, segment, inputs[i]);
    kept_inputs[i] = inputs[i];
  }
  // Not every operation's inputs and attributes tell its shape: what a gradient is put into, say.
  if (!is_scalar_op(op)) hash.mix(word_of(shape));
  Node* node = append(segment, op, shape, dtype, place);
  if (const std::uint32_t epoch = recording_state.epoch; epoch != 0) [[unlikely]] {
    if (std::exchange(batch.last_epoch, epoch) != epoch) ++batch.epochs;
    node->epoch = batch.epochs;  // counted in the batch: a repeated step has the same numbers
    hash.mix(node->epoch);
  }
  batch.hash = hash;
  batch.falls_back |= falls_back();
  node->inputs = kept_inputs;
  node->attrs = kept_attrs;
  node->inputs_count = static_cast<std::uint32_t>(inputs.size());
  node->attrs_count = static_cast<std::uint8_t>(attrs.size());
  if (checks_indices(op)) {
    // A gradient reads and writes at the indices of the operation that the user called.
    const OpId* rule = recording_state.rule;
    batch.sites.push_back({rule != nullptr && checks_indices(*rule) ? *rule : op, place});
  }
  return node;
}

}  // namespace

std::vector<Segment*>& thread_segments() { return ThreadOwned<ThreadSegments>::get().segments; }

Segment::Segment() {
  platform::ForkLock held = platform::fork_lock_of(lock);
  held.renew = [](void* segment_lock) {
    static_cast<platform::BiasedLock*>(segment_lock)->renew();
  };
  static const bool watching = (platform::in_forked_processes(shelve_of_other_threads), true);
  (void)watching;
  platform::add_fork_lock(held);
}

void* Bump::take_new(std::size_t bytes) {
  if (bytes > kBlock) {
    large_.push_back(std::make_unique<std::byte[]>(bytes));
    return large_.back().get();
  }
  if (block_ < blocks_.size() && used_ + bytes > kBlock) ++block_, used_ = 0;
  if (block_ == blocks_.size()) blocks_.push_back(std::make_unique<std::byte[]>(kBlock));
  void* memory = blocks_[block_].get() + used_;
  used_ += bytes;
  return memory;
}

namespace {
// Nodes lie at equal distances: spread them.
std::size_t leaf_hash(const Node* node) {
  return reinterpret_cast<std::uintptr_t>(node) * 0x9E3779B97F4A7C15u >> 40;
}
}  // namespace

std::uint32_t Batch::find_leaf(const Node* node) const {
  if (leaf_table.empty()) return kNoLeaf;
  std::size_t at = leaf_hash(node) & (leaf_table.size() - 1);
  for (; leaf_table[at].first != nullptr; at = (at + 1) & (leaf_table.size() - 1)) {
    if (leaf_table[at].first == node) return leaf_table[at].second;
  }
  return kNoLeaf;
}

[[gnu::noinline]] void Batch::grow_leaf_table() {
  std::vector<std::pair<Node*, std::uint32_t>> larger(std::bit_ceil(4 * leaves.size() + 32));
  std::swap(larger, leaf_table);
  for (const auto& [key, number] : larger) {
    if (key == nullptr) continue;
    std::size_t at = leaf_hash(key) & (leaf_table.size() - 1);
    while (leaf_table[at].first != nullptr) at = (at + 1) & (leaf_table.size() - 1);
    leaf_table[at] = {key, number};
  }
}

std::uint32_t Batch::leaf_number(Node* node, bool& fresh) {
  if (leaf_table.size() < 2 * leaves.size() + 16) grow_leaf_table();
  std::size_t at = leaf_hash(node) & (leaf_table.size() - 1);
  while (leaf_table[at].first != nullptr) {
    if (leaf_table[at].first == node) return leaf_table[at].second;
    at = (at + 1) & (leaf_table.size() - 1);
  }
  fresh = true;
  const auto number = static_cast<std::uint32_t>(leaves.size());
  leaf_table[at] = {node, number};
  retain(node);
  leaves.push_back({node, 0});
  return number;
}

void Batch::drop_journal() {
  for (const JournalEntry& entry : journal) {
    entry.drop_previous();
    release(entry.variable);
  }
  journal.clear();
  for (Leaf& leaf : leaves) leaf.journaled = 0;
}

void Batch::drop_from_leaf(const JournalEntry& entry) {
  if (entry.holds && entry.leaf != kNoLeaf) --leaves[entry.leaf].journaled;
}

std::vector<const Node*> Batch::live_nodes() const {
  std::vector<const Node*> live;
  std::copy_if(nodes.begin(), nodes.end(), std::back_inserter(live),
               [](const Node* node) { return node->live; });
  return live;
}

std::vector<bool> Batch::leaves_below(std::vector<const Node*> next) const {
  std::vector<bool> found(leaves.size(), false), seen(nodes.size(), false);
  while (!next.empty()) {
    const Node* node = next.back();
    next.pop_back();
    if (const std::uint32_t leaf = find_leaf(node); leaf != kNoLeaf) {
      found[leaf] = true;
    } else if (node->index < nodes.size() && nodes[node->index] == node && !seen[node->index]) {
      seen[node->index] = true;
      for (const Node* input : node->input_span()) next.push_back(input);
    }
  }
  return found;
}

void Batch::update_live() {
  live = 0;
  for (Node* node : nodes) {
    node->live =
        node->state.load(std::memory_order_relaxed) == NodeState::Pending && node->holders() > 0;
    if (node->live) live ^= live_word(node->index);
  }
}

void Batch::reset() {
  drop_journal();
  for (Node* node : nodes) release(node);
  for (const Leaf& leaf : leaves) release(leaf.node);
  for (Node* node : constants) release(node);
  nodes.clear();
  leaves.clear();
  constants.clear();
  args.clear();
  sites.clear();
  memory.clear();
  hash = Hash{};
  live = 0;
  falls_back = false;
  epochs = last_epoch = 0;
  std::fill(leaf_table.begin(), leaf_table.end(), std::pair<Node*, std::uint32_t>{nullptr, 0});
}

namespace {
[[gnu::noinline]] Segment& first_segment(DeviceEntry& entry) {
  Segment* segment = nullptr;
  {
    const std::lock_guard guard(shelf().mutex);
    auto& free = shelf().free;
    const auto empty =
        std::find_if(free.begin(), free.end(), [](Segment* s) { return clear_if_unheld(*s); });
    if (empty != free.end()) {
      segment = *empty;
      free.erase(empty);
    }
  }
  if (segment == nullptr) {
    segment = new Segment;
    const std::lock_guard guard(shelf().mutex);
    shelf().all.push_back(segment);
  }
  segment->entry = &entry;
  segment->stream.store(recording_state.stream, std::memory_order_relaxed);
  segment->lock.own();
  thread_segments().push_back(segment);
  return *segment;
}
}  // namespace

Segment& current_segment(DeviceEntry& entry) {
  for (Segment* segment : thread_segments()) {
    if (segment->entry == &entry &&
        segment->stream.load(std::memory_order_relaxed) == recording_state.stream)
      return *segment;
  }
  return first_segment(entry);
}

bool is_key_literal(double value) {
  return value == 0 ? !std::signbit(value)
                    : value == 1 || value == -1 || value == 2 || value == 0.5;
}

void require_countable(const char* op, const Shape& shape, DType dtype) {
  // Bytes are counted in 64 bits, with room for rounding up.
  constexpr std::int64_t kMaxBytes = std::int64_t{1} << 62;
  if (shape.numel() <= kMaxBytes / static_cast<std::int64_t>(size_of(dtype))) return;
  throw ShapeError(std::string(op) + ": " + to_string(shape) + " of " +
                   std::string(name_of(dtype)) + " takes more than 2^62 bytes");
}

namespace {
inline void require_countable(OpId op, const Shape& shape, DType dtype) {
  if (shape.numel() >= std::int64_t{1} << 59) [[unlikely]]
    graph::require_countable(op_info(op).name, shape, dtype);
}
}  // namespace

Node* record(const Operation& operation, DeviceEntry& entry) {
  require_countable(operation.op, operation.shape, operation.dtype);
  Segment& segment = current_segment(entry);
  const auto lock = lock_for(segment, operation.inputs);
  Node* node = append_operation(segment, operation);
  give_to_caller(segment, node);
  count_alone(segment.recorded);
  return node;
}

void record_multi(const Operation& operation, DeviceEntry& entry, std::span<const Shape> shapes,
                  std::span<const DType> dtypes, std::span<Node*> outputs) {
  for (std::size_t i = 0; i < shapes.size(); ++i)
    require_countable(operation.op, shapes[i], dtypes[i]);
  Segment& segment = current_segment(entry);
  const auto lock = lock_for(segment, operation.inputs);
  Batch& batch = segment.batch;
  Node* parent = append_operation(segment, operation);
  // The results follow their operation directly; which there are follows from it, so the key needs
  // no more.
  auto* numbers =
      static_cast<std::int64_t*>(batch.memory.take(outputs.size() * sizeof(std::int64_t)));
  auto* input = static_cast<Node**>(batch.memory.take(sizeof(Node*)));
  *input = parent;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Node* node = append(segment, OpId::output, shapes[i], dtypes[i], operation.place);
    numbers[i] = static_cast<std::int64_t>(i);
    node->inputs = input;
    node->inputs_count = 1;
    node->attrs = numbers + i;
    node->attrs_count = 1;
    give_to_caller(segment, node);
    outputs[i] = node;
  }
  count_alone(segment.recorded);
}

Node* make_constant(double value, std::int64_t integer, const Shape& shape, DType dtype,
                    DeviceEntry& entry) {
  require_countable(OpId::constant, shape, dtype);
  Node* node = new_node(OpId::constant, shape, dtype, &entry);
  node->value = value;
  node->integer = integer;
  node->state.store(NodeState::Constant, std::memory_order_relaxed);
  node->counts.store(kHolder, std::memory_order_relaxed);
  return node;
}

bool drop_unwanted_leaves(Batch& batch, DeviceEntry& entry) {
  static auto* const byte = new std::byte[64];  // not of the pool, which has no memory
  std::vector<const Node*> roots = batch.live_nodes();
  for (const JournalEntry& entry : batch.journal) {
    if (!entry.holds) roots.push_back(entry.previous);  // what a variable may go back to
  }
  const std::vector<bool> wanted = batch.leaves_below(std::move(roots));
  bool any = false;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    Node* node = batch.leaves[i].node;
    // The batch has the only reference: nobody can take another.
    if (wanted[i] || node->buffer == nullptr || !node->buffer->pool_owned ||
        node->counts.load(std::memory_order_acquire) != kReference) {
      continue;
    }
    Buffer* nothing = Slab<Buffer>::make();
    nothing->entry = &entry;
    nothing->address = {byte, 0};
    nothing->pool_owned = false;
    release(std::exchange(node->buffer, nothing));
    any = true;
  }
  return any;
}

void drop_unwanted_work(DeviceEntry& entry) {
  const auto drop = [&](Segment& segment) {
    if (segment.entry != &entry || clear_if_unheld(segment)) return;
    const std::lock_guard guard(segment.lock);
    drop_unwanted_leaves(segment.batch, entry);
  };
  for (Segment* segment : thread_segments()) drop(*segment);
  const std::lock_guard guard(shelf().mutex);
  for (Segment* segment : shelf().free) drop(*segment);
}

void submit(DeviceEntry& entry) { plan::submit_segment(current_segment(entry)); }

void submit_all(DeviceEntry& entry) {
  std::exception_ptr error;
  const std::vector<Segment*> all = thread_segments();
  for (Segment* segment : all) {
    if (segment->entry != &entry) continue;
    try {
      plan::submit_segment(*segment);
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

void hand_over(int stream) noexcept {
  try {
    const std::vector<Segment*> all = thread_segments();
    for (Segment* segment : all) {
      if (segment->stream.load(std::memory_order_relaxed) != stream) continue;
      try {
        if (!segment->batch.empty()) plan::submit_segment(*segment);
      } catch (...) {  // what is held of it stays pending, and is tried again
      }
    }
  } catch (...) {  // no memory for the list: it stays pending
  }
}

}  // namespace volta::graph
