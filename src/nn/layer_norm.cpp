// LayerNorm.
#include "volta/nn/layer_norm.h"

#include <fmt/format.h>

#include "volta/error.h"
#include "volta/ops.h"

namespace volta::nn {

LayerNorm::LayerNorm(const Shape& normalized, LayerNormOptions options)
    : normalized_(normalized), eps_(options.eps) {
  if (normalized.rank() == 0 || normalized.numel() == 0) {
    throw ArgumentError(
        fmt::format("LayerNorm: nothing to normalize over in shape {}", to_string(normalized)));
  }
  if (!(options.eps >= 0)) {
    throw ArgumentError(fmt::format("LayerNorm: eps must not be negative, got {}", options.eps));
  }
  if (!options.elementwise_affine) return;
  const TensorOptions made = {.dtype = options.dtype, .device = options.device};
  weight = add_parameter("weight", ones(normalized, made));
  if (options.bias) bias = add_parameter("bias", zeros(normalized, made));
}

LayerNorm::LayerNorm(std::int64_t last, LayerNormOptions options)
    : LayerNorm(Shape{last}, options) {}

Tensor LayerNorm::forward(const Tensor& x) {
  return layer_norm(x, normalized_, weight, bias, eps_);
}

}  // namespace volta::nn
