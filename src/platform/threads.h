// Which thread this is.
#pragma once

namespace volta::platform {

// Whether the calling thread is the one that began the process.
bool is_main_thread();

}  // namespace volta::platform
