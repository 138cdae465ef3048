// Choices that were timed on known hardware and are shipped with the library.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "volta/export.h"

namespace volta {

struct ShippedChoice {
  std::string device;  // the name of the hardware
  std::string key;     // identifies the timed operation
  std::string name;    // the fastest candidate
};

std::optional<std::string> shipped_choice(const std::string& device, const std::string& key);

// For tests: adds these choices to the library's own, replacing those of an earlier call.
VOLTA_BACKEND_API void set_shipped_choices(std::span<const ShippedChoice> choices);

}  // namespace volta
