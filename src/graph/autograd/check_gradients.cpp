// Compares gradients with central differences.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/record/apply.h"
#include "volta/autograd.h"
#include "volta/error.h"
#include "volta/ops.h"

namespace volta {
namespace {

// Fixed, distinct weights in [0.5, 1.5), so that every output element contributes differently.
Tensor weights_like(const Tensor& y) {
  std::vector<double> weights(static_cast<std::size_t>(y.numel()));
  double w = 0.5;
  for (double& value : weights) {
    w = std::fmod(w + 0.6180339887498949, 1.0);
    value = 0.5 + w;
  }
  return from_vector(weights, y.shape(), {.dtype = y.dtype(), .device = y.device()});
}

double weighted(const Tensor& y) {
  const NoGrad no_grad;
  // The sum is computed on the host in double, since the differences are small compared with it.
  const Tensor values = y.to(Device::cpu());
  const std::vector<double> v = values.to_vector<double>(),
                            w = weights_like(values).to_vector<double>();
  return std::inner_product(v.begin(), v.end(), w.begin(), 0.0);
}

struct Defaults {
  double eps, tol;
};
// The defaults for the least precise dtype of the inputs, which determines the error of the
// differences.
Defaults defaults_of(const std::vector<Tensor>& inputs) {
  const auto has = [&](auto is) {
    return std::any_of(inputs.begin(), inputs.end(),
                       [&](const Tensor& input) { return is(input.dtype()); });
  };
  if (has([](DType t) { return t == DType::f16 || t == DType::bf16; })) return {0.125, 0.1};
  if (has([](DType t) { return t == DType::f32; })) return {1e-2, 1e-3};
  return {1e-6, 1e-7};
}

// The index of an element on each axis: "[1, 0]".
std::string position(std::size_t element, const Shape& shape) {
  std::vector<std::int64_t> index(static_cast<std::size_t>(shape.rank()));
  auto rest = static_cast<std::int64_t>(element);
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    index[static_cast<std::size_t>(axis)] = rest % shape[axis];
    rest /= shape[axis];
  }
  return fmt::format("[{}]", fmt::join(index, ", "));
}

}  // namespace

CheckReport check_gradients(const std::function<Tensor(const std::vector<Tensor>&)>& fn,
                            const std::vector<Tensor>& inputs, CheckOptions options) {
  if (inputs.empty()) throw ArgumentError("check_gradients: no inputs");
  for (const Tensor& input : inputs) graph::require_floating("check_gradients", input);
  const Defaults defaults = defaults_of(inputs);
  const double eps = options.eps > 0 ? options.eps : defaults.eps;
  const double tol = options.tol > 0 ? options.tol : defaults.tol;

  // The function is called with gradients enabled, as in training, since it may itself ask for
  // gradients.
  const EnableGrad enable;
  const auto leaves_of = [](const std::vector<Tensor>& values) {
    std::vector<Tensor> leaves;
    for (const Tensor& value : values) leaves.push_back(value.detach().set_requires_grad());
    return leaves;
  };
  const std::vector<Tensor> leaves = leaves_of(inputs);
  const Tensor y = fn(leaves);
  graph::require_defined("check_gradients", y, "the result of the function");
  graph::require_floating("check_gradients", y);
  // The gradients of inputs that the function does not use are 0.
  std::vector<Tensor> gradients(inputs.size());
  if (y.requires_grad())
    gradients = grad({y}, leaves, {.grad_outputs = {weights_like(y)}, .allow_unused = true});

  CheckReport report;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const std::vector<double> values = inputs[k].to_vector<double>();
    const Tensor& g = gradients[k];
    const std::vector<double> gradient =
        g.defined() ? g.to_vector<double>() : std::vector<double>(values.size(), 0.0);
    for (std::size_t i = 0; i < values.size(); ++i) {
      double side[2] = {0, 0}, moved[2] = {0, 0};
      for (int s = 0; s < 2; ++s) {
        std::vector<double> nudged = values;
        nudged[i] += s == 0 ? eps : -eps;
        std::vector<Tensor> arguments = inputs;
        arguments[k] = from_vector(nudged, inputs[k].shape(),
                                   {.dtype = inputs[k].dtype(), .device = inputs[k].device()});
        moved[s] = arguments[k].to_vector<double>()[i];  // the value after rounding to the dtype
        side[s] = weighted(fn(leaves_of(arguments)));
      }
      const double expected = (side[0] - side[1]) / (moved[0] - moved[1]);
      const double error = std::fabs(gradient[i] - expected) / std::max(1.0, std::fabs(expected));
      const bool worse = std::isnan(error) ? !std::isnan(report.worst) : error > report.worst;
      if (!worse && !report.message.empty()) continue;
      report.worst = error;
      report.message = fmt::format(
          "input {} element {}: gradient {}, differences {}, relative error {:.3g} (tolerance "
          "{:.3g})",
          k, position(i, inputs[k].shape()), gradient[i], expected, error, tol);
    }
  }
  report.passed = report.worst <= tol;
  return report;
}

CheckReport check_gradients(const std::function<Tensor(const Tensor&)>& fn, const Tensor& input,
                            CheckOptions options) {
  return check_gradients([&](const std::vector<Tensor>& inputs) { return fn(inputs[0]); },
                         std::vector<Tensor>{input}, options);
}

}  // namespace volta
