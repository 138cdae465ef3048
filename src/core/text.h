// Sizes and places as messages tell them.
#pragma once

#include <cstdint>
#include <string>

#include "volta/place.h"

namespace volta {

std::string size_text(std::uint64_t bytes);  // "600 B", "1.50 KiB", "12.00 GiB"
std::string place_text(const Place& place);  // "model.cpp:12", without folders

}  // namespace volta
