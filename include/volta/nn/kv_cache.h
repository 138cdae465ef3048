// KVCache: keys and values of all tokens so far, in buffers of fixed capacity.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "volta/device.h"
#include "volta/dtype.h"
#include "volta/tensor.h"

namespace volta::nn {

struct KVCacheOptions {
  std::int64_t batch = 1;
  std::int64_t capacity = 1024;  // in tokens
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // default: where new tensors are created
};

// The keys and values of every layer, each [batch, heads, capacity, size]. Writing one token at any
// position and attending to all earlier ones always uses the same plan, so nothing is planned,
// compiled or allocated per token.
class VOLTA_API KVCache {
 public:
  KVCache(std::int64_t layers, std::int64_t heads, std::int64_t size, KVCacheOptions options = {});

  // Writes k and v, [batch, heads, T, size], of the next T tokens, and returns the attention of
  // their queries to all tokens so far, causal among the new ones. Records no history.
  Tensor attend(std::size_t layer, const Tensor& q, const Tensor& k, const Tensor& v);
  // Called after all layers: adds the new tokens to the length.
  void advance(std::int64_t tokens);
  void reset() { length_ = 0; }  // the next token is the first again

  std::int64_t length() const { return length_; }
  std::int64_t capacity() const { return options_.capacity; }
  std::int64_t batch() const { return options_.batch; }
  std::size_t layers() const { return keys_.size(); }

 private:
  KVCacheOptions options_;
  std::int64_t length_ = 0;
  std::vector<Tensor> keys_, values_;
};

}  // namespace volta::nn
