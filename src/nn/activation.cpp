// Activations as modules.
#include "volta/nn/activation.h"

#include <vector>

#include <fmt/format.h>

#include "nn/arguments.h"
#include "volta/creation.h"
#include "volta/error.h"
#include "volta/ops.h"

namespace volta::nn {
namespace {

// As a clamp, but without a gradient at the bounds themselves.
Tensor between(const Tensor& x, double low, double high) {
  return where(x <= low, low, where(x >= high, high, x));
}

}  // namespace

Tensor ReLU::forward(const Tensor& x) { return relu(x); }
Tensor ReLU6::forward(const Tensor& x) { return between(x, 0, 6); }
Tensor LeakyReLU::forward(const Tensor& x) { return leaky_relu(x, slope_); }
Tensor ELU::forward(const Tensor& x) { return elu(x, alpha_); }
Tensor SELU::forward(const Tensor& x) {
  constexpr double kAlpha = 1.6732632423543772848170429916717;
  constexpr double kScale = 1.0507009873554804934193349852946;
  return elu(x, kAlpha) * kScale;
}
Tensor GELU::forward(const Tensor& x) { return gelu(x, options_); }
Tensor SiLU::forward(const Tensor& x) { return silu(x); }
Tensor Mish::forward(const Tensor& x) { return mish(x); }
Tensor Softplus::forward(const Tensor& x) { return softplus(x, beta_, threshold_); }
Tensor Softsign::forward(const Tensor& x) { return x / (abs(x) + 1); }
Tensor Sigmoid::forward(const Tensor& x) { return sigmoid(x); }
Tensor LogSigmoid::forward(const Tensor& x) { return -softplus(-x); }
Tensor Hardsigmoid::forward(const Tensor& x) { return between(x + 3, 0, 6) / 6; }
Tensor Hardswish::forward(const Tensor& x) { return hardswish(x); }
Tensor Tanh::forward(const Tensor& x) { return tanh(x); }
Tensor Hardtanh::forward(const Tensor& x) { return between(x, min_, max_); }
Tensor Softmax::forward(const Tensor& x) { return softmax(x, axis_); }
Tensor LogSoftmax::forward(const Tensor& x) { return log_softmax(x, axis_); }

PReLU::PReLU(std::int64_t num_parameters, PReLUOptions options) {
  require_positive("PReLU", "num_parameters", num_parameters);
  weight = add_parameter("weight", full({num_parameters}, options.init,
                                        {.dtype = options.dtype, .device = options.device}));
}

Tensor PReLU::forward(const Tensor& x) {
  if (!x.defined()) throw ArgumentError("PReLU: the input is not a tensor");
  const std::int64_t slopes = weight->size(0);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(x.rank()), 1);
  if (slopes > 1) {
    if (x.rank() < 2 || x.shape()[1] != slopes) {
      throw ShapeError(
          fmt::format("PReLU: expected [n, {}, ...], got {}", slopes, to_string(x.shape())));
    }
    sizes[1] = slopes;
  }
  return where(x > 0, x, x * weight->reshape(Shape(sizes)));
}

Hardtanh::Hardtanh(double min_val, double max_val) : min_(min_val), max_(max_val) {
  if (!(min_val < max_val)) {
    throw ArgumentError(
        fmt::format("Hardtanh: min_val {} is not below max_val {}", min_val, max_val));
  }
}

Tensor GLU::forward(const Tensor& x) {
  if (!x.defined()) throw ArgumentError("GLU: the input is not a tensor");
  const int axis = normalize_axis("GLU", axis_, x.shape());
  const std::int64_t half = x.shape()[axis] / 2;
  if (x.shape()[axis] % 2 != 0) {
    throw ShapeError(fmt::format("GLU: axis {} of {} has no halves", axis_, to_string(x.shape())));
  }
  return x.narrow(axis, 0, half) * sigmoid(x.narrow(axis, half, half));
}

}  // namespace volta::nn
