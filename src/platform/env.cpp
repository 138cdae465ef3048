// Reading the process environment.
#include "platform/env.h"

#include <stdlib.h>  // secure_getenv

namespace volta::platform {

// A process that runs with more rights than its caller (set-user-ID, file capabilities) has no
// variables here: some name libraries that are loaded, options of compilers, files that are
// written.
std::optional<std::string> environment(const char* name) {
  const char* value = ::secure_getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

}  // namespace volta::platform
