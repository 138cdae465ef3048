// Sizes and places as messages tell them, and messages as terminals show them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "volta/place.h"

namespace volta {

std::string size_text(std::uint64_t bytes);  // "600 B", "1.50 KiB", "12.00 GiB"
std::string place_text(const Place& place);  // "model.cpp:12", without folders
// Text for a terminal: what is hidden or no UTF-8 becomes \x1b, but for tabs and line feeds.
std::string shown_text(std::string_view message);

}  // namespace volta
