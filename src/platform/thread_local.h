// Thread-local variables of the library.
#pragma once

#include "volta/export.h"

namespace volta::platform {

// Marks a thread-local variable that is read while operations are recorded, so that one load finds
// it instead of a call of the loader. If a program opens libvolta late (as a plugin or a Python
// module), the loader has only about 1,500 bytes for such libraries, and one marked variable puts
// all of libvolta's thread-local variables there. They are therefore few and small; the test
// static_tls checks.
#define VOLTA_INITIAL_EXEC [[gnu::tls_model("initial-exec")]]

// Calls `function(argument)` when the calling thread ends, among the destructors of its
// thread-local objects and like them in reverse order. Unlike such an object it takes no
// thread-local memory.
VOLTA_BACKEND_API void at_thread_end(void (*function)(void*), void* argument);

}  // namespace volta::platform
