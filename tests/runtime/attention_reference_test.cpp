// Attention on the host, which VOLTA_CHECK compares with a library's, against the operation itself.
#include "plan/calls/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "volta/volta.h"

namespace volta {
namespace {

struct Sizes {
  std::int64_t batch, heads, kv_heads, queries, keys, size;
  bool causal;
};

using Bytes = std::vector<std::byte>;

// The bytes of f32 values, or their upper halves as bf16.
Bytes bytes_of(const std::vector<float>& values, DType dtype) {
  const std::size_t size = size_of(dtype);
  Bytes bytes(values.size() * size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    const auto upper = static_cast<std::uint16_t>(bits >> 16);
    std::memcpy(bytes.data() + i * size, size == 4 ? static_cast<const void*>(&bits) : &upper,
                size);
  }
  return bytes;
}
std::vector<float> values_of(const Bytes& bytes, DType dtype) {
  const std::size_t size = size_of(dtype);
  std::vector<float> values(bytes.size() / size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t bits = 0;
    std::memcpy(reinterpret_cast<std::byte*>(&bits) + (4 - size), bytes.data() + i * size, size);
    values[i] = std::bit_cast<float>(bits);
  }
  return values;
}

// [batch, heads, length, size] in memory after some other elements, with heads before or after
// lengths.
struct Operand {
  Operand(const Tensor& x, DType dtype, bool heads_first, std::int64_t in_front) {
    const Tensor laid = heads_first ? x : x.permute({0, 2, 1, 3});
    std::vector<float> values(static_cast<std::size_t>(in_front), 99.0f);
    for (const float value : laid.to_vector<float>()) values.push_back(value);
    bytes = bytes_of(values, dtype);
    const Shape& s = x.shape();
    layout.offset = in_front;
    layout.strides = heads_first
                         ? std::array{s[1] * s[2] * s[3], s[2] * s[3], s[3], std::int64_t{1}}
                         : std::array{s[1] * s[2] * s[3], s[3], s[1] * s[3], std::int64_t{1}};
  }
  Bytes bytes;
  plan::AttentionStep::Operand layout;
};

Tensor noise(const Shape& shape, std::uint64_t seed, DType dtype) {
  manual_seed(seed);
  return randn(shape).to(dtype).to(DType::f32).eval();
}

void expect_near(const std::vector<float>& ours, const Tensor& right, double tolerance,
                 const char* what) {
  const std::vector<float> values = right.to_vector<float>();
  ASSERT_EQ(ours.size(), values.size()) << what;
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::fabs(value));
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_NEAR(ours[i], values[i], tolerance * largest) << what << ", element " << i;
}

void expect_attention(const Sizes& s, DType dtype, bool heads_first, unsigned results_first) {
  const Shape of_queries{s.batch, s.heads, s.queries, s.size},
      of_keys{s.batch, s.kv_heads, s.keys, s.size};
  std::vector<Tensor> leaves{noise(of_queries, 1, dtype), noise(of_keys, 2, dtype),
                             noise(of_keys, 3, dtype)};
  for (Tensor& leaf : leaves) leaf.set_requires_grad(true);
  const Tensor g = noise(of_queries, 4, dtype);
  const Tensor y = scaled_dot_product_attention(leaves[0], leaves[1], leaves[2],
                                                {.causal = s.causal, .scale = 0.3});
  y.backward(g);

  plan::AttentionStep step;
  step.dtype = dtype;
  step.causal = s.causal;
  step.scale = 0.3;
  step.batch = s.batch, step.heads = s.heads, step.kv_heads = s.kv_heads;
  step.queries = s.queries, step.keys = s.keys, step.size = s.size;
  step.heads_first = results_first;
  std::vector<Operand> operands;
  std::vector<const std::byte*> reads;
  const auto read = [&](Operand operand) {
    step.reads.push_back(operand.layout);
    operands.push_back(std::move(operand));
    reads.clear();
    for (const Operand& one : operands) reads.push_back(one.bytes.data());
  };
  for (const Tensor& leaf : leaves) read({leaf.detach(), dtype, heads_first, 5});
  const auto elements = [](const Shape& shape) { return static_cast<std::size_t>(shape.numel()); };
  Bytes out(elements(of_queries) * size_of(dtype)), logs(elements(of_queries.with(3, 1)) * 4);
  plan::attend(step, reads, std::vector<std::byte*>{out.data(), logs.data()});
  const auto with_heads_first = [&](const Tensor& x, unsigned result) {
    return (results_first >> result & 1) != 0 ? x : x.permute({0, 2, 1, 3});
  };
  const double tolerance = dtype == DType::f32 ? 1e-5 : 2e-2;
  expect_near(values_of(out, dtype), with_heads_first(y.detach(), 0), tolerance, "output");

  // Uses its own output and logarithms, which are correct if these are.
  step.gradient = true;
  step.reads.push_back(Operand(y.detach(), dtype, (results_first & 1) != 0, 0).layout);
  const Operand gradient(g, dtype, heads_first, 0);
  step.reads.push_back(gradient.layout);
  step.reads.push_back({{}, {s.heads * s.queries, s.queries, 1, 0}, 0});
  reads.insert(reads.end(), {out.data(), gradient.bytes.data(), logs.data()});
  Bytes dq(out.size()), dk(elements(of_keys) * size_of(dtype)), dv(dk.size());
  plan::attend(step, reads, std::vector<std::byte*>{dq.data(), dk.data(), dv.data()});
  expect_near(values_of(dq, dtype), with_heads_first(leaves[0].grad(), 0), tolerance, "dq");
  expect_near(values_of(dk, dtype), with_heads_first(leaves[1].grad(), 1), tolerance, "dk");
  expect_near(values_of(dv, dtype), with_heads_first(leaves[2].grad(), 2), tolerance, "dv");
}

TEST(AttentionReference, IsTheOperation) {
  for (const Sizes& s : {Sizes{2, 3, 3, 9, 9, 8, false}, Sizes{1, 2, 2, 17, 17, 16, true},
                         Sizes{2, 4, 2, 5, 12, 8, true}, Sizes{1, 6, 2, 12, 5, 4, true}}) {
    for (const bool heads_first : {true, false})
      expect_attention(s, DType::f32, heads_first, heads_first ? 0u : 5u);
    expect_attention(s, DType::bf16, false, 0);
  }
}

}  // namespace
}  // namespace volta
