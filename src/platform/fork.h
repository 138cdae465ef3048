// Processes that were forked: threads are not inherited, so what relies on some must know.
#pragma once

#include "volta/export.h"

namespace volta::platform {

// How many forks lie between this process and the one that asked first. To be asked before the
// first thread that matters is started.
VOLTA_BACKEND_API int forks();

}  // namespace volta::platform
