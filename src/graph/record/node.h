// The values behind tensors: nodes (one immutable operation each), the variables that handles
// share, and the tape.
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
#include "graph/record/op.h"
#include "volta/device.h"
#include "volta/dtype.h"
#include "volta/shape.h"
#include "volta/source_location.h"
#include "volta/tensor.h"

namespace volta {
struct DeviceEntry;
}

namespace volta::graph {

struct Recorder;
struct GradientHooks;
struct Dependence;
struct PendingRead;
struct Tape;
struct Variable;

// Device memory, shared by the nodes whose values are in it.
struct Buffer {
  std::atomic<std::uint32_t> refs{1};
  DeviceEntry* entry = nullptr;
  Address address;
  std::size_t bytes = 0;
  MemoryTimes times;  // when the memory's last uses end; the next user waits for them
  bool pool_owned = true;
  bool foreign = false;  // user-owned memory, which may change before it is read
  bool kept = false;     // a plan has a reference and reuses the memory when others release it
  std::function<void()> deleter;  // frees foreign memory
};
// Allocates memory for results of a stream.
Buffer* allocate_buffer(DeviceEntry& entry, std::size_t bytes, std::size_t stream = 0);
// Allocates memory for values from the host that the thread's current stream will use; preferably
// memory that no running work uses.
Buffer* allocate_upload(DeviceEntry& entry, std::size_t bytes);
void release(Buffer* buffer) noexcept;

enum class NodeState : std::uint8_t { Pending, Computed, Constant, Failed };

// Host copy of an observed value, kept while the node lives so that a second read copies nothing. A
// CPU tensor of the same value may share it (on_host).
struct HostCopy {
  explicit HostCopy(std::size_t size);
  std::shared_ptr<std::byte[]> memory;
  std::span<std::byte> bytes;
};

// Known or possible errors in a value.
struct ValueErrors {
  std::exception_ptr error;  // of a Failed node
  // For a Computed node, indices that it depends on and that may be wrong or are known to be
  // (runtime/indices/index_checks.h). Guarded by the device's lock.
  std::shared_ptr<const Dependence> indices;
};

struct Node {
  // Two counts in one word, so that one instruction changes both. The low half counts references,
  // which keep the node alive: those of holders, recorders and pending leaves. The high half counts
  // holders, which require the value: handles and tape records. Each holder is also a reference.
  std::atomic<std::uint64_t> counts{0};
  std::atomic<NodeState> state{NodeState::Pending};
  OpId op = OpId::constant;
  DType dtype = DType::f32;
  bool live = false;  // included in the recorder's hash of wanted nodes
  std::uint8_t attrs_count = 0;
  bool is_state = false;  // result of an optimizer: a parameter or optimizer state
  std::uint32_t inputs_count = 0;
  std::uint32_t index = 0;  // position in the recorder's batch
  // Numbers the recomputation that recorded this node for a backward pass, so that it is not merged
  // with the original; 0 for nodes that are not recomputed.
  std::uint32_t epoch = 0;
  DeviceEntry* entry = nullptr;
  std::atomic<Recorder*> recorder{nullptr};  // set from recording until submission
  Shape shape;
  SourceLocation place;
  // Both arrays are in the batch's memory while the node is pending. Inputs are in the same batch,
  // computed, or constant.
  Node** inputs = nullptr;
  std::int64_t* attrs = nullptr;
  // The number of a Constant node, as double and as integer.
  double value = 0;
  std::int64_t integer = 0;
  // Set for Computed nodes.
  Buffer* buffer = nullptr;
  std::unique_ptr<HostCopy> host;
  std::unique_ptr<ValueErrors> errors;  // null for most nodes
  // For placement: a replica of this value on another device (a holding reference, see
  // graph/record/replicas.h), and the seconds missed so far by not using the value there.
  std::atomic<Node*> replica{nullptr};
  std::atomic<float> missed_seconds{0};

  Node() = default;
  Node(OpId o, const Shape& s, DType d, DeviceEntry* e) : op(o), dtype(d), entry(e), shape(s) {}

  std::uint32_t refs() const {
    return static_cast<std::uint32_t>(counts.load(std::memory_order_acquire));
  }
  std::uint32_t holders() const {
    return static_cast<std::uint32_t>(counts.load(std::memory_order_acquire) >> 32);
  }
  // Null if the value depends on no unchecked index.
  const std::shared_ptr<const Dependence>* indices() const {
    return errors && errors->indices ? &errors->indices : nullptr;
  }
  ValueErrors& own_errors() {
    if (!errors) errors = std::make_unique<ValueErrors>();
    return *errors;
  }
  std::span<Node* const> input_span() const { return {inputs, inputs_count}; }
  std::span<const std::int64_t> attr_span() const { return {attrs, attrs_count}; }
};

// The amounts that a reference and a holder add to Node::counts.
inline constexpr std::uint64_t kReference = 1, kHolder = (std::uint64_t{1} << 32) + kReference;

inline Node* new_node(OpId op, const Shape& shape, DType dtype, DeviceEntry* entry) {
  return Slab<Node>::make(op, shape, dtype, entry);
}
inline void retain(Node* node) { node->counts.fetch_add(kReference, std::memory_order_relaxed); }
void destroy(Node* node) noexcept;  // called when no reference is left
inline void release(Node* node) noexcept {
  // If the caller has the only reference, no other thread can add one, so a plain load is enough.
  if (node->counts.load(std::memory_order_acquire) == kReference ||
      node->counts.fetch_sub(kReference, std::memory_order_acq_rel) == kReference) {
    destroy(node);
  }
}
// Holders are references that also require the value. The value of a pending node without holders
// is not stored.
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

// A counted reference to a node: a holder (Held) or a plain reference (NodeRef).
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
  // Passes the reference to the caller.
  Node* leave() {
    Node* node = node_;
    node_ = nullptr;
    return node;
  }
  // Takes over a reference that the caller has.
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
  // Takes over a reference that the caller has.
  static TapeRef adopt(Tape* tape) {
    TapeRef ref;
    ref.tape_ = tape;
    return ref;
  }
  explicit operator bool() const { return tape_ != nullptr; }

 private:
  Tape* tape_ = nullptr;
};

// A selection that records its read only when its value is needed (graph/attributes/selection.h).
struct DropPendingRead {
  void operator()(PendingRead* read) const;
};

// Members that only few variables need.
struct VariableExtras {
  std::shared_ptr<GradientHooks> hooks;  // of a leaf; may be null
  // Set for a selection that was not read yet; it has no node.
  std::unique_ptr<PendingRead, DropPendingRead> read;
};

// The state that all handles of a tensor share.
struct Variable {
  std::atomic<std::uint32_t> refs{1};
  bool requires_grad = false;          // a leaf that requires a gradient
  std::atomic<bool> grad_busy{false};  // a thread is adding to `grad`
  std::atomic<bool> unread{false};     // a selection that was not read yet
  std::uint32_t grad_pass = 0;         // number of the backward pass that created `grad`
  std::uint32_t journal_entry = 0;     // hint: position of its entry in the journal
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
void destroy(Variable* variable) noexcept;  // called when no reference is left
// Replaces the variable's history. If the variable retains its gradient, it now retains that of the
// new value.
void set_tape(Variable& variable, TapeRef tape);
inline void release(Variable* variable) noexcept {
  // If the caller has the only reference, no other thread can add one, so a plain load is enough.
  if (variable->refs.load(std::memory_order_acquire) == 1 ||
      variable->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    destroy(variable);
  }
}

// The destination of the gradient of a tape record's input.
struct Edge {
  TapeRef tape;  // the record that computed the input
  Tensor leaf;   // or the leaf variable; if both are empty, no gradient is required
  Shape shape;
  DType dtype;
  Device device;
};

// Hooks, a user's function, recomputation (graph/record/tape_extras.h).
struct TapeExtras;
struct DropExtras {
  void operator()(TapeExtras* extras) const;
};

// One recorded operation that gradients flow through. It holds only the values that its row in the
// table saves.
struct Tape {
  std::atomic<std::uint32_t> refs{1};
  OpId op = OpId::constant;
  bool consumed = false;
  std::uint32_t visit = 0, slot = 0;  // the last pass that visited it, and its slot there
  std::uint64_t sequence = 0;         // recording order: inputs have smaller numbers
  SourceLocation place;
  Shape shape;
  DType dtype = DType::f32;
  InlineVector<Edge, 4> edges;
  InlineVector<Held, 4> saved;  // one per input; empty if that input is not saved
  Held output;
  InlineVector<Held, 2> auxiliary;
  InlineVector<std::int64_t, 4> attrs;
  Tape* next_dead = nullptr;                       // links records that are waiting to be freed
  std::unique_ptr<TapeExtras, DropExtras> extras;  // null for most records

  Tape(OpId o, const Shape& s, DType d, SourceLocation p) : op(o), place(p), shape(s), dtype(d) {}
};

inline void retain(Tape* tape) { tape->refs.fetch_add(1, std::memory_order_relaxed); }

// Records the read of a selection.
void record_read(Variable& variable);

// Gives the library access to the private parts of Tensor.
struct TensorAccess {
  static Variable* variable(const Tensor& tensor) {
    Variable* variable = tensor.variable_;
    if (variable != nullptr && variable->unread.load(std::memory_order_acquire)) [[unlikely]]
      record_read(*variable);
    return variable;
  }
  static Node* node(const Tensor& tensor) { return variable(tensor)->node.get(); }
  static Tensor wrap(Variable* variable) { return Tensor(variable); }  // takes over the reference
  // A tensor with a new variable.
  static Tensor make(Held node, TapeRef tape = {}) {
    return wrap(Slab<Variable>::make(std::move(node), std::move(tape)));
  }
  static Tensor from_node(Node* node) { return make(Held(node)); }
};
inline Node* node_of(const Tensor& tensor) { return TensorAccess::node(tensor); }

}  // namespace volta::graph
