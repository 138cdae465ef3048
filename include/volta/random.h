// Random tensors. Numbers come from the calling thread's generator, or from {.generator}; uniforms
// and integers are the same bits on every device, normals agree to 4 units in the last place.
#pragma once

#include <cstdint>

#include "volta/generator.h"
#include "volta/tensor.h"

namespace volta {

// Seeds the calling thread's generator and resets its offset.
VOLTA_API void manual_seed(std::uint64_t seed);

// In [0, 1): multiples of 2^-24 (f32), 2^-32 (f64), 2^-11 (f16), 2^-8 (bf16).
VOLTA_API Tensor rand(const Shape& shape, const TensorOptions& options = {},
                      Place place = Place::here());
// Mean 0, variance 1.
VOLTA_API Tensor randn(const Shape& shape, const TensorOptions& options = {},
                       Place place = Place::here());
// low + (high - low) rand(): rounding may give high.
VOLTA_API Tensor uniform(const Shape& shape, double low, double high,
                         const TensorOptions& options = {}, Place place = Place::here());
// Integers in [low, high), at most 2^48 of them, i64 unless options say otherwise; the dtype must
// hold them all.
VOLTA_API Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape,
                         const TensorOptions& options = {}, Place place = Place::here());
VOLTA_API Tensor randint(std::int64_t high, const Shape& shape, const TensorOptions& options = {},
                         Place place = Place::here());  // from 0
// 1 with probability p, else 0; f32 unless options say otherwise.
VOLTA_API Tensor bernoulli(const Shape& shape, double p, const TensorOptions& options = {},
                           Place place = Place::here());
// Each element with its own probability, in the dtype and on the device of p unless options say
// otherwise. Probabilities below 0 count as 0, above 1 as 1, NaN as 0. No gradient flows.
VOLTA_API Tensor bernoulli(const Tensor& p, const TensorOptions& options = {},
                           Place place = Place::here());

// The shape of another tensor; its dtype and device unless options say otherwise.
VOLTA_API Tensor rand_like(const Tensor& other, const TensorOptions& options = {},
                           Place place = Place::here());
VOLTA_API Tensor randn_like(const Tensor& other, const TensorOptions& options = {},
                            Place place = Place::here());
VOLTA_API Tensor uniform_like(const Tensor& other, double low, double high,
                              const TensorOptions& options = {}, Place place = Place::here());
VOLTA_API Tensor randint_like(const Tensor& other, std::int64_t low, std::int64_t high,
                              const TensorOptions& options = {}, Place place = Place::here());
VOLTA_API Tensor bernoulli_like(const Tensor& other, double p, const TensorOptions& options = {},
                                Place place = Place::here());

}  // namespace volta
