// Initial values of parameters.
#include "volta/nn/init.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "nn/arguments.h"
#include "volta/autograd.h"
#include "volta/creation.h"
#include "volta/error.h"
#include "volta/ops.h"
#include "volta/random.h"

namespace volta::nn::init {
namespace {

Fans fans_of(const char* op, const Shape& shape) {
  if (shape.rank() < 2) {
    throw ShapeError(
        fmt::format("{}: {} has no fan in and fan out: two axes at least", op, to_string(shape)));
  }
  double window = 1;
  for (int axis = 2; axis < shape.rank(); ++axis) window *= static_cast<double>(shape[axis]);
  return {static_cast<double>(shape[1]) * window, static_cast<double>(shape[0]) * window};
}

// An empty tensor has no fan, so any deviation will do.
double deviation_of(double gain, double fan) { return fan > 0 ? gain / std::sqrt(fan) : 0; }

double xavier_deviation(const char* op, const Shape& shape, XavierOptions xavier) {
  const Fans fan = fans_of(op, shape);
  return deviation_of(xavier.gain, (fan.in + fan.out) / 2);
}

double kaiming_deviation(const char* op, const Shape& shape, KaimingOptions kaiming) {
  const Fans fan = fans_of(op, shape);
  return deviation_of(gain(kaiming.nonlinearity, kaiming.a),
                      kaiming.mode == Fan::in ? fan.in : fan.out);
}

// Draws uniform numbers whose variance is deviation².
Tensor even(const Shape& shape, double deviation, const TensorOptions& options) {
  const double bound = std::sqrt(3.0) * std::abs(deviation);
  return volta::uniform(shape, -bound, bound, options);
}

// Options for drawing normal numbers: f16 and bf16 are drawn in f32 and rounded once, and no
// gradients are recorded.
TensorOptions precise(const TensorOptions& options) {
  const bool half = options.dtype == DType::f16 || options.dtype == DType::bf16;
  return {.dtype = half ? DType::f32 : options.dtype,
          .device = options.device,
          .generator = options.generator};
}

Tensor finished(const Tensor& x, const TensorOptions& options) {
  Tensor result = x.to(options.dtype.value_or(DType::f32));
  if (options.requires_grad) result.set_requires_grad();
  return result;
}

Tensor bell(const Shape& shape, double mean, double deviation, const TensorOptions& options) {
  const AsNamed as_named(options.device);
  Tensor x = randn(shape, precise(options));
  if (deviation != 1) x = x * deviation;
  if (mean != 0) x = x + mean;
  return finished(x, options);
}

// Returns the orthogonal factor of a tall matrix [m, n] of normal numbers by Newton-Schulz
// iterations, which bring its singular values from between 0 and about 1 to 1. The first polynomial
// raises small values by a factor of 3.4 per step until all are between 0.6 and 1.3; the second one
// converges.
Tensor orthogonal_factor(Tensor x) {
  constexpr int kLifting = 16, kConverging = 7;
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
  const double scale =
      std::sqrt(static_cast<double>(x.size(0))) + std::sqrt(static_cast<double>(x.size(1)));
  x = x / scale;
  // Evaluating every step lets all of them share one plan.
  for (int i = 0; i < kLifting; ++i) {
    const Tensor gram = matmul(x.t(), x);
    x = (x * a + matmul(x, gram * b + matmul(gram, gram) * c)).eval();
  }
  for (int i = 0; i < kConverging; ++i) x = (x * 1.5 - matmul(x, matmul(x.t(), x)) * 0.5).eval();
  return x;
}

template <class Make>
void renew(const char* op, const Tensor& tensor, const Generator& generator, Make make) {
  if (!tensor.defined()) throw ArgumentError(fmt::format("{}: the input is not a tensor", op));
  if (!is_floating(tensor.dtype())) {
    throw DTypeError(
        fmt::format("{}: expected a floating-point tensor, got {}", op, name_of(tensor.dtype())));
  }
  const NoGrad no_grad;
  Tensor handle = tensor;  // refers to the same variable
  assign(handle, make(TensorOptions{
                     .dtype = tensor.dtype(), .device = tensor.device(), .generator = generator}));
}

}  // namespace

double gain(Nonlinearity nonlinearity, double slope) {
  switch (nonlinearity) {
    case Nonlinearity::linear:
    case Nonlinearity::sigmoid:
      return 1;
    case Nonlinearity::tanh:
      return 5.0 / 3;
    case Nonlinearity::relu:
      return std::sqrt(2.0);
    case Nonlinearity::leaky_relu:
      return std::sqrt(2 / (1 + slope * slope));
    case Nonlinearity::selu:
      return 0.75;
  }
  return 1;
}

Fans fans(const Shape& shape) { return fans_of("fans", shape); }

Tensor constant(const Shape& shape, double value, const TensorOptions& options) {
  TensorOptions made = options;
  made.dtype = options.dtype.value_or(DType::f32);
  return full(shape, value, made);
}
Tensor uniform(const Shape& shape, double low, double high, const TensorOptions& options) {
  return volta::uniform(shape, low, high, options);
}
Tensor normal(const Shape& shape, double mean, double deviation, const TensorOptions& options) {
  if (!(deviation >= 0))
    throw ArgumentError(fmt::format("normal: a deviation of {} is negative", deviation));
  return bell(shape, mean, deviation, options);
}
Tensor xavier_uniform(const Shape& shape, XavierOptions xavier, const TensorOptions& options) {
  return even(shape, xavier_deviation("xavier_uniform", shape, xavier), options);
}
Tensor xavier_normal(const Shape& shape, XavierOptions xavier, const TensorOptions& options) {
  return bell(shape, 0, xavier_deviation("xavier_normal", shape, xavier), options);
}
Tensor kaiming_uniform(const Shape& shape, KaimingOptions kaiming, const TensorOptions& options) {
  return even(shape, kaiming_deviation("kaiming_uniform", shape, kaiming), options);
}
Tensor kaiming_normal(const Shape& shape, KaimingOptions kaiming, const TensorOptions& options) {
  return bell(shape, 0, kaiming_deviation("kaiming_normal", shape, kaiming), options);
}

Tensor orthogonal(const Shape& shape, OrthogonalOptions orthogonal, const TensorOptions& options) {
  if (shape.rank() < 2) {
    throw ShapeError(
        fmt::format("orthogonal: {} is no matrix: two axes at least", to_string(shape)));
  }
  if (shape.numel() == 0) return zeros(shape, options);
  const NoGrad no_grad;
  const AsNamed as_named(options.device);
  const std::int64_t rows = shape[0], columns = shape.numel() / rows;
  Tensor q = orthogonal_factor(
      randn({std::max(rows, columns), std::min(rows, columns)}, precise(options)));
  if (rows < columns) q = q.t();
  return finished((q * orthogonal.gain).reshape(shape), options);
}

void constant_(const Tensor& tensor, double value) {
  renew("constant_", tensor, {},
        [&](const TensorOptions& made) { return constant(tensor.shape(), value, made); });
}
void uniform_(const Tensor& tensor, double low, double high, const Generator& generator) {
  renew("uniform_", tensor, generator,
        [&](const TensorOptions& made) { return init::uniform(tensor.shape(), low, high, made); });
}
void normal_(const Tensor& tensor, double mean, double deviation, const Generator& generator) {
  renew("normal_", tensor, generator,
        [&](const TensorOptions& made) { return normal(tensor.shape(), mean, deviation, made); });
}
void xavier_uniform_(const Tensor& tensor, XavierOptions xavier, const Generator& generator) {
  renew("xavier_uniform_", tensor, generator,
        [&](const TensorOptions& made) { return xavier_uniform(tensor.shape(), xavier, made); });
}
void xavier_normal_(const Tensor& tensor, XavierOptions xavier, const Generator& generator) {
  renew("xavier_normal_", tensor, generator,
        [&](const TensorOptions& made) { return xavier_normal(tensor.shape(), xavier, made); });
}
void kaiming_uniform_(const Tensor& tensor, KaimingOptions kaiming, const Generator& generator) {
  renew("kaiming_uniform_", tensor, generator,
        [&](const TensorOptions& made) { return kaiming_uniform(tensor.shape(), kaiming, made); });
}
void kaiming_normal_(const Tensor& tensor, KaimingOptions kaiming, const Generator& generator) {
  renew("kaiming_normal_", tensor, generator,
        [&](const TensorOptions& made) { return kaiming_normal(tensor.shape(), kaiming, made); });
}
void orthogonal_(const Tensor& tensor, OrthogonalOptions options, const Generator& generator) {
  renew("orthogonal_", tensor, generator,
        [&](const TensorOptions& made) { return orthogonal(tensor.shape(), options, made); });
}

}  // namespace volta::nn::init
