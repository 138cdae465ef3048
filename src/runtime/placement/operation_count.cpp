// Counts the operations of recorded nodes.
#include "runtime/placement/operation_count.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "graph/attributes/recurrence.h"
#include "graph/record/node.h"
#include "volta/detail/operation_count.h"

namespace volta::graph {

bool only_arranges(OpId op) {
  switch (op) {
    case OpId::cast:
    case OpId::reshape:
    case OpId::permute:
    case OpId::expand:
    case OpId::shrink:
    case OpId::pad:
    case OpId::stride:
    case OpId::unfold:
      return true;
    default:
      return false;
  }
}

namespace {
bool only_moves(OpId op) {
  switch (op) {
    case OpId::constant:
    case OpId::iota:
    case OpId::gather:
    case OpId::output:
    case OpId::to_device:
    case OpId::concat:
    case OpId::index:
    case OpId::take_along:
    case OpId::gather_along:
    case OpId::select_rows:
    case OpId::select_at:
    case OpId::put_slice:
      return true;
    default:
      return only_arranges(op);
  }
}
}  // namespace

bool is_product(OpId op) {
  switch (op) {
    case OpId::linear:
    case OpId::matmul:
    case OpId::conv:
    case OpId::conv_input_grad:
    case OpId::conv_weight_grad:
    case OpId::attention:
    case OpId::recurrent:
      return true;
    default:
      return false;
  }
}

namespace {
std::int64_t last_size(const Shape& shape) { return shape[shape.rank() - 1]; }
}  // namespace

std::int64_t operations_of(OpId op, std::span<Node* const> inputs,
                           std::span<const std::int64_t> attrs, const Shape& shape) {
  const auto input = [&](std::size_t i) -> const Shape& { return inputs[i]->shape; };
  const std::int64_t elements = shape.numel();
  switch (op) {
    case OpId::linear:
      return 2 * elements * last_size(input(0)) + (inputs.size() > 2 ? elements : 0);
    case OpId::matmul: {
      const Shape& a = input(0);
      const bool transposed = attrs[0] != 0;
      return 2 * elements * a[a.rank() - (transposed ? 2 : 1)];
    }
    case OpId::conv:
      return 2 * elements * (input(1).numel() / input(1)[0]);
    case OpId::conv_input_grad:
      return 2 * input(0).numel() * (input(1).numel() / input(1)[0]);
    case OpId::conv_weight_grad:
      return 2 * elements * input(1)[0] * input(1)[2] * input(1)[3];
    case OpId::attention: {  // two matrix products
      const Shape &q = input(0), &k = input(1), &v = input(2);
      const std::int64_t scores = q.numel() / last_size(q) * k[k.rank() - 2];
      return 2 * scores * (last_size(q) + last_size(v));
    }
    case OpId::recurrent: {  // per step, a product with the state and optionally its projection
      const std::int64_t gates = input(0).numel(), out = last_size(input(1));
      const bool projected = Recurrence(attrs).projected;
      return 2 * gates * out + gates + (projected ? 2 * (gates / 4) * out : 0);
    }
    default:
      break;
  }
  if (only_moves(op)) return 0;
  std::int64_t most = elements;
  for (const Node* one : inputs) most = std::max(most, one->shape.numel());
  return most;
}

}  // namespace volta::graph

namespace volta::detail {

using graph::Node;
using graph::node_of;
using graph::NodeState;

std::int64_t count_operations(std::span<const Tensor> results, std::span<const Tensor> given) {
  std::unordered_set<const Node*> seen;
  for (const Tensor& tensor : given) {
    if (tensor.defined()) seen.insert(node_of(tensor));
  }
  std::vector<const Node*> open;
  const auto meet = [&](const Node* node) {
    if (seen.insert(node).second) open.push_back(node);
  };
  for (const Tensor& tensor : results) {
    if (tensor.defined()) meet(node_of(tensor));
  }
  std::int64_t total = 0;
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    if (node->state != NodeState::Pending) continue;
    total += graph::operations_of(node->op, node->input_span(), node->attr_span(), node->shape);
    for (const Node* input : node->input_span()) meet(input);
  }
  return total;
}

}  // namespace volta::detail
