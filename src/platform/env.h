// Reading the process environment.
#pragma once

#include <optional>
#include <string>

#include "volta/export.h"

namespace volta::platform {

// Returns the value of an environment variable, or nothing if it is unset or empty.
VOLTA_BACKEND_API std::optional<std::string> environment(const char* name);

}  // namespace volta::platform
