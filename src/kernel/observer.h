// Observes every kernel program that the process generates, and every source that a device's
// compiler gets. Tests use this to compile the programs for another target and to count kernels.
#pragma once

#include <functional>
#include <string>

#include "kernel/emit.h"
#include "kernel/program.h"

namespace volta::kernel {

using ProgramObserver = std::function<void(const Program&)>;

// The observer is called once for each distinct program text, by the thread that plans. An empty
// function turns it off.
VOLTA_BACKEND_API void set_program_observer(ProgramObserver observer);

// Called by planning and by the lowering of products for each program they build.
void report_program(const Program& program);

// Receives the backend's name and the source of a kernel that was compiled or found in the disk
// cache.
using KernelObserver = std::function<void(const std::string& backend, const std::string& source)>;

// The observer is called by compiling threads, one at a time. An empty function turns it off.
VOLTA_BACKEND_API void set_kernel_observer(KernelObserver observer);

// Called by backends for each kernel they compile or load.
VOLTA_BACKEND_API void report_kernel(const std::string& backend, const KernelSource& kernel);

}  // namespace volta::kernel
