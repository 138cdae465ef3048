// Parallel loops. Each loop splits [0, n) into one range per thread.
#include "platform/parallel.h"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
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

// Keeps the first exception of a loop, because an exception must not leave its thread.
class Failure {
 public:
  template <class Part>
  void guard(const Part& part) noexcept {
    try {
      part();
    } catch (...) {
      if (!taken_.test_and_set()) first_ = std::current_exception();
    }
  }
  // Called after all parts have ended.
  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::atomic_flag taken_;
  std::exception_ptr first_;
};

// Workers wait for a loop, take parts of it until none is left, and wait again. There is one loop
// at a time; a second caller runs its loop alone. The pool serves builds without OpenMP, and forked
// processes: there OpenMP's runtime would wait for threads that exist only in the parent.
class WorkerPool {
 public:
  // Returns this process's pool, which outlives static objects. A parent's pool has no threads
  // here.
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
    Failure failure;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      while (workers_ < parts - 1 && start_worker()) ++workers_;
      n_ = n;
      parts_ = parts;
      next_ = 0;
      left_ = parts;
      fn_ = fn;
      context_ = context;
      failure_ = &failure;
      ++generation_;
    }
    wake_.notify_all();
    take_parts();
    {
      std::unique_lock<std::mutex> lock(mutex_);
      done_.wait(lock, [this] { return left_ == 0; });
    }
    failure.rethrow();
  }

 private:
  // Any thread may take any part, so without workers the caller does all of them.
  bool start_worker() {
    try {
      std::thread([this, seen = generation_] { work(seen); }).detach();
      return true;
    } catch (const std::system_error&) {
      return false;
    }
  }

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
      Failure* failure = nullptr;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (next_ == parts_) break;
        range = range_of(n_, next_++, parts_);
        fn = fn_;
        context = context_;
        failure = failure_;
      }
      failure->guard([&] { fn(context, range.begin, range.end); });
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
  Failure* failure_ = nullptr;
  std::uint64_t generation_ = 0;
};
thread_local bool WorkerPool::inside_ = false;

#ifdef VOLTA_HAS_OPENMP
// Returns how many of `count` threads, including the calling one, the system lets this process
// have. Only starting them shows the limits on memory, processes and threads.
int startable_threads(int count) {
  // The C library aborts the process if an exiting thread has no memory to load this library.
  static void* const unwinder = ::dlopen("libgcc_s.so.1", RTLD_NOW);
  if (unwinder == nullptr) return 1;
  struct Gate {
    std::mutex mutex;
    std::condition_variable opened;
    bool open = false;
  } gate;
  const auto wait = [](void* shared) -> void* {
    {
      auto& one = *static_cast<Gate*>(shared);
      std::unique_lock<std::mutex> lock(one.mutex);
      one.opened.wait(lock, [&] { return one.open; });
    }
    // OpenMP's threads end this way, so its requirements are loaded from now on.
    ::pthread_exit(nullptr);
  };
  std::array<pthread_t, kMostThreads> threads;
  int started = 0;
  while (started < count - 1 &&
         ::pthread_create(&threads[static_cast<std::size_t>(started)], nullptr, wait, &gate) == 0)
    ++started;
  {
    const std::lock_guard<std::mutex> lock(gate.mutex);
    gate.open = true;
  }
  gate.opened.notify_all();
  for (int i = 0; i < started; ++i) ::pthread_join(threads[static_cast<std::size_t>(i)], nullptr);
  return started + 1;
}

// OpenMP's runtime aborts the process when it cannot start a thread. So each calling thread first
// tries every new number of threads itself, and from then on uses no more than could be started.
int with_threads(int wanted) {
  static thread_local int tried = 1, most = kMostThreads;
  wanted = std::min(wanted, most);
  if (wanted <= tried) return wanted;
  tried = startable_threads(wanted);
  if (tried == wanted) return wanted;
  most = tried;
  omp_set_num_threads(most);  // limits the loops of other libraries
  return most;
}

// Returns whether this process is the one whose OpenMP threads were started, and not a fork of it.
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

void prepare_library_threads() {
#ifdef VOLTA_HAS_OPENMP
  if (omp_in_parallel() == 0 && openmp_is_whole()) with_threads(omp_get_max_threads());
#endif
}

void detail::run_ranges(std::int64_t n, std::int64_t grain, RangeFn fn, void* context) {
  const std::int64_t most = std::max<std::int64_t>(1, n / std::max<std::int64_t>(1, grain));
  int parts = static_cast<int>(std::min<std::int64_t>(num_threads(), most));
#ifdef VOLTA_HAS_OPENMP
  if (parts <= 1 || omp_in_parallel() != 0) {
    fn(context, 0, n);
    return;
  }
  if (openmp_is_whole()) [[likely]] {
    // All threads take part in every loop, even without a range. A team that shrinks would lose
    // threads, and starting new ones takes longer than waking them and may fail.
    const int team = with_threads(num_threads());
    parts = std::min(parts, team);
    Failure failure;
#pragma omp parallel for num_threads(team) schedule(static, 1)
    for (int part = 0; part < parts; ++part) {
      const Range range = range_of(n, part, parts);
      failure.guard([&] { fn(context, range.begin, range.end); });
    }
    failure.rethrow();
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
