// Masks of attention, as MultiheadAttention and scaled_dot_product_attention take them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "volta/tensor.h"

namespace volta::nn {

// [length, length], to be added to scores: 0 where key j is no later than query i, -inf elsewhere.
// f32 unless options say otherwise. Attention that is causal by an option is faster.
VOLTA_API Tensor causal_mask(std::int64_t length, const TensorOptions& options = {});

// [batch, length], bool: true behind the end of each sequence, which is what key_padding_mask
// hides. The length is that of the longest one unless given.
VOLTA_API Tensor padding_mask(std::span<const std::int64_t> lengths, std::int64_t length = 0,
                              std::optional<Device> device = std::nullopt);
// The same of lengths [batch] that lie on a device, where the mask is made.
VOLTA_API Tensor padding_mask(const Tensor& lengths, std::int64_t length);

}  // namespace volta::nn
