// Conversion of values on the host.
#include "core/convert.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "volta/error.h"

namespace volta {
namespace {

float half_to_float(std::uint16_t h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000) << 16;
  const std::uint32_t exponent = h >> 10 & 0x1F, mantissa = h & 0x3FF;
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t wide = exponent == 31 ? 0xFF : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

// Rounds to nearest, ties to even.
std::uint16_t float_to_half(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7E00);
  if (magnitude >= 65520.0f) return static_cast<std::uint16_t>(sign | 0x7C00);
  if (magnitude < 0x1p-14f) {
    return static_cast<std::uint16_t>(
        sign | static_cast<std::uint16_t>(std::nearbyint(magnitude * 0x1p24f)));
  }
  const std::uint32_t m = std::bit_cast<std::uint32_t>(magnitude);
  const std::uint32_t rounded = m + 0xFFF + (m >> 13 & 1);
  return static_cast<std::uint16_t>(sign | ((rounded >> 13) - (112 << 10)));
}

float bfloat_to_float(std::uint16_t b) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(b) << 16);
}
std::uint16_t float_to_bfloat(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

template <class T>
T read(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <class T>
void write(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

// All conversions go through double, except those between integers.
double read_number(const std::byte* at, DType dtype) {
  switch (dtype) {
    case DType::f16:
      return half_to_float(read<std::uint16_t>(at));
    case DType::bf16:
      return bfloat_to_float(read<std::uint16_t>(at));
    case DType::f32:
      return read<float>(at);
    case DType::f64:
      return read<double>(at);
    case DType::i32:
      return read<std::int32_t>(at);
    case DType::i64:
      return static_cast<double>(read<std::int64_t>(at));
    case DType::u8:
    case DType::boolean:
      return read<std::uint8_t>(at);
  }
  return 0;
}
std::int64_t read_integer(const std::byte* at, DType dtype) {
  switch (dtype) {
    case DType::i32:
      return read<std::int32_t>(at);
    case DType::i64:
      return read<std::int64_t>(at);
    case DType::u8:
    case DType::boolean:
      return read<std::uint8_t>(at);
    default: {
      const double value = read_number(at, dtype);
      if (!(value > -9.3e18 && value < 9.2e18)) return std::numeric_limits<std::int64_t>::min();
      return static_cast<std::int64_t>(value);
    }
  }
}

void write_number(std::byte* at, DType dtype, double value, std::int64_t integer) {
  switch (dtype) {
    case DType::f16:
      return write(at, float_to_half(static_cast<float>(value)));
    case DType::bf16:
      return write(at, float_to_bfloat(static_cast<float>(value)));
    case DType::f32:
      return write(at, static_cast<float>(value));
    case DType::f64:
      return write(at, value);
    case DType::i32:
      return write(at, static_cast<std::int32_t>(integer));
    case DType::i64:
      return write(at, integer);
    case DType::u8:
      return write(at, static_cast<std::uint8_t>(integer));
    case DType::boolean:
      return write(at, static_cast<std::uint8_t>(value != 0 ? 1 : 0));
  }
}

}  // namespace

void write_element(void* at, DType dtype, double value, std::int64_t integer) {
  write_number(static_cast<std::byte*>(at), dtype, value, integer);
}

void convert(const void* from, DType from_dtype, void* to, DType to_dtype, std::size_t count) {
  const auto* source = static_cast<const std::byte*>(from);
  auto* target = static_cast<std::byte*>(to);
  if (from_dtype == to_dtype) {
    if (count > 0) std::memcpy(to, from, count * size_of(from_dtype));
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* at = source + i * size_of(from_dtype);
    write_number(target + i * size_of(to_dtype), to_dtype, read_number(at, from_dtype),
                 read_integer(at, from_dtype));
  }
}

double nearest(double number, DType dtype) {
  if (dtype == DType::f32) return static_cast<float>(number);
  std::array<std::byte, 8> stored{};
  convert(&number, DType::f64, stored.data(), dtype, 1);
  convert(stored.data(), dtype, &number, DType::f64, 1);
  return number;
}

bool fits(Scalar value, DType dtype) {
  if (is_floating(dtype) || dtype == DType::boolean) return true;
  if (!value.fits_integer()) return false;
  return dtype == DType::i32  ? std::in_range<std::int32_t>(value.integer())
         : dtype == DType::u8 ? std::in_range<std::uint8_t>(value.integer())
                              : true;
}

void require_fits(const char* op, Scalar value, DType dtype) {
  if (fits(value, dtype)) return;
  const bool exact = !value.is_floating() && value.fits_integer();
  const std::string number =
      exact ? fmt::to_string(value.integer()) : fmt::to_string(value.value());
  throw ArgumentError(fmt::format("{}: {} does not fit {}", op, number, name_of(dtype)));
}

void convert_fitting(const char* op, const void* from, DType from_dtype, void* to, DType to_dtype,
                     std::size_t count) {
  const auto* source = static_cast<const std::byte*>(from);
  const bool narrows = from_dtype != to_dtype && !is_floating(to_dtype);
  for (std::size_t i = 0; narrows && i < count; ++i) {
    const std::byte* at = source + i * size_of(from_dtype);
    require_fits(op,
                 is_floating(from_dtype) ? Scalar(read_number(at, from_dtype))
                                         : Scalar(read_integer(at, from_dtype)),
                 to_dtype);
  }
  convert(from, from_dtype, to, to_dtype, count);
}

void require_holds(const char* op, DType from, DType to) {
  const bool bytes_of_bool = from == DType::boolean && to == DType::u8;
  if (from == to || bytes_of_bool || promote(from, to) == to) return;
  throw DTypeError(fmt::format("{}: {} values do not all fit {}; convert with to()", op,
                               name_of(from), name_of(to)));
}

}  // namespace volta
