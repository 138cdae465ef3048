// Seeing every kernel program the process generates; how tests compile them all for another target.
#pragma once

#include <functional>

#include "kernel/program.h"

namespace volta::kernel {

using ProgramObserver = std::function<void(const Program&)>;

// Called once for each program of another text, from the thread that plans. An empty one turns it
// off.
VOLTA_BACKEND_API void set_program_observer(ProgramObserver observer);

// Planning and the lowering of products report what they build.
void report_program(const Program& program);

}  // namespace volta::kernel
