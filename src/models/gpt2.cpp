// GPT-2's layers.
#include "volta/models/gpt2.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "nn/arguments.h"
#include "volta/attention.h"
#include "volta/autograd.h"
#include "volta/error.h"
#include "volta/execution.h"
#include "volta/indexing.h"
#include "volta/nn/init.h"
#include "volta/ops.h"

namespace volta::models {
namespace {

// Returns vocab_size after checking all sizes, so that no layer is built from a bad one.
std::int64_t checked_vocab(const GPT2Config& config) {
  const auto require = [](const char* name, std::int64_t size, std::int64_t least,
                          std::int64_t most) {
    nn::require_range("GPT2", name, size, least, most);
  };
  require("vocab_size", config.vocab_size, 1, GPT2Config::kMaxVocab);
  require("n_positions", config.n_positions, 1, GPT2Config::kMaxPositions);
  require("n_embd", config.n_embd, 1, GPT2Config::kMaxWidth);
  require("n_layer", config.n_layer, 1, GPT2Config::kMaxLayers);
  require("n_head", config.n_head, 1, GPT2Config::kMaxWidth);
  require("n_inner", config.n_inner, 0, GPT2Config::kMaxWidth);
  if (config.n_embd % config.n_head != 0) {
    throw ArgumentError(fmt::format("GPT2: n_embd {} is not a multiple of n_head {}", config.n_embd,
                                    config.n_head));
  }
  return config.vocab_size;
}

std::int64_t inner_size(const GPT2Config& config) {
  return config.n_inner != 0 ? config.n_inner : 4 * config.n_embd;
}

double residual_deviation(const GPT2Config& config) {
  return config.initializer_range / std::sqrt(2 * static_cast<double>(config.n_layer));
}

nn::LayerNormOptions norm_options(const GPT2Config& config, GPT2Options options) {
  return {.eps = config.layer_norm_epsilon, .dtype = options.dtype, .device = options.device};
}

void check_ids(const Tensor& ids) {
  if (!ids.defined()) throw ArgumentError("GPT2: ids is not a tensor");
  if (ids.rank() != 2 || ids.numel() == 0) {
    throw ShapeError(
        fmt::format("GPT2: ids must be [batch, length], got {}", to_string(ids.shape())));
  }
  if (is_floating(ids.dtype()))
    throw DTypeError(fmt::format("GPT2: ids are integers, got {}", name_of(ids.dtype())));
}

}  // namespace

Conv1D::Conv1D(std::int64_t inputs, std::int64_t outputs, double deviation, GPT2Options options) {
  const TensorOptions made = {.dtype = options.dtype, .device = options.device};
  weight = add_parameter("weight", nn::init::normal({inputs, outputs}, 0, deviation, made));
  bias = add_parameter("bias", zeros({outputs}, made));
}

Tensor Conv1D::forward(const Tensor& x) { return linear(x, weight->t(), bias); }

// Each tensor is [batch, heads, length, head size].
struct GPT2Attention::Heads {
  Tensor q, k, v;
};

GPT2Attention::GPT2Attention(const GPT2Config& config, GPT2Options options)
    : c_attn(config.n_embd, 3 * config.n_embd, config.initializer_range, options),
      c_proj(config.n_embd, config.n_embd, residual_deviation(config), options),
      resid_dropout(config.resid_pdrop),
      heads_(config.n_head),
      attn_pdrop_(config.attn_pdrop) {
  add("c_attn", c_attn);
  add("c_proj", c_proj);
  add("resid_dropout", resid_dropout);
}

GPT2Attention::Heads GPT2Attention::heads_of(const Tensor& x) {
  const Tensor all = c_attn(x).unflatten(-1, {3, heads_, -1});
  const auto part = [&](std::int64_t number) {
    return all.narrow(2, number, 1).squeeze(2).transpose(1, 2);
  };
  return {part(0), part(1), part(2)};
}

Tensor GPT2Attention::joined(const Tensor& heads) {
  return resid_dropout(c_proj(heads.transpose(1, 2).flatten(-2, -1)));
}

Tensor GPT2Attention::forward(const Tensor& x) {
  const Heads heads = heads_of(x);
  return joined(scaled_dot_product_attention(
      heads.q, heads.k, heads.v,
      {.causal = true, .dropout = attn_pdrop_, .training = is_training()}));
}

Tensor GPT2Attention::operator()(const Tensor& x, nn::KVCache& cache, std::size_t layer,
                                 SourceLocation place) {
  return call(place, [&] {
    const Heads heads = heads_of(x);
    Tensor y = joined(cache.attend(layer, heads.q, heads.k, heads.v).to(x.dtype()));
    called({x}, {y});
    return y;
  });
}

GPT2MLP::GPT2MLP(const GPT2Config& config, GPT2Options options)
    : c_fc(config.n_embd, inner_size(config), config.initializer_range, options),
      c_proj(inner_size(config), config.n_embd, residual_deviation(config), options),
      dropout(config.resid_pdrop),
      activation_(config.activation) {
  add("c_fc", c_fc);
  add("c_proj", c_proj);
  add("dropout", dropout);
}

Tensor GPT2MLP::forward(const Tensor& x) { return dropout(c_proj(activate(c_fc(x), activation_))); }

GPT2Block::GPT2Block(const GPT2Config& config, GPT2Options options)
    : ln_1(config.n_embd, norm_options(config, options)),
      attn(config, options),
      ln_2(config.n_embd, norm_options(config, options)),
      mlp(config, options) {
  add("ln_1", ln_1);
  add("attn", attn);
  add("ln_2", ln_2);
  add("mlp", mlp);
}

Tensor GPT2Block::forward(const Tensor& x) {
  const Tensor attended = x + attn(ln_1(x));
  return attended + mlp(ln_2(attended));
}

Tensor GPT2Block::operator()(const Tensor& x, nn::KVCache& cache, std::size_t layer,
                             SourceLocation place) {
  return call(place, [&] {
    const Tensor attended = x + attn(ln_1(x), cache, layer);
    Tensor y = attended + mlp(ln_2(attended));
    called({x}, {y});
    return y;
  });
}

GPT2Transformer::GPT2Transformer(const GPT2Config& config, GPT2Options options)
    : wte(checked_vocab(config), config.n_embd, {.dtype = options.dtype, .device = options.device}),
      wpe(config.n_positions, config.n_embd, {.dtype = options.dtype, .device = options.device}),
      drop(config.embd_pdrop),
      ln_f(config.n_embd, norm_options(config, options)) {
  nn::init::normal_(wte.weight, 0, config.initializer_range);
  nn::init::normal_(wpe.weight, 0, config.initializer_range);
  for (std::int64_t i = 0; i < config.n_layer; ++i) h.append(GPT2Block(config, options));
  add("wte", wte);
  add("wpe", wpe);
  add("drop", drop);
  add("h", h);
  add("ln_f", ln_f);
}

Tensor GPT2Transformer::embedded(const Tensor& ids, std::int64_t first) {
  check_ids(ids);
  const std::int64_t length = ids.size(1), limit = wpe.weight->size(0);
  if (length > limit - first) {
    throw ArgumentError(fmt::format("GPT2: positions {} to {} are beyond the model's {}", first,
                                    first + length - 1, limit));
  }
  const Tensor positions = arange(length, {.dtype = DType::i64, .device = ids.device()});
  return drop(wte(ids) + wpe(first == 0 ? positions : positions + first));
}

Tensor GPT2Transformer::forward(const Tensor& ids) {
  Tensor x = embedded(ids, 0);
  for (GPT2Block& block : h) x = block(x);
  return ln_f(x);
}

Tensor GPT2Transformer::operator()(const Tensor& ids, nn::KVCache& cache, SourceLocation place) {
  return call(place, [&] {
    Tensor x = embedded(ids, cache.length());
    for (std::size_t i = 0; i < h.size(); ++i) x = h[i](x, cache, i);
    cache.advance(ids.size(1));
    return ln_f(x);
  });
}

GPT2::GPT2(const GPT2Config& config, GPT2Options options)
    : transformer(config, options),
      lm_head(config.n_embd, config.vocab_size,
              {.bias = false, .dtype = options.dtype, .device = options.device}),
      config_(config) {
  add("transformer", transformer);
  add("lm_head", lm_head);
  if (config.tie_word_embeddings) {
    lm_head.weight.tie(transformer.wte.weight);
  } else {
    nn::init::normal_(lm_head.weight, 0, config.initializer_range);
  }
}

Tensor GPT2::forward(const Tensor& ids) { return lm_head(transformer(ids)); }

nn::KVCache GPT2::make_cache(std::int64_t batch, std::int64_t capacity) const {
  if (capacity > config_.n_positions) {
    throw ArgumentError(fmt::format("GPT2: a cache of {} tokens for a model of {} positions",
                                    capacity, config_.n_positions));
  }
  const Tensor& weight = transformer.wte.weight;
  return {config_.n_layer,
          config_.n_head,
          config_.n_embd / config_.n_head,
          {.batch = batch,
           .capacity = capacity == 0 ? config_.n_positions : capacity,
           .dtype = weight.dtype(),
           .device = weight.device()}};
}

Tensor GPT2::step(const Tensor& ids, nn::KVCache& cache) {
  check_ids(ids);
  if (ids.size(0) != cache.batch() || cache.layers() != transformer.h.size()) {
    throw ShapeError(
        fmt::format("GPT2: ids {} and {} layers do not fit a cache of batch {}, {} layers",
                    to_string(ids.shape()), transformer.h.size(), cache.batch(), cache.layers()));
  }
  const NoGrad no_grad;
  const Tensor x = transformer(ids, cache);
  return lm_head(x.narrow(1, ids.size(1) - 1, 1).squeeze(1));
}

Tensor GPT2::generate(const Tensor& ids, const GenerateOptions& options) {
  text::check_options(options);
  check_ids(ids);
  const std::int64_t batch = ids.size(0), given = ids.size(1), total = given + options.tokens;
  if (total > config_.n_positions) {
    throw ArgumentError(
        fmt::format("generate: {} tokens and {} more are beyond the model's {} positions", given,
                    options.tokens, config_.n_positions));
  }
  if (options.on_token && batch != 1) {
    throw ArgumentError(
        fmt::format("generate: on_token is told the tokens of one row, not of {}", batch));
  }
  if (options.tokens == 0) return ids;
  const NoGrad no_grad;
  // The capacity is rounded up, so that prompts of similar lengths reuse the same plans.
  constexpr std::int64_t kUnit = 128;
  nn::KVCache cache =
      make_cache(batch, std::min(config_.n_positions, (total + kUnit - 1) / kUnit * kUnit));
  const text::SampleOptions sampling = text::sample_options(options);
  const TensorOptions integers = {.dtype = DType::i64, .device = ids.device()};
  Tensor result = concat({ids.to(DType::i64), zeros({batch, options.tokens}, integers)}, 1);
  Tensor met = zeros({batch}, {.dtype = DType::boolean, .device = ids.device()});
  Tensor next = ids;
  for (std::int64_t at = given; at < total; ++at) {
    next = text::sample_tokens(step(next, cache), sampling);
    if (options.stop) {
      next = where(met, *options.stop, next);
      met = logical_or(met, eq(next, *options.stop));
    }
    result.index({Slice{}, at}) = next;
    next = next.unsqueeze(1);
    submit(ids.device());
    const bool goes_on = !options.on_token || options.on_token({.id = next.item<std::int64_t>()});
    if (!goes_on || (options.stop && all(met).item() != 0)) return result.narrow(1, 0, at + 1);
  }
  return result;
}

}  // namespace volta::models
