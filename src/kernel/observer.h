// Seeing every kernel program the process generates, and every source that devices' compilers get:
// how tests compile the programs for another target and keep count of kernels.
#pragma once

#include <functional>
#include <string>

#include "kernel/emit.h"
#include "kernel/program.h"

namespace volta::kernel {

using ProgramObserver = std::function<void(const Program&)>;

// Called once for each program of another text, from the thread that plans. An empty one turns it
// off.
VOLTA_BACKEND_API void set_program_observer(ProgramObserver observer);

// Planning and the lowering of products report what they build.
void report_program(const Program& program);

// The backend's name, and the source of a kernel it was asked for: compiled, or found in the cache
// on disk.
using KernelObserver = std::function<void(const std::string& backend, const std::string& source)>;

// Called by threads that compile, one at a time. An empty one turns it off.
VOLTA_BACKEND_API void set_kernel_observer(KernelObserver observer);

// Backends report what they compile or load.
VOLTA_BACKEND_API void report_kernel(const std::string& backend, const KernelSource& kernel);

}  // namespace volta::kernel
