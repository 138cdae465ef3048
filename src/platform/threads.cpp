// On Linux the thread ID of the first thread is the process ID.
#include "platform/threads.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace volta::platform {

bool is_main_thread() { return ::syscall(SYS_gettid) == ::getpid(); }

}  // namespace volta::platform
