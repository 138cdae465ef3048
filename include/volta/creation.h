// New tensors: from values, from memory of others, constants, sequences. Random ones are in
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
// Braced numbers become f32 unless options say otherwise. Without a shape: one axis.
VOLTA_API Tensor tensor(std::initializer_list<double> values, const TensorOptions& options = {},
                        Place place = Place::here());
VOLTA_API Tensor tensor(std::initializer_list<double> values, const Shape& shape,
                        const TensorOptions& options = {}, Place place = Place::here());

namespace detail {
VOLTA_API Tensor from_values(const char* op, const void* values, std::size_t count, DType dtype,
                             const Shape& shape, const TensorOptions& options, Place place);
}  // namespace detail

// A copy of the values; the dtype is T's unless options say otherwise.
template <class T>
Tensor from_vector(const std::vector<T>& values, const Shape& shape,
                   const TensorOptions& options = {}, Place place = Place::here()) {
  static_assert(!std::is_same_v<T, bool>,
                "use std::vector<std::uint8_t> with {.dtype = DType::boolean}");
  return detail::from_values("from_vector", values.data(), values.size(), dtype_of<T>::value, shape,
                             options, place);
}
template <class T>
Tensor from_vector(const std::vector<T>& values, const TensorOptions& options = {},
                   Place place = Place::here()) {
  return from_vector(values, Shape{static_cast<std::int64_t>(values.size())}, options, place);
}

// ---- Memory of others.
struct BlobOptions {
  // Another device than the CPU: copied there at the call.
  std::optional<Device> device = std::nullopt;
  bool requires_grad = false;
  bool copy = false;  // at the call, after which the memory may change or go
  // In elements, one per axis; may be negative or 0. None: row by row.
  std::vector<std::int64_t> strides = {};
  // Called once, with `data`, when the memory is used no more; also if from_blob throws.
  std::function<void(void*)> deleter = {};
};
// A tensor on the memory at `data`, which holds elements of the dtype, without a copy. What is
// computed from it reads the memory when it is evaluated (in backward() too), so it must not change
// before; Volta never writes to it: in-place operations give the tensor memory of its own.
// Values are copied at the call where the options say so, where `data` is not aligned to its
// elements, and where strides are not those of a row-by-row array with its axes exchanged.
VOLTA_API Tensor from_blob(const void* data, const Shape& shape, DType dtype,
                           BlobOptions options = {}, Place place = Place::here());
template <class T>
  requires(!std::is_void_v<T>)
Tensor from_blob(const T* data, const Shape& shape, BlobOptions options = {},
                 Place place = Place::here()) {
  return from_blob(static_cast<const void*>(data), shape, dtype_of<T>::value, std::move(options),
                   place);
}

// ---- Constants: they take no memory until they must.
// f32, i64 or bool by the value unless options say otherwise.
VOLTA_API Tensor full(const Shape& shape, Scalar value, const TensorOptions& options = {},
                      Place place = Place::here());
// A tensor of no axes: full({}, value).
VOLTA_API Tensor scalar(Scalar value, const TensorOptions& options = {},
                        Place place = Place::here());
VOLTA_API Tensor zeros(const Shape& shape, const TensorOptions& options = {},
                       Place place = Place::here());
VOLTA_API Tensor ones(const Shape& shape, const TensorOptions& options = {},
                      Place place = Place::here());
// Values are not specified. Takes no memory: what is written to it by copy_ or fill_ does.
VOLTA_API Tensor empty(const Shape& shape, const TensorOptions& options = {},
                       Place place = Place::here());
// The shape of another tensor; its dtype and device unless options say otherwise.
VOLTA_API Tensor full_like(const Tensor& other, Scalar value, const TensorOptions& options = {},
                           Place place = Place::here());
VOLTA_API Tensor zeros_like(const Tensor& other, const TensorOptions& options = {},
                            Place place = Place::here());
VOLTA_API Tensor ones_like(const Tensor& other, const TensorOptions& options = {},
                           Place place = Place::here());
VOLTA_API Tensor empty_like(const Tensor& other, const TensorOptions& options = {},
                            Place place = Place::here());

// ---- Sequences. Floats are computed in f64 where the device has it and rounded once.
// start, start + step, ... before stop; from 0 by 1 unless said. i64 if all three are integers,
// else f32, unless options say otherwise.
VOLTA_API Tensor arange(Scalar stop, const TensorOptions& options = {},
                        Place place = Place::here());
VOLTA_API Tensor arange(Scalar start, Scalar stop, const TensorOptions& options = {},
                        Place place = Place::here());
VOLTA_API Tensor arange(Scalar start, Scalar stop, Scalar step, const TensorOptions& options = {},
                        Place place = Place::here());
// `count` numbers at equal distances from start to end, both included; f32 unless options say
// otherwise. Integers are what truncation makes of them.
VOLTA_API Tensor linspace(double start, double end, std::int64_t count,
                          const TensorOptions& options = {}, Place place = Place::here());
// 1 on the diagonal, 0 elsewhere: [n, n] or [n, m], f32 unless options say otherwise.
VOLTA_API Tensor eye(std::int64_t n, const TensorOptions& options = {},
                     Place place = Place::here());
VOLTA_API Tensor eye(std::int64_t n, std::int64_t m, const TensorOptions& options = {},
                     Place place = Place::here());

}  // namespace volta
