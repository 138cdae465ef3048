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
#include <limits>
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

enum class Mask : std::uint8_t { None, Boolean, Added };

// A mask [1, heads, queries, 1] or [batch, 1, 1, keys], as the operation takes it and as the step
// does; the first query of the second head, or half of the last sequence, is hidden.
struct MaskOperand {
  MaskOperand(const Sizes& s, Mask kind, bool over_keys)
      : shape(over_keys ? Shape{s.batch, 1, 1, s.keys} : Shape{1, s.heads, s.queries, 1}) {
    std::vector<float> terms(static_cast<std::size_t>(shape.numel()));
    for (std::size_t i = 0; i < terms.size(); ++i) {
      const std::int64_t n = static_cast<std::int64_t>(i);
      const bool hidden = over_keys ? n >= shape.numel() - s.keys / 2 : n == s.queries;
      terms[i] = hidden                ? -std::numeric_limits<float>::infinity()
                 : kind == Mask::Added ? static_cast<float>(i % 5) / 2 - 1
                                       : 0.0f;
    }
    tensor = from_vector(terms, shape);
    bytes = bytes_of(terms, DType::f32);
    layout.strides = over_keys ? std::array<std::int64_t, 4>{s.keys, 0, 0, 1}
                               : std::array<std::int64_t, 4>{0, s.queries, 1, 0};
    if (kind != Mask::Boolean) return;
    tensor = tensor.eq(0);
    bytes.clear();
    for (const float term : terms) bytes.push_back(static_cast<std::byte>(term == 0));
  }
  Shape shape;
  Tensor tensor;
  Bytes bytes;
  plan::AttentionStep::Operand layout;
};

void expect_attention(const Sizes& s, DType dtype, bool heads_first, unsigned results_first,
                      Mask kind = Mask::None, bool over_keys = false) {
  const Shape of_queries{s.batch, s.heads, s.queries, s.size},
      of_keys{s.batch, s.kv_heads, s.keys, s.size};
  std::vector<Tensor> leaves{noise(of_queries, 1, dtype), noise(of_keys, 2, dtype),
                             noise(of_keys, 3, dtype)};
  for (Tensor& leaf : leaves) leaf.set_requires_grad(true);
  const Tensor g = noise(of_queries, 4, dtype);
  const MaskOperand mask(s, kind, over_keys);
  AttentionOptions options{.causal = s.causal, .scale = 0.3};
  if (kind != Mask::None) options.mask = mask.tensor;
  const Tensor y = scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], options);
  y.backward(g);

  plan::AttentionStep step;
  step.dtype = dtype;
  step.causal = s.causal;
  step.scale = 0.3;
  step.batch = s.batch, step.heads = s.heads, step.kv_heads = s.kv_heads;
  step.queries = s.queries, step.keys = s.keys, step.size = s.size;
  step.heads_first = results_first;
  step.masked = kind != Mask::None;
  step.mask = kind == Mask::Added ? DType::f32 : DType::boolean;
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
  const std::vector<plan::AttentionStep::Operand> unmasked = step.reads;
  const std::vector<const std::byte*> unmasked_reads = reads;
  const auto add_mask = [&] {
    if (!step.masked) return;
    step.reads.push_back(mask.layout);
    reads.push_back(mask.bytes.data());
  };
  add_mask();
  Bytes out(elements(of_queries) * size_of(dtype)), logs(elements(of_queries.with(3, 1)) * 4);
  plan::attend(step, reads, std::vector<std::byte*>{out.data(), logs.data()});
  const auto with_heads_first = [&](const Tensor& x, unsigned result) {
    return (results_first >> result & 1) != 0 ? x : x.permute({0, 2, 1, 3});
  };
  const double tolerance = dtype == DType::f32 ? 1e-5 : 2e-2;
  expect_near(values_of(out, dtype), with_heads_first(y.detach(), 0), tolerance, "output");

  // Uses its own output and logarithms, which are correct if these are.
  step.gradient = true;
  step.reads = unmasked;
  reads = unmasked_reads;
  step.reads.push_back(Operand(y.detach(), dtype, (results_first & 1) != 0, 0).layout);
  const Operand gradient(g, dtype, heads_first, 0);
  step.reads.push_back(gradient.layout);
  step.reads.push_back({{}, {s.heads * s.queries, s.queries, 1, 0}, 0});
  reads.insert(reads.end(), {out.data(), gradient.bytes.data(), logs.data()});
  add_mask();
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
    for (const Mask mask : {Mask::Boolean, Mask::Added}) {
      for (const bool over_keys : {false, true})
        expect_attention(s, DType::f32, true, 0, mask, over_keys);
    }
  }
}

}  // namespace
}  // namespace volta
