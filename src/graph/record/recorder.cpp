// Recording: nodes, leaves, arguments and the accumulating key.
#include "graph/record/recorder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <exception>
#include <iterator>
#include <mutex>
#include <string>

#include "backend/registry.h"
#include "core/counting.h"
#include "core/thread_owned.h"
#include "graph/record/evaluation.h"
#include "graph/record/placing.h"
#include "graph/record/recording_state.h"
#include "platform/fork.h"
#include "volta/error.h"

namespace volta::graph {
namespace {

// A batch is submitted automatically at this number of nodes. The count starts at the last submit,
// so that repeated steps are split at the same nodes.
constexpr std::size_t kNodeLimit = 8192;

// Drops the batch if none of its values is wanted. Returns whether the recorder is empty.
bool clear_if_unheld(Recorder& recorder) {
  drop_dead_assignments(recorder);
  Batch dropped;
  {
    const std::lock_guard guard(recorder.lock);
    if (recorder.batch.live != 0) return false;
    std::swap(dropped, recorder.batch);
    recorder.step_start.store(Recorder::kNoStep, std::memory_order_relaxed);
    for (Node* node : dropped.nodes) node->recorder.store(nullptr, std::memory_order_release);
  }
  dropped.reset();
  return true;
}

struct RecorderShelf {
  platform::ForkMutex mutex;
  std::vector<Recorder*> free, all;
};
RecorderShelf& shelf() {
  static auto* s = new RecorderShelf;
  return *s;
}

// The recorders of one thread. When the thread ends they go to the shelf. Values pending in them
// that other threads hold are submitted when they are read; nothing runs here, since other
// thread-local objects are already destroyed. Recorders are never freed, since another thread may
// be reading one.
struct ThreadRecorders {
  std::vector<Recorder*> recorders;
  ~ThreadRecorders() {
    const std::lock_guard guard(shelf().mutex);
    for (Recorder* recorder : recorders) {
      undo_failed_assignments(*recorder);
      clear_if_unheld(*recorder);
      recorder->lock.disown();
      shelf().free.push_back(recorder);
    }
  }
};

// In a forked process the other threads do not exist, so their recorders go to the shelf as if
// those threads had ended.
void shelve_of_other_threads() {
  const std::lock_guard guard(shelf().mutex);
  for (Recorder* recorder : shelf().all) {
    if (!recorder->lock.owned_by_other()) continue;
    recorder->lock.disown();
    undo_failed_assignments(*recorder);
    shelf().free.push_back(recorder);
  }
}

// The kind of an input: the low bits of its first word in the key.
enum class InputKind : std::uint64_t { Pending, Leaf, Literal, Argument };
std::uint64_t key_word(InputKind kind, std::uint32_t number) {
  return static_cast<std::uint64_t>(kind) | std::uint64_t{number} << 2;
}

// Adds an input that is new to the key: one word for kind, number, dtype and rank, then the sizes.
void mix_new(Hash& hash, InputKind kind, std::uint32_t number, const Node& node) {
  hash.mix(key_word(kind, number) | static_cast<std::uint64_t>(node.dtype) << 40 |
           static_cast<std::uint64_t>(node.shape.rank() + 1) << 56);
  for (const std::int64_t size : node.shape) hash.mix(static_cast<std::uint64_t>(size));
}

std::uint64_t arg_word(const Node& constant) {
  return is_floating(constant.dtype) ? std::bit_cast<std::uint64_t>(constant.value)
                                     : static_cast<std::uint64_t>(constant.integer);
}

inline void mix_input(Hash& hash, Batch& batch, Recorder& recorder, Node* input) {
  const NodeState state = input->state.load(std::memory_order_acquire);
  if (state == NodeState::Pending && input->recorder.load(std::memory_order_relaxed) == &recorder) {
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

inline Node* append(Recorder& recorder, OpId op, const Shape& shape, DType dtype,
                    SourceLocation place) {
  Node* node = new_node(op, shape, dtype, recorder.entry);
  node->place = place;
  node->index = static_cast<std::uint32_t>(recorder.batch.nodes.size());
  node->recorder.store(&recorder, std::memory_order_release);
  node->counts.store(kReference, std::memory_order_relaxed);  // the batch's reference
  recorder.batch.nodes.push_back(node);
  return node;
}

void give_to_caller(Recorder& recorder, Node* node) {
  node->counts.store(kReference + kHolder, std::memory_order_relaxed);
  node->live = true;
  recorder.batch.live ^= live_word(node->index);
}

// Returns an input that this recorder cannot use yet: it is pending elsewhere, being submitted, or
// failed.
Node* unsettled(std::span<Node* const> inputs, const Recorder& recorder) {
  for (Node* input : inputs) {
    const NodeState state = input->state.load(std::memory_order_acquire);
    if (state == NodeState::Computed || state == NodeState::Constant) continue;
    if (state == NodeState::Pending && input->recorder.load(std::memory_order_acquire) == &recorder)
      continue;
    return input;
  }
  return nullptr;
}

using RecorderLock = std::unique_lock<platform::BiasedLock>;

// Submits a full batch, or computes the unsettled input.
[[gnu::noinline]] void make_ready(Recorder& recorder, Node* unsettled, RecorderLock& lock) {
  lock.unlock();
  if (unsettled != nullptr) {
    ensure_computed(unsettled);
  } else {
    submit(recorder);
  }
  lock.lock();
}

// Locks the recorder when the batch has room for a node and all inputs are usable.
inline RecorderLock lock_for(Recorder& recorder, std::span<Node* const> inputs) {
  RecorderLock lock(recorder.lock);
  for (;;) {
    const bool full = recorder.batch.nodes.size() >= kNodeLimit;
    Node* waiting = full ? nullptr : unsettled(inputs, recorder);
    if (!full && waiting == nullptr) return lock;
    make_ready(recorder, waiting, lock);
  }
}

inline std::uint64_t word_of(const Shape& shape) {
  auto word = static_cast<std::uint64_t>(shape.rank());
  for (const std::int64_t size : shape)
    word = word * 0x9E3779B97F4A7C15u + static_cast<std::uint64_t>(size);
  return word;
}

inline Node* append_operation(Recorder& recorder, const Operation& operation) {
  const auto& [op, dtype, inputs, attrs, shape, place] = operation;
  Batch& batch = recorder.batch;
  Hash hash = batch.hash;  // a local copy stays in registers
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
    mix_input(hash, batch, recorder, inputs[i]);
    kept_inputs[i] = inputs[i];
  }
  // The shape does not always follow from inputs and attributes, for example in gradients that
  // scatter into a larger tensor.
  if (!is_scalar_op(op)) hash.mix(word_of(shape));
  Node* node = append(recorder, op, shape, dtype, place);
  if (const std::uint32_t epoch = recording_state.epoch; epoch != 0) [[unlikely]] {
    if (std::exchange(batch.last_epoch, epoch) != epoch) ++batch.epochs;
    node->epoch = batch.epochs;  // numbered per batch, so that repeated steps have equal keys
    hash.mix(node->epoch);
  }
  batch.hash = hash;
  batch.falls_back |= falls_back();
  node->inputs = kept_inputs;
  node->attrs = kept_attrs;
  node->inputs_count = static_cast<std::uint32_t>(inputs.size());
  node->attrs_count = static_cast<std::uint8_t>(attrs.size());
  if (checks_indices(op)) {
    // An index error in a gradient names the forward operation, which the user called.
    const OpId* rule = recording_state.rule;
    batch.sites.push_back({rule != nullptr && checks_indices(*rule) ? *rule : op, place});
  }
  return node;
}

}  // namespace

std::vector<Recorder*>& thread_recorders() { return ThreadOwned<ThreadRecorders>::get().recorders; }

Recorder::Recorder() {
  platform::ForkLock held = platform::fork_lock_of(lock);
  held.renew = [](void* recorder_lock) {
    static_cast<platform::BiasedLock*>(recorder_lock)->renew();
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
// Node addresses are evenly spaced; the multiplication spreads them.
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
[[gnu::noinline]] Recorder& first_recorder(DeviceEntry& entry) {
  Recorder* recorder = nullptr;
  {
    const std::lock_guard guard(shelf().mutex);
    auto& free = shelf().free;
    const auto empty =
        std::find_if(free.begin(), free.end(), [](Recorder* s) { return clear_if_unheld(*s); });
    if (empty != free.end()) {
      recorder = *empty;
      free.erase(empty);
    }
  }
  if (recorder == nullptr) {
    recorder = new Recorder;
    const std::lock_guard guard(shelf().mutex);
    shelf().all.push_back(recorder);
  }
  recorder->entry = &entry;
  recorder->familiarity = {};
  recorder->stream.store(recording_state.stream, std::memory_order_relaxed);
  recorder->lock.own();
  thread_recorders().push_back(recorder);
  return *recorder;
}
}  // namespace

Recorder& current_recorder(DeviceEntry& entry) {
  for (Recorder* recorder : thread_recorders()) {
    if (recorder->entry == &entry &&
        recorder->stream.load(std::memory_order_relaxed) == recording_state.stream)
      return *recorder;
  }
  return first_recorder(entry);
}

bool is_key_literal(double value) {
  return value == 0 ? !std::signbit(value)
                    : value == 1 || value == -1 || value == 2 || value == 0.5;
}

void require_countable(const char* op, const Shape& shape, DType dtype) {
  // 2^62 leaves room for rounding up in 64 bits.
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
  Recorder& recorder = current_recorder(entry);
  const auto lock = lock_for(recorder, operation.inputs);
  Node* node = append_operation(recorder, operation);
  give_to_caller(recorder, node);
  count_alone(recorder.recorded);
  return node;
}

void record_multi(const Operation& operation, DeviceEntry& entry, std::span<const Shape> shapes,
                  std::span<const DType> dtypes, std::span<Node*> outputs) {
  for (std::size_t i = 0; i < shapes.size(); ++i)
    require_countable(operation.op, shapes[i], dtypes[i]);
  Recorder& recorder = current_recorder(entry);
  const auto lock = lock_for(recorder, operation.inputs);
  Batch& batch = recorder.batch;
  Node* parent = append_operation(recorder, operation);
  // The output nodes directly follow their operation and are determined by it, so the key does not
  // include them.
  auto* numbers =
      static_cast<std::int64_t*>(batch.memory.take(outputs.size() * sizeof(std::int64_t)));
  auto* input = static_cast<Node**>(batch.memory.take(sizeof(Node*)));
  *input = parent;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Node* node = append(recorder, OpId::output, shapes[i], dtypes[i], operation.place);
    numbers[i] = static_cast<std::int64_t>(i);
    node->inputs = input;
    node->inputs_count = 1;
    node->attrs = numbers + i;
    node->attrs_count = 1;
    give_to_caller(recorder, node);
    outputs[i] = node;
  }
  count_alone(recorder.recorded);
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
  static auto* const byte = new std::byte[64];  // on the host: the pool has no memory left
  std::vector<const Node*> roots = batch.live_nodes();
  for (const JournalEntry& entry : batch.journal) {
    if (!entry.holds) roots.push_back(entry.previous);  // a variable may go back to this value
  }
  const std::vector<bool> wanted = batch.leaves_below(std::move(roots));
  bool any = false;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    Node* node = batch.leaves[i].node;
    // The batch has the only reference, so no other thread can add one.
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
  const auto drop = [&](Recorder& recorder) {
    if (recorder.entry != &entry || clear_if_unheld(recorder)) return;
    const std::lock_guard guard(recorder.lock);
    drop_unwanted_leaves(recorder.batch, entry);
  };
  for (Recorder* recorder : thread_recorders()) drop(*recorder);
  const std::lock_guard guard(shelf().mutex);
  for (Recorder* recorder : shelf().free) drop(*recorder);
}

void submit(DeviceEntry& entry) { submit(current_recorder(entry)); }

void submit_all(DeviceEntry& entry) {
  std::exception_ptr error;
  const std::vector<Recorder*> all = thread_recorders();
  for (Recorder* recorder : all) {
    if (recorder->entry != &entry) continue;
    try {
      submit(*recorder);
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

void hand_over(int stream) noexcept {
  try {
    const std::vector<Recorder*> all = thread_recorders();
    for (Recorder* recorder : all) {
      if (recorder->stream.load(std::memory_order_relaxed) != stream) continue;
      try {
        if (!recorder->batch.empty()) submit(*recorder, false);
      } catch (...) {  // values that are held stay pending and are tried again later
      }
    }
  } catch (...) {  // out of memory for the list: everything stays pending
  }
}

}  // namespace volta::graph
