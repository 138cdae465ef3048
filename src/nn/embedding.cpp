// Embedding.
#include "volta/nn/embedding.h"

#include <fmt/format.h>

#include "volta/error.h"
#include "volta/ops.h"
#include "volta/random.h"

namespace volta::nn {

Embedding::Embedding(std::int64_t count, std::int64_t dim, EmbeddingOptions options) {
  if (count < 1 || dim < 1) {
    throw ArgumentError(fmt::format("Embedding: sizes must be positive, got ({}, {})", count, dim));
  }
  weight = add_parameter("weight",
                         randn({count, dim}, {.dtype = options.dtype, .device = options.device}));
}

Tensor Embedding::forward(const Tensor& ids) { return embedding(weight, ids); }

}  // namespace volta::nn
