// Compiles the kernels of a plan in parallel, for every backend whose compiler runs on the host.
#pragma once

#include <cstddef>
#include <functional>

#include "volta/export.h"

namespace volta::kernel {

// Calls compile(i) for every i < count from as many threads as there are cores, at most 16,
// including the caller's. When all are done, throws the failure with the lowest number, if any.
VOLTA_BACKEND_API void compile_parallel(std::size_t count,
                                        const std::function<void(std::size_t)>& compile);

// Statistics of compile_parallel so far, for tests.
struct CompileStats {
  std::size_t most_kernels = 0;  // the most kernels in one call
  std::size_t most_threads = 0;  // the most threads that compiled something in one call
};
VOLTA_BACKEND_API CompileStats compile_stats();

}  // namespace volta::kernel
