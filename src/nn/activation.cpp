// Activations as modules.
#include "volta/nn/activation.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "nn/arguments.h"
#include "volta/creation.h"
#include "volta/error.h"
#include "volta/function.h"
#include "volta/ops.h"

namespace volta::nn {
namespace {

// Clamps x to [low, high], but unlike clamp() passes gradients through NaN. The bounds of integer
// inputs are truncated and limited to the range of the dtype.
Tensor between(const char* name, const Tensor& x, double low, double high) {
  if (!x.defined()) throw ArgumentError(fmt::format("{}: the input is not a tensor", name));
  if (x.dtype() == DType::boolean)
    throw DTypeError(fmt::format("{}: expected numbers, got bool", name));
  if (!is_floating(x.dtype())) {
    const auto [least, most] = x.dtype() == DType::u8    ? std::pair(0.0, 255.0)
                               : x.dtype() == DType::i32 ? std::pair(-0x1p31, 0x1p31 - 1)
                                                         : std::pair(-0x1p62, 0x1p62);
    const auto whole = [&](double bound) {
      return static_cast<std::int64_t>(std::clamp(bound, least, most));
    };
    return clamp(x, whole(low), whole(high));
  }
  return where(x <= low, low, where(x >= high, high, x));
}

// A single formula rounds f16 and bf16 only once and selects the gradient by x itself.
Tensor hardsigmoid(const Tensor& x) {
  static const ScalarFunction function({.name = "hardsigmoid",
                                        .parameters = "x",
                                        .formula = "minimum(maximum(x + 3, 0), 6) / 6",
                                        .gradients = {"x > -3 && x < 3 ? g / 6 : 0"}});
  return function(x);
}

// This is one formula for the same reasons as hardsigmoid; elu() has only one of the two factors.
Tensor selu(const Tensor& x) {
  static const ScalarFunction function(
      {.name = "selu",
       .parameters = "x, alpha, scale",
       .formula = "x <= 0 ? scale * alpha * expm1(x) : scale * x",
       .gradients = {"x <= 0 ? g * (scale * alpha * exp(x)) : g * scale"}});
  constexpr double kAlpha = 1.6732632423543772848170429916717;
  constexpr double kScale = 1.0507009873554804934193349852946;
  return function(x, kAlpha, kScale);
}

}  // namespace

Tensor ReLU::forward(const Tensor& x) { return relu(x); }
Tensor ReLU6::forward(const Tensor& x) { return between("ReLU6", x, 0, 6); }
Tensor LeakyReLU::forward(const Tensor& x) { return leaky_relu(x, slope_); }
Tensor ELU::forward(const Tensor& x) { return elu(x, alpha_); }
Tensor SELU::forward(const Tensor& x) { return selu(x); }
Tensor GELU::forward(const Tensor& x) { return gelu(x, options_); }
Tensor SiLU::forward(const Tensor& x) { return silu(x); }
Tensor Mish::forward(const Tensor& x) { return mish(x); }
Tensor Softplus::forward(const Tensor& x) { return softplus(x, beta_, threshold_); }
Tensor Softsign::forward(const Tensor& x) { return x / (abs(x) + 1); }
Tensor Sigmoid::forward(const Tensor& x) { return sigmoid(x); }
Tensor LogSigmoid::forward(const Tensor& x) { return -softplus(-x); }
Tensor Hardsigmoid::forward(const Tensor& x) { return hardsigmoid(x); }
Tensor Hardswish::forward(const Tensor& x) { return hardswish(x); }
Tensor Tanh::forward(const Tensor& x) { return tanh(x); }
Tensor Hardtanh::forward(const Tensor& x) { return between("Hardtanh", x, min_, max_); }
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
