// Counter-based random numbers: a seed and an offset per thread; the same bits on every device.
#pragma once

#include <cstdint>

#include "volta/tensor.h"

namespace volta {

// Seeds the calling thread's generator and resets its offset.
VOLTA_API void manual_seed(std::uint64_t seed);

VOLTA_API Tensor rand(const Shape& shape, TensorOptions options = {}, Place place = Place::here());
VOLTA_API Tensor randn(const Shape& shape, TensorOptions options = {}, Place place = Place::here());
VOLTA_API Tensor uniform(const Shape& shape, double low, double high, TensorOptions options = {},
                         Place place = Place::here());

// Integers in [low, high), i64 unless options say otherwise; ranges past 2^24 need a device with
// f64.
VOLTA_API Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape,
                         TensorOptions options = {}, Place place = Place::here());

}  // namespace volta
