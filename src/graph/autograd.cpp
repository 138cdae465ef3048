// The backward pass: records in reverse order of recording, no recursion, gradients added per
// input.
#include "graph/autograd.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include <fmt/format.h>

#include "core/counting.h"
#include "core/registry.h"
#include "core/thread_owned.h"
#include "graph/apply.h"
#include "graph/host.h"
#include "graph/segment.h"
#include "graph/vjp.h"
#include "volta/autograd.h"
#include "volta/error.h"
#include "volta/execution.h"
#include "volta/ops.h"

namespace volta::graph {
namespace {

std::atomic<std::uint32_t> pass_number{0};

// Keeps its memory from pass to pass.
struct ReachedTapes {
  std::vector<Tape*> tapes;
};

// All records the root depends on, last recorded first.
void find_reachable(Tape* root, std::uint32_t pass, std::vector<Tape*>& found) {
  found.assign(1, root);
  root->visit = pass;
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (const Edge& edge : found[i]->edges) {
      Tape* next = edge.tape.get();
      if (next == nullptr || next->visit == pass) continue;
      next->visit = pass;
      found.push_back(next);
    }
  }
  std::sort(found.begin(), found.end(),
            [](const Tape* a, const Tape* b) { return a->sequence > b->sequence; });
}

bool expands(const Shape& from, const Shape& to) {
  if (from.rank() > to.rank()) return false;
  for (int i = 1; i <= from.rank(); ++i) {
    const std::int64_t own = from[from.rank() - i];
    if (own != 1 && own != to[to.rank() - i]) return false;
  }
  return true;
}

// Brings a gradient to the shape and dtype of what it is the gradient of.
void fit(Tensor& g, const Edge& edge, Place place) {
  const Borrowed source = g;
  const Node& node = *source.node();
  if (node.shape != edge.shape) {
    g = expands(node.shape, edge.shape)
            ? expand_to(g, edge.shape, place)
            : apply(OpId::sum_to, {&source, 1}, edge.shape.sizes(), edge.shape, node.dtype, place);
  }
  if (node_of(g)->dtype != edge.dtype) g = g.to(edge.dtype, place);
}

Tensor added(const Tensor& a, const Tensor& b, Place place) {
  return binary(OpId::add, {a, place}, {b, place});
}

// Gradients in flight go when the pass ends, also by an exception.
struct DropGradients {
  const std::vector<Tape*>& tapes;
  ~DropGradients() {
    for (Tape* tape : tapes) tape->gradient = Tensor();
  }
};

void forget(Tape& tape) {
  tape.consumed = true;
  for (Held& saved : tape.saved) saved = Held();
  tape.output = Held();
  tape.auxiliary.clear();
}

}  // namespace

void run_backward(const Tensor& root, const Tensor& gradient, BackwardOptions options,
                  Place place) {
  Variable* variable = TensorAccess::variable(root);
  if (!variable->tape) {
    if (!variable->requires_grad) {
      throw ArgumentError(
          "backward: the tensor has no history (no input required a gradient, or it was recorded "
          "under NoGrad)");
    }
    const NoGrad no_grad;
    if (variable->grad.defined()) {
      const Tensor sum = added(variable->grad, gradient, place);
      assign_node(variable->grad, TensorAccess::variable(sum)->node);
    } else {
      variable->grad = gradient.detach();
    }
    return;
  }
  const std::uint32_t pass = pass_number.fetch_add(1, std::memory_order_relaxed) + 1;
  std::vector<Tape*>& tapes = ThreadOwned<ReachedTapes>::get().tapes;
  find_reachable(variable->tape.get(), pass, tapes);
  for (const Tape* tape : tapes) {
    if (tape->consumed) {
      throw ArgumentError(
          fmt::format("backward: the history of {} ({}:{}) was used by an earlier backward(); pass "
                      "{{.retain_graph = true}} to the first one",
                      op_info(tape->op).name, tape->place.file, tape->place.line));
    }
  }
  // Gradients are recorded without history, in their forward's precision whatever the scopes say
  // now.
  const NoGrad no_grad;
  const ExecutionContext plain({});
  std::vector<DeviceEntry*> accumulated;  // devices where an earlier gradient was added to
  variable->tape->gradient = gradient;
  const DropGradients drop{tapes};
  for (Tape* tape : tapes) {
    Tensor g = std::move(tape->gradient);
    if (!g.defined()) {
      if (!options.retain_graph) forget(*tape);
      continue;
    }
    tape->consumed = !options.retain_graph;  // from here on, also if the rule throws
    Vjp vjp(*tape, std::move(g), tape->consumed);
    op_info(tape->op).vjp(vjp);
    for (auto& [input, part] : vjp.results()) {
      const Edge& edge = tape->edges[input];
      if (!edge.tape && !edge.leaf.defined()) continue;
      fit(part, edge, tape->place);
      if (edge.tape) {
        Tensor& sum = edge.tape->gradient;
        sum = sum.defined() ? added(sum, part, tape->place) : std::move(part);
      } else {
        Variable* leaf = TensorAccess::variable(edge.leaf);
        if (leaf->grad.defined()) {
          // In place: a handle to the gradient sees it grow.
          assign_node(leaf->grad,
                      TensorAccess::variable(added(leaf->grad, part, tape->place))->node);
          if (leaf->grad_pass != pass) accumulated.push_back(leaf->node->entry);
        } else {
          // A gradient that something else has as well becomes a variable of its own.
          const bool shared =
              TensorAccess::variable(part)->refs.load(std::memory_order_acquire) > 1;
          leaf->grad = shared ? part.detach() : std::move(part);
          leaf->grad_pass = pass;
        }
      }
    }
    if (!options.retain_graph) forget(*tape);
  }
  // A consumed record keeps nothing alive below it. Oldest first: a record that goes is done with.
  if (!options.retain_graph) {
    for (auto tape = tapes.rbegin(); tape != tapes.rend(); ++tape) (*tape)->edges.clear();
    tapes.clear();  // gone, most of them: `drop` must not touch them
  }
  // Micro-batches repeat a plan instead of unrolling into one.
  std::sort(accumulated.begin(), accumulated.end());
  accumulated.erase(std::unique(accumulated.begin(), accumulated.end()), accumulated.end());
  for (DeviceEntry* entry : accumulated) submit(*entry);
}

Tensor copy_to_device(const Tensor& x, Device device, Place place) {
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
