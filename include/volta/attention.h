// Attention as PyTorch's scaled_dot_product_attention.
#pragma once

#include <optional>

#include "volta/generator.h"
#include "volta/tensor.h"

namespace volta {

struct AttentionOptions {
  Tensor mask = {};     // bool: where a query sees a key; of q's dtype: added to the scores
  bool causal = false;  // query i sees keys 0 to i; with a mask: those it lets through
  double dropout = 0;   // of the weights of keys, while training
  bool training = true;
  std::optional<double> scale = {};  // of the scores; 1 / sqrt(d) if none is given
  Generator generator = {};          // that dropout draws from
};

// ---- Attention.
// softmax(q k^T scale + mask) v for q [batch..., heads, T, d], k [batch..., kv_heads, S, d] and
// v [batch..., kv_heads, S, dv]: [batch..., heads, T, dv]. Axes of the batch broadcast; heads and
// batch may be missing. Where heads are a multiple of kv_heads, neighbouring heads share keys and
// values. The mask broadcasts to [batch..., heads, T, S]; gradients flow to one that is added. A
// query that sees no key gives 0, and has no gradient.
// Scores and softmax of halves are f32; the weights are rounded for their product with v.
// The memory needed grows with T + S, not T S.
VOLTA_API Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                              AttentionOptions options = {},
                                              SourceLocation place = SourceLocation::here());

}  // namespace volta
