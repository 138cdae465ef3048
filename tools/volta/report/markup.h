// Text of the report: escaping, and readable numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace volta::report {

// Escapes text for an element or a quoted attribute. Invalid UTF-8, and characters that no page may
// contain, become U+FFFD.
std::string escaped(std::string_view text);
// Escapes at most this many characters; an ellipsis replaces the last one if some were dropped.
std::string shortened(std::string_view text, std::size_t most);
std::size_t length(std::string_view text);  // in characters

std::string grouped(std::int64_t number);                    // 12,345
std::string count_of(std::size_t n, std::string_view what);  // 1 file, 2 files
// Four significant digits: 0.01234, 12.34, 12,340, 1.234e-5.
std::string number(double value);
// A number with its unit, bytes with a prefix: 12.34%, 1.234 GB, 870 samples/s.
std::string quantity(double value, std::string_view unit);
// 1,234,567 -> 1.235 M
std::string prefixed(double value, std::string_view unit);
std::string duration(double seconds);  // 850 ms, 72 s, 2 h 05 min
std::string base64(std::string_view bytes);

}  // namespace volta::report
