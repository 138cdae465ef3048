// Choices that were timed on known hardware and come with the library.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "volta/export.h"

namespace volta {

struct ShippedChoice {
  std::string device;  // its name
  std::string key;     // of the thing
  std::string name;    // of the way
};

std::optional<std::string> shipped_choice(const std::string& device, const std::string& key);

// For tests: these besides the library's own, in place of any given before.
VOLTA_BACKEND_API void set_shipped_choices(std::span<const ShippedChoice> choices);

}  // namespace volta
