// Functions with a user-defined gradient: one tape record for the call, and one for each output
// that passes its gradient to the call.
#include <optional>

#include <fmt/format.h>

#include "backend/registry.h"
#include "graph/autograd/vjp.h"
#include "graph/record/apply.h"
#include "graph/record/gradient_rules.h"
#include "graph/record/placing.h"
#include "graph/record/tape_extras.h"
#include "volta/autograd.h"
#include "volta/error.h"
#include "volta/execution.h"

namespace volta {
namespace graph {
namespace {

// Makes the record that passes the gradient of one output to the call's record.
TapeRef lead_to(Tape& call, std::int64_t output, const Node& node) {
  TapeRef tape =
      TapeRef::adopt(Slab<Tape>::make(OpId::function_output, node.shape, node.dtype, call.place));
  tape->sequence = next_tape_sequence(call.sequence);
  tape->attrs.emplace_back(output);
  // Outputs differ in shape, dtype and device, so the edge carries only a dummy scalar (see
  // function_output).
  tape->edges.emplace_back(TapeRef(&call), Tensor(), Shape(), DType::f32, Device::cpu());
  tape->saved.emplace_back();
  return tape;
}

void require_outputs(const std::string& name, const std::vector<Tensor>& outputs) {
  if (outputs.empty()) throw ArgumentError(fmt::format("{}: forward gave no output", name));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined())
      throw ArgumentError(fmt::format("{}: output {} of forward is not a tensor", name, i));
  }
}

}  // namespace

std::vector<Tensor> CustomCall::forward(const std::vector<Tensor>& inputs) {
  FunctionContext context;
  context.needs_ = needs;
  if (is_placing()) placement = execution_options();
  std::vector<Tensor> outputs;
  {
    const NoGrad no_grad;
    outputs = function->forward(context, inputs);
  }
  require_outputs(function->name, outputs);
  for (Tensor& tensor : context.saved_) {
    Saved kept;
    for (std::size_t i = 0; i < outputs.size() && tensor.defined(); ++i) {
      if (TensorAccess::variable(outputs[i]) != TensorAccess::variable(tensor)) continue;
      kept.node = TensorAccess::variable(tensor)->node;
      kept.output = static_cast<std::int64_t>(i);
    }
    if (kept.output < 0) kept.tensor = tensor;
    saved.push_back(std::move(kept));
  }
  return outputs;
}

std::vector<Tensor> CustomCall::backward(Tape& tape, const std::vector<Tensor>& gradients,
                                         bool with_history) {
  FunctionContext context;
  context.needs_ = needs;
  for (const Saved& kept : saved) {
    context.saved_.push_back(
        kept.output < 0 ? kept.tensor
                        : TensorAccess::make(
                              kept.node, with_history ? lead_to(tape, kept.output, *kept.node.get())
                                                      : TapeRef()));
  }
  const std::string& name = function->name;
  if (!function->backward)
    throw ArgumentError(fmt::format("{}: the function has no backward", name));
  std::vector<Tensor> results;
  {
    std::optional<ExecutionContext> as_called;
    if (placement) {
      ExecutionOptions options = execution_options();
      options.placement = placement->placement;
      options.gpu_threshold = placement->gpu_threshold;
      options.gpu = placement->gpu;
      as_called.emplace(options);
    }
    results = function->backward(context, gradients);
  }
  if (results.size() != needs.size()) {
    throw ArgumentError(fmt::format("{}: backward gave {} gradients for {} inputs", name,
                                    results.size(), needs.size()));
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].defined() && results[i].shape() != tape.edges[i].shape) {
      throw ShapeError(fmt::format("{}: backward gave {} for input {}, which is {}", name,
                                   to_string(results[i].shape()), i,
                                   to_string(tape.edges[i].shape)));
    }
  }
  return results;
}

void vjp::function(Vjp& v) {
  CustomCall& call = *v.tape().extras->custom;
  const std::vector<Tensor> results =
      call.backward(v.tape(), *v.records().of(&v.tape()).outputs, v.with_history());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const int input = static_cast<int>(i);
    if (!results[i].defined() || !v.needs(input)) continue;
    // For a leaf, the backward pass decides whether the gradient moves to the leaf or the leaf to
    // the gradient.
    const bool of_leaf = v.tape().edges[i].leaf.defined() && v.gives_leaves();
    v.give(input, of_leaf ? results[i] : results[i].to(v.device(input), v.place()));
  }
}

// Stores the gradient of an output with the call's record. The scalar 0 that the edge carries only
// shows that the call has a gradient.
void vjp::function_output(Vjp& v) {
  Tape& call = *v.tape().edges[0].tape.get();
  auto& outputs = v.records().of(&call).outputs;
  if (!outputs) outputs = std::make_unique<std::vector<Tensor>>(call.extras->custom->outputs);
  Tensor& sum = (*outputs)[static_cast<std::size_t>(v.attr(0))];
  sum = sum.defined() ? sum + v.gradient() : v.gradient();
  v.give(0, number(0, DType::f32, Device::cpu()));
}

}  // namespace graph

Function::Function(FunctionOptions options) {
  if (!options.forward)
    throw ArgumentError(fmt::format("{}: the function has no forward", options.name));
  options_ = std::make_shared<const FunctionOptions>(std::move(options));
}

std::vector<Tensor> Function::operator()(const std::vector<Tensor>& inputs,
                                         SourceLocation place) const {
  using namespace graph;
  for (const Tensor& input : inputs) require_defined(options_->name.c_str(), input, "an input");
  auto call = std::make_unique<CustomCall>(options_);
  bool any = false;
  for (const Tensor& input : inputs) {
    const bool needs = grad_enabled() && is_floating(input.dtype()) && input.requires_grad();
    call->needs.push_back(needs);
    any = any || needs;
  }
  std::vector<Tensor> outputs = call->forward(inputs);
  if (!any) return outputs;
  call->outputs = outputs.size();
  std::vector<Borrowed> borrowed(inputs.begin(), inputs.end());
  std::vector<Node*> nodes;
  for (const Tensor& output : outputs) nodes.push_back(node_of(output));
  // Integer outputs have no gradient, so the record takes its shape and dtype from the first
  // floating-point output.
  Node* first = nullptr;
  for (Node* node : nodes) {
    if (first == nullptr && is_floating(node->dtype)) first = node;
  }
  if (first == nullptr) return outputs;
  TapeRef tape = make_tape(OpId::function, borrowed, {}, {&first, 1}, place);
  if (!tape) return outputs;  // forward removed the history of the inputs
  Tape& record = *tape.get();
  extras_of(record).custom = std::move(call);
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    results.push_back(
        is_floating(nodes[i]->dtype)
            ? TensorAccess::make(TensorAccess::variable(outputs[i])->node,
                                 lead_to(record, static_cast<std::int64_t>(i), *nodes[i]))
            : outputs[i]);
  }
  return results;
}

Tensor Function::operator()(const Tensor& input, SourceLocation place) const {
  std::vector<Tensor> outputs = (*this)(std::vector<Tensor>{input}, place);
  if (outputs.size() != 1) {
    throw ArgumentError(fmt::format("{}: forward gave {} outputs, the call takes one",
                                    options_->name, outputs.size()));
  }
  return std::move(outputs[0]);
}

}  // namespace volta
