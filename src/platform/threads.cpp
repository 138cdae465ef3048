// On Linux the first thread has the number of the process.
#include "platform/threads.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace volta::platform {

bool is_main_thread() { return ::syscall(SYS_gettid) == ::getpid(); }

}  // namespace volta::platform
