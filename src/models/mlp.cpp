// MLP.
#include "volta/models/mlp.h"

#include <fmt/format.h>

#include "volta/error.h"
#include "volta/nn/activation.h"
#include "volta/nn/dropout.h"
#include "volta/nn/linear.h"

namespace volta::models {

MLP::MLP(const std::vector<std::int64_t>& sizes, MLPOptions options) {
  if (sizes.size() < 2) {
    throw ArgumentError(
        fmt::format("MLP: sizes of the input and of the output, got {} sizes", sizes.size()));
  }
  add("layers", layers);
  const auto activate = [&] {
    switch (options.activation) {
      case Activation::relu:
        return layers.append(nn::ReLU());
      case Activation::tanh:
        return layers.append(nn::Tanh());
      case Activation::gelu:
        return layers.append(nn::GELU());
      case Activation::silu:
        return layers.append(nn::SiLU());
    }
    return layers;
  };
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    layers.append(
        nn::Linear(sizes[i], sizes[i + 1], {.dtype = options.dtype, .device = options.device}));
    if (i + 2 == sizes.size()) break;
    activate();
    if (options.dropout > 0) layers.append(nn::Dropout(options.dropout));
  }
}

Tensor MLP::forward(const Tensor& x) { return layers(x.rank() > 2 ? x.flatten(1) : x); }

}  // namespace volta::models
