// Element types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include "volta/export.h"

namespace volta {

enum class DType : std::uint8_t { f16, bf16, f32, f64, i32, i64, u8, boolean };
inline constexpr int kDTypeCount = 8;

constexpr std::size_t size_of(DType t) {
  constexpr std::size_t sizes[kDTypeCount] = {2, 2, 4, 8, 4, 8, 1, 1};
  return sizes[static_cast<int>(t)];
}
constexpr bool is_floating(DType t) { return t <= DType::f64; }
constexpr bool is_integral(DType t) { return t > DType::f64; }  // includes bool, as in PyTorch

VOLTA_API std::string_view name_of(DType t);  // "f32", "bool", ...
VOLTA_API std::string to_string(DType t);     // same as name_of
VOLTA_API std::ostream& operator<<(std::ostream& out, DType t);

// The result dtype of an operation on a and b, by PyTorch's promotion table for two tensors.
VOLTA_API DType promote(DType a, DType b);

// The DType of a C++ element type.
template <class T>
struct dtype_of;
template <>
struct dtype_of<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct dtype_of<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct dtype_of<std::int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct dtype_of<long> {
  static constexpr DType value = DType::i64;
};
template <>
struct dtype_of<long long> {
  static constexpr DType value = DType::i64;
};
template <>
struct dtype_of<std::uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct dtype_of<bool> {
  static constexpr DType value = DType::boolean;
};

}  // namespace volta
