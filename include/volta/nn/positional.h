// Positional encodings: sinusoidal, learned and rotary.
#pragma once

#include <cstdint>
#include <optional>

#include "volta/nn/module.h"

namespace volta::nn {

// ---- Encodings that are added to the input.

// [length, dim]: row t has sin(t / base^(2i / dim)) in column 2i and its cosine in column 2i + 1.
VOLTA_API Tensor sinusoidal_positions(std::int64_t length, std::int64_t dim, double base = 10000,
                                      const TensorOptions& options = {});

struct SinusoidalEncodingOptions {
  double dropout = 0;  // applied to the sum
  double base = 10000;
};

// Adds sinusoidal positions to x [..., length, dim]; they take no memory.
class VOLTA_API SinusoidalEncoding : public Module {
 public:
  explicit SinusoidalEncoding(std::int64_t dim, SinusoidalEncodingOptions options = {});
  Tensor forward(const Tensor& x) override;

 private:
  std::int64_t dim_;
  SinusoidalEncodingOptions options_;
};

struct LearnedEncodingOptions {
  double dropout = 0;  // applied to the sum
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // default: where new tensors are created
};

// Adds a learned row for each position to x [..., length, dim].
class VOLTA_API LearnedEncoding : public Module {
 public:
  // Rows start normal with mean 0 and deviation 0.02.
  LearnedEncoding(std::int64_t max_length, std::int64_t dim, LearnedEncodingOptions options = {});
  Tensor forward(const Tensor& x) override;

  Parameter weight;  // [max_length, dim]

 private:
  double dropout_;
};

// ---- Encodings of queries and keys.

struct RotaryOptions {
  double base = 10000;
  // Pairs are neighbours (2i, 2i + 1) if true; otherwise element i of both halves, as in Llama.
  bool interleaved = false;
};

// Rotates pairs of elements of x [..., length, dim] by the angles position / base^(2i / dim), so
// that products of queries and keys depend on their distance.
class VOLTA_API RotaryEmbedding : public Module {
 public:
  explicit RotaryEmbedding(std::int64_t dim, RotaryOptions options = {});

  using Module::operator();
  Tensor forward(const Tensor& x) override;                      // positions 0, 1, ...
  Tensor operator()(const Tensor& x, std::int64_t first) const;  // positions first, first + 1, ...
  Tensor operator()(const Tensor& x, const Tensor& positions) const;  // positions [length]

 private:
  std::int64_t dim_;
  RotaryOptions options_;
};

}  // namespace volta::nn
