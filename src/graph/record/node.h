// The values behind tensors: nodes (one immutable operation each), the variables that handles
// share, the tape, and the segment of pending nodes of a thread and device.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "backend/backend.h"
#include "core/inline_vector.h"
#include "core/slab.h"
#include "graph/op.h"
#include "volta/device.h"
#include "volta/dtype.h"
#include "volta/place.h"
#include "volta/shape.h"
#include "volta/tensor.h"

namespace volta {
struct DeviceEntry;
}

namespace volta::graph {

struct Segment;
struct GradientHooks;
struct Dependence;
struct PendingRead;
struct Tape;
struct Variable;

// Device memory shared by the nodes whose value lies in it.
struct Buffer {
  std::atomic<std::uint32_t> refs{1};
  DeviceEntry* entry = nullptr;
  Address address;
  std::size_t bytes = 0;
  MemoryTimes times;  // what the next to use it must wait for, or had to
  bool pool_owned = true;
  bool foreign = false;  // of the user's: may change when what reads it is evaluated
  bool kept =
      false;  // one reference is a plan's, which uses the memory again when nobody else does
  std::function<void()> deleter;  // of foreign memory
};
// For what a lane computes.
Buffer* allocate_buffer(DeviceEntry& entry, std::size_t bytes, std::size_t lane = 0);
// For values of the host, used in the stream that this thread records into: memory that no running
// work uses, if possible.
Buffer* allocate_upload(DeviceEntry& entry, std::size_t bytes);
void release(Buffer* buffer) noexcept;

enum class NodeState : std::uint8_t { Pending, Computed, Constant, Failed };

// Host bytes of an observed value, kept while the node lives: reading twice moves bytes once. A CPU
// tensor of the same values may share them (on_host).
struct HostCopy {
  explicit HostCopy(std::size_t size);
  std::shared_ptr<std::byte[]> memory;
  std::span<std::byte> bytes;
};

// What is or may be wrong with a value.
struct Doubts {
  std::exception_ptr error;  // Failed
  // Computed: indices that may turn out wrong, or did (graph/index_checks.h). Device's lock.
  std::shared_ptr<const Dependence> indices;
};

struct Node {
  // Two counts in one word, so that one instruction changes both. Low half, references: lifetime
  // (holders, segments that use it, pending leaves). High half, holders: handles and tape saves,
  // whoever will look at the value; each is a reference too.
  std::atomic<std::uint64_t> counts{0};
  std::atomic<NodeState> state{NodeState::Pending};
  OpId op = OpId::constant;
  DType dtype = DType::f32;
  bool live = false;  // counted in the segment's hash of wanted nodes
  std::uint8_t attrs_count = 0;
  bool is_state = false;  // an optimizer's result: a parameter, or its state
  std::uint32_t inputs_count = 0;
  std::uint32_t index = 0;  // position in the segment
  // Computed again for a backward pass, not merged with the first time: 0, or which time it is.
  std::uint32_t epoch = 0;
  DeviceEntry* entry = nullptr;
  std::atomic<Segment*> segment{nullptr};  // while recorded and not yet submitted
  Shape shape;
  Place place;
  // In the segment's memory while pending; inputs are in the same segment, or computed, or
  // constant.
  Node** inputs = nullptr;
  std::int64_t* attrs = nullptr;
  // Constant: the number, as double and as integer.
  double value = 0;
  std::int64_t integer = 0;
  // Computed.
  Buffer* buffer = nullptr;
  std::unique_ptr<HostCopy> host;
  std::unique_ptr<Doubts> doubts;  // what few nodes have
  // Placement: the same value on another device, a holding reference (graph/mirrors.h), and the
  // seconds that using it there would have saved so far.
  std::atomic<Node*> mirror{nullptr};
  std::atomic<float> forgone{0};

  Node() = default;
  Node(OpId o, const Shape& s, DType d, DeviceEntry* e) : op(o), dtype(d), entry(e), shape(s) {}

  std::uint32_t refs() const {
    return static_cast<std::uint32_t>(counts.load(std::memory_order_acquire));
  }
  std::uint32_t holders() const {
    return static_cast<std::uint32_t>(counts.load(std::memory_order_acquire) >> 32);
  }
  // Null where no index matters.
  const std::shared_ptr<const Dependence>* indices() const {
    return doubts && doubts->indices ? &doubts->indices : nullptr;
  }
  Doubts& own_doubts() {
    if (!doubts) doubts = std::make_unique<Doubts>();
    return *doubts;
  }
  std::span<Node* const> input_span() const { return {inputs, inputs_count}; }
  std::span<const std::int64_t> attr_span() const { return {attrs, attrs_count}; }
};

// What a reference and a holder add to Node::counts.
inline constexpr std::uint64_t kReference = 1, kHolder = (std::uint64_t{1} << 32) + kReference;

inline Node* new_node(OpId op, const Shape& shape, DType dtype, DeviceEntry* entry) {
  return Slab<Node>::make(op, shape, dtype, entry);
}
inline void retain(Node* node) { node->counts.fetch_add(kReference, std::memory_order_relaxed); }
void destroy(Node* node) noexcept;  // nobody refers to it
inline void release(Node* node) noexcept {
  // The only reference is the caller's: nobody can take another, so no exchange is needed.
  if (node->counts.load(std::memory_order_acquire) == kReference ||
      node->counts.fetch_sub(kReference, std::memory_order_acq_rel) == kReference) {
    destroy(node);
  }
}
// Holders are references that also keep the value wanted: a pending node without holders is not
// stored.
void became_wanted(Node* node);
void drop_last_holder(Node* node) noexcept;
inline void hold(Node* node) {
  if (node->counts.fetch_add(kHolder, std::memory_order_acq_rel) >> 32 == 0) became_wanted(node);
}
inline void unhold(Node* node) noexcept {
  std::uint64_t now = node->counts.load(std::memory_order_acquire);
  if (now == kHolder) return destroy(node);
  while (now >> 32 > 1) {
    if (node->counts.compare_exchange_weak(now, now - kHolder, std::memory_order_acq_rel)) return;
  }
  drop_last_holder(node);
}

// A counted reference to a node, with or without wanting its value.
template <bool kHolds>
class NodeRefT {
 public:
  NodeRefT() = default;
  explicit NodeRefT(Node* node) : node_(node) {
    if (node_) take(node_);
  }
  NodeRefT(const NodeRefT& other) : NodeRefT(other.node_) {}
  NodeRefT(NodeRefT&& other) noexcept : node_(other.node_) { other.node_ = nullptr; }
  NodeRefT& operator=(NodeRefT other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~NodeRefT() {
    if (node_) drop(node_);
  }
  Node* get() const { return node_; }
  Node* operator->() const { return node_; }
  explicit operator bool() const { return node_ != nullptr; }
  // Gives the reference to the caller.
  Node* leave() {
    Node* node = node_;
    node_ = nullptr;
    return node;
  }
  // Takes over a reference the caller already has.
  static NodeRefT adopt(Node* node) {
    NodeRefT ref;
    ref.node_ = node;
    return ref;
  }

 private:
  static void take(Node* node) { kHolds ? hold(node) : retain(node); }
  static void drop(Node* node) noexcept { kHolds ? unhold(node) : release(node); }
  Node* node_ = nullptr;
};
using NodeRef = NodeRefT<false>;
using Held = NodeRefT<true>;

inline void retain(Tape* tape);
void release(Tape* tape) noexcept;

class TapeRef {
 public:
  TapeRef() = default;
  explicit TapeRef(Tape* tape) : tape_(tape) {
    if (tape_) retain(tape_);
  }
  TapeRef(const TapeRef& other) : TapeRef(other.tape_) {}
  TapeRef(TapeRef&& other) noexcept : tape_(other.tape_) { other.tape_ = nullptr; }
  TapeRef& operator=(TapeRef other) noexcept {
    std::swap(tape_, other.tape_);
    return *this;
  }
  ~TapeRef() {
    if (tape_) release(tape_);
  }
  Tape* get() const { return tape_; }
  Tape* operator->() const { return tape_; }
  // Takes over a reference the caller already has.
  static TapeRef adopt(Tape* tape) {
    TapeRef ref;
    ref.tape_ = tape;
    return ref;
  }
  explicit operator bool() const { return tape_ != nullptr; }

 private:
  Tape* tape_ = nullptr;
};

// What a selection will read when somebody asks for its value (graph/selection.h).
struct DropPendingRead {
  void operator()(PendingRead* read) const;
};

// What few variables have.
struct VariableExtras {
  std::shared_ptr<GradientHooks> hooks;  // of a leaf; null where there are none
  // Of a selection: until it is read, there is no node.
  std::unique_ptr<PendingRead, DropPendingRead> read;
};

// What handles share.
struct Variable {
  std::atomic<std::uint32_t> refs{1};
  bool requires_grad = false;          // a leaf that wants a gradient
  std::atomic<bool> grad_busy{false};  // a thread is adding to `grad`
  std::atomic<bool> unread{false};     // a selection that nobody asked for its value yet
  std::uint32_t grad_pass = 0;         // the backward pass in which `grad` began
  std::uint32_t journal_entry = 0;     // where its entry in a journal was put
  Held node;
  TapeRef tape;
  Tensor grad;
  std::unique_ptr<VariableExtras> extras;

  GradientHooks* hooks() const { return extras ? extras->hooks.get() : nullptr; }
  VariableExtras& own_extras() {
    if (!extras) extras = std::make_unique<VariableExtras>();
    return *extras;
  }

  Variable(Held n, TapeRef t) : node(std::move(n)), tape(std::move(t)) {}
};
void destroy(Variable* variable) noexcept;  // nobody refers to it
// Another history for the value of a variable. A gradient that is kept is the new value's.
void set_tape(Variable& variable, TapeRef tape);
inline void release(Variable* variable) noexcept {
  // The only reference is the caller's: nobody can take another, so no exchange is needed.
  if (variable->refs.load(std::memory_order_acquire) == 1 ||
      variable->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    destroy(variable);
  }
}

// Where the gradient of a tape record's input goes.
struct Edge {
  TapeRef tape;  // the record that made the input, or
  Tensor leaf;   // the leaf variable; neither: no gradient wanted
  Shape shape;
  DType dtype;
  Device device;
};

// Hooks, a user's function, recomputation (graph/tape_extras.h).
struct TapeExtras;
struct DropExtras {
  void operator()(TapeExtras* extras) const;
};

// One recorded operation that gradients flow through. Holds only what its row in the table saves.
struct Tape {
  std::atomic<std::uint32_t> refs{1};
  OpId op = OpId::constant;
  bool consumed = false;
  std::uint32_t visit = 0, slot = 0;  // the backward pass that marked it last, and where it has it
  std::uint64_t sequence = 0;         // recording order: inputs have smaller numbers
  Place place;
  Shape shape;
  DType dtype = DType::f32;
  InlineVector<Edge, 4> edges;
  InlineVector<Held, 4> saved;  // per input; empty where not saved
  Held output;
  InlineVector<Held, 2> auxiliary;
  InlineVector<std::int64_t, 4> attrs;
  Tape* next_dead = nullptr;                       // while a chain of records is freed
  std::unique_ptr<TapeExtras, DropExtras> extras;  // what few records have

  Tape(OpId o, const Shape& s, DType d, Place p) : op(o), place(p), shape(s), dtype(d) {}
};

inline void retain(Tape* tape) { tape->refs.fetch_add(1, std::memory_order_relaxed); }

// Records what a selection reads.
void record_read(Variable& variable);

// The library's way into Tensor.
struct TensorAccess {
  static Variable* variable(const Tensor& tensor) {
    Variable* variable = tensor.variable_;
    if (variable != nullptr && variable->unread.load(std::memory_order_acquire)) [[unlikely]]
      record_read(*variable);
    return variable;
  }
  static Node* node(const Tensor& tensor) { return variable(tensor)->node.get(); }
  static Tensor wrap(Variable* variable) { return Tensor(variable); }  // takes the reference
  // A variable of its own.
  static Tensor make(Held node, TapeRef tape = {}) {
    return wrap(Slab<Variable>::make(std::move(node), std::move(tape)));
  }
  static Tensor from_node(Node* node) { return make(Held(node)); }
};
inline Node* node_of(const Tensor& tensor) { return TensorAccess::node(tensor); }

}  // namespace volta::graph
