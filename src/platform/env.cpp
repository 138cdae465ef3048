// Reading the process environment.
#include "platform/env.h"

#include <cstdlib>

namespace volta::platform {

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

}  // namespace volta::platform
