// New tensors: from values, from external memory, constants and sequences. Random tensors are in
// random.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "volta/tensor.h"

namespace volta {

// ---- Copies of values.
// Braced numbers become f32 unless options say otherwise. Without a shape the tensor has one axis.
VOLTA_API Tensor tensor(std::initializer_list<double> values, const TensorOptions& options = {},
                        SourceLocation place = SourceLocation::here());
VOLTA_API Tensor tensor(std::initializer_list<double> values, const Shape& shape,
                        const TensorOptions& options = {},
                        SourceLocation place = SourceLocation::here());

namespace detail {
VOLTA_API Tensor from_values(const char* op, const void* values, std::size_t count, DType dtype,
                             const Shape& shape, const TensorOptions& options,
                             SourceLocation place);
}  // namespace detail

// Copies the values. The dtype is that of T unless options say otherwise.
template <class T>
Tensor from_vector(const std::vector<T>& values, const Shape& shape,
                   const TensorOptions& options = {},
                   SourceLocation place = SourceLocation::here()) {
  static_assert(!std::is_same_v<T, bool>,
                "use std::vector<std::uint8_t> with {.dtype = DType::boolean}");
  return detail::from_values("from_vector", values.data(), values.size(), dtype_of<T>::value, shape,
                             options, place);
}
template <class T>
Tensor from_vector(const std::vector<T>& values, const TensorOptions& options = {},
                   SourceLocation place = SourceLocation::here()) {
  return from_vector(values, Shape{static_cast<std::int64_t>(values.size())}, options, place);
}

// ---- External memory.
struct BlobOptions {
  // A device other than the CPU gets a copy at the call.
  std::optional<Device> device = std::nullopt;
  bool requires_grad = false;
  bool copy = false;  // copies at the call, after which the memory may change or be freed
  // Strides in elements, one per axis, possibly negative or 0. Empty means row-major.
  std::vector<std::int64_t> strides = {};
  // Called once with `data` when the memory is no longer used, also if from_blob throws.
  std::function<void(void*)> deleter = {};
};
// Makes a tensor on the memory at `data`, which holds elements of the dtype, without a copy.
// Computations read the memory when they are evaluated (in backward() too), so it must not change
// before. Volta never writes to it: in-place operations give the tensor memory of its own. Values
// are copied at the call if the options say so, if `data` is not aligned to its elements, or if the
// strides are not those of a row-major array with permuted axes.
VOLTA_API Tensor from_blob(const void* data, const Shape& shape, DType dtype,
                           BlobOptions options = {}, SourceLocation place = SourceLocation::here());
template <class T>
  requires(!std::is_void_v<T>)
Tensor from_blob(const T* data, const Shape& shape, BlobOptions options = {},
                 SourceLocation place = SourceLocation::here()) {
  return from_blob(static_cast<const void*>(data), shape, dtype_of<T>::value, std::move(options),
                   place);
}

// ---- Constants. They take no memory until they are needed as arrays.
// The dtype is f32, i64 or bool according to the value, unless options say otherwise.
VOLTA_API Tensor full(const Shape& shape, Scalar value, const TensorOptions& options = {},
                      SourceLocation place = SourceLocation::here());
// A tensor of rank 0: full({}, value).
VOLTA_API Tensor scalar(Scalar value, const TensorOptions& options = {},
                        SourceLocation place = SourceLocation::here());
VOLTA_API Tensor zeros(const Shape& shape, const TensorOptions& options = {},
                       SourceLocation place = SourceLocation::here());
VOLTA_API Tensor ones(const Shape& shape, const TensorOptions& options = {},
                      SourceLocation place = SourceLocation::here());
// Values are unspecified. It takes memory only when copy_ or fill_ writes to it.
VOLTA_API Tensor empty(const Shape& shape, const TensorOptions& options = {},
                       SourceLocation place = SourceLocation::here());
// The shape is that of the other tensor, and so are dtype and device unless options say otherwise.
VOLTA_API Tensor full_like(const Tensor& other, Scalar value, const TensorOptions& options = {},
                           SourceLocation place = SourceLocation::here());
VOLTA_API Tensor zeros_like(const Tensor& other, const TensorOptions& options = {},
                            SourceLocation place = SourceLocation::here());
VOLTA_API Tensor ones_like(const Tensor& other, const TensorOptions& options = {},
                           SourceLocation place = SourceLocation::here());
VOLTA_API Tensor empty_like(const Tensor& other, const TensorOptions& options = {},
                            SourceLocation place = SourceLocation::here());

// ---- Sequences. Floats are computed in f64, if the device supports it, and rounded once.
// start, start + step, ... below stop, by default from 0 in steps of 1. The dtype is i64 if all
// three are integers, else f32, unless options say otherwise.
VOLTA_API Tensor arange(Scalar stop, const TensorOptions& options = {},
                        SourceLocation place = SourceLocation::here());
VOLTA_API Tensor arange(Scalar start, Scalar stop, const TensorOptions& options = {},
                        SourceLocation place = SourceLocation::here());
VOLTA_API Tensor arange(Scalar start, Scalar stop, Scalar step, const TensorOptions& options = {},
                        SourceLocation place = SourceLocation::here());
// `count` equally spaced numbers from start to end inclusive; f32 unless options say otherwise. For
// integer dtypes they are truncated.
VOLTA_API Tensor linspace(double start, double end, std::int64_t count,
                          const TensorOptions& options = {},
                          SourceLocation place = SourceLocation::here());
// 1 on the diagonal and 0 elsewhere, of shape [n, n] or [n, m]; f32 unless options say otherwise.
VOLTA_API Tensor eye(std::int64_t n, const TensorOptions& options = {},
                     SourceLocation place = SourceLocation::here());
VOLTA_API Tensor eye(std::int64_t n, std::int64_t m, const TensorOptions& options = {},
                     SourceLocation place = SourceLocation::here());

}  // namespace volta
