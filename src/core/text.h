// Text for messages: sizes, source locations, and escapes for terminals.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "volta/source_location.h"

namespace volta {

std::string size_text(std::uint64_t bytes);           // "600 B", "1.50 KiB", "12.00 GiB"
std::string place_text(const SourceLocation& place);  // "model.cpp:12", without folders
// Escapes text for a terminal: hidden characters and invalid UTF-8 become codes such as \x1b. Tabs
// and line feeds are kept.
std::string shown_text(std::string_view message);

}  // namespace volta
