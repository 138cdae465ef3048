// Numbers in a readable form.
#pragma once

#include <cstdint>
#include <string>

namespace volta::cli {

std::string human_bytes(std::uint64_t bytes);  // "600 B", "1.5 KiB", "12.0 GiB"
std::string human_count(std::uint64_t count);  // "1,234,567"
// "4.9 TB/s"; "" for 0, which means unknown.
std::string human_rate(double per_second, const char* unit);
std::string human_number(double value);                            // four significant digits
std::string plural(std::uint64_t count, const std::string& noun);  // "1 tensor", "1,024 tensors"

}  // namespace volta::cli
