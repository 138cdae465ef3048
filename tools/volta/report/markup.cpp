#include "report/markup.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace volta::report {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

bool may_stand_in_page(char32_t c) {
  if (c < 0x20) return c == '\t' || c == '\n';
  if (c >= 0x7F && c < 0xA0) return false;  // the other control characters
  return (c & 0xFFFE) != 0xFFFE;            // not a character in any plane
}

// Removes and returns the first character.
char32_t next(std::string_view& text) {
  const auto first = static_cast<unsigned char>(text.front());
  const std::size_t size = first < 0x80   ? 1
                           : first < 0xC2 ? 0
                           : first < 0xE0 ? 2
                           : first < 0xF0 ? 3
                           : first < 0xF5 ? 4
                                          : 0;
  char32_t c = size == 1 ? first : first & (0xFFu >> (size + 1));
  bool good = size > 0 && size <= text.size();
  for (std::size_t i = 1; good && i < size; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    good = (byte & 0xC0) == 0x80;
    c = (c << 6) | (byte & 0x3Fu);
  }
  // Rejects overlong forms, surrogates, and code points beyond Unicode.
  constexpr std::array<char32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  if (good) good = c >= kSmallest[size] && (c < 0xD800 || c > 0xDFFF) && c <= 0x10FFFF;
  text.remove_prefix(good ? size : 1);
  if (c == '\r') {
    if (!text.empty() && text.front() == '\n') text.remove_prefix(1);
    return '\n';
  }
  return good && may_stand_in_page(c) ? c : kReplacement;
}

void append(std::string& out, char32_t c) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  switch (c) {
    case '&':
      out += "&amp;";
      return;
    case '<':
      out += "&lt;";
      return;
    case '>':
      out += "&gt;";
      return;
    case '"':
      out += "&quot;";
      return;
    case '\'':
      out += "&#39;";
      return;
    default:
      break;
  }
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | (c >> 6));
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | (c >> 12));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | (c >> 18));
    put(0x80 | ((c >> 12) & 0x3F));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

// printf writes 1e-05; this makes it 1e-5.
std::string tidy_exponent(std::string text) {
  const std::size_t e = text.find('e');
  if (e == std::string::npos) return text;
  std::string digits = text.substr(e + 2);
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  return text.substr(0, e + 1) + (text[e + 1] == '-' ? "-" : "") + digits;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  while (!text.empty()) append(out, next(text));
  return out;
}

std::string shortened(std::string_view text, std::size_t most) {
  std::string out;
  for (std::size_t count = 1; !text.empty(); ++count) {
    const char32_t c = next(text);
    if (count == most && !text.empty()) return out + "…";
    append(out, c);
  }
  return out;
}

std::size_t length(std::string_view text) {
  std::size_t count = 0;
  for (; !text.empty(); ++count) next(text);
  return count;
}

std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  const std::ptrdiff_t first = digits.front() == '-' ? 1 : 0;
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > first; at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

std::string count_of(std::size_t n, std::string_view what) {
  return fmt::format("{} {}{}", grouped(static_cast<std::int64_t>(n)), what, n == 1 ? "" : "s");
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "∞" : "−∞";
  const double size = std::abs(value);
  if (size >= 999.95 && size < 1e15) return grouped(std::llround(value));
  return tidy_exponent(fmt::format("{:.4g}", value));
}

std::string prefixed(double value, std::string_view unit) {
  constexpr std::array<const char*, 7> kPrefixes = {"", "k", "M", "G", "T", "P", "E"};
  std::size_t prefix = 0;
  while (std::abs(value) >= 999.95 && prefix + 1 < kPrefixes.size() && std::isfinite(value)) {
    value /= 1000;
    ++prefix;
  }
  const std::string suffix = kPrefixes[prefix] + shortened(unit, 20);
  return number(value) + (suffix.empty() ? "" : " " + suffix);
}

std::string quantity(double value, std::string_view unit) {
  if (unit == "B") return prefixed(value, unit);
  if (unit == "%") {
    return (std::abs(value) < 1 || std::abs(value) >= 1000 || !std::isfinite(value)
                ? number(value == 0 ? 0 : std::stod(fmt::format("{:.2g}", value)))
                : fmt::format("{:.2f}", value)) +
           "%";
  }
  return number(value) + (unit.empty() ? "" : " " + shortened(unit, 20));
}

std::string duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e12) return number(seconds) + " s";
  if (seconds < 1e-3) return number(seconds * 1e6) + " µs";
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const std::int64_t whole = std::llround(seconds);
  const std::int64_t minutes = whole / 60, hours = minutes / 60, days = hours / 24;
  if (minutes == 0) return fmt::format("{} s", whole);
  if (hours == 0) return fmt::format("{} min {:02} s", minutes, whole % 60);
  if (days == 0) return fmt::format("{} h {:02} min", hours, minutes % 60);
  return fmt::format("{} d {:02} h", days, hours % 24);
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t word = 0;
    for (std::size_t i = 0; i < 3; ++i)
      word = (word << 8) | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    for (std::size_t i = 0; i < 4; ++i)
      out.push_back(at + i > bytes.size() ? '=' : kDigits[(word >> (18 - 6 * i)) & 63]);
  }
  return out;
}

}  // namespace volta::report
