// Thread-local variables of the library.
#pragma once

#include "volta/export.h"

namespace volta::platform {

// Marks a thread-local variable that operations look at while they are recorded: it is found by one
// load instead of a call of the loader. Where a program opens libvolta late (a plugin, a module of
// Python), the loader has some 1,500 bytes for all such libraries together, and one marked variable
// brings all of libvolta's there. So there are few, and they are small: test static_tls.
#define VOLTA_INITIAL_EXEC [[gnu::tls_model("initial-exec")]]

// Calls `function(argument)` when the calling thread ends, among the destructors of its
// thread-local objects: what was asked for last comes first. Unlike such an object it takes no
// thread-local memory.
VOLTA_BACKEND_API void at_thread_end(void (*function)(void*), void* argument);

}  // namespace volta::platform
