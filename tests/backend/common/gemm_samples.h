// Candidate cuts of a product, and products with all kinds of layouts.
#pragma once

#include <cstdint>

#include "backend/common/gemm_launches.h"

namespace volta::testing {

using kernel::GemmTile;

inline constexpr GemmTile kLarge{.rows = 128, .columns = 128, .depth = 8, .thread_tile = 8};
inline constexpr GemmTile kMiddle{.rows = 64, .columns = 64, .depth = 8, .thread_tile = 8};
inline constexpr GemmTile kSmall{.rows = 32, .columns = 32, .depth = 16, .thread_tile = 4};
inline constexpr GemmTile kTall{.rows = 64, .columns = 16, .depth = 16, .thread_tile = 4};
inline constexpr GemmTile kFlat{.rows = 16, .columns = 64, .depth = 16, .thread_tile = 4};

constexpr GemmTile with_slices(GemmTile tile, int slices) {
  tile.slices = slices;
  return tile;
}
constexpr GemmTile with_depth(GemmTile tile, int depth) {
  tile.depth = depth;
  return tile;
}

// A product whose rows are `padding` elements longer than necessary and start after `padding`
// elements.
inline plan::MatmulStep product(std::int64_t m, std::int64_t n, std::int64_t k,
                                bool transpose_a = false, bool transpose_b = false,
                                std::int64_t batch = 1, std::int64_t padding = 0,
                                DType dtype = DType::f32) {
  plan::MatmulStep s;
  s.dtype = dtype;
  s.m = m, s.n = n, s.k = k, s.batch = batch;
  s.transpose_a = transpose_a, s.transpose_b = transpose_b;
  s.lda = (transpose_a ? m : k) + padding;
  s.ldb = (transpose_b ? k : n) + padding;
  s.ldc = n + padding;
  s.stride_a = (transpose_a ? k : m) * s.lda + padding;
  s.stride_b = (transpose_b ? n : k) * s.ldb + padding;
  s.stride_c = m * s.ldc + padding;
  s.offset_a = padding, s.offset_b = 2 * padding;
  s.label = "matmul";
  return s;
}

}  // namespace volta::testing
