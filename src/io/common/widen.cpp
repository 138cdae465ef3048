// Widens element by element, because elements of a file need not be aligned.
#include "io/common/widen.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include <fmt/format.h>

#include "volta/error.h"

namespace volta::io {
namespace {

template <class From, class To, class Convert>
OwnedBytes converted(std::span<const std::byte> data, const std::string& source, Convert convert) {
  const std::size_t count = data.size() / sizeof(From);
  const OwnedBytes result(count * sizeof(To), source);
  for (std::size_t i = 0; i < count; ++i) {
    From from;
    std::memcpy(&from, data.data() + i * sizeof(From), sizeof(From));
    const To to = convert(from);
    std::memcpy(result.bytes().data() + i * sizeof(To), &to, sizeof(To));
  }
  return result;
}

template <class From, class To>
OwnedBytes cast(std::span<const std::byte> data, const std::string& source) {
  return converted<From, To>(data, source, [](From value) { return static_cast<To>(value); });
}

// Decodes 8-bit floats by their bits. E5M2 has infinities and NaNs like f16. E4M3 has no infinities
// and one NaN of each sign, whose other bits are all 1.
struct Float8 {
  int exponent_bits;
  bool has_infinity;
};

float value_of(unsigned bits, Float8 format) {
  const int mantissa_bits = 7 - format.exponent_bits;
  const unsigned most = (1u << format.exponent_bits) - 1, all = (1u << mantissa_bits) - 1;
  const unsigned exponent = bits >> mantissa_bits & most, mantissa = bits & all;
  const int bias = static_cast<int>(most >> 1);
  float magnitude;
  if (exponent == most && format.has_infinity) {
    magnitude = mantissa == 0 ? std::numeric_limits<float>::infinity()
                              : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == most && mantissa == all) {
    magnitude = std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(mantissa), 1 - bias - mantissa_bits);
  } else {
    magnitude = std::ldexp(static_cast<float>(mantissa + all + 1),
                           static_cast<int>(exponent) - bias - mantissa_bits);
  }
  return std::copysign(magnitude, bits >> 7 != 0 ? -1.0f : 1.0f);
}

OwnedBytes floats(std::span<const std::byte> data, Float8 format, const std::string& source) {
  std::array<float, 256> values;
  for (unsigned bits = 0; bits < values.size(); ++bits) values[bits] = value_of(bits, format);
  return converted<std::uint8_t, float>(data, source,
                                        [&](std::uint8_t bits) { return values[bits]; });
}

}  // namespace

OwnedBytes widened(std::string_view stored, std::span<const std::byte> data,
                   const std::string& source) {
  if (stored == "I8") return cast<std::int8_t, std::int32_t>(data, source);
  if (stored == "I16") return cast<std::int16_t, std::int32_t>(data, source);
  if (stored == "U16") return cast<std::uint16_t, std::int32_t>(data, source);
  if (stored == "U32") return cast<std::uint32_t, std::int64_t>(data, source);
  if (stored == "F8_E4M3") return floats(data, {4, false}, source);
  if (stored == "F8_E5M2") return floats(data, {5, true}, source);
  return converted<std::uint64_t, std::int64_t>(data, source, [&](std::uint64_t value) {
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      throw IoError(fmt::format("{}: the U64 {} exceeds the largest i64", source, value));
    return static_cast<std::int64_t>(value);
  });
}

}  // namespace volta::io
