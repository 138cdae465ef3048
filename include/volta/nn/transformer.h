// Transformer layers: PyTorch's TransformerEncoderLayer and TransformerEncoder, and
// TransformerBlock, the same layer with the defaults of today's language models.
#pragma once

#include <cstdint>
#include <optional>

#include "volta/nn/dropout.h"
#include "volta/nn/layer_norm.h"
#include "volta/nn/linear.h"
#include "volta/nn/multihead_attention.h"
#include "volta/nn/sequential.h"

namespace volta::nn {

enum class TransformerActivation : std::uint8_t { relu, gelu, gelu_tanh, silu };
VOLTA_API Tensor activate(const Tensor& x, TransformerActivation activation);

struct TransformerEncoderLayerOptions {
  std::int64_t dim_feedforward = 2048;
  double dropout = 0.1;  // of attention weights, of the hidden layer, and of both branches' results
  TransformerActivation activation = TransformerActivation::relu;
  double layer_norm_eps = 1e-5;
  bool batch_first = false;
  bool norm_first = false;  // norms before attention and feed-forward, otherwise after the sums
  bool bias = true;
  bool causal = false;  // every call is, whatever its AttendOptions
  std::optional<RotaryOptions> rotary = {};
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // none: where new tensors are made
};

// Attention of x among itself, then two linear layers at every position, each added to its input.
class VOLTA_API TransformerEncoderLayer : public Module {
 public:
  TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead,
                          TransformerEncoderLayerOptions options = {});

  using Module::operator();
  Tensor forward(const Tensor& x) override;
  Tensor operator()(const Tensor& x, const AttendOptions& options, Place place = Place::here());

  MultiheadAttention self_attn;
  Linear linear1;
  Dropout dropout;
  Linear linear2;
  LayerNorm norm1, norm2;
  Dropout dropout1, dropout2;

 private:
  Tensor encode(const Tensor& x, const AttendOptions& options);
  Tensor feed_forward(const Tensor& x);

  TransformerActivation activation_;
  bool norm_first_, causal_;
};

struct TransformerBlockOptions {
  bool causal = false;  // every call is, whatever its AttendOptions
  double dropout = 0;
  bool norm_first = true;
  double mlp_ratio = 4;  // of the hidden layer's size to dim
  TransformerActivation activation = TransformerActivation::gelu;
  bool bias = true;
  double layer_norm_eps = 1e-5;
  std::optional<RotaryOptions> rotary = {};
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // none: where new tensors are made
};

// x [batch, length, dim]; its parameters have TransformerEncoderLayer's names. It is one with other
// defaults and nothing of its own: copies as TransformerEncoderLayer lose nothing.
class VOLTA_API TransformerBlock : public TransformerEncoderLayer {
 public:
  TransformerBlock(std::int64_t dim, std::int64_t heads, TransformerBlockOptions options = {});
};

// Layers one after the other, copies of the one given (with its values, as PyTorch's), then the
// norm if there is one.
class VOLTA_API TransformerEncoder : public Module {
 public:
  TransformerEncoder(const TransformerEncoderLayer& encoder_layer, std::int64_t num_layers,
                     std::optional<LayerNorm> norm = {});

  using Module::operator();
  Tensor forward(const Tensor& x) override;
  Tensor operator()(const Tensor& x, const AttendOptions& options, Place place = Place::here());

  ModuleList<TransformerEncoderLayer> layers;
  std::optional<LayerNorm> norm;

 private:
  Tensor encode(const Tensor& x, const AttendOptions& options);
};

}  // namespace volta::nn
