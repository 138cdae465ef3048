// Transformer layers.
#include "volta/nn/transformer.h"

#include <cmath>

#include <fmt/format.h>

#include "nn/arguments.h"
#include "volta/error.h"
#include "volta/ops.h"

namespace volta::nn {
namespace {

TransformerEncoderLayerOptions layer_options(std::int64_t dim,
                                             const TransformerBlockOptions& options) {
  const double hidden = std::round(static_cast<double>(dim) * options.mlp_ratio);
  if (!(hidden >= 1 && hidden < 0x1p53)) {
    throw ArgumentError(fmt::format("TransformerBlock: a hidden layer of {} times {} is no size",
                                    options.mlp_ratio, dim));
  }
  return {.dim_feedforward = static_cast<std::int64_t>(hidden),
          .dropout = options.dropout,
          .activation = options.activation,
          .layer_norm_eps = options.layer_norm_eps,
          .batch_first = true,
          .norm_first = options.norm_first,
          .bias = options.bias,
          .causal = options.causal,
          .rotary = options.rotary,
          .dtype = options.dtype,
          .device = options.device};
}

}  // namespace

Tensor activate(const Tensor& x, TransformerActivation activation) {
  switch (activation) {
    case TransformerActivation::relu:
      return relu(x);
    case TransformerActivation::gelu:
      return gelu(x);
    case TransformerActivation::gelu_tanh:
      return gelu(x, {.tanh = true});
    case TransformerActivation::silu:
      return silu(x);
  }
  throw ArgumentError("activate: unknown activation");
}

TransformerEncoderLayer::TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead,
                                                 TransformerEncoderLayerOptions options)
    : self_attn(d_model, nhead,
                {.dropout = options.dropout,
                 .bias = options.bias,
                 .batch_first = options.batch_first,
                 .rotary = options.rotary,
                 .dtype = options.dtype,
                 .device = options.device}),
      linear1(d_model, options.dim_feedforward,
              {.bias = options.bias, .dtype = options.dtype, .device = options.device}),
      dropout(options.dropout),
      linear2(options.dim_feedforward, d_model,
              {.bias = options.bias, .dtype = options.dtype, .device = options.device}),
      norm1(d_model, {.eps = options.layer_norm_eps,
                      .bias = options.bias,
                      .dtype = options.dtype,
                      .device = options.device}),
      norm2(d_model, {.eps = options.layer_norm_eps,
                      .bias = options.bias,
                      .dtype = options.dtype,
                      .device = options.device}),
      dropout1(options.dropout),
      dropout2(options.dropout),
      activation_(options.activation),
      norm_first_(options.norm_first),
      causal_(options.causal) {
  add("self_attn", self_attn);
  add("linear1", linear1);
  add("dropout", dropout);
  add("linear2", linear2);
  add("norm1", norm1);
  add("norm2", norm2);
  add("dropout1", dropout1);
  add("dropout2", dropout2);
}

Tensor TransformerEncoderLayer::feed_forward(const Tensor& x) {
  return dropout2(linear2(dropout(activate(linear1(x), activation_))));
}

Tensor TransformerEncoderLayer::forward(const Tensor& x) { return encode(x, {}); }

Tensor TransformerEncoderLayer::operator()(const Tensor& x, const AttendOptions& options,
                                           SourceLocation place) {
  return call(place, [&] {
    Tensor y = encode(x, options);
    called({x}, {y});
    return y;
  });
}

Tensor TransformerEncoderLayer::encode(const Tensor& x, const AttendOptions& given) {
  AttendOptions options = given;
  options.is_causal |= causal_;
  if (norm_first_) {
    const Tensor attended = x + dropout1(self_attn(norm1(x), options));
    return attended + feed_forward(norm2(attended));
  }
  const Tensor attended = norm1(x + dropout1(self_attn(x, options)));
  return norm2(attended + feed_forward(attended));
}

TransformerBlock::TransformerBlock(std::int64_t dim, std::int64_t heads,
                                   TransformerBlockOptions options)
    : TransformerEncoderLayer(dim, heads, layer_options(dim, options)) {}

TransformerEncoder::TransformerEncoder(const TransformerEncoderLayer& encoder_layer,
                                       std::int64_t num_layers, std::optional<LayerNorm> last_norm)
    : norm(std::move(last_norm)) {
  require_range("TransformerEncoder", "num_layers", num_layers, 0, kMaxLayers);
  add("layers", layers);
  for (std::int64_t i = 0; i < num_layers; ++i) layers.append(clone(encoder_layer));
  if (norm) add("norm", *norm);
}

Tensor TransformerEncoder::forward(const Tensor& x) { return encode(x, {}); }

Tensor TransformerEncoder::operator()(const Tensor& x, const AttendOptions& options,
                                      SourceLocation place) {
  return call(place, [&] {
    Tensor y = encode(x, options);
    called({x}, {y});
    return y;
  });
}

Tensor TransformerEncoder::encode(const Tensor& x, const AttendOptions& options) {
  Tensor value = x;
  for (TransformerEncoderLayer& layer : layers) value = layer(value, options);
  return norm ? (*norm)(value) : value;
}

}  // namespace volta::nn
