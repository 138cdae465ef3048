// Embedding.
#include "volta/nn/embedding.h"

#include <fmt/format.h>

#include "nn/arguments.h"
#include "volta/creation.h"
#include "volta/error.h"
#include "volta/ops.h"
#include "volta/random.h"

namespace volta::nn {
namespace {

std::optional<std::int64_t> checked_padding(std::optional<std::int64_t> id, std::int64_t count) {
  if (!id) return id;
  if (*id < -count || *id >= count) {
    throw ArgumentError(fmt::format("Embedding: padding_idx {} is none of {} rows", *id, count));
  }
  return *id < 0 ? *id + count : *id;
}

Tensor initial_rows(std::int64_t count, std::int64_t dim, const EmbeddingOptions& options) {
  if (count < 1 || dim < 1) {
    throw ArgumentError(fmt::format("Embedding: sizes must be positive, got ({}, {})", count, dim));
  }
  const AsNamed as_named(options.device);
  Tensor rows = randn({count, dim}, {.dtype = options.dtype, .device = options.device});
  if (const auto padding = checked_padding(options.padding_idx, count)) rows[*padding] = 0;
  return rows;
}

}  // namespace

Embedding::Embedding(std::int64_t count, std::int64_t dim, EmbeddingOptions options)
    : Embedding(initial_rows(count, dim, options), options.padding_idx) {}

Embedding::Embedding(const Tensor& rows, std::optional<std::int64_t> padding_idx)
    : weight(add_parameter("weight", rows)),
      padding_idx_(checked_padding(padding_idx, rows.size(0))) {}

Embedding Embedding::from_pretrained(const Tensor& rows, PretrainedEmbeddingOptions options) {
  if (!rows.defined()) throw ArgumentError("Embedding: the pretrained rows are not a tensor");
  if (rows.rank() != 2 || rows.numel() == 0) {
    throw ShapeError(fmt::format("Embedding: pretrained rows must be [count, dim], got {}",
                                 to_string(rows.shape())));
  }
  if (!is_floating(rows.dtype())) {
    throw DTypeError(
        fmt::format("Embedding: pretrained rows must be floating, got {}", name_of(rows.dtype())));
  }
  Embedding result(rows.detach(), options.padding_idx);
  result.requires_grad(!options.freeze);
  return result;
}

Tensor Embedding::forward(const Tensor& ids) {
  Tensor rows = embedding(weight, ids);
  if (!padding_idx_ || !rows.requires_grad()) return rows;
  return where(ids.eq(*padding_idx_).unsqueeze(-1), rows.detach(), rows);
}

}  // namespace volta::nn
