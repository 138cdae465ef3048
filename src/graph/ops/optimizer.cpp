// Optimizer updates: one recorded node updates all parameters of a device, and is submitted as one
// plan with the rest of the step.
#include "volta/detail/optimizer_ops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/registry.h"
#include "core/thread_owned.h"
#include "graph/attributes/optimizer.h"
#include "graph/record/apply.h"
#include "graph/record/recorder.h"
#include "volta/autograd.h"
#include "volta/error.h"

namespace volta {

using graph::OpId;

namespace {

// One update being recorded: its input nodes and the results to assign. It is kept per thread, so
// that steps in a steady state allocate nothing.
struct Update {
  std::vector<graph::Node*> inputs, outputs;
  std::vector<Shape> shapes;
  std::vector<DType> dtypes;
  std::vector<std::size_t> chosen;  // indices of the parameters
  std::vector<std::int64_t> attrs;
  // The betas of the last step and their logarithms.
  std::pair<double, double> logarithms[2] = {{1, 0}, {1, 0}};

  void clear() {
    inputs.clear();
    shapes.clear();
    dtypes.clear();
    chosen.clear();
  }
  void input(const char* op, const Tensor& tensor, const char* what) {
    graph::require_defined(op, tensor, what);
    inputs.push_back(graph::node_of(tensor));
  }
  void output(const Shape& shape, DType dtype) {
    shapes.push_back(shape);
    dtypes.push_back(dtype);
  }
  // Appends the numbers of the formula, which live until the update is recorded, and GradScaler's
  // tensors.
  void record(OpId op, std::span<const double> numbers, std::span<const std::int64_t> attrs,
              const ScaledStep& scaled, DType dtype, DeviceEntry& entry, SourceLocation place) {
    const std::size_t first = inputs.size(), end = first + numbers.size();
    for (const double value : numbers) {
      inputs.push_back(graph::make_constant(argument(value), 0, Shape{}, dtype, entry));
    }
    const auto drop_numbers = [&] {
      for (std::size_t i = first; i < end; ++i) graph::unhold(inputs[i]);
    };
    outputs.resize(shapes.size());
    graph::begin_step(entry);  // gradients may come from the user or an earlier submit
    try {
      const Tensor here[] = {on_device(scaled.found_inf, entry, place),
                             on_device(scaled.inverse_scale, entry, place)};
      for (const Tensor& number : here) {
        if (number.defined()) inputs.push_back(graph::node_of(number));
      }
      graph::record_multi({op, dtypes[0], inputs, attrs, shapes[0], place}, entry, shapes, dtypes,
                          outputs);
    } catch (...) {
      drop_numbers();
      throw;
    }
    for (graph::Node* output : outputs) output->is_state = true;
    drop_numbers();
  }

 private:
  // A schedule may produce a number that is a literal of the plan's key, which would need another
  // plan. Such a number is replaced by its neighbour, or by -0, which are arguments and equal in
  // f32.
  static double argument(double value) {
    if (!graph::is_key_literal(value)) return value;
    return value == 0 ? -0.0 : std::nextafter(value, 0.0);
  }
  static Tensor on_device(const Tensor& number, DeviceEntry& entry, SourceLocation place) {
    return number.defined() ? number.to(entry.device, place) : number;
  }
};
std::int64_t scaling_of(const ScaledStep& scaled) {
  if (!scaled.found_inf.defined()) return graph::kUnscaled;
  return scaled.inverse_scale.defined() ? graph::kChecksAndUnscales : graph::kChecks;
}
Update& update_of_thread() { return ThreadOwned<Update>::get(); }

// The devices and dtypes of the parameters that have gradients; usually there is only one pair.
using Where = std::pair<DeviceEntry*, DType>;
std::vector<Where> places(const char* op, std::span<const Tensor> parameters) {
  std::vector<Where> found;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    graph::require_defined(op, parameters[i], "a parameter");
    const Tensor& g = graph::TensorAccess::variable(parameters[i])->grad;
    if (!g.defined()) continue;
    const graph::Node *p = graph::node_of(parameters[i]), *d = graph::node_of(g);
    if (d->shape != p->shape || d->dtype != p->dtype || d->entry != p->entry) {
      throw ArgumentError(
          fmt::format("{}: the gradient of parameter {} is {} {} on {}, the parameter {} {} on {}",
                      op, i, name_of(d->dtype), to_string(d->shape), to_string(d->entry->device),
                      name_of(p->dtype), to_string(p->shape), to_string(p->entry->device)));
    }
    const Where where{p->entry, p->dtype};
    if (std::find(found.begin(), found.end(), where) == found.end()) found.push_back(where);
  }
  return found;
}

void submit_all(const std::vector<Where>& where) {
  for (const Where& here : where) graph::submit(*here.first);
}

bool lives_at(const Tensor& parameter, const Where& where) {
  const graph::Variable* variable = graph::TensorAccess::variable(parameter);
  return variable->grad.defined() && variable->node->entry == where.first &&
         variable->node->dtype == where.second;
}

}  // namespace

void sgd_step(std::span<const Tensor> parameters, std::span<Tensor> momentum,
              const SgdUpdate& options, SourceLocation place) {
  const bool uses_momentum = options.momentum != 0;
  if (uses_momentum && momentum.size() != parameters.size()) {
    throw ArgumentError(fmt::format("sgd: {} momentum buffers for {} parameters", momentum.size(),
                                    parameters.size()));
  }
  const std::vector<Where> where = places("sgd", parameters);
  std::vector<bool> is_first(parameters.size(), false);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    is_first[i] = uses_momentum && !momentum[i].defined();
  Update& update = update_of_thread();
  for (const Where& here : where) {
    // The first momentum of a parameter is its gradient, so parameters in their first step get a
    // node of their own.
    for (const bool first : {true, false}) {
      update.clear();
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        if (!lives_at(parameters[i], here) || is_first[i] != first) continue;
        update.chosen.push_back(i);
        update.input("sgd", parameters[i], "a parameter");
        update.input("sgd", graph::TensorAccess::variable(parameters[i])->grad, "a gradient");
        if (uses_momentum && !first) update.input("sgd", momentum[i], "a momentum buffer");
        for (int k = 0; k < (uses_momentum ? 2 : 1); ++k)
          update.output(parameters[i].shape(), here.second);
      }
      if (update.chosen.empty()) continue;
      const std::int64_t attrs[] = {static_cast<std::int64_t>(update.chosen.size()),
                                    uses_momentum,
                                    options.nesterov,
                                    options.weight_decay != 0,
                                    options.dampening != 0,
                                    first,
                                    options.maximize,
                                    scaling_of(options.scaled)};
      const double numbers[] = {options.lr, options.momentum, 1 - options.dampening,
                                options.weight_decay};
      update.record(OpId::sgd, numbers, attrs, options.scaled, here.second, *here.first, place);
      std::size_t next = 0;
      for (const std::size_t i : update.chosen) {
        graph::assign_node(parameters[i], graph::Held::adopt(update.outputs[next++]),
                           graph::Assignment::Update);
        if (!uses_momentum) continue;
        graph::Held buffer = graph::Held::adopt(update.outputs[next++]);
        if (first) {
          momentum[i] = graph::TensorAccess::from_node(buffer.get());
        } else {
          graph::assign_node(momentum[i], std::move(buffer), graph::Assignment::Update);
        }
      }
    }
  }
  if (!options.submits) return;
  try {
    submit_all(where);
  } catch (...) {  // the momentum did not exist before this step
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (is_first[i]) momentum[i] = Tensor();
    }
    throw;
  }
}

namespace {

// One kind of optimizer state, with a tensor per parameter.
struct StateList {
  const char* what;
  std::span<Tensor> tensors;
  bool is_count = false;  // an f32 scalar; other states have the parameter's shape
};

// An update in which all parameters have the same kinds of state. The operation's results are
// assigned to the values and the states, in this order.
struct Formula {
  OpId op;
  const char* name;
  std::span<const StateList> states;
  std::span<const double> numbers;
  std::span<const std::int64_t> flags;  // follow the number of parameters
  const ScaledStep& scaled;
  bool submits;
};

void check_states(const Formula& formula, std::size_t parameters) {
  for (const StateList& list : formula.states) {
    if (list.tensors.size() != parameters) {
      throw ArgumentError(fmt::format("{}: {} for {} of {} parameters", formula.name, list.what,
                                      list.tensors.size(), parameters));
    }
  }
}

void step(const Formula& formula, std::span<const Tensor> parameters, SourceLocation place) {
  check_states(formula, parameters.size());
  const std::vector<Where> where = places(formula.name, parameters);
  Update& update = update_of_thread();
  for (const Where& here : where) {
    update.clear();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!lives_at(parameters[i], here)) continue;
      update.chosen.push_back(i);
      update.input(formula.name, parameters[i], "a parameter");
      update.input(formula.name, graph::TensorAccess::variable(parameters[i])->grad, "a gradient");
      update.output(parameters[i].shape(), here.second);
      for (const StateList& list : formula.states) {
        update.input(formula.name, list.tensors[i], list.what);
        update.output(list.is_count ? Shape{} : parameters[i].shape(),
                      list.is_count ? DType::f32 : here.second);
      }
    }
    update.attrs.assign(1, static_cast<std::int64_t>(update.chosen.size()));
    update.attrs.insert(update.attrs.end(), formula.flags.begin(), formula.flags.end());
    update.attrs.push_back(scaling_of(formula.scaled));
    update.record(formula.op, formula.numbers, update.attrs, formula.scaled, here.second,
                  *here.first, place);
    std::size_t next = 0;
    for (const std::size_t i : update.chosen) {
      graph::assign_node(parameters[i], graph::Held::adopt(update.outputs[next++]),
                         graph::Assignment::Update);
      for (const StateList& list : formula.states)
        graph::assign_node(list.tensors[i], graph::Held::adopt(update.outputs[next++]),
                           graph::Assignment::Update);
    }
  }
  if (formula.submits) submit_all(where);
}

}  // namespace

namespace {

// The logarithm of a number, cached because the number rarely changes.
double remembered_log(double number, std::pair<double, double>& last) {
  if (last.first != number) last = {number, std::log(number)};
  return last.second;
}

}  // namespace

void adam_step(std::span<const Tensor> parameters, std::span<Tensor> first,
               std::span<Tensor> second, std::span<Tensor> steps, const AdamUpdate& options,
               SourceLocation place) {
  const bool amsgrad = !options.largest.empty();
  const StateList states[] = {{"first moments", first},
                              {"second moments", second},
                              {"step counts", steps, true},
                              {"largest second moments", options.largest}};
  auto& last = update_of_thread().logarithms;
  const double numbers[] = {options.lr,
                            1 - options.beta1,
                            options.beta2,
                            1 - options.beta2,
                            options.eps,
                            options.weight_decay,
                            remembered_log(options.beta1, last[0]),
                            remembered_log(options.beta2, last[1])};
  const std::int64_t decay = options.weight_decay == 0 ? 0 : options.decoupled ? 2 : 1;
  const std::int64_t flags[] = {decay, amsgrad, options.maximize};
  step({OpId::adam, "adam", std::span(states).first(amsgrad ? 4 : 3), numbers, flags,
        options.scaled, options.submits},
       parameters, place);
}

void rmsprop_step(std::span<const Tensor> parameters, std::span<Tensor> squares,
                  const RmspropUpdate& options, SourceLocation place) {
  const bool centered = !options.averages.empty(), momentum = !options.buffers.empty();
  std::vector<StateList> states = {{"averages of squares", squares}};
  if (centered) states.push_back({"averages of gradients", options.averages});
  if (momentum) states.push_back({"momentum buffers", options.buffers});
  const double numbers[] = {options.lr,  options.alpha,    1 - options.alpha,
                            options.eps, options.momentum, options.weight_decay};
  const std::int64_t flags[] = {options.weight_decay != 0, centered, momentum, options.maximize};
  step({OpId::rmsprop, "rmsprop", states, numbers, flags, options.scaled, options.submits},
       parameters, place);
}

void adagrad_step(std::span<const Tensor> parameters, std::span<Tensor> sums,
                  std::span<Tensor> steps, const AdagradUpdate& options, SourceLocation place) {
  const StateList states[] = {{"sums of squares", sums}, {"step counts", steps, true}};
  const double numbers[] = {options.lr, options.lr_decay, options.eps, options.weight_decay};
  const std::int64_t flags[] = {options.weight_decay != 0, options.maximize};
  step({OpId::adagrad, "adagrad", states, numbers, flags, options.scaled, options.submits},
       parameters, place);
}

void lion_step(std::span<const Tensor> parameters, std::span<Tensor> averages,
               const LionUpdate& options, SourceLocation place) {
  const StateList states[] = {{"averages of gradients", averages}};
  const double numbers[] = {options.lr, 1 - options.beta1, 1 - options.beta2, options.weight_decay};
  const std::int64_t flags[] = {options.weight_decay != 0};
  step({OpId::lion, "lion", states, numbers, flags, options.scaled, options.submits}, parameters,
       place);
}

void muon_step(std::span<const Tensor> parameters, std::span<Tensor> momentum,
               const MuonUpdate& options, SourceLocation place) {
  for (const Tensor& parameter : parameters) {
    graph::require_defined("muon", parameter, "a parameter");
    if (parameter.rank() != 2) {
      throw ShapeError(
          fmt::format("muon: a parameter is {}, no matrix", to_string(parameter.shape())));
    }
  }
  const StateList states[] = {{"momentum buffers", momentum}};
  const auto& [a, b, c] = options.coefficients;
  const double numbers[] = {
      options.lr, options.momentum, 1 - options.momentum, options.weight_decay, options.eps, a, b,
      c};
  const std::int64_t flags[] = {options.nesterov, options.steps, options.matches_adamw};
  step({OpId::muon, "muon", states, numbers, flags, options.scaled, options.submits}, parameters,
       place);
}

const void* variable_of(const Tensor& tensor) {
  return tensor.defined() ? graph::TensorAccess::variable(tensor) : nullptr;
}

namespace {

// Checks the tensors of a reduction over all of them, and returns its dtype.
DType check_all(const char* op, std::span<const Tensor> tensors) {
  if (tensors.empty()) throw ArgumentError(fmt::format("{}: there are no tensors", op));
  DType dtype = DType::f32;
  for (const Tensor& tensor : tensors) {
    graph::require_floating(op, tensor);
    if (tensor.dtype() == DType::f64) dtype = DType::f64;
    if (tensor.device() != tensors[0].device()) {
      throw DeviceError(fmt::format("{}: tensors on {} and {}", op, to_string(tensors[0].device()),
                                    to_string(tensor.device())));
    }
  }
  return dtype;
}

}  // namespace

Tensor any_nonfinite(std::span<const Tensor> tensors, SourceLocation place) {
  const NoGrad no_grad;
  check_all("any_nonfinite", tensors);
  return graph::apply(OpId::any_nonfinite, tensors, {}, Shape{}, DType::f32, place);
}

Tensor total_norm(std::span<const Tensor> tensors, double p, SourceLocation place) {
  const NoGrad no_grad;
  if (!(p > 0)) throw ArgumentError(fmt::format("total_norm: p = {} is not positive", p));
  const DType dtype = check_all("total_norm", tensors);
  const auto bits = std::bit_cast<std::int64_t>(p);
  return graph::apply(OpId::total_norm, tensors, {&bits, 1}, Shape{}, dtype, place);
}

}  // namespace volta
