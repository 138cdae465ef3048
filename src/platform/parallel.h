// Data-parallel loops on the host: OpenMP where the build has it, else a small pool of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "volta/export.h"

namespace volta::platform {

// Threads a parallel loop may use: VOLTA_NUM_THREADS, else what the machine (or OpenMP) offers.
VOLTA_BACKEND_API int num_threads();
// At least 1. Takes effect at the next loop of any thread.
VOLTA_BACKEND_API void set_num_threads(int count);

// Before a library runs loops of its own by OpenMP on the calling thread: makes sure that their
// threads can be started, or that the library does with fewer.
VOLTA_BACKEND_API void prepare_library_threads();

namespace detail {
using RangeFn = void (*)(void* context, std::int64_t begin, std::int64_t end);
VOLTA_BACKEND_API void run_ranges(std::int64_t n, std::int64_t grain, RangeFn fn, void* context);
}  // namespace detail

// Calls fn(begin, end) for ranges that together cover [0, n), from several threads when n > grain;
// a range has at least `grain` elements, but for the last. Which ranges there are depends on the
// number of threads: results must not. Nested calls run on the calling thread. What `fn` throws,
// for want of memory, is thrown when the loop has ended; of several, one of them.
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
