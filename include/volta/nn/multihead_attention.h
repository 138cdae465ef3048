// MultiheadAttention as in PyTorch: projections of queries, keys and values around
// scaled_dot_product_attention.
#pragma once

#include <cstdint>
#include <optional>

#include "volta/nn/linear.h"
#include "volta/nn/module.h"
#include "volta/nn/positional.h"

namespace volta::nn {

struct MultiheadAttentionOptions {
  double dropout = 0;  // on the attention weights, in training
  bool bias = true;
  // Sizes of keys and values if they differ from embed_dim. The projections are then three
  // parameters, q_proj_weight, k_proj_weight and v_proj_weight.
  std::optional<std::int64_t> kdim = {}, vdim = {};
  bool batch_first = false;  // inputs are [batch, length, size] instead of [length, batch, size]
  // Rotates queries and keys by their positions.
  std::optional<RotaryOptions> rotary = {};
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // default: where new tensors are created
};

// Masks of the keys that a query sees. As in PyTorch, true hides a key, the opposite of
// scaled_dot_product_attention.
struct AttendOptions {
  // [queries, keys] or [batch heads, queries, keys]: bool, true hides a key; or floating, added to
  // scores.
  Tensor attn_mask = {};
  // [batch, keys], or [keys] without a batch: bool, true hides a key; or floating, added to scores.
  Tensor key_padding_mask = {};
  bool is_causal = false;  // query i sees only those keys 0 to i that the masks allow
};

struct AttendedWithWeights {
  Tensor output;
  Tensor weights;  // [batch, queries, keys], averaged over heads, or [batch, heads, ...]
};

// Inputs have two axes (without a batch) or three. A query that sees no key gives the bias of
// out_proj.
class VOLTA_API MultiheadAttention : public Module {
 public:
  // Projections start as xavier_uniform, biases as 0, and out_proj's weight as that of Linear.
  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                     MultiheadAttentionOptions options = {});

  using Module::operator();
  Tensor forward(const Tensor& x) override;  // self-attention
  Tensor operator()(const Tensor& x, const AttendOptions& options,
                    SourceLocation place = SourceLocation::here());
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                    const AttendOptions& options = {},
                    SourceLocation place = SourceLocation::here());
  // Also returns the weights, in memory proportional to queries times keys; with active dropout
  // these are the weights after dropout.
  AttendedWithWeights with_weights(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const AttendOptions& options = {}, bool average = true,
                                   SourceLocation place = SourceLocation::here());

  Parameter in_proj_weight;  // [3 embed_dim, embed_dim]: queries, keys, values
  Parameter q_proj_weight, k_proj_weight, v_proj_weight;  // used instead with kdim or vdim
  Parameter in_proj_bias;                                 // [3 embed_dim]; undefined if disabled
  Linear out_proj;

 private:
  struct Heads;
  Heads project(const Tensor& query, const Tensor& key, const Tensor& value) const;
  Heads project_self(const Tensor& x) const;
  Tensor to_heads(const Tensor& projected) const;
  Tensor from_heads(const Tensor& heads);  // includes the output projection
  void rotate(Heads& heads) const;
  void check(const Tensor& query, const Tensor& key, const Tensor& value,
             const AttendOptions& options) const;
  Tensor attend(const Heads& heads, const AttendOptions& options);
  Tensor merged_mask(const Heads& heads, const AttendOptions& options) const;

  std::int64_t embed_dim_, heads_, kdim_, vdim_;
  double dropout_;
  bool batch_first_;
  std::optional<RotaryEmbedding> rotary_;
};

}  // namespace volta::nn
