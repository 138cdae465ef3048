// Linear.
#include "volta/nn/linear.h"

#include <cmath>

#include <fmt/format.h>

#include "volta/error.h"
#include "volta/ops.h"
#include "volta/random.h"

namespace volta::nn {

Linear::Linear(std::int64_t in_features, std::int64_t out_features, LinearOptions options) {
  if (in_features < 1 || out_features < 1) {
    throw ArgumentError(
        fmt::format("Linear: sizes must be positive, got ({}, {})", in_features, out_features));
  }
  const double bound = 1 / std::sqrt(static_cast<double>(in_features));
  const TensorOptions made = {.dtype = options.dtype, .device = options.device};
  weight = add_parameter("weight", uniform({out_features, in_features}, -bound, bound, made));
  if (options.bias) bias = add_parameter("bias", uniform({out_features}, -bound, bound, made));
}

Tensor Linear::forward(const Tensor& x) { return linear(x, weight, bias); }

}  // namespace volta::nn
