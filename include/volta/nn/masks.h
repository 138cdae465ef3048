// Attention masks for MultiheadAttention and scaled_dot_product_attention.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "volta/tensor.h"

namespace volta::nn {

// A mask [length, length] to add to scores: 0 where key j is not later than query i, -inf
// elsewhere; f32 unless options say otherwise. The `causal` option of attention is faster than this
// mask.
VOLTA_API Tensor causal_mask(std::int64_t length, const TensorOptions& options = {});

// A bool mask [batch, length] that is true beyond the end of each sequence, for key_padding_mask.
// The length defaults to that of the longest sequence.
VOLTA_API Tensor padding_mask(std::span<const std::int64_t> lengths, std::int64_t length = 0,
                              std::optional<Device> device = std::nullopt);
// Makes the mask on the device of `lengths` [batch].
VOLTA_API Tensor padding_mask(const Tensor& lengths, std::int64_t length);

}  // namespace volta::nn
