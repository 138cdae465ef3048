// KVCache.
#include "volta/nn/kv_cache.h"

#include <fmt/format.h>

#include "nn/arguments.h"
#include "volta/attention.h"
#include "volta/autograd.h"
#include "volta/error.h"
#include "volta/indexing.h"
#include "volta/ops.h"

namespace volta::nn {
namespace {

// The position of a single token is an argument of the plan, so all positions share one plan. A
// slice would be part of the plan.
void write(Tensor& whole, const Tensor& part, std::int64_t at) {
  if (part.size(2) == 1) {
    whole.index({Slice{}, Slice{}, at}) = part.squeeze(2);
  } else {
    whole.slice(2, at, at + part.size(2)) = part;
  }
}

}  // namespace

KVCache::KVCache(std::int64_t layers, std::int64_t heads, std::int64_t size, KVCacheOptions options)
    : options_(options) {
  if (layers < 1 || heads < 1 || size < 1 || options.batch < 1 || options.capacity < 1) {
    throw ArgumentError(
        fmt::format("KVCache: sizes must be positive, got {} layers, {} heads of {}, a batch of "
                    "{}, room for {}",
                    layers, heads, size, options.batch, options.capacity));
  }
  require_range("KVCache", "layers", layers, 1, kMaxLayers);
  const Shape shape = {options.batch, heads, options.capacity, size};
  for (std::int64_t i = 0; i < layers; ++i) {
    keys_.push_back(zeros(shape, {.dtype = options.dtype, .device = options.device}));
    values_.push_back(zeros(shape, {.dtype = options.dtype, .device = options.device}));
  }
}

Tensor KVCache::attend(std::size_t layer, const Tensor& q, const Tensor& k, const Tensor& v) {
  if (layer >= keys_.size())
    throw ArgumentError(fmt::format("KVCache: there is no layer {} of {}", layer, keys_.size()));
  const Shape& whole = keys_[layer].shape();
  const std::int64_t tokens = k.rank() == 4 ? k.size(2) : 0;
  const Shape wanted = {whole[0], whole[1], tokens, whole[3]};
  if (tokens == 0 || q.shape() != wanted || k.shape() != wanted || v.shape() != wanted) {
    throw ShapeError(fmt::format("KVCache: expected [{}, {}, tokens, {}], got {}, {} and {}",
                                 whole[0], whole[1], whole[3], to_string(q.shape()),
                                 to_string(k.shape()), to_string(v.shape())));
  }
  if (tokens > capacity() - length_) {
    throw ArgumentError(fmt::format("KVCache: {} tokens and {} more are beyond the capacity of {}",
                                    length_, tokens, capacity()));
  }
  const NoGrad no_grad;
  write(keys_[layer], k, length_);
  write(values_[layer], v, length_);
  if (length_ == 0 && tokens > 1) return scaled_dot_product_attention(q, k, v, {.causal = true});
  const TensorOptions integers = {.dtype = DType::i64, .device = q.device()};
  const Tensor seen =
      arange(capacity(), integers) <= (arange(tokens, integers) + length_).unsqueeze(1);
  return scaled_dot_product_attention(q.to(options_.dtype), keys_[layer], values_[layer],
                                      {.mask = seen});
}

void KVCache::advance(std::int64_t tokens) {
  if (tokens < 0 || tokens > capacity() - length_) {
    throw ArgumentError(fmt::format("KVCache: {} tokens and {} more are beyond the capacity of {}",
                                    length_, tokens, capacity()));
  }
  length_ += tokens;
}

}  // namespace volta::nn
