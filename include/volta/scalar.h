// A number as the user wrote it: an integer, a bool or a float.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "volta/dtype.h"

namespace volta {

class Scalar {
 public:
  template <class T>
    requires std::is_arithmetic_v<T>
  constexpr Scalar(T v)  // NOLINT: implicit on purpose
      : value_(static_cast<double>(v)),
        kind_(std::same_as<T, bool>   ? Kind::boolean
              : std::is_integral_v<T> ? Kind::integer
                                      : Kind::floating) {
    if constexpr (std::is_integral_v<T>) integer_ = static_cast<std::int64_t>(v);
  }

  constexpr double value() const { return value_; }
  constexpr bool is_floating() const { return kind_ == Kind::floating; }
  constexpr bool is_boolean() const { return kind_ == Kind::boolean; }
  // Whether integer() equals the value without its fraction.
  constexpr bool fits_integer() const {
    if (kind_ != Kind::floating) return (integer_ < 0) == (value_ < 0);  // false beyond 2^63 - 1
    return value_ > -9.2e18 && value_ < 9.2e18;
  }
  // The integer exactly as written; doubles lose bits beyond 2^53.
  constexpr std::int64_t integer() const {
    if (kind_ != Kind::floating) return integer_;
    return fits_integer() ? static_cast<std::int64_t>(value_) : 0;
  }

 private:
  enum class Kind : std::uint8_t { boolean, integer, floating };
  double value_;
  std::int64_t integer_ = 0;
  Kind kind_;
};

}  // namespace volta
