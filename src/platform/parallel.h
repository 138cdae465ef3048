// Data-parallel loops on the host: through OpenMP if the build has it, else a small pool of
// threads.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "volta/export.h"

namespace volta::platform {

// The number of threads of a parallel loop: VOLTA_NUM_THREADS, or else that of the machine or
// OpenMP.
VOLTA_BACKEND_API int num_threads();
// Sets the number of threads, at least 1, from the next loop of any thread on.
VOLTA_BACKEND_API void set_num_threads(int count);

// Called before a library runs OpenMP loops of its own on the calling thread. It makes sure that
// their threads can be started, or limits their number.
VOLTA_BACKEND_API void prepare_library_threads();

namespace detail {
using RangeFn = void (*)(void* context, std::int64_t begin, std::int64_t end);
VOLTA_BACKEND_API void run_ranges(std::int64_t n, std::int64_t grain, RangeFn fn, void* context);
}  // namespace detail

// Calls fn(begin, end) for ranges that together cover [0, n), from several threads if n > grain.
// Every range but the last has at least `grain` elements. The ranges depend on the number of
// threads; results must not. Nested calls run on the calling thread. An exception of `fn` is
// rethrown after the loop has ended; of several, one is.
template <class Fn>
void parallel_for(std::int64_t n, std::int64_t grain, Fn&& fn) {
  if (n <= 0) return;
  if (n <= grain) {
    fn(std::int64_t{0}, n);
    return;
  }
  using Target = std::remove_reference_t<Fn>;
  detail::run_ranges(
      n, grain,
      [](void* context, std::int64_t begin, std::int64_t end) {
        (*static_cast<Target*>(context))(begin, end);
      },
      const_cast<void*>(static_cast<const void*>(std::addressof(fn))));
}

}  // namespace volta::platform
