// What attention's nodes are told besides their operands, and how many scores there are at once.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>

#include "volta/export.h"
#include "volta/shape.h"

namespace volta::graph {

struct AttentionSpec {
  bool causal = false, masked = false, dropped = false, tf32 = false, deterministic = true;
  std::int64_t rows = 0;  // queries whose scores are in memory at once
  double scale = 1;       // which is an input as well

  std::array<std::int64_t, 7> attrs() const {
    return {causal, masked, dropped, tf32, rows, std::bit_cast<std::int64_t>(scale), deterministic};
  }
  static AttentionSpec of(std::span<const std::int64_t> attrs) {
    return {.causal = attrs[0] != 0,
            .masked = attrs[1] != 0,
            .dropped = attrs[2] != 0,
            .tf32 = attrs[3] != 0,
            .deterministic = attrs[6] != 0,
            .rows = attrs[4],
            .scale = std::bit_cast<double>(attrs[5])};
  }
  // The nodes' inputs: q, k, v [batch, heads, length, size], scale; the mask, of four axes too;
  // then seed, offset and p.
  static constexpr int kScale = 3, kMask = 4;
  int seed() const { return masked ? 5 : 4; }
  int inputs() const { return seed() + (dropped ? 3 : 0); }
};

// q [batch, heads, T, d] with k [batch, kv_heads, S, d] and v [batch, kv_heads, S, dv].
struct AttentionSizes {
  AttentionSizes(const Shape& q, const Shape& k, const Shape& v)
      : batch(q[0]), heads(q[1]), kv_heads(k[1]), t(q[2]), s(k[2]), d(q[3]), dv(v[3]) {}
  std::int64_t batch, heads, kv_heads, t, s, d, dv;

  // Heads that share keys are rows of one matrix: their number, and that of the matrices.
  std::int64_t group() const { return kv_heads == 0 ? 1 : heads / kv_heads; }
  std::int64_t matrices() const { return batch * kv_heads; }
  Shape scores() const { return {batch, heads, t, s}; }
};

// Scores beyond `bytes` are computed for a part of the queries at a time, but not for fewer than
// `least_rows` of each head, as products of a few rows are slow. For tests; of the calling thread.
struct AttentionLimits {
  std::int64_t bytes = std::int64_t{1} << 26;
  std::int64_t least_rows = 64;
};
VOLTA_BACKEND_API AttentionLimits& attention_limits();

}  // namespace volta::graph
