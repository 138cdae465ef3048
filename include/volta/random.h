// Random tensors. Numbers come from the calling thread's generator or from {.generator}. Uniform
// numbers and integers have the same bits on every device; normal numbers agree to 4 units in the
// last place.
#pragma once

#include <cstdint>

#include "volta/generator.h"
#include "volta/tensor.h"

namespace volta {

// Seeds the calling thread's generator and resets its offset.
VOLTA_API void manual_seed(std::uint64_t seed);

// Uniform in [0, 1): multiples of 2^-24 (f32), 2^-32 (f64), 2^-11 (f16) or 2^-8 (bf16).
VOLTA_API Tensor rand(const Shape& shape, const TensorOptions& options = {},
                      SourceLocation place = SourceLocation::here());
// Normal with mean 0 and variance 1.
VOLTA_API Tensor randn(const Shape& shape, const TensorOptions& options = {},
                       SourceLocation place = SourceLocation::here());
// low + (high - low) rand(); rounding may give high.
VOLTA_API Tensor uniform(const Shape& shape, double low, double high,
                         const TensorOptions& options = {},
                         SourceLocation place = SourceLocation::here());
// Integers in [low, high), a range of at most 2^48; i64 unless options say otherwise. The dtype
// must be able to hold all of them.
VOLTA_API Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape,
                         const TensorOptions& options = {},
                         SourceLocation place = SourceLocation::here());
VOLTA_API Tensor randint(std::int64_t high, const Shape& shape, const TensorOptions& options = {},
                         SourceLocation place = SourceLocation::here());  // from 0
// 1 with probability p, else 0; f32 unless options say otherwise.
VOLTA_API Tensor bernoulli(const Shape& shape, double p, const TensorOptions& options = {},
                           SourceLocation place = SourceLocation::here());
// Draws each element with its own probability, in the dtype and on the device of p unless options
// say otherwise. Probabilities are clamped to [0, 1], and NaN counts as 0. No gradient flows.
VOLTA_API Tensor bernoulli(const Tensor& p, const TensorOptions& options = {},
                           SourceLocation place = SourceLocation::here());

// The shape is that of the other tensor, and so are dtype and device unless options say otherwise.
VOLTA_API Tensor rand_like(const Tensor& other, const TensorOptions& options = {},
                           SourceLocation place = SourceLocation::here());
VOLTA_API Tensor randn_like(const Tensor& other, const TensorOptions& options = {},
                            SourceLocation place = SourceLocation::here());
VOLTA_API Tensor uniform_like(const Tensor& other, double low, double high,
                              const TensorOptions& options = {},
                              SourceLocation place = SourceLocation::here());
VOLTA_API Tensor randint_like(const Tensor& other, std::int64_t low, std::int64_t high,
                              const TensorOptions& options = {},
                              SourceLocation place = SourceLocation::here());
VOLTA_API Tensor bernoulli_like(const Tensor& other, double p, const TensorOptions& options = {},
                                SourceLocation place = SourceLocation::here());

}  // namespace volta
