// Optimizer updates: one recorded node for all parameters of a device, assigned in place, submitted as one
// plan with the rest of the step.
#include "volta/optimizer_ops.h"

#include <cmath>
#include <map>

#include <fmt/format.h>

#include "core/registry.h"
#include "graph/apply.h"
#include "graph/segment.h"
#include "volta/autograd.h"
#include "volta/error.h"

namespace volta {

using graph::OpId;

namespace {

// Numbers of parameters that have a gradient, per device and dtype.
using Sets = std::map<std::pair<DeviceEntry*, DType>, std::vector<std::size_t>>;

Sets with_gradients(const char* op, std::span<const Tensor> parameters) {
  Sets sets;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    graph::require_defined(op, parameters[i], "a parameter");
    const Tensor g = parameters[i].grad();
    if (!g.defined()) continue;
    if (g.shape() != parameters[i].shape() || g.dtype() != parameters[i].dtype() ||
        g.device() != parameters[i].device()) {
      throw ArgumentError(fmt::format("{}: the gradient of parameter {} is {} {} on {}, the parameter {} {} on {}", op, i,
                                      name_of(g.dtype()), to_string(g.shape()), to_string(g.device()),
                                      name_of(parameters[i].dtype()), to_string(parameters[i].shape()),
                                      to_string(parameters[i].device())));
    }
    sets[{&graph::entry_of(parameters[i]), g.dtype()}].push_back(i);
  }
  return sets;
}

void put(const Tensor& variable, const Tensor& value) {
  graph::assign_node(variable, graph::TensorAccess::variable(value)->node);
}

void submit_all(const Sets& sets) {
  for (const auto& [where, numbers] : sets) graph::submit(*where.first);
}

}  // namespace

void sgd_step(std::span<const Tensor> parameters, std::span<Tensor> momentum, const SgdUpdate& update,
              Place place) {
  const NoGrad no_grad;
  const bool uses_momentum = update.momentum != 0;
  if (uses_momentum && momentum.size() != parameters.size()) {
    throw ArgumentError(fmt::format("sgd: {} momentum buffers for {} parameters", momentum.size(), parameters.size()));
  }
  const Sets sets = with_gradients("sgd", parameters);
  for (const auto& [where, numbers] : sets) {
    // A parameter's first momentum is its gradient; those parameters are a node of their own.
    for (const bool first : {true, false}) {
      std::vector<std::size_t> chosen;
      for (const std::size_t i : numbers) {
        if ((uses_momentum && !momentum[i].defined()) == first) chosen.push_back(i);
      }
      if (chosen.empty()) continue;
      std::vector<Tensor> inputs;
      std::vector<Shape> shapes;
      for (const std::size_t i : chosen) {
        inputs.push_back(parameters[i]);
        inputs.push_back(parameters[i].grad());
        if (uses_momentum && !first) inputs.push_back(momentum[i]);
        shapes.insert(shapes.end(), uses_momentum ? 2 : 1, parameters[i].shape());
      }
      for (const double value : {update.lr, update.momentum, 1 - update.dampening, update.weight_decay}) {
        inputs.push_back(graph::number(value, where.second, where.first->device));
      }
      const std::int64_t attrs[] = {static_cast<std::int64_t>(chosen.size()), uses_momentum, update.nesterov,
                                    update.weight_decay != 0, first};
      const std::vector<DType> dtypes(shapes.size(), where.second);
      const auto results = graph::apply_multi(OpId::sgd, inputs, attrs, shapes, dtypes, place);
      for (std::size_t k = 0; k < chosen.size(); ++k) {
        const std::size_t i = chosen[k];
        put(parameters[i], results[(uses_momentum ? 2 : 1) * k]);
        if (!uses_momentum) continue;
        if (first) {
          momentum[i] = results[2 * k + 1];
        } else {
          put(momentum[i], results[2 * k + 1]);
        }
      }
    }
  }
  submit_all(sets);
}

void adam_step(std::span<const Tensor> parameters, std::span<Tensor> first, std::span<Tensor> second,
               std::span<Tensor> steps, const AdamUpdate& update, Place place) {
  const NoGrad no_grad;
  if (first.size() != parameters.size() || second.size() != parameters.size() || steps.size() != parameters.size()) {
    throw ArgumentError(fmt::format("adam: state for {}, {} and {} of {} parameters", first.size(), second.size(),
                                    steps.size(), parameters.size()));
  }
  const Sets sets = with_gradients("adam", parameters);
  for (const auto& [where, numbers] : sets) {
    std::vector<Tensor> inputs;
    std::vector<Shape> shapes;
    std::vector<DType> dtypes;
    inputs.reserve(5 * numbers.size() + 8);
    for (const std::size_t i : numbers) {
      for (const Tensor& tensor : {parameters[i], parameters[i].grad(), first[i], second[i], steps[i]}) {
        graph::require_defined("adam", tensor, "a state");
        inputs.push_back(tensor);
      }
      shapes.insert(shapes.end(), 3, parameters[i].shape());
      shapes.push_back(Shape{});
      dtypes.insert(dtypes.end(), 3, where.second);
      dtypes.push_back(DType::f32);
    }
    for (const double value : {update.lr, 1 - update.beta1, update.beta2, 1 - update.beta2, update.eps,
                               update.weight_decay, std::log(update.beta1), std::log(update.beta2)}) {
      inputs.push_back(graph::number(value, where.second, where.first->device));
    }
    const std::int64_t decay = update.weight_decay == 0 ? 0 : update.decoupled ? 2 : 1;
    const std::int64_t attrs[] = {static_cast<std::int64_t>(numbers.size()), decay};
    const auto results = graph::apply_multi(OpId::adam, inputs, attrs, shapes, dtypes, place);
    for (std::size_t k = 0; k < numbers.size(); ++k) {
      const std::size_t i = numbers[k];
      put(parameters[i], results[4 * k]);
      put(first[i], results[4 * k + 1]);
      put(second[i], results[4 * k + 2]);
      put(steps[i], results[4 * k + 3]);
    }
  }
  submit_all(sets);
}

}  // namespace volta
