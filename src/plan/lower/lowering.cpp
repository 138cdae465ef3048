// Lowers recorded nodes to values of the planner.
#include "plan/lower/lowering.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "backend/backend.h"
#include "backend/registry.h"

namespace volta::plan {

using graph::Node;
using graph::NodeState;
using graph::OpId;
using kernel::ReduceOp;
using kernel::ScalarOp;

Graph lower(const BatchView& view, const BatchSizes& sizes, const DeviceEntry& device,
            Expansion (*expansion_of)(graph::OpId)) {
  Graph graph{.view = &view, .device = &device};
  Lowering(graph, sizes, expansion_of).run();
  return graph;
}

ValueId Graph::value_of(const Node& node) const {
  if (node.state.load(std::memory_order_relaxed) == NodeState::Constant) return ValueId::none;
  const auto leaf = leaf_values.find(&node);
  return leaf != leaf_values.end() ? leaf->second : node_values[view->number(node)];
}

Lowering::Lowering(Graph& graph, const BatchSizes& sizes, Expansion (*expansion_of)(graph::OpId))
    : ValueBuilder(graph.values, *graph.device),
      graph_(graph),
      sizes_(sizes),
      expansion_of_(expansion_of),
      view_(graph.view) {}

void Lowering::run() {
  values_.reserve(view_->nodes().size() * 4 + view_->leaves().size());
  for (std::size_t i = 0; i < view_->leaves().size(); ++i) {
    const Node& node = *view_->leaves()[i];
    Value leaf{.kind = ValueKind::Leaf, .dtype = node.dtype, .shape = sizes_.shape(node)};
    leaf.number = static_cast<int>(i);
    if (!view_->has_channels_last(i)) {
      graph_.leaf_values[&node] = insert(std::move(leaf)).id;
      continue;
    }
    const Shape shape = std::exchange(leaf.shape, channels_moved_last(leaf.shape));
    const Expr images = permute(insert(std::move(leaf)), channels_second(shape.rank()));
    prefer_channels_last(images);
    graph_.leaf_values[&node] = images.id;
  }
  graph_.node_values.assign(view_->nodes().size(), ValueId::none);
  count_readers();
  for (Node* node : view_->nodes()) lower_node(*node);
  // Messages find an operation by the number of its site.
  if (static_cast<std::size_t>(site_) != view_->sites())
    throw std::logic_error("planner: sites of checked indices were not counted as recorded");
}

void Lowering::lower_node(Node& node) {
  node_ = &node;
  set_origin({.label = graph::op_info(node.op).name, .epoch = node.epoch});
  if (node.op == OpId::output) {
    const auto number = static_cast<std::size_t>(open_attrs()[0].fixed());
    const ValueId result = results_.at(node.inputs[0])[number];
    graph_.node_values[view_->number(node)] = cast({this, result}, node.dtype).id;
    return;
  }
  // Arguments are numbered in the order of recording: by node, then by input.
  node_args_.assign(node.inputs_count, -1);
  for (std::uint32_t i = 0; i < node.inputs_count; ++i) {
    const Node& input = *node.inputs[i];
    if (input.state.load(std::memory_order_relaxed) == NodeState::Constant &&
        !graph::is_key_literal(input.value)) {
      node_args_[i] = arg_++;
    }
  }
  if (const Expansion expand = expansion_of_(node.op)) return expand(*this);
  lower_primitive(node);
}

void Lowering::lower_primitive(Node& node) {
  const std::span<const Extent> attrs = open_attrs();
  const Shape shape = sizes_.shape(node);
  const std::size_t rank = shape.sizes().size();
  switch (node.op) {
    case OpId::cast:
      return out(cast(in(0), node.dtype));
    case OpId::where:
      return out(where(in(0), in(1), in(2)));
    case OpId::iota:
      return out(cast(iota(shape, static_cast<int>(attrs[0])), node.dtype));
    case OpId::philox:
      return out(philox(in(0), in(1), shape, node.dtype));
    case OpId::reshape:
      return out(reshape(in(0), shape));
    case OpId::permute:
      return out(permute(in(0), this->attrs()));
    case OpId::expand:
      return out(expand(in(0), shape));
    case OpId::shrink:
      return out(shrink(in(0), attrs.first(rank), shape));
    case OpId::stride:
      return out(stride(in(0), attrs.first(rank), attrs.subspan(rank, rank), shape));
    case OpId::unfold:
      return out(windows(in(0), attrs[0], attrs[1], attrs[2]));
    case OpId::pad: {
      const Expr inner = in(0), fill = in(1);
      const auto before = attrs.first(rank);
      if (at(fill).kind == ValueKind::Const)
        return out(pad(inner, before, shape, at(fill).constant));
      // For other fills, pad a mask as well and select.
      const Expr one = expand(constant(1, DType::boolean), inner.shape());
      const Expr inside = pad(one, before, shape, 0);
      return out(where(inside, pad(inner, before, shape, 0), fill));
    }
    case OpId::sum:
      return out(reduce(ReduceOp::Sum, in(0), this->attrs()));
    case OpId::prod:
      return out(reduce(ReduceOp::Prod, in(0), this->attrs()));
    case OpId::max:
      return out(reduce(ReduceOp::Max, in(0), this->attrs()));
    case OpId::min:
      return out(reduce(ReduceOp::Min, in(0), this->attrs()));
    case OpId::argmax:
      return out(reduce(ReduceOp::ArgMax, in(0), this->attrs()));
    case OpId::argmin:
      return out(reduce(ReduceOp::ArgMin, in(0), this->attrs()));
    case OpId::gather: {
      const Expr source = in(0);
      const Expr index = bounded(in(1), source.shape()[0], next_site());
      const bool nothing = shape.numel() == 0 && index.shape().numel() > 0;
      return out(nothing ? checked_nothing(index) : gather(source, index));
    }
    default:
      break;
  }
  const ScalarOp scalar = graph::scalar_op(node.op);
  if (node.inputs_count == 1) return out(unary(scalar, in(0)));
  out(binary(scalar, in(0), in(1)));
}

std::span<const std::int64_t> Lowering::attrs() const {
  const std::span<const Extent> open = open_attrs();
  if (std::none_of(open.begin(), open.end(), [](Extent attr) { return attr.is_open(); }))
    return node_->attr_span();
  fixed_attrs_.assign(open.begin(), open.end());
  return fixed_attrs_;
}

std::vector<std::int64_t> Lowering::attrs_but(std::size_t open) const {
  std::vector<std::int64_t> numbers;
  const std::span<const Extent> all = open_attrs();
  for (std::size_t i = 0; i < all.size(); ++i)
    numbers.push_back(i == open ? all[i].hint() : all[i].fixed());
  return numbers;
}

// Composed operations are computed in f32 if their operands are halves, and rounded once at the
// end.
Expr Lowering::in(std::size_t i) {
  const Expr operand = operand_of(i);
  const bool composed = expansion_of_(node_->op) != nullptr;
  return composed && is_half(operand.dtype()) ? cast(operand, DType::f32) : operand;
}

Expr Lowering::operand_of(std::size_t i) {
  const Node& input = *node_->inputs[i];
  if (input.state.load(std::memory_order_relaxed) == NodeState::Constant) {
    // A number beside halves is an f32 that is rounded with the result, not before. (A number that
    // is a tensor of halves is already rounded.)
    const DType dtype = is_half(input.dtype) ? DType::f32 : input.dtype;
    Expr number;
    if (const int arg = node_args_[i]; arg >= 0) {
      Value value{.kind = ValueKind::Arg, .dtype = dtype};
      value.number = arg;
      number = insert(std::move(value));
    } else {
      number = constant(input.value, dtype);
    }
    if (input.shape.rank() > 0) number = cast(number, input.dtype);
    return expand(number, sizes_.constant_shape(*node_, i));
  }
  return {this, graph_.value_of(input)};
}

void Lowering::out(std::size_t number, Expr value) {
  if (expansion_of_(node_->op) != nullptr || number > 0) {
    auto& results = results_[node_];
    if (results.size() <= number) results.resize(number + 1);
    results[number] = value.id;
  }
  if (number == 0) graph_.node_values[view_->number(*node_)] = cast(value, node_->dtype).id;
}

// A kernel over no elements does not run, but a reduction that it needs is a separate kernel, which
// does. The indices are doubled because a reduction of one element would be removed.
Expr Lowering::checked_nothing(Expr indices) {
  const std::int64_t axes[] = {0, 1};
  const Extent count = indices.shape().numel();
  const Expr twice = expand(reshape(indices, {1, count}), {2, count});
  const Expr largest = reduce(ReduceOp::Max, twice, axes);
  return expand(cast(largest, node_->dtype), shape());
}

bool Lowering::multiplies_halves(DType dtype) const {
  return size_of(dtype) == 2 && device_->backend.multiplies_halves(device_->index, dtype);
}

bool Lowering::has_channels_last(Expr images) const {
  constexpr int kFar = 64;
  const std::vector<ValueId>& known = graph_.channels_last;
  std::vector<ValueId> stack{images.id};
  for (int steps = 0; steps < kFar && !stack.empty(); ++steps) {
    const ValueId id = stack.back();
    stack.pop_back();
    if (std::find(known.begin(), known.end(), id) != known.end()) return true;
    const Value& v = values_[id];
    if (v.kind == ValueKind::Permute && v.attrs == std::vector<Extent>{0, 3, 1, 2}) return true;
    if (!v.is_pointwise()) continue;
    for (const ValueId in : v.in) {
      if (!in.is_none() && values_[in].kind != ValueKind::Expand) stack.push_back(in);
    }
  }
  return false;
}

}  // namespace volta::plan
