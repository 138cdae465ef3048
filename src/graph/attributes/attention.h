// The attributes of attention's nodes, and the limit on the scores that are in memory at once.
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
  std::int64_t rows = 0;  // number of queries whose scores are in memory at once
  double scale = 1;       // also an input of the node

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
  // Positions of the inputs: q, k, v [batch, heads, length, size], scale, then the mask, which has
  // four axes too, then seed, offset and p.
  static constexpr int kScale = 3, kMask = 4;
  int seed() const { return masked ? 5 : 4; }
  int inputs() const { return seed() + (dropped ? 3 : 0); }
};

// Sizes of q [batch, heads, T, d], k [batch, kv_heads, S, d] and v [batch, kv_heads, S, dv].
// The planner has shapes of its own.
template <class AnyShape>
struct AttentionSizesOf {
  using Size = decltype(AnyShape()[0]);
  AttentionSizesOf(const AnyShape& q, const AnyShape& k, const AnyShape& v)
      : batch(q[0]), heads(q[1]), kv_heads(k[1]), t(q[2]), s(k[2]), d(q[3]), dv(v[3]) {}
  Size batch, heads, kv_heads, t, s, d, dv;

  // Query heads that share keys become rows of one matrix. `group` is the number of such heads,
  // `matrices` the number of matrices.
  Size group() const { return kv_heads == 0 ? Size(1) : heads / kv_heads; }
  Size matrices() const { return batch * kv_heads; }
  AnyShape scores() const { return {batch, heads, t, s}; }
};
using AttentionSizes = AttentionSizesOf<Shape>;

// If the scores take more than `bytes`, they are computed for a part of the queries at a time, but
// for at least `least_rows` queries of each head, since products of a few rows are slow. Tests
// change these limits, which belong to the calling thread.
struct AttentionLimits {
  std::int64_t bytes = std::int64_t{1} << 26;
  std::int64_t least_rows = 64;
};
VOLTA_BACKEND_API AttentionLimits& attention_limits();

}  // namespace volta::graph
