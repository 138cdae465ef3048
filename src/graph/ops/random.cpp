// Random tensors, composed from Philox words.
#include "volta/random.h"

#include <cmath>

#include <fmt/format.h>

#include "core/convert.h"
#include "graph/record/apply.h"
#include "graph/record/creation.h"
#include "graph/record/generator.h"
#include "volta/autograd.h"
#include "volta/error.h"
#include "volta/ops.h"

namespace volta {

using graph::binary;
using graph::Making;
using graph::OpId;

namespace {

// Up to this range, an integer takes one word: floor(u n) with a 24-bit u has a bias of at most n
// 2^-24.
constexpr std::uint64_t kShortRange = 1 << 12;
// Up to this range, an integer takes two words: 63 bits modulo n have a bias of at most n 2^-63.
constexpr std::uint64_t kLongRange = std::uint64_t{1} << 48;

Making making_floats(const char* op, const Shape& shape, const TensorOptions& options) {
  const DType dtype = options.dtype.value_or(DType::f32);
  if (!is_floating(dtype)) graph::throw_dtype(op, dtype, "a floating-point dtype");
  return graph::making(op, shape, options, dtype);
}

// Records a random operation. Seed and offset are arguments, so that a repeated step reuses its
// plan.
Tensor draw(OpId op, const Shape& shape, DType dtype, const Making& made, std::int64_t words_each,
            const TensorOptions& options, SourceLocation place) {
  const GeneratorState random = graph::take_random(words_each * shape.numel(), options.generator);
  const auto word = [&](std::uint64_t value) {
    return graph::number(static_cast<std::int64_t>(value), DType::i64, made.entry.device);
  };
  const Tensor inputs[2] = {word(random.seed), word(random.offset)};
  return graph::apply(op, inputs, shape.sizes(), shape, dtype, place);
}

// Uniform numbers in f64 if the tensor is f64, else in f32.
Tensor uniforms(const Shape& shape, const Making& made, const TensorOptions& options,
                SourceLocation place) {
  const DType dtype = made.dtype == DType::f64 ? DType::f64 : DType::f32;
  return draw(OpId::philox, shape, dtype, made, 1, options, place);
}

Tensor finish(const Tensor& x, const Making& made, const TensorOptions& options,
              SourceLocation place) {
  return graph::finish(x.to(made.dtype, place), options.requires_grad);
}

// Throws unless the dtype represents every integer of the range.
void require_range(const char* op, std::int64_t low, std::int64_t high, DType dtype) {
  const auto holds = [&](std::int64_t value) {
    switch (dtype) {
      case DType::boolean:
        return value == 0 || value == 1;
      case DType::f16:
        return std::abs(static_cast<double>(value)) <= 0x1p11;
      case DType::bf16:
        return std::abs(static_cast<double>(value)) <= 0x1p8;
      case DType::f32:
        return std::abs(static_cast<double>(value)) <= 0x1p24;
      case DType::f64:
        return std::abs(static_cast<double>(value)) <= 0x1p53;
      default:
        require_fits(op, value, dtype);
        return true;
    }
  };
  for (const std::int64_t bound : {low, high - 1}) {
    if (!holds(bound))
      throw ArgumentError(fmt::format("{}: {} does not fit {}", op, bound, name_of(dtype)));
  }
}

Tensor randint_as(const char* op, std::int64_t low, std::int64_t high, const Shape& shape,
                  const TensorOptions& options, SourceLocation place) {
  if (low >= high) throw ArgumentError(fmt::format("{}: [{}, {}) is empty", op, low, high));
  const std::uint64_t length = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  if (length > kLongRange)
    throw ArgumentError(fmt::format("{}: [{}, {}) is longer than 2^48", op, low, high));
  const Making made = graph::making(op, shape, options, DType::i64);
  require_range(op, low, high, made.dtype);
  const auto with = [&](OpId id, const Tensor& x, Scalar number) {
    return binary(id, {x, place}, {number, place});
  };
  const auto n = static_cast<std::int64_t>(length);
  Tensor x;
  if (length <= kShortRange) {
    const Tensor u = draw(OpId::philox, shape, DType::f32, made, 1, options, place);
    x = with(OpId::mul, u, n).floor(place).to(DType::i64, place);
  } else {
    const Shape pairs{shape.numel(), 2};
    const Tensor words = draw(OpId::philox, pairs, DType::i64, made, 1, options, place);
    const auto half = [&](std::int64_t which) {
      return words.narrow(1, which, 1, place).reshape(shape, place);
    };
    constexpr std::int64_t k31 = std::int64_t{1} << 31, k32 = std::int64_t{1} << 32;
    const Tensor high_bits = with(OpId::mul, with(OpId::mod, half(0), k31), k32);
    const Tensor bits = binary(OpId::add, {high_bits, place}, {half(1), place});
    x = with(OpId::mod, bits, n);
  }
  return finish(low == 0 ? x : with(OpId::add, x, low), made, options, place);
}

Tensor rand_as(const char* op, const Shape& shape, const TensorOptions& options,
               SourceLocation place) {
  const Making made = making_floats(op, shape, options);
  Tensor u = uniforms(shape, made, options, place);
  if (made.dtype == DType::f16 || made.dtype == DType::bf16) {
    // Keeps only the bits that the dtype has below 1, since rounding more bits could give 1.
    const double bits = made.dtype == DType::f16 ? 0x1p11 : 0x1p8;
    u = binary(OpId::mul, {u, place}, {bits, place}).floor(place);
    u = binary(OpId::mul, {u, place}, {1 / bits, place});
  }
  return finish(u, made, options, place);
}

Tensor randn_as(const char* op, const Shape& shape, const TensorOptions& options,
                SourceLocation place) {
  const Making made = making_floats(op, shape, options);
  const Tensor x = draw(OpId::normal, shape, made.dtype, made, 2, options, place);
  return graph::finish(x, options.requires_grad);
}

Tensor uniform_as(const char* op, const Shape& shape, double low, double high,
                  const TensorOptions& options, SourceLocation place) {
  const Making made = making_floats(op, shape, options);
  if (!(low <= high))
    throw ArgumentError(fmt::format("{}: low {} is not at most high {}", op, low, high));
  if (!std::isfinite(high - low))
    throw ArgumentError(fmt::format("{}: from {} to {} is not finite", op, low, high));
  const Tensor u = uniforms(shape, made, options, place);
  const Tensor spread = binary(OpId::mul, {u, place}, {high - low, place});
  return finish(binary(OpId::add, {spread, place}, {low, place}), made, options, place);
}

Tensor bernoulli_as(const char* op, const Shape& shape, double p, const TensorOptions& options,
                    SourceLocation place) {
  if (!(p >= 0 && p <= 1)) throw ArgumentError(fmt::format("{}: p = {} is not in [0, 1]", op, p));
  const Making made = graph::making(op, shape, options, DType::f32);
  const Tensor u = uniforms(shape, made, options, place);
  return finish(binary(OpId::lt, {u, place}, {p, place}), made, options, place);
}

}  // namespace

Tensor rand(const Shape& shape, const TensorOptions& options, SourceLocation place) {
  return rand_as("rand", shape, options, place);
}
Tensor rand_like(const Tensor& other, const TensorOptions& options, SourceLocation place) {
  const TensorOptions made = graph::options_like("rand_like", other, options);
  return rand_as("rand_like", other.shape(), made, place);
}

Tensor randn(const Shape& shape, const TensorOptions& options, SourceLocation place) {
  return randn_as("randn", shape, options, place);
}
Tensor randn_like(const Tensor& other, const TensorOptions& options, SourceLocation place) {
  const TensorOptions made = graph::options_like("randn_like", other, options);
  return randn_as("randn_like", other.shape(), made, place);
}

Tensor uniform(const Shape& shape, double low, double high, const TensorOptions& options,
               SourceLocation place) {
  return uniform_as("uniform", shape, low, high, options, place);
}
Tensor uniform_like(const Tensor& other, double low, double high, const TensorOptions& options,
                    SourceLocation place) {
  const TensorOptions made = graph::options_like("uniform_like", other, options);
  return uniform_as("uniform_like", other.shape(), low, high, made, place);
}

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape,
               const TensorOptions& options, SourceLocation place) {
  return randint_as("randint", low, high, shape, options, place);
}
Tensor randint(std::int64_t high, const Shape& shape, const TensorOptions& options,
               SourceLocation place) {
  return randint_as("randint", 0, high, shape, options, place);
}
Tensor randint_like(const Tensor& other, std::int64_t low, std::int64_t high,
                    const TensorOptions& options, SourceLocation place) {
  const TensorOptions made = graph::options_like("randint_like", other, options);
  return randint_as("randint_like", low, high, other.shape(), made, place);
}

Tensor bernoulli(const Shape& shape, double p, const TensorOptions& options, SourceLocation place) {
  return bernoulli_as("bernoulli", shape, p, options, place);
}
Tensor bernoulli_like(const Tensor& other, double p, const TensorOptions& options,
                      SourceLocation place) {
  const TensorOptions made = graph::options_like("bernoulli_like", other, options);
  return bernoulli_as("bernoulli_like", other.shape(), p, made, place);
}
Tensor bernoulli(const Tensor& p, const TensorOptions& options, SourceLocation place) {
  const TensorOptions like_p = graph::options_like("bernoulli", p, options);
  if (!is_floating(p.dtype()))
    graph::throw_dtype("bernoulli", p.dtype(), "floating-point probabilities");
  const Making made = graph::making("bernoulli", p.shape(), like_p, p.dtype());
  const NoGrad no_history;
  // Draws in the dtype and on the device of the probabilities; only the results are moved.
  const Making drawn = graph::making("bernoulli", p.shape(), {.device = p.device()}, p.dtype());
  const Tensor u = uniforms(p.shape(), drawn, options, place);
  const Tensor wide = p.to(u.dtype(), place);
  const Tensor drawn_ones = binary(OpId::lt, {u, place}, {wide, place});
  return graph::finish(drawn_ones.to(made.dtype, place).to(made.entry.device, place),
                       options.requires_grad);
}

}  // namespace volta
