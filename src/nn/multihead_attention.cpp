// MultiheadAttention.
#include "volta/nn/multihead_attention.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "nn/arguments.h"
#include "volta/attention.h"
#include "volta/error.h"
#include "volta/nn/init.h"
#include "volta/ops.h"

namespace volta::nn {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Returns embed_dim after checking both sizes, so that no layer is built from a bad one.
std::int64_t checked_width(std::int64_t embed_dim, std::int64_t num_heads) {
  if (embed_dim < 1 || num_heads < 1 || embed_dim % num_heads != 0) {
    throw ArgumentError(
        fmt::format("MultiheadAttention: embed_dim {} must be a positive multiple of num_heads {}",
                    embed_dim, num_heads));
  }
  require_range("MultiheadAttention", "embed_dim", embed_dim, 1, kMaxSize);
  return embed_dim;
}

void check_mask_dtype(const char* what, const Tensor& mask) {
  if (mask.dtype() != DType::boolean && !is_floating(mask.dtype())) {
    throw DTypeError(fmt::format("MultiheadAttention: {} must be bool or floating, got {}", what,
                                 name_of(mask.dtype())));
  }
}

// Converts a boolean or floating-point mask to one that is added to the scores.
Tensor additive(const Tensor& mask, DType dtype) {
  if (mask.dtype() != DType::boolean) return mask.to(dtype);
  return masked_fill(zeros(mask.shape(), {.dtype = dtype, .device = mask.device()}), mask,
                     -kInfinity);
}

// Softmax along the last axis. Weights are 0 where scores are -inf, even if a whole row is -inf.
Tensor weights_of(const Tensor& scores) {
  const Tensor hidden = eq(scores, -kInfinity);
  const double lowest = scores.dtype() == DType::f16 ? -6e4 : -1e30;
  return masked_fill(softmax(masked_fill(scores, hidden, lowest), -1), hidden, 0);
}

}  // namespace

// Each tensor is [batch, heads, length, head size], or has no batch axis.
struct MultiheadAttention::Heads {
  Tensor q, k, v;
};

MultiheadAttention::MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                                       MultiheadAttentionOptions options)
    : out_proj(checked_width(embed_dim, num_heads), embed_dim,
               {.bias = options.bias, .dtype = options.dtype, .device = options.device}),
      embed_dim_(embed_dim),
      heads_(num_heads),
      kdim_(options.kdim.value_or(embed_dim)),
      vdim_(options.vdim.value_or(embed_dim)),
      dropout_(options.dropout),
      batch_first_(options.batch_first) {
  if (kdim_ < 1 || vdim_ < 1) {
    throw ArgumentError(fmt::format(
        "MultiheadAttention: kdim and vdim must be positive, got {} and {}", kdim_, vdim_));
  }
  if (!(dropout_ >= 0 && dropout_ <= 1)) {
    throw ArgumentError(
        fmt::format("MultiheadAttention: dropout must be in [0, 1], got {}", dropout_));
  }
  if (options.rotary) rotary_.emplace(embed_dim / num_heads, *options.rotary);
  const TensorOptions made = {.dtype = options.dtype, .device = options.device};
  if (kdim_ == embed_dim && vdim_ == embed_dim) {
    in_proj_weight =
        add_parameter("in_proj_weight", init::xavier_uniform({3 * embed_dim, embed_dim}, {}, made));
  } else {
    q_proj_weight =
        add_parameter("q_proj_weight", init::xavier_uniform({embed_dim, embed_dim}, {}, made));
    k_proj_weight =
        add_parameter("k_proj_weight", init::xavier_uniform({embed_dim, kdim_}, {}, made));
    v_proj_weight =
        add_parameter("v_proj_weight", init::xavier_uniform({embed_dim, vdim_}, {}, made));
  }
  if (options.bias) {
    in_proj_bias = add_parameter("in_proj_bias", zeros({3 * embed_dim}, made));
    init::constant_(out_proj.bias, 0);
  }
  add("out_proj", out_proj);
}

void MultiheadAttention::check(const Tensor& query, const Tensor& key, const Tensor& value,
                               const AttendOptions& options) const {
  const Tensor* inputs[] = {&query, &key, &value};
  const char* names[] = {"query", "key", "value"};
  const std::int64_t sizes[] = {embed_dim_, kdim_, vdim_};
  for (int i = 0; i < 3; ++i) {
    if (!inputs[i]->defined())
      throw ArgumentError(fmt::format("MultiheadAttention: {} is not a tensor", names[i]));
    const Shape& shape = inputs[i]->shape();
    if (shape.rank() != query.rank() || shape.rank() < 2 || shape.rank() > 3 ||
        shape[shape.rank() - 1] != sizes[i]) {
      throw ShapeError(fmt::format("MultiheadAttention: {} must be [{}{}], got {}", names[i],
                                   query.rank() == 2 ? "length, "
                                   : batch_first_    ? "batch, length, "
                                                     : "length, batch, ",
                                   sizes[i], to_string(shape)));
    }
  }
  const bool batched = query.rank() == 3;
  const int length_axis = batched && batch_first_ ? 1 : 0, batch_axis = 1 - length_axis;
  const std::int64_t keys = key.size(length_axis), queries = query.size(length_axis);
  const std::int64_t batch = batched ? query.size(batch_axis) : 1;
  if (value.size(length_axis) != keys ||
      (batched && (key.size(batch_axis) != batch || value.size(batch_axis) != batch))) {
    throw ShapeError(
        fmt::format("MultiheadAttention: query {}, key {} and value {} differ in batch, or the "
                    "latter in length",
                    to_string(query.shape()), to_string(key.shape()), to_string(value.shape())));
  }
  if (const Tensor& mask = options.attn_mask; mask.defined()) {
    check_mask_dtype("attn_mask", mask);
    const Shape shared = {queries, keys}, each = {batch * heads_, queries, keys};
    if (mask.shape() != shared && mask.shape() != each) {
      throw ShapeError(fmt::format("MultiheadAttention: attn_mask must be {} or {}, got {}",
                                   to_string(shared), to_string(each), to_string(mask.shape())));
    }
  }
  if (const Tensor& mask = options.key_padding_mask; mask.defined()) {
    check_mask_dtype("key_padding_mask", mask);
    const Shape wanted = batched ? Shape{batch, keys} : Shape{keys};
    if (mask.shape() != wanted) {
      throw ShapeError(fmt::format("MultiheadAttention: key_padding_mask must be {}, got {}",
                                   to_string(wanted), to_string(mask.shape())));
    }
  }
}

Tensor MultiheadAttention::to_heads(const Tensor& projected) const {
  const Tensor split = projected.unflatten(-1, {heads_, embed_dim_ / heads_});
  if (split.rank() == 3) return split.transpose(0, 1);
  return batch_first_ ? split.transpose(1, 2) : split.permute({1, 2, 0, 3});
}

Tensor MultiheadAttention::from_heads(const Tensor& heads) {
  const Tensor ordered = heads.rank() == 3 ? heads.transpose(0, 1)
                         : batch_first_    ? heads.transpose(1, 2)
                                           : heads.permute({2, 0, 1, 3});
  return out_proj(ordered.flatten(-2, -1));
}

void MultiheadAttention::rotate(Heads& heads) const {
  if (!rotary_) return;
  heads.q = (*rotary_)(heads.q, std::int64_t{0});
  heads.k = (*rotary_)(heads.k, std::int64_t{0});
}

MultiheadAttention::Heads MultiheadAttention::project(const Tensor& query, const Tensor& key,
                                                      const Tensor& value) const {
  const auto part = [&](const Parameter& whole, std::int64_t number) {
    return whole.defined() ? whole->narrow(0, number * embed_dim_, embed_dim_) : Tensor();
  };
  const bool together = in_proj_weight.defined();
  const Parameter* separate[] = {&q_proj_weight, &k_proj_weight, &v_proj_weight};
  const auto projected = [&](const Tensor& x, int number) {
    const Tensor weight = together ? part(in_proj_weight, number) : **separate[number];
    return to_heads(linear(x, weight, part(in_proj_bias, number)));
  };
  Heads heads{projected(query, 0), projected(key, 1), projected(value, 2)};
  rotate(heads);
  return heads;
}

MultiheadAttention::Heads MultiheadAttention::project_self(const Tensor& x) const {
  if (!in_proj_weight.defined()) return project(x, x, x);
  const Tensor all = linear(x, in_proj_weight, in_proj_bias);
  const auto part = [&](std::int64_t number) {
    return to_heads(all.narrow(-1, number * embed_dim_, embed_dim_));
  };
  Heads heads{part(0), part(1), part(2)};
  rotate(heads);
  return heads;
}

// Combines both masks into one that broadcasts to [batch, heads, queries, keys]. If both are bool,
// so is the result, and true means that a key is visible.
Tensor MultiheadAttention::merged_mask(const Heads& heads, const AttendOptions& options) const {
  Tensor among = options.attn_mask, padding = options.key_padding_mask;
  if (among.defined() && among.rank() == 3 && heads.q.rank() == 4) {
    among = among.reshape({heads.q.size(0), heads_, heads.q.size(2), heads.k.size(2)});
  }
  if (padding.defined() && padding.rank() == 2) padding = padding.unsqueeze(1).unsqueeze(1);
  const auto hides = [](const Tensor& mask) {
    return !mask.defined() || mask.dtype() == DType::boolean;
  };
  if (hides(among) && hides(padding)) {
    if (!among.defined()) return padding.defined() ? logical_not(padding) : Tensor();
    return logical_not(padding.defined() ? logical_or(among, padding) : among);
  }
  const DType dtype = heads.q.dtype();
  if (!among.defined()) return additive(padding, dtype);
  if (!padding.defined()) return additive(among, dtype);
  return additive(among, dtype) + additive(padding, dtype);
}

Tensor MultiheadAttention::attend(const Heads& heads, const AttendOptions& options) {
  return from_heads(scaled_dot_product_attention(heads.q, heads.k, heads.v,
                                                 {.mask = merged_mask(heads, options),
                                                  .causal = options.is_causal,
                                                  .dropout = dropout_,
                                                  .training = is_training()}));
}

Tensor MultiheadAttention::forward(const Tensor& x) {
  check(x, x, x, {});
  return attend(project_self(x), {});
}

Tensor MultiheadAttention::operator()(const Tensor& x, const AttendOptions& options,
                                      SourceLocation place) {
  return call(place, [&] {
    check(x, x, x, options);
    Tensor output = attend(project_self(x), options);
    called({x}, {output});
    return output;
  });
}

Tensor MultiheadAttention::operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                      const AttendOptions& options, SourceLocation place) {
  return call(place, [&] {
    check(query, key, value, options);
    Tensor output = attend(project(query, key, value), options);
    called({query, key, value}, {output});
    return output;
  });
}

AttendedWithWeights MultiheadAttention::with_weights(const Tensor& query, const Tensor& key,
                                                     const Tensor& value,
                                                     const AttendOptions& options, bool average,
                                                     SourceLocation place) {
  return call(place, [&]() -> AttendedWithWeights {
    check(query, key, value, options);
    const Heads heads = project(query, key, value);
    const double scale = 1 / std::sqrt(static_cast<double>(heads.q.size(-1)));
    Tensor scores = matmul(heads.q * scale, heads.k.transpose(-1, -2));
    if (const Tensor mask = merged_mask(heads, options); mask.defined()) {
      scores = mask.dtype() == DType::boolean ? masked_fill(scores, logical_not(mask), -kInfinity)
                                              : scores + mask;
    }
    if (options.is_causal) {
      const auto positions = [&](const Tensor& of) {
        return arange(of.size(-2), {.dtype = DType::i32, .device = of.device()});
      };
      scores =
          masked_fill(scores, positions(heads.k) > positions(heads.q).unsqueeze(1), -kInfinity);
    }
    const Tensor weights = dropout(weights_of(scores), dropout_, is_training());
    const Tensor output = from_heads(matmul(weights, heads.v));
    called({query, key, value}, {output});
    return {output, average ? weights.mean(-3) : weights};
  });
}

}  // namespace volta::nn
