// Reading the process environment.
#include "platform/env.h"

#include <stdlib.h>  // secure_getenv

namespace volta::platform {

// A process with more rights than its caller (set-user-ID, file capabilities) gets no variables,
// because some of them name libraries to load, compiler options or files to write.
std::optional<std::string> environment(const char* name) {
  const char* value = ::secure_getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

}  // namespace volta::platform
