// Transformer layers: PyTorch's TransformerEncoderLayer and TransformerEncoder, and
// TransformerBlock, the same layer with the defaults of current language models.
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
  double dropout = 0.1;  // on attention weights, the hidden layer, and the results of both branches
  TransformerActivation activation = TransformerActivation::relu;
  double layer_norm_eps = 1e-5;
  bool batch_first = false;
  // Norms come before attention and feed-forward instead of after the sums.
  bool norm_first = false;
  bool bias = true;
  bool causal = false;  // all calls are causal, whatever their AttendOptions
  std::optional<RotaryOptions> rotary = {};
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // default: where new tensors are created
};

// Self-attention, then two linear layers at every position; each result is added to its input.
class VOLTA_API TransformerEncoderLayer : public Module {
 public:
  TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead,
                          TransformerEncoderLayerOptions options = {});

  using Module::operator();
  Tensor forward(const Tensor& x) override;
  Tensor operator()(const Tensor& x, const AttendOptions& options,
                    SourceLocation place = SourceLocation::here());

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
  bool causal = false;  // all calls are causal, whatever their AttendOptions
  double dropout = 0;
  bool norm_first = true;
  double mlp_ratio = 4;  // ratio of the hidden layer's size to dim
  TransformerActivation activation = TransformerActivation::gelu;
  bool bias = true;
  double layer_norm_eps = 1e-5;
  std::optional<RotaryOptions> rotary = {};
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // default: where new tensors are created
};

// A TransformerEncoderLayer for x [batch, length, dim] with other defaults. It has the same
// parameter names and no additional members, so a copy as TransformerEncoderLayer loses nothing.
class VOLTA_API TransformerBlock : public TransformerEncoderLayer {
 public:
  TransformerBlock(std::int64_t dim, std::int64_t heads, TransformerBlockOptions options = {});
};

// A stack of copies of the given layer (with its values, as in PyTorch), then the norm, if any.
class VOLTA_API TransformerEncoder : public Module {
 public:
  TransformerEncoder(const TransformerEncoderLayer& encoder_layer, std::int64_t num_layers,
                     std::optional<LayerNorm> norm = {});

  using Module::operator();
  Tensor forward(const Tensor& x) override;
  Tensor operator()(const Tensor& x, const AttendOptions& options,
                    SourceLocation place = SourceLocation::here());

  ModuleList<TransformerEncoderLayer> layers;
  std::optional<LayerNorm> norm;

 private:
  Tensor encode(const Tensor& x, const AttendOptions& options);
};

}  // namespace volta::nn
