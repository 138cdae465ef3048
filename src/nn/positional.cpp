// Positional encodings.
#include "volta/nn/positional.h"

#include <optional>

#include <fmt/format.h>

#include "nn/arguments.h"
#include "volta/error.h"
#include "volta/indexing.h"
#include "volta/nn/init.h"
#include "volta/ops.h"

namespace volta::nn {
namespace {

void check_base(const char* layer, double base) {
  if (!(base > 0))
    throw ArgumentError(fmt::format("{}: base must be positive, got {}", layer, base));
}
void check_dropout(const char* layer, double p) {
  if (!(p >= 0 && p <= 1))
    throw ArgumentError(fmt::format("{}: dropout must be in [0, 1], got {}", layer, p));
}

// base^(-2i / dim) for i < count.
Tensor frequencies(std::int64_t count, std::int64_t dim, double base, Device device) {
  const Tensor exponents =
      arange(count, {.dtype = DType::f32, .device = device}) * (-2.0 / static_cast<double>(dim));
  return pow(base, exponents);
}

// [length, count]: each position times each frequency.
Tensor angles(const Tensor& positions, std::int64_t count, std::int64_t dim, double base) {
  return positions.to(DType::f32).unsqueeze(1) * frequencies(count, dim, base, positions.device());
}

Tensor whole_numbers(std::int64_t count, std::optional<Device> device) {
  return arange(count, {.dtype = DType::f32, .device = device});
}

void check_input(const char* layer, const Tensor& x, std::int64_t dim) {
  if (!x.defined()) throw ArgumentError(fmt::format("{}: the input is not a tensor", layer));
  if (x.rank() < 2 || x.size(-1) != dim) {
    throw ShapeError(
        fmt::format("{}: expected [..., length, {}], got {}", layer, dim, to_string(x.shape())));
  }
}

}  // namespace

Tensor sinusoidal_positions(std::int64_t length, std::int64_t dim, double base,
                            const TensorOptions& options) {
  if (length < 0 || dim < 1) {
    throw ArgumentError(fmt::format(
        "sinusoidal_positions: length must not be negative and dim be positive, got {} and {}",
        length, dim));
  }
  check_base("sinusoidal_positions", base);
  const AsNamed as_named(options.device);
  const std::int64_t pairs = (dim + 1) / 2;
  const Tensor angle = angles(whole_numbers(length, options.device), pairs, dim, base);
  const Tensor both = stack({sin(angle), cos(angle)}, -1).reshape({length, 2 * pairs});
  return both.narrow(1, 0, dim).to(options.dtype.value_or(DType::f32));
}

SinusoidalEncoding::SinusoidalEncoding(std::int64_t dim, SinusoidalEncodingOptions options)
    : dim_(dim), options_(options) {
  if (dim < 1)
    throw ArgumentError(fmt::format("SinusoidalEncoding: dim must be positive, got {}", dim));
  check_base("SinusoidalEncoding", options.base);
  check_dropout("SinusoidalEncoding", options.dropout);
}

Tensor SinusoidalEncoding::forward(const Tensor& x) {
  check_input("SinusoidalEncoding", x, dim_);
  const Tensor rows = sinusoidal_positions(x.size(-2), dim_, options_.base,
                                           {.dtype = x.dtype(), .device = x.device()});
  return dropout(x + rows, options_.dropout, is_training());
}

LearnedEncoding::LearnedEncoding(std::int64_t max_length, std::int64_t dim,
                                 LearnedEncodingOptions options)
    : dropout_(options.dropout) {
  if (max_length < 1 || dim < 1) {
    throw ArgumentError(
        fmt::format("LearnedEncoding: sizes must be positive, got ({}, {})", max_length, dim));
  }
  check_dropout("LearnedEncoding", options.dropout);
  weight = add_parameter(
      "weight",
      init::normal({max_length, dim}, 0, 0.02, {.dtype = options.dtype, .device = options.device}));
}

Tensor LearnedEncoding::forward(const Tensor& x) {
  check_input("LearnedEncoding", x, weight->size(1));
  if (x.size(-2) > weight->size(0)) {
    throw ShapeError(fmt::format("LearnedEncoding: {} has more than {} positions",
                                 to_string(x.shape()), weight->size(0)));
  }
  return dropout(x + weight->narrow(0, 0, x.size(-2)), dropout_, is_training());
}

RotaryEmbedding::RotaryEmbedding(std::int64_t dim, RotaryOptions options)
    : dim_(dim), options_(options) {
  if (dim < 2 || dim % 2 != 0) {
    throw ArgumentError(fmt::format("RotaryEmbedding: dim must be even and positive, got {}", dim));
  }
  check_base("RotaryEmbedding", options.base);
}

Tensor RotaryEmbedding::forward(const Tensor& x) { return (*this)(x, std::int64_t{0}); }

Tensor RotaryEmbedding::operator()(const Tensor& x, std::int64_t first) const {
  check_input("RotaryEmbedding", x, dim_);
  const Tensor positions = whole_numbers(x.size(-2), x.device());
  return (*this)(x, first == 0 ? positions : positions + first);
}

Tensor RotaryEmbedding::operator()(const Tensor& x, const Tensor& positions) const {
  check_input("RotaryEmbedding", x, dim_);
  if (!positions.defined() || positions.rank() != 1 || positions.size(0) != x.size(-2)) {
    throw ShapeError(
        fmt::format("RotaryEmbedding: {} needs a position for each of its {} rows, got {}",
                    to_string(x.shape()), x.size(-2),
                    positions.defined() ? to_string(positions.shape()) : "none"));
  }
  const std::int64_t half = dim_ / 2;
  const Tensor angle = angles(positions, half, dim_, options_.base);
  const Tensor c = cos(angle), s = sin(angle);
  const auto rotated = [&](const Tensor& a, const Tensor& b, std::int64_t axis) {
    const Tensor parts[] = {a * c - b * s, b * c + a * s};
    return axis < 0 ? concat(parts, -1) : stack(parts, axis);
  };
  if (!options_.interleaved) {
    const Tensor a = x.narrow(-1, 0, half), b = x.narrow(-1, half, half);
    return rotated(a, b, -1).to(x.dtype());
  }
  const Tensor pairs = x.unflatten(-1, {half, 2});
  const Tensor a = pairs.narrow(-1, 0, 1).squeeze(-1), b = pairs.narrow(-1, 1, 1).squeeze(-1);
  return rotated(a, b, x.rank()).flatten(-2, -1).to(x.dtype());
}

}  // namespace volta::nn
