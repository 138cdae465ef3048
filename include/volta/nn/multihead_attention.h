// MultiheadAttention as PyTorch's: projections of queries, keys and values around
// scaled_dot_product_attention.
#pragma once

#include <cstdint>
#include <optional>

#include "volta/nn/linear.h"
#include "volta/nn/module.h"
#include "volta/nn/positional.h"

namespace volta::nn {

struct MultiheadAttentionOptions {
  double dropout = 0;  // of the attention weights, while training
  bool bias = true;
  // Sizes of keys and values where they are not embed_dim: the projections are then three
  // parameters, q_proj_weight, k_proj_weight and v_proj_weight.
  std::optional<std::int64_t> kdim = {}, vdim = {};
  bool batch_first = false;  // inputs are [batch, length, size], otherwise [length, batch, size]
  // Queries and keys are rotated by their positions.
  std::optional<RotaryOptions> rotary = {};
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // none: where new tensors are made
};

// What a query sees. Other than in scaled_dot_product_attention, true hides, as in PyTorch.
struct AttendOptions {
  // [queries, keys] or [batch heads, queries, keys]; bool: true hides a key; floating: added.
  Tensor attn_mask = {};
  // [batch, keys], or [keys] without a batch; bool: true hides a key; floating: added.
  Tensor key_padding_mask = {};
  bool is_causal = false;  // query i sees keys 0 to i, of those that the masks let through
};

struct AttendedWithWeights {
  Tensor output;
  Tensor weights;  // [batch, queries, keys], the mean of the heads; or [batch, heads, ...]
};

// Inputs have two axes (no batch) or three. A query that sees no key gives out_proj's bias.
class VOLTA_API MultiheadAttention : public Module {
 public:
  // Projections start as xavier_uniform, biases as 0, out_proj's weight as Linear's.
  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                     MultiheadAttentionOptions options = {});

  using Module::operator();
  Tensor forward(const Tensor& x) override;  // of x among itself
  Tensor operator()(const Tensor& x, const AttendOptions& options, Place place = Place::here());
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                    const AttendOptions& options = {}, Place place = Place::here());
  // Also the weights, in memory that grows with queries times keys; where dropout is active, those
  // that were applied.
  AttendedWithWeights with_weights(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const AttendOptions& options = {}, bool average = true,
                                   Place place = Place::here());

  Parameter in_proj_weight;  // [3 embed_dim, embed_dim]: of queries, keys, values
  Parameter q_proj_weight, k_proj_weight, v_proj_weight;  // instead, with kdim or vdim
  Parameter in_proj_bias;                                 // [3 embed_dim]; undefined without
  Linear out_proj;

 private:
  struct Heads;
  Heads project(const Tensor& query, const Tensor& key, const Tensor& value) const;
  Heads project_self(const Tensor& x) const;
  Tensor to_heads(const Tensor& projected) const;
  Tensor from_heads(const Tensor& heads);  // and projected
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
