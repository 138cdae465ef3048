// The threads that run compilers.
#include "kernel/parallel_compile.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "platform/fork.h"

namespace volta::kernel {
namespace {

constexpr std::size_t kMaxThreads = 16;

platform::ForkMutex stats_mutex;
CompileStats stats;

}  // namespace

void compile_parallel(std::size_t count, const std::function<void(std::size_t)>& compile) {
  if (count == 0) return;
  std::atomic<std::size_t> next{0}, busy{0};
  std::vector<std::exception_ptr> failures(count);
  const auto work = [&] {
    bool worked = false;
    for (std::size_t i = next++; i < count; i = next++) {
      if (!worked) ++busy;
      worked = true;
      try {
        compile(i);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  {
    const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
    std::vector<std::jthread> threads;
    try {
      for (std::size_t n = 1; n < std::min({cores, kMaxThreads, count}); ++n)
        threads.emplace_back(work);
    } catch (const std::system_error&) {  // the threads that did start compile everything
    }
    work();
  }
  {
    const std::lock_guard lock(stats_mutex);
    stats.most_kernels = std::max(stats.most_kernels, count);
    stats.most_threads = std::max(stats.most_threads, busy.load());
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

CompileStats compile_stats() {
  const std::lock_guard lock(stats_mutex);
  return stats;
}

}  // namespace volta::kernel
