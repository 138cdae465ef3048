// Compiling the kernels of a plan side by side: the one way for every backend whose compiler runs
// on the host.
#pragma once

#include <cstddef>
#include <functional>

#include "volta/export.h"

namespace volta::kernel {

// Calls compile(i) for every i < count from as many threads as there are cores, at most 16; the
// caller's is one of them. When all are done the first failure, by number, is thrown.
VOLTA_BACKEND_API void compile_parallel(std::size_t count,
                                        const std::function<void(std::size_t)>& compile);

// What went through compile_parallel so far, for tests.
struct CompileStats {
  std::size_t most_kernels = 0;  // handed over in one call
  std::size_t most_threads = 0;  // that compiled something in one call
};
VOLTA_BACKEND_API CompileStats compile_stats();

}  // namespace volta::kernel
