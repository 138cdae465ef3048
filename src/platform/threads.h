// The identity of the calling thread.
#pragma once

namespace volta::platform {

// Returns whether the calling thread is the process's first thread.
bool is_main_thread();

}  // namespace volta::platform
