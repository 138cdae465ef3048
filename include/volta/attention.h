// Attention as PyTorch's scaled_dot_product_attention.
#pragma once

#include <optional>

#include "volta/generator.h"
#include "volta/tensor.h"

namespace volta {

struct AttentionOptions {
  Tensor mask = {};     // bool: true where a query sees a key; of q's dtype: added to the scores
  bool causal = false;  // query i sees keys 0 to i, as far as the mask allows them
  double dropout = 0;   // probability of dropping a weight of a key, while training
  bool training = true;
  std::optional<double> scale = {};  // factor on the scores; 1 / sqrt(d) by default
  Generator generator = {};          // source of the dropout's random numbers
};

// ---- Attention.
// Returns softmax(q k^T scale + mask) v, [batch..., heads, T, dv], for q [batch..., heads, T, d], k
// [batch..., kv_heads, S, d] and v [batch..., kv_heads, S, dv]. Batch axes broadcast; heads and
// batch may be missing. If heads is a multiple of kv_heads, neighbouring heads share keys and
// values. The mask broadcasts to [batch..., heads, T, S], and gradients flow to a mask that is
// added. A query that sees no key gives 0 and gets no gradient. For f16 and bf16 the scores and the
// softmax are computed in f32, and the weights are rounded before they are multiplied by v. The
// memory needed grows with T + S, not with T S.
VOLTA_API Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                              AttentionOptions options = {},
                                              SourceLocation place = SourceLocation::here());

}  // namespace volta
