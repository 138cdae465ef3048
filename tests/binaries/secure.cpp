// Prints whether Volta reads its environment: "read" or "not read". With the argument "secure" it
// exits with status 77 unless the kernel reports that the process has more rights than its caller.
#include <sys/auxv.h>

#include <cstdio>
#include <string_view>

#include "platform/env.h"
#include "volta/kernel_cache.h"

int main(int count, char** arguments) {
  if (count > 1 && std::string_view(arguments[1]) == "secure" && getauxval(AT_SECURE) == 0)
    return 77;
  const bool variable = volta::platform::environment("VOLTA_BACKEND_PATH").has_value();
  const bool folder = !volta::kernel_cache_folder().empty();
  if (variable != folder) return 1;
  std::puts(variable ? "read" : "not read");
  return 0;
}
