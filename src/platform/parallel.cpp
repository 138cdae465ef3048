// Parallel loops. Each loop cuts [0, n) into one range per thread.
#include "platform/parallel.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

#include "platform/env.h"
#include "platform/fork.h"
#include "platform/thread_local.h"

#ifdef VOLTA_HAS_OPENMP
#include <omp.h>
#endif

namespace volta::platform {
namespace {

constexpr int kMostThreads = 1024;

int default_threads() {
  if (const auto text = environment("VOLTA_NUM_THREADS")) {
    const long count = std::strtol(text->c_str(), nullptr, 10);
    if (count >= 1) return static_cast<int>(std::min<long>(count, kMostThreads));
  }
#ifdef VOLTA_HAS_OPENMP
  return omp_get_max_threads();
#else
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
#endif
}

std::atomic<int>& thread_count() {
  static std::atomic<int> count{default_threads()};
  return count;
}

struct Range {
  std::int64_t begin, end;
};
Range range_of(std::int64_t n, int part, int parts) {
  return {n * part / parts, n * (part + 1) / parts};
}

// Workers wait for a loop, take parts of it until none is left, and wait again. One loop at a time:
// a second caller runs its loop alone. For builds without OpenMP, and for forked processes: the
// threads of OpenMP's runtime are in the parent, and it would wait for them.
class WorkerPool {
 public:
  // This process's, which outlives objects with static storage. A parent's has no threads here.
  static WorkerPool& instance() {
    static std::atomic<WorkerPool*> current{nullptr};
    WorkerPool* pool = current.load(std::memory_order_acquire);
    while (pool == nullptr || pool->forks_ != forks()) {
      auto* fresh = new WorkerPool;
      if (current.compare_exchange_strong(pool, fresh, std::memory_order_acq_rel)) return *fresh;
      delete fresh;
    }
    return *pool;
  }

  void run(std::int64_t n, int parts, detail::RangeFn fn, void* context) {
    if (inside_) return fn(context, 0, n);
    const std::unique_lock<std::mutex> turn(turn_, std::try_to_lock);
    if (!turn.owns_lock()) return fn(context, 0, n);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      while (workers_ < parts - 1) {
        std::thread([this, seen = generation_] { work(seen); }).detach();
        ++workers_;
      }
      n_ = n;
      parts_ = parts;
      next_ = 0;
      left_ = parts;
      fn_ = fn;
      context_ = context;
      ++generation_;
    }
    wake_.notify_all();
    take_parts();
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return left_ == 0; });
  }

 private:
  void work(std::uint64_t seen) {
    for (;;) {
      {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [&] { return generation_ != seen; });
        seen = generation_;
      }
      take_parts();
    }
  }

  void take_parts() {
    inside_ = true;
    for (;;) {
      Range range{};
      detail::RangeFn fn = nullptr;
      void* context = nullptr;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (next_ == parts_) break;
        range = range_of(n_, next_++, parts_);
        fn = fn_;
        context = context_;
      }
      fn(context, range.begin, range.end);
      const std::lock_guard<std::mutex> lock(mutex_);
      if (--left_ == 0) done_.notify_all();
    }
    inside_ = false;
  }

  VOLTA_INITIAL_EXEC static thread_local bool inside_;
  const int forks_ = forks();
  std::mutex turn_, mutex_;
  std::condition_variable wake_, done_;
  int workers_ = 0;
  std::int64_t n_ = 0;
  int parts_ = 0, next_ = 0, left_ = 0;
  detail::RangeFn fn_ = nullptr;
  void* context_ = nullptr;
  std::uint64_t generation_ = 0;
};
thread_local bool WorkerPool::inside_ = false;

#ifdef VOLTA_HAS_OPENMP
// Whether OpenMP's runtime has all the threads that it believes to have.
bool openmp_is_whole() {
  static const int at_first_loop = forks();
  return forks() == at_first_loop;
}
#endif

}  // namespace

int num_threads() { return thread_count().load(std::memory_order_relaxed); }

void set_num_threads(int count) {
  thread_count().store(std::clamp(count, 1, kMostThreads), std::memory_order_relaxed);
}

void detail::run_ranges(std::int64_t n, std::int64_t grain, RangeFn fn, void* context) {
  const std::int64_t most = std::max<std::int64_t>(1, n / std::max<std::int64_t>(1, grain));
  const int parts = static_cast<int>(std::min<std::int64_t>(num_threads(), most));
#ifdef VOLTA_HAS_OPENMP
  if (parts <= 1 || omp_in_parallel() != 0) {
    fn(context, 0, n);
    return;
  }
  if (openmp_is_whole()) [[likely]] {
#pragma omp parallel for num_threads(parts) schedule(static, 1)
    for (int part = 0; part < parts; ++part) {
      const Range range = range_of(n, part, parts);
      fn(context, range.begin, range.end);
    }
    return;
  }
#else
  if (parts <= 1) {
    fn(context, 0, n);
    return;
  }
#endif
  WorkerPool::instance().run(n, parts, fn, context);
}

}  // namespace volta::platform
