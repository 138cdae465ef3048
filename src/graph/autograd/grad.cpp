// grad(), hooks, retained gradients.
#include <fmt/format.h>

#include "graph/autograd/autograd.h"
#include "graph/record/apply.h"
#include "graph/record/tape_extras.h"
#include "volta/autograd.h"
#include "volta/error.h"

namespace volta {

using graph::TensorAccess;

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         GradOptions options, SourceLocation place) {
  if (outputs.empty()) throw ArgumentError("grad: no outputs");
  if (inputs.empty()) throw ArgumentError("grad: no inputs");
  if (!options.grad_outputs.empty() && options.grad_outputs.size() != outputs.size()) {
    throw ArgumentError(fmt::format("grad: {} grad_outputs for {} outputs",
                                    options.grad_outputs.size(), outputs.size()));
  }
  std::vector<Tensor> starts;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& output = outputs[i];
    graph::require_defined("grad", output, "an output");
    if (!output.requires_grad()) {
      throw ArgumentError(fmt::format(
          "grad: output {} has no history (no input required a gradient, or it was recorded under "
          "NoGrad)",
          i));
    }
    const Tensor given = options.grad_outputs.empty() ? Tensor() : options.grad_outputs[i];
    if (!given.defined()) {
      if (output.numel() != 1) {
        throw ShapeError(fmt::format("grad: output {} is {}, not a scalar; pass grad_outputs", i,
                                     to_string(output.shape())));
      }
      starts.push_back(graph::filled(output.shape(), 1, output.dtype(), output.device()));
      continue;
    }
    if (given.shape() != output.shape()) {
      throw ShapeError(fmt::format("grad: grad_outputs {} is {}, the output {}", i,
                                   to_string(given.shape()), to_string(output.shape())));
    }
    starts.push_back(given.to(output.dtype(), place).to(output.device(), place));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    graph::require_defined("grad", inputs[i], "an input");
    if (!inputs[i].requires_grad())
      throw ArgumentError(fmt::format("grad: input {} does not require a gradient", i));
  }
  std::vector<Tensor> results =
      graph::collect_gradients(outputs, starts, inputs,
                               {.retain_graph = options.retain_graph.value_or(options.create_graph),
                                .create_graph = options.create_graph},
                               place);
  for (std::size_t i = 0; i < results.size() && !options.allow_unused; ++i) {
    if (results[i].defined()) continue;
    throw ArgumentError(fmt::format(
        "grad: the outputs do not depend on input {}; pass {{.allow_unused = true}} for "
        "an undefined gradient",
        i));
  }
  return results;
}

Tensor grad(const Tensor& output, const Tensor& input, GradOptions options, SourceLocation place) {
  return grad(std::vector<Tensor>{output}, std::vector<Tensor>{input}, std::move(options),
              place)[0];
}

void HookHandle::remove() {
  if (const auto hook = hook_.lock()) hook->call = nullptr;
  hook_.reset();
}

HookHandle Tensor::add_hook(std::function<Tensor(const Tensor&)> hook) const {
  graph::require_defined("register_hook", *this, "this");
  graph::Variable* variable = TensorAccess::variable(*this);
  if (!requires_grad())
    throw ArgumentError("register_hook: the tensor does not require a gradient");
  using Call = std::function<Tensor(const Tensor&)>;
  auto made = std::make_shared<graph::GradientHook>(
      graph::GradientHook{std::make_shared<const Call>(std::move(hook))});
  if (variable->tape) {
    graph::extras_of(*variable->tape.get()).hooks.add(made);
  } else {
    auto& hooks = variable->own_extras().hooks;
    if (!hooks) hooks = std::make_shared<graph::GradientHooks>();
    hooks->add(made);
  }
  HookHandle handle;
  handle.hook_ = made;
  return handle;
}

void Tensor::retain_grad() const {
  graph::require_defined("retain_grad", *this, "this");
  graph::Variable* variable = TensorAccess::variable(*this);
  if (!requires_grad()) throw ArgumentError("retain_grad: the tensor does not require a gradient");
  if (variable->tape) graph::extras_of(*variable->tape.get()).retains = variable;
}

}  // namespace volta
