// Functions that run at the end of a thread, through the C++ runtime.
#include "platform/thread_local.h"

#include <cxxabi.h>

extern "C" {
[[gnu::visibility("hidden")]] extern void* __dso_handle;  // NOLINT: the compiler's name
}

namespace volta::platform {

void at_thread_end(void (*function)(void*), void* argument) {
  abi::__cxa_thread_atexit(function, argument, &__dso_handle);
}

}  // namespace volta::platform
