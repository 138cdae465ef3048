// The backward pass: visits tape records in reverse recording order, without recursion, and adds up
// the gradients of each input.
#include "graph/autograd/autograd.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "backend/registry.h"
#include "core/counting.h"
#include "graph/autograd/gradient_guard.h"
#include "graph/autograd/vjp.h"
#include "graph/record/apply.h"
#include "graph/record/evaluation.h"
#include "graph/record/observer.h"
#include "graph/record/placing.h"
#include "graph/record/recorder.h"
#include "graph/record/tape_extras.h"
#include "volta/autocast.h"
#include "volta/autograd.h"
#include "volta/error.h"
#include "volta/execution.h"
#include "volta/ops.h"
#include "volta/transfers.h"

namespace volta::graph {
namespace {

bool expands(const Shape& from, const Shape& to) {
  if (from.rank() > to.rank()) return false;
  for (int i = 1; i <= from.rank(); ++i) {
    const std::int64_t own = from[from.rank() - i];
    if (own != 1 && own != to[to.rank() - i]) return false;
  }
  return true;
}

// While alive, recorded operations belong to the gradient rule of `op`.
class RunningRule {
 public:
  explicit RunningRule(const OpId& op) : outer_(std::exchange(recording_state.rule, &op)) {}
  ~RunningRule() { recording_state.rule = outer_; }
  RunningRule(const RunningRule&) = delete;
  RunningRule& operator=(const RunningRule&) = delete;

 private:
  const OpId* const outer_;
};

// Brings a gradient to the shape and dtype of the value at the edge.
void fit(Tensor& g, const Edge& edge, SourceLocation place) {
  const Borrowed source = g;
  const Node& node = *source.node();
  if (node.shape != edge.shape) {
    g = expands(node.shape, edge.shape)
            ? expand_to(g, edge.shape, place)
            : apply(OpId::sum_to, {&source, 1}, edge.shape.sizes(), edge.shape, node.dtype, place);
  }
  if (node_of(g)->dtype != edge.dtype) g = g.to(edge.dtype, place);
}

Tensor added(const Tensor& a, const Tensor& b, SourceLocation place) {
  return binary(OpId::add, {a, place}, {b, place});
}
// With placement, a value may be used on two devices. Its gradients are then added on the GPU.
void bring_together(Tensor& a, Tensor& b, SourceLocation place) {
  const TransferReason reason("gradients", place);
  if (a.device().is_cpu()) {
    a = a.to(b.device(), place);
  } else {
    b = b.to(a.device(), place);
  }
}
void add_to(Tensor& sum, Tensor part, SourceLocation place) {
  if (!sum.defined()) {
    sum = std::move(part);
    return;
  }
  if (node_of(sum)->entry != node_of(part)->entry) [[unlikely]]
    bring_together(sum, part, place);
  sum = added(sum, part, place);
}

void forget(Tape& tape) {
  tape.consumed = true;
  for (Held& saved : tape.saved) saved = Held();
  tape.output = Held();
  tape.auxiliary.clear();
}

// One walk over the records that the roots depend on. With `inputs`, only the gradients of the
// inputs are collected; without, leaves receive their gradients.
class BackwardPass {
 public:
  BackwardPass(BackwardOptions options, const std::vector<Tensor>* inputs)
      : retain_(options.retain_graph || options.create_graph), history_(options.create_graph) {
    if (inputs == nullptr) return;
    collected_ = std::make_unique<Collected>();
    collected_->results.resize(inputs->size());
    for (std::size_t i = 0; i < inputs->size(); ++i) {
      Variable* variable = TensorAccess::variable((*inputs)[i]);
      if (variable->tape) {
        collected_->tapes[variable->tape.get()].push_back(i);
      } else {
        collected_->leaves[variable].push_back(i);
      }
    }
    collected_->wants = [this](const Edge& edge) { return is_wanted(edge); };
  }
  BackwardPass(const BackwardPass&) = delete;
  BackwardPass& operator=(const BackwardPass&) = delete;

  std::vector<Tensor> take_results() { return std::move(collected_->results); }

  void run(std::span<const Tensor> roots, std::span<const Tensor> gradients, const char* what,
           SourceLocation place) {
    place_ = place;
    for (const Tensor& root : roots) records_.add_root(TensorAccess::variable(root)->tape.get());
    records_.reach();
    for (const PassRecords::Record& record : records_.all()) {
      const Tape* tape = record.tape;
      if (!tape->consumed) continue;
      throw ArgumentError(fmt::format(
          "{}: the history of {} ({}:{}) was used by an earlier backward(); pass {{.retain_graph = "
          "true}} to the first one",
          what, op_info(tape->op).name, tape->place.file(), tape->place.line()));
    }
    if (collected_) find_leading();
    // Rules compute in the precision of the forward pass, whatever Autocast scopes are open now,
    // and record history only if create_graph is set.
    const Autocast as_recorded(DType::f32);
    const Restore restore{std::exchange(grad_mode(), history_),
                          std::exchange(recording_state.observer, nullptr)};
    observer_ = restore.observer;  // sees the results of rules, not their operations
    const ExecutionContext plain({.placement = Placement::as_written});
    for (std::size_t i = 0; i < roots.size(); ++i) {
      Variable* variable = TensorAccess::variable(roots[i]);
      begin_step(*variable->node->entry);  // the forward pass may have been submitted already
      // Without create_graph, the history of a given gradient is cut off.
      Tensor start =
          history_ || !gradients[i].requires_grad() ? gradients[i] : gradients[i].detach();
      if (variable->tape) {
        add_to(records_.of(variable->tape.get()).gradient, std::move(start), place);
      } else {
        give_leaf(*variable, roots[i], start, place);
      }
    }
    for (PassRecords::Record& record : records_.all()) step(record);
    run_leaf_hooks();
    if (!retain_) records_.cut_off();
    // Submitting here lets each micro-batch repeat one plan instead of growing a larger one.
    std::sort(accumulated_.begin(), accumulated_.end());
    accumulated_.erase(std::unique(accumulated_.begin(), accumulated_.end()), accumulated_.end());
    for (DeviceEntry* entry : accumulated_) submit(*entry);
  }

 private:
  struct Restore {
    bool grad;
    RecordingObserver* observer;
    ~Restore() {
      grad_mode() = grad;
      recording_state.observer = observer;
    }
  };

  // Finds the records that lead to an input; other records need no gradient.
  void find_leading() {
    for (auto record = records_.all().rbegin(); record != records_.all().rend(); ++record) {
      const auto& edges = record->tape->edges;
      if (std::any_of(edges.begin(), edges.end(),
                      [&](const Edge& edge) { return is_wanted(edge); })) {
        collected_->leading.insert(record->tape);
      }
    }
  }
  bool is_wanted(const Edge& edge) const {
    if (edge.tape)
      return collected_->leading.contains(edge.tape.get()) ||
             collected_->tapes.contains(edge.tape.get());
    return edge.leaf.defined() && collected_->leaves.contains(TensorAccess::variable(edge.leaf));
  }

  void step(PassRecords::Record& record) {
    Tape& tape = *record.tape;
    Tensor g = std::move(record.gradient);
    if (!g.defined()) {
      if (!retain_) forget(tape);
      return;
    }
    if (tape.extras) complete(tape, g);
    if (collected_) {
      if (const auto found = collected_->tapes.find(&tape); found != collected_->tapes.end()) {
        for (const std::size_t i : found->second) collected_->results[i] = g;
      }
      if (!collected_->leading.contains(&tape)) {
        if (!retain_) forget(tape);
        return;
      }
    }
    if (tape.extras && tape.extras->recompute) recompute(tape);
    if (!retain_) tape.consumed = true;  // from here on, even if the rule throws
    Vjp vjp(tape, std::move(g), records_,
            {.consumes = !retain_,
             .history = history_,
             .wants = collected_ ? &collected_->wants : nullptr});
    {
      const RunningRule running(tape.op);
      op_info(tape.op).vjp(vjp);
    }
    for (auto& [input, part] : vjp.results()) {
      const Edge& edge = tape.edges[input];
      if (!edge.tape && !edge.leaf.defined()) continue;
      if (collected_ && !is_wanted(edge)) continue;
      fit(part, edge, tape.place);
      if (observer_ != nullptr) [[unlikely]]
        observer_->differentiated(tape, input, part);
      if (edge.tape) {
        if (part.device() != edge.device) [[unlikely]]
          bring_home(part, edge, tape.place);
        add_to(records_.of(edge.tape.get()).gradient, std::move(part), tape.place);
      } else {
        give_leaf(*TensorAccess::variable(edge.leaf), edge.leaf, part, tape.place);
      }
    }
    if (!retain_) forget(tape);
  }

  // A gradient may arrive through views on another device. It moves to the device of its record
  // unless the record's rule runs on any device.
  static void bring_home(Tensor& part, const Edge& edge, SourceLocation place) {
    if (takes_gradients_of_any_device(*edge.tape.get()) || edge.tape->op == OpId::function) return;
    const TransferReason reason("gradients", place);
    part = part.to(edge.device, place);
  }

  // Called when the gradient of a record's result is complete: runs hooks and adds to the retained
  // gradient.
  void complete(Tape& tape, Tensor& g) const {
    TapeExtras& extras = *tape.extras;
    if (!extras.hooks.hooks.empty()) g = extras.hooks.run(std::move(g), tape.shape, tape.dtype);
    if (extras.retains != nullptr && !collected_) {
      Tensor& kept = extras.retains->grad;
      const Tensor here = g.to(extras.retains->node->entry->device, tape.place);
      kept = kept.defined() ? added(kept, here, tape.place) : history_ ? here : here.detach();
    }
  }

  void give_leaf(Variable& leaf, const Tensor& handle, Tensor& part, SourceLocation place) {
    if (collected_) {
      if (const auto found = collected_->leaves.find(&leaf); found != collected_->leaves.end()) {
        if (leaf.hooks() != nullptr)
          return add_to(hooked(leaf, handle).gradient, std::move(part), place);
        for (const std::size_t i : found->second) add_to(collected_->results[i], part, place);
      }
      return;
    }
    // Hooks receive the sum of all gradients of this pass, so they run at its end.
    if (leaf.hooks() != nullptr)
      return add_to(hooked(leaf, handle).gradient, std::move(part), place);
    accumulate(leaf, part, place);
  }

  struct Hooked {
    Tensor leaf;
    Tensor gradient;
  };
  // The entry of a leaf with hooks. Entries are in the order in which the pass reaches the leaves.
  Hooked& hooked(const Variable& leaf, const Tensor& handle) {
    for (Hooked& known : hooked_) {
      if (TensorAccess::variable(known.leaf) == &leaf) return known;
    }
    return hooked_.emplace_back(handle, Tensor());
  }

  void accumulate(Variable& leaf, Tensor& part, SourceLocation place) {
    const GradientGuard guard(leaf);
    // The devices differ if the leaf was used on two devices or in a Function, or if a hook made
    // the gradient.
    DeviceEntry& there = *node_of(part)->entry;
    if (&there != leaf.node->entry && !(there.device.is_gpu() && adopt_replica(leaf, there)))
        [[unlikely]] {
      const TransferReason reason("gradients", place);
      part = part.to(leaf.node->entry->device, place);
    }
    if (leaf.grad.defined() && is_of_failed_step(*node_of(leaf.grad))) [[unlikely]]
      leaf.grad = Tensor();
    if (leaf.grad.defined()) {
      const Tensor sum = added(leaf.grad, part, place);
      // The sum is assigned to the same variable, so that handles to the gradient see it.
      assign_node(leaf.grad, TensorAccess::variable(sum)->node);
      set_tape(*TensorAccess::variable(leaf.grad), TensorAccess::variable(sum)->tape);
      if (leaf.grad_pass != records_.pass()) accumulated_.push_back(leaf.node->entry);
      return;
    }
    // If other handles share the gradient, the leaf gets a new variable.
    const Variable* own = TensorAccess::variable(part);
    const bool shared = own->refs.load(std::memory_order_acquire) > 1;
    leaf.grad = shared ? TensorAccess::make(own->node, own->tape) : std::move(part);
    leaf.grad_pass = records_.pass();
  }

  void run_leaf_hooks() {
    for (auto& [handle, gradient] : hooked_) {
      Variable* leaf = TensorAccess::variable(handle);
      const Node& node = *leaf->node.get();
      Tensor g = leaf->hooks()->run(std::move(gradient), node.shape, node.dtype);
      if (collected_) {
        for (const std::size_t i : collected_->leaves[leaf]) collected_->results[i] = g;
      } else {
        accumulate(*leaf, g, place_);
      }
    }
  }

  const bool retain_, history_;
  RecordingObserver* observer_ = nullptr;
  PassRecords records_;
  SourceLocation place_;
  std::vector<DeviceEntry*> accumulated_;  // devices with sums over several passes
  std::vector<Hooked> hooked_;             // leaves with hooks
  // State of grad(): the requested tensors by position, and the records that lead to them.
  struct Collected {
    std::vector<Tensor> results;
    std::unordered_map<const Tape*, std::vector<std::size_t>> tapes;
    std::unordered_map<const Variable*, std::vector<std::size_t>> leaves;
    std::unordered_set<const Tape*> leading;
    WantsEdge wants;
  };
  std::unique_ptr<Collected> collected_;
};

}  // namespace

void GradientHooks::add(std::shared_ptr<GradientHook> hook) {
  std::erase_if(hooks, [](const auto& registered) { return !registered->call; });
  hooks.push_back(std::move(hook));
}

Tensor GradientHooks::run(Tensor gradient, const Shape& shape, DType dtype) const {
  // The list is copied, since a hook may remove hooks, including itself, or add some.
  const std::vector<std::shared_ptr<GradientHook>> registered = hooks;
  for (const auto& hook : registered) {
    const auto call = hook->call;
    if (!call) continue;
    const Tensor replaced = (*call)(gradient);
    if (!replaced.defined()) continue;
    if (replaced.shape() != shape || replaced.dtype() != dtype) {
      throw ArgumentError(fmt::format("hook: a gradient {} {} was returned for one of {} {}",
                                      name_of(replaced.dtype()), to_string(replaced.shape()),
                                      name_of(dtype), to_string(shape)));
    }
    gradient = replaced;
  }
  return gradient;
}

Tensor Vjp::historic(const Held& saved, const Edge* edge) {
  if (&saved == &tape_.output) return TensorAccess::make(saved, TapeRef(&tape_));
  if (edge == nullptr || (!edge->tape && !edge->leaf.defined())) return TensorAccess::make(saved);
  if (edge->tape) return TensorAccess::make(saved, edge->tape);
  return leaf_as_it_was(edge->leaf, saved, place());
}

Tensor leaf_as_it_was(const Tensor& leaf, const Held& value, SourceLocation place) {
  const Variable& now = *TensorAccess::variable(leaf);
  if (now.requires_grad && now.node.get() == value.get()) return leaf;
  const Node& node = *value.get();
  TapeRef same = TapeRef::adopt(Slab<Tape>::make(OpId::expand, node.shape, node.dtype, place));
  same->sequence = next_tape_sequence(0);
  same->edges.emplace_back(TapeRef(), leaf, node.shape, node.dtype, node.entry->device);
  same->saved.emplace_back();
  return TensorAccess::make(value, std::move(same));
}

void run_backward(const Tensor& root, const Tensor& gradient, BackwardOptions options,
                  SourceLocation place) {
  const Variable* variable = TensorAccess::variable(root);
  if (!variable->tape && !variable->requires_grad) {
    throw ArgumentError(
        "backward: the tensor has no history (no input required a gradient, or it was recorded "
        "under NoGrad)");
  }
  BackwardPass(options, nullptr).run({&root, 1}, {&gradient, 1}, "backward", place);
}

std::vector<Tensor> collect_gradients(std::span<const Tensor> roots,
                                      std::span<const Tensor> gradients,
                                      const std::vector<Tensor>& inputs, BackwardOptions options,
                                      SourceLocation place) {
  BackwardPass pass(options, &inputs);
  pass.run(roots, gradients, "grad", place);
  return pass.take_results();
}

Tensor copy_to_device(const Tensor& x, Device device, SourceLocation place) {
  Node* node = node_of(x);
  Tensor copy;
  if (node->state.load(std::memory_order_acquire) == NodeState::Constant) {
    copy = filled(node->shape, node->value, node->dtype, device);
    node_of(copy)->integer = node->integer;
  } else {
    const auto bytes = observe(node);
    copy = upload(bytes.data(), node->shape, node->dtype, device);
  }
  Node* copied = node_of(copy);
  const Borrowed source = x;
  TensorAccess::variable(copy)->tape =
      make_tape(OpId::to_device, {&source, 1}, {}, {&copied, 1}, place);
  return copy;
}

}  // namespace volta::graph
