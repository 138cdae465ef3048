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

}  // namespace volta
