// The libraries that the CPU backend computes with.
#pragma once

#include "volta/system_info.h"

namespace volta::cpu {

LibraryInfo onednn_library();
LibraryInfo vector_library();
LibraryInfo thread_library();

}  // namespace volta::cpu
